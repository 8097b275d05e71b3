//! An operator with few rights, and what the API server wrote down about it.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::World;

/// The Secret of the Workspace `default`.
pub(crate) const SECRET: &str = "run-operator-token";
/// The operator's service account, its Role and the binding of the two.
const NAME: &str = "operator";

impl World {
    /// A service account that may do what the operator needs, and with Secrets what `rules` say; the
    /// kubeconfig with a token of it.
    pub(super) async fn restricted(&self, rules: Value) -> PathBuf {
        let metadata = json!({"name": NAME});
        let mut all = json!([
            {"apiGroups": ["run-operator.dev"], "verbs": ["*"],
             "resources": ["runs", "runs/status", "workspaces", "workspaces/status"]},
            {"apiGroups": ["events.k8s.io"], "resources": ["events"], "verbs": ["create", "patch"]},
        ]);
        all.as_array_mut()
            .unwrap()
            .extend(rules.as_array().unwrap().iter().cloned());
        let rbac = "rbac.authorization.k8s.io";
        let objects = [
            json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata}),
            json!({"apiVersion": format!("{rbac}/v1"), "kind": "Role", "metadata": metadata, "rules": all}),
            json!({
                "apiVersion": format!("{rbac}/v1"), "kind": "RoleBinding", "metadata": metadata,
                "roleRef": {"apiGroup": rbac, "kind": "Role", "name": NAME},
                "subjects": [{"kind": "ServiceAccount", "name": NAME, "namespace": self.namespace}],
            }),
        ];
        for object in objects {
            let applied = self
                .kubectl(&["create", "-f", "-"], &object.to_string())
                .await;
            applied.unwrap();
        }
        let token = self.kubectl(&["create", "token", NAME], "").await.unwrap();
        let kubeconfig = self.scratch.path().join("operator.kubeconfig");
        std::fs::copy(self.control_plane.kubeconfig(), &kubeconfig).unwrap();
        let file = format!("--kubeconfig={}", kubeconfig.display());
        let credentials = format!("--token={}", token.trim());
        let user = format!("--user={NAME}");
        for args in [
            ["set-credentials", NAME, &credentials],
            ["set-context", "--current", &user],
        ] {
            let args: Vec<&str> = [&file, "config"].into_iter().chain(args).collect();
            self.kubectl(&args, "").await.unwrap();
        }
        kubeconfig
    }
}

/// What the operator's service account asked of the API server about Secrets. Each request is written
/// down before its answer is sent.
pub(crate) struct Audit<'a> {
    log: &'a Path,
    user: String,
}

impl<'a> Audit<'a> {
    /// Of this world, whose operator is restricted and whose control plane is our own.
    pub(crate) fn of(world: &World, log: &'a Path) -> Self {
        Self {
            log,
            user: format!("system:serviceaccount:{}:{NAME}", world.namespace),
        }
    }

    /// The requests until now, oldest first.
    pub(crate) fn requests(&self) -> Vec<Value> {
        let text = std::fs::read_to_string(self.log).unwrap();
        // Its last line may be half written.
        let entries = text
            .lines()
            .filter_map(|line| serde_json::from_str::<Value>(line).ok());
        entries
            .filter(|entry| {
                entry["user"]["username"] == self.user.as_str()
                    && entry["objectRef"]["resource"] == "secrets"
            })
            .collect()
    }

    /// How many requests had this verb and this status.
    pub(crate) fn count(&self, verb: &str, status: u16) -> usize {
        let requests = self.requests();
        let fits = |entry: &&Value| {
            entry["verb"] == verb
                && entry["responseStatus"]["code"] == status
                // A watch is written down when it begins, and once more when it ends.
                && !(verb == "watch" && entry["stage"] == "ResponseComplete")
        };
        requests.iter().filter(fits).count()
    }

    /// How many watches have ended.
    pub(crate) fn ended_watches(&self) -> usize {
        let requests = self.requests();
        let ended = |entry: &&Value| {
            entry["verb"] == "watch"
                && entry["stage"] == "ResponseComplete"
                && entry["responseStatus"]["code"] == 200
        };
        requests.iter().filter(ended).count()
    }
}
