//! Has the API server refuse what is written in a world, by an admission policy.

use serde_json::json;

use super::World;

impl World {
    /// Has the API server refuse every update of `resources` in this world's namespace for which the CEL
    /// `validation` doesn't hold, after some time. [`World::permit`] removes it.
    pub(crate) async fn forbid(&self, resources: &str, validation: &str) {
        let name = &self.namespace;
        let policy = json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy",
            "metadata": {"name": name},
            "spec": {
                "matchConstraints": {"resourceRules": [{
                    "apiGroups": ["run-operator.dev"], "apiVersions": ["*"],
                    "operations": ["UPDATE"], "resources": [resources],
                }]},
                "validations": [{"expression": validation, "message": "not now"}],
            },
        });
        let binding = json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": {"name": name},
            "spec": {
                "policyName": name, "validationActions": ["Deny"],
                "matchResources": {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": name}}},
            },
        });
        let both = json!({"apiVersion": "v1", "kind": "List", "items": [policy, binding]});
        self.kubectl(&["apply", "-f", "-"], &both.to_string())
            .await
            .unwrap();
    }

    /// Takes the policy away, also on the API server's own time.
    pub(crate) async fn permit(&self) {
        for kind in [
            "validatingadmissionpolicybinding",
            "validatingadmissionpolicy",
        ] {
            self.kubectl(&["delete", kind, &self.namespace], "")
                .await
                .unwrap();
        }
    }
}
