//! The `ClusterWorkspace` resource: a Workspace that namespaces share.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::CustomResource;
use kube::core::{ParseExpressionError, Selector, SelectorExt};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    schema,
    workspace::{WorkspaceSpec, WorkspaceStatus},
};

/// A Workspace for the namespaces that its selector allows.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[kube(
    group = "run-operator.dev",
    version = "v1alpha1",
    kind = "ClusterWorkspace",
    plural = "clusterworkspaces",
    status = "WorkspaceStatus",
    derive = "PartialEq",
    shortname = "rcws",
    category = "run-operator",
    doc = "The service that the Runs of several namespaces are submitted to. It is a Workspace whose Secrets are \
           in the operator's namespace; namespaceSelector selects the namespaces that may use it. A Run names it in \
           spec.workspaceRef with kind: ClusterWorkspace.",
    printcolumn = r#"{"name": "Ready", "type": "string",
        "jsonPath": ".status.conditions[?(@.type==\"Ready\")].status",
        "description": "Whether Runs can be submitted."}"#,
    printcolumn = r#"{"name": "Reason", "type": "string",
        "jsonPath": ".status.conditions[?(@.type==\"Ready\")].reason",
        "description": "Reason of the Ready condition."}"#,
    printcolumn = r#"{"name": "Version", "type": "string",
        "jsonPath": ".status.serviceVersion",
        "description": "The API version that the service reports."}"#,
    printcolumn = r#"{"name": "Suspended", "type": "boolean", "priority": 1,
        "jsonPath": ".spec.suspend",
        "description": "Whether spec.suspend blocks new submissions."}"#,
    printcolumn = r#"{"name": "Identity", "type": "string", "priority": 1,
        "jsonPath": ".status.identity",
        "description": "The workspace that the token acts for, as reported by the service."}"#,
    printcolumn = r#"{"name": "Age", "type": "date",
        "jsonPath": ".metadata.creationTimestamp",
        "description": "Time since the object was created."}"#
)]
#[schemars(extend("x-kubernetes-validations" = [
    schema::immutable("baseUrl", "create a new ClusterWorkspace for another URL, and name it in new Runs"),
    schema::immutable("workspaceId", "create a new ClusterWorkspace for another id, and name it in new Runs")
]))]
#[serde(rename_all = "camelCase")]
pub struct ClusterWorkspaceSpec {
    /// The fields that it shares with a Workspace.
    #[serde(flatten)]
    pub workspace: WorkspaceSpec,
    /// The namespaces whose Runs may use it, by their labels. Unset: none. `{}`: all. A Run of a
    /// namespace that is not allowed is not submitted; one that was submitted before the namespace lost
    /// its label is still mirrored and cancelled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::label_selector")]
    pub namespace_selector: Option<LabelSelector>,
}

impl ClusterWorkspaceSpec {
    /// Whether the Runs of a namespace with these labels may be submitted. No selector allows none, an
    /// empty one all.
    ///
    /// # Errors
    /// The selector can't be read, which the schema refuses; such a selector allows no namespace.
    pub fn allows(&self, labels: &BTreeMap<String, String>) -> Result<bool, ParseExpressionError> {
        match &self.namespace_selector {
            None => Ok(false),
            Some(selector) => Ok(Selector::try_from(selector.clone())?.matches(labels)),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn allows(selector: &Value, labels: &[(&str, &str)]) -> bool {
        let spec: ClusterWorkspaceSpec =
            serde_json::from_value(json!({"namespaceSelector": selector})).unwrap();
        let labels = labels
            .iter()
            .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
            .collect();
        spec.allows(&labels).unwrap()
    }

    /// Proves: P-tenancy
    #[test]
    fn no_selector_allows_no_namespace_and_an_empty_one_all() {
        let none = ClusterWorkspaceSpec::default();
        assert!(!none.allows(&BTreeMap::new()).unwrap());
        assert!(allows(&json!({}), &[]));
        assert!(allows(&json!({}), &[("a", "b")]));
    }

    #[test]
    fn labels_and_expressions_must_all_hold() {
        let selector = json!({
            "matchLabels": {"runs": "yes"},
            "matchExpressions": [
                {"key": "tier", "operator": "In", "values": ["dev", "prod"]},
                {"key": "frozen", "operator": "DoesNotExist"},
                {"key": "team", "operator": "NotIn", "values": ["guests"]},
            ],
        });
        assert!(allows(&selector, &[("runs", "yes"), ("tier", "dev")]));
        assert!(!allows(&selector, &[("runs", "yes")]));
        assert!(!allows(&selector, &[("tier", "dev")]));
        assert!(!allows(
            &selector,
            &[("runs", "yes"), ("tier", "dev"), ("frozen", "")]
        ));
        assert!(!allows(
            &selector,
            &[("runs", "yes"), ("tier", "dev"), ("team", "guests")]
        ));
    }

    #[test]
    fn a_selector_that_cannot_be_read_is_an_error() {
        let spec: ClusterWorkspaceSpec = serde_json::from_value(json!({
            "namespaceSelector": {"matchExpressions": [{"key": "a", "operator": "Near"}]}
        }))
        .unwrap();
        assert!(spec.allows(&BTreeMap::new()).is_err());
    }
}
