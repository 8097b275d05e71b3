//! The `Workspace` resource, the service that Runs are submitted to and the token; the `ClusterWorkspace`, which
//! namespaces share; and how a Run refers to either.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, LabelSelector};
use kube::core::{ParseExpressionError, Selector, SelectorExt};
use kube::{CustomResource, Resource, ResourceExt};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::conditions::{LastError, words};
use super::{limits, names, schema};

/// The service that the Runs of a namespace are submitted to, and the Secret with the token.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[kube(
    group = "run-operator.dev",
    version = "v1alpha1",
    kind = "Workspace",
    plural = "workspaces",
    namespaced,
    status = "WorkspaceStatus",
    derive = "PartialEq",
    shortname = "rws",
    category = "run-operator",
    doc = "The service that the Runs of a namespace are submitted to, and the Secret with the token. \
           Runs wait until their Workspace is Ready.",
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
    schema::immutable("baseURL", "create a new Workspace for another URL, and name it in new Runs"),
    schema::immutable("workspaceID", "create a new Workspace for another id, and name it in new Runs")
]))]
#[serde(rename_all = "camelCase")]
pub struct WorkspaceSpec {
    /// The service's base URL, version segment included, for example
    /// `https://runs.example.com/api/v1`: http or https, without user, query or fragment, at most 512
    /// characters. Unset: the operator's `--base-url`. It must be on the operator's allow-list.
    /// Immutable.
    #[serde(rename = "baseURL", default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = limits::MAX_BASE_URL), regex(pattern = schema::BASE_URL))]
    pub base_url: Option<String>,
    /// Sent as `X-Service-Workspace-ID`; the service checks it against the token, so that a mistake is
    /// found: visible ASCII, at most 255 characters. Unset: not sent. Immutable.
    #[serde(
        rename = "workspaceID",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    // Rule 4.
    #[schemars(length(min = 1, max = limits::MAX_WORKSPACE_ID), regex(pattern = schema::VISIBLE_ASCII))]
    pub workspace_id: Option<String>,
    /// The Secret with the token: of a Workspace in its own namespace, of a ClusterWorkspace in the
    /// operator's. Unset: `run-operator-token`, key `token`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_secret_ref: Option<SecretKeyRef>,
    /// A Secret, in the same namespace as the token's, with a CA bundle in PEM, for a service with a
    /// private CA. Unset: the certificate authorities that the operator trusts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca_secret_ref: Option<SecretKeyRef>,
    /// Limits the rate of the calls for this Workspace's Runs, in addition to 32 calls in flight and to the
    /// service's own limit (429 and `Retry-After`). Unset: only those two apply.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_limit: Option<RateLimit>,
    /// Blocks every submission of this Workspace; runs already submitted are still mirrored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suspend: Option<bool>,
    /// How many of its Runs may be active at the same time: submitted, or perhaps submitted, and not
    /// ended. Further Runs wait, with the reason `Queued`, in the order of their priority and age. A lower
    /// limit cancels nothing; 0 holds every Run. Unset: no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = i32::MAX))]
    pub max_active_runs: Option<i32>,
    /// In force for its Runs that have no value of their own. Fixed when a Run is submitted:
    /// `status.runDefaults` of the Run shows them, and a later change here does not affect it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_defaults: Option<RunDefaults>,
    /// The providers that its Runs may have, at most 64 of at most 128 characters. `auto` is a value like
    /// any other: without it a Run that names no provider is refused too. Unset: all. A Run with another
    /// one waits, with the reason `ProviderNotAllowed`; one that is submitted already is not affected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::allowed_places")]
    pub allowed_providers: Option<Vec<String>>,
    /// The regions that its Runs may have, as `allowedProviders`. The reason is `RegionNotAllowed`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::allowed_places")]
    pub allowed_regions: Option<Vec<String>>,
    /// What the images of its Runs may begin with, at most 64 of at most 2048 characters. End a registry
    /// or a path with a slash: `ghcr.io/acme` also allows `ghcr.io/acme-other/tool`. Unset: all. The reason
    /// is `ImageNotAllowed`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::allowed_images")]
    pub allowed_images: Option<Vec<String>>,
}

/// Values of Runs that have none of their own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunDefaults {
    /// `activeDeadlineSeconds` of a Run without one. Unset: no deadline.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = limits::MAX_SECONDS))]
    pub active_deadline_seconds: Option<i64>,
    /// `ttlSecondsAfterFinished` of a Run without one. Unset: its object stays.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = i32::MAX))]
    pub ttl_seconds_after_finished: Option<i32>,
}

/// A key of a Secret.
// There is no namespace field, on purpose: a Workspace can't refer to another namespace.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-map-type" = "atomic"))]
pub struct SecretKeyRef {
    /// Name of the Secret.
    #[schemars(length(min = 1, max = limits::MAX_NAME), regex(pattern = schema::DNS_SUBDOMAIN))]
    pub name: String,
    /// Key in the Secret. Unset: `token` for a token, `ca.crt` for a CA bundle.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = limits::MAX_NAME), regex(pattern = schema::SECRET_KEY))]
    pub key: Option<String>,
}

/// A bound on the rate of calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RateLimit {
    /// Sustained requests a second, 1 to 1000. Unset: 20.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1000))]
    pub requests_per_second: Option<i32>,
    /// Requests that may be made at once after an idle time, 1 to 10000. Unset: 40.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 10000))]
    pub burst: Option<i32>,
}

impl RunDefaults {
    /// Without what the schema would refuse: anybody may edit an intent.
    #[must_use]
    pub fn within_bounds(self) -> Self {
        let deadline = self.active_deadline_seconds;
        let ttl = self.ttl_seconds_after_finished;
        Self {
            active_deadline_seconds: deadline.filter(|s| (1..=limits::MAX_SECONDS).contains(s)),
            ttl_seconds_after_finished: ttl.filter(|s| *s >= 0),
        }
    }
}

/// Observed state of the Workspace.
// By the default an object without a status is not taken for healthy.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("default" = {"observedGeneration": -1}))]
pub struct WorkspaceStatus {
    /// The generation of the spec that this status is based on; -1 before the first reconcile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = -1))]
    pub observed_generation: Option<i64>,
    /// The base URL in force.
    #[serde(rename = "baseURL", default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = limits::MAX_BASE_URL))]
    pub base_url: Option<String>,
    /// The API version that the service reports.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = limits::MAX_SERVICE_VERSION))]
    pub service_version: Option<String>,
    /// The workspace of the service that the token acts for, as reported by the service.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = limits::MAX_IDENTITY))]
    pub identity: Option<String>,
    /// The workspace record as the service returned it, compact JSON cut at 1024 bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = limits::MAX_RECORD))]
    pub record: Option<String>,
    /// The latest error; absent if the last check succeeded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_error: Option<LastError>,
    /// The `X-Request-ID` of the latest relevant answer, for support.
    #[serde(rename = "requestID", default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = limits::MAX_REQUEST_ID))]
    pub request_id: Option<String>,
    /// The conditions: `VersionVerified` (the service's API version is accepted), Authenticated (the service
    /// accepted the token and named its workspace), Ready (Runs can be submitted), Reconciling (the operator
    /// is working towards Ready), Stalled (a person has to act).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
}

impl WorkspaceSpec {
    /// Name and key of the token's Secret, as in force.
    pub fn token_secret(&self) -> (&str, &str) {
        let named = self.token_secret_ref.as_ref();
        let key = named.and_then(|r| r.key.as_deref());
        (
            named.map_or(names::DEFAULT_TOKEN_SECRET, |r| &r.name),
            key.unwrap_or(names::DEFAULT_TOKEN_KEY),
        )
    }

    /// Name and key of the CA bundle's Secret, if there is one.
    pub fn ca_secret(&self) -> Option<(&str, &str)> {
        let r = self.ca_secret_ref.as_ref()?;
        Some((&r.name, r.key.as_deref().unwrap_or(names::DEFAULT_CA_KEY)))
    }
}

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
           spec.workspaceRef with kind: ClusterWorkspace. With the annotation run-operator.dev/is-default: \"true\" it \
           serves the Runs without workspaceRef in namespaces that have no Workspace called default."
)]
#[schemars(extend("x-kubernetes-validations" = [
    schema::immutable("baseURL", "create a new ClusterWorkspace for another URL, and name it in new Runs"),
    schema::immutable("workspaceID", "create a new ClusterWorkspace for another id, and name it in new Runs")
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
    /// How many Runs of one namespace may be active at the same time, within `maxActiveRuns`. Of Runs of
    /// one priority, those of the namespace with the fewest active ones go first. Unset: no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = i32::MAX))]
    pub max_active_runs_per_namespace: Option<i32>,
}

/// How many Runs may be active at the same time; `None`: any number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct RunLimits {
    pub all: Option<usize>,
    pub per_namespace: Option<usize>,
}

impl RunLimits {
    fn of(all: Option<i32>, per_namespace: Option<i32>) -> Self {
        let limit = |max: Option<i32>| max.and_then(|max| usize::try_from(max).ok());
        Self {
            all: limit(all),
            per_namespace: limit(per_namespace),
        }
    }
}

/// Whether a ClusterWorkspace is annotated as the default of the namespaces that it allows, and is to stay.
pub fn is_default(workspace: &impl ResourceExt) -> bool {
    let value = workspace.annotations().get(names::IS_DEFAULT_ANNOTATION);
    let deleting = workspace.meta().deletion_timestamp.is_some();
    value.is_some_and(|value| value == "true") && !deleting
}

impl ClusterWorkspaceSpec {
    pub fn limits(&self) -> RunLimits {
        RunLimits::of(
            self.workspace.max_active_runs,
            self.max_active_runs_per_namespace,
        )
    }

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

/// The interface that both kinds of Workspace share.
pub trait AnyWorkspace: Resource<DynamicType = ()> {
    const KIND: WorkspaceKind;

    fn common(&self) -> &WorkspaceSpec;

    fn limits(&self) -> RunLimits;

    /// The stored result of the last check.
    fn stored(&self) -> Option<&WorkspaceStatus>;
}

impl AnyWorkspace for Workspace {
    const KIND: WorkspaceKind = WorkspaceKind::Workspace;

    fn common(&self) -> &WorkspaceSpec {
        &self.spec
    }

    fn limits(&self) -> RunLimits {
        RunLimits::of(self.spec.max_active_runs, None)
    }

    fn stored(&self) -> Option<&WorkspaceStatus> {
        self.status.as_ref()
    }
}

impl AnyWorkspace for ClusterWorkspace {
    const KIND: WorkspaceKind = WorkspaceKind::ClusterWorkspace;

    fn common(&self) -> &WorkspaceSpec {
        &self.spec.workspace
    }

    fn limits(&self) -> RunLimits {
        self.spec.limits()
    }

    fn stored(&self) -> Option<&WorkspaceStatus> {
        self.status.as_ref()
    }
}

/// Names the Workspace of a Run.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-map-type" = "atomic"))]
pub struct WorkspaceRef {
    /// `Workspace`, the default: one in the Run's own namespace. `ClusterWorkspace`: one that namespaces share.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "WorkspaceKind")]
    pub kind: Option<WorkspaceKind>,
    /// Name of the Workspace.
    #[schemars(length(min = 1, max = limits::MAX_NAME), regex(pattern = schema::DNS_SUBDOMAIN))]
    pub name: String,
}

words! {
    /// The kinds that a Run can refer to.
    #[derive(Default, PartialOrd, Ord, Deserialize, Serialize, JsonSchema)]
    pub enum WorkspaceKind {
        /// A Workspace in the Run's namespace.
        #[default]
        Workspace,
        /// A `ClusterWorkspace`, shared by namespaces.
        ClusterWorkspace,
    }
}

impl WorkspaceRef {
    /// The Workspace `default` of the Run's namespace.
    pub fn own_default() -> Self {
        Self {
            kind: Some(WorkspaceKind::Workspace),
            name: names::DEFAULT_WORKSPACE.to_owned(),
        }
    }

    pub fn shared(name: String) -> Self {
        Self {
            kind: Some(WorkspaceKind::ClusterWorkspace),
            name,
        }
    }

    pub fn kind(&self) -> WorkspaceKind {
        self.kind.unwrap_or_default()
    }
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WorkspaceKey {
    pub kind: WorkspaceKind,
    /// Its namespace; empty for a cluster-scoped one.
    pub namespace: String,
    pub name: String,
}

impl WorkspaceKey {
    /// Name of an object of `namespace` in a message about this Workspace: with its namespace if several use it.
    pub fn naming(&self, namespace: &str, name: &str) -> String {
        if self.namespace.is_empty() {
            format!("{namespace}/{name}")
        } else {
            name.to_owned()
        }
    }

    pub fn own_default(namespace: &str) -> Self {
        Self::of(&WorkspaceRef::own_default(), namespace)
    }

    /// The Workspace that a Run in `namespace` uses.
    pub fn of(reference: &WorkspaceRef, namespace: &str) -> Self {
        let namespace = match reference.kind() {
            WorkspaceKind::Workspace => namespace.to_owned(),
            WorkspaceKind::ClusterWorkspace => String::new(),
        };
        Self {
            kind: reference.kind(),
            namespace,
            name: reference.name.clone(),
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
