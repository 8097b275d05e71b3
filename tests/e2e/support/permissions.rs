//! An operator with few rights, and what the API server wrote down about it.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::World;

/// The Secret of the Workspace `default`.
pub(crate) const SECRET: &str = "run-operator-token";
/// The operator's service account, its Role and the binding of the two.
const NAME: &str = "operator";
/// The names of the operator's own objects in `deploy/`.
pub(crate) const DEPLOYED: &str = "run-operator";
/// Flags with which such an operator takes part in an election, where it has the permissions for it.
pub(crate) const ELECTED: &[&str] = &[
    "--leader-elect",
    "--leader-elect-namespace",
    DEPLOYED,
    "--leader-elect-retry-period",
    "500ms",
];

impl World {
    /// A service account with the permissions of `rules` for Secrets of the namespace, and all else that the
    /// operator needs, in the namespace or everywhere; the kubeconfig with a token of it.
    pub(super) async fn restricted(&self, rules: Value, everywhere: bool) -> PathBuf {
        let account =
            json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": NAME}});
        let needed = json!([
            {"apiGroups": ["run-operator.dev"], "resources": ["*"], "verbs": ["*"]},
            {"apiGroups": [""], "resources": ["events"], "verbs": ["create"]},
            {"apiGroups": [""], "resources": ["namespaces"], "verbs": ["get", "list", "watch"]},
        ]);
        let scope = if everywhere { "Cluster" } else { "" };
        let secrets = self.role("", &format!("{NAME}-secrets"), &rules);
        let others = self.role(scope, &self.namespace, &needed);
        for object in [account].into_iter().chain(secrets).chain(others) {
            let applied = self
                .kubectl(&["create", "-f", "-"], &object.to_string())
                .await;
            applied.unwrap();
        }
        self.kubeconfig_of(&self.namespace, NAME).await
    }

    /// A service account with the permissions of `deploy/install.yaml`, and no others; the kubeconfig with a
    /// token of it. Only with a control plane of one's own.
    pub(super) async fn as_deployed(&self) -> PathBuf {
        let manifest = manifest("install.yaml");
        self.control_plane.apply_yaml(&manifest).await.unwrap();
        self.kubeconfig_of(DEPLOYED, DEPLOYED).await
    }

    /// The same with the permissions of the overlay for one namespace, in this one; the kubeconfig as above.
    pub(super) async fn as_deployed_here(&self) -> PathBuf {
        let namespace =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": DEPLOYED}});
        let account = json!({
            "apiVersion": "v1", "kind": "ServiceAccount",
            "metadata": {"name": DEPLOYED, "namespace": DEPLOYED},
        });
        let roles = manifest("kustomize/overlays/namespaced/role.yaml");
        let roles = roles.replace(
            "namespace: team-a",
            &format!("namespace: {}", self.namespace),
        );
        let leader = manifest("kustomize/base/leader-election.yaml");
        for objects in [namespace.to_string(), account.to_string(), roles, leader] {
            self.control_plane.apply_yaml(&objects).await.unwrap();
        }
        self.kubeconfig_of(DEPLOYED, DEPLOYED).await
    }

    /// A user of the namespace with these permissions there, and no others; the kubeconfig.
    pub(crate) async fn user(&self, name: &str, rules: &Value) -> PathBuf {
        let account =
            json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}});
        let rbac = |kind: &str, mut with: Value| {
            with["apiVersion"] = "rbac.authorization.k8s.io/v1".into();
            with["kind"] = kind.into();
            with["metadata"] = json!({"name": name});
            with
        };
        let role = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name});
        let user = json!({"kind": "ServiceAccount", "name": name, "namespace": self.namespace});
        for object in [
            account,
            rbac("Role", json!({"rules": rules})),
            rbac("RoleBinding", json!({"roleRef": role, "subjects": [user]})),
        ] {
            let applied = self
                .kubectl(&["create", "-f", "-"], &object.to_string())
                .await;
            applied.unwrap();
        }
        self.kubeconfig_of(&self.namespace, name).await
    }

    /// A kubeconfig with a token of this service account.
    async fn kubeconfig_of(&self, namespace: &str, name: &str) -> PathBuf {
        let token = ["create", "token", name, "--namespace", namespace];
        let token = self.kubectl(&token, "").await.unwrap();
        let kubeconfig = self.scratch.path().join("operator.kubeconfig");
        std::fs::copy(self.control_plane.kubeconfig(), &kubeconfig).unwrap();
        let file = format!("--kubeconfig={}", kubeconfig.display());
        let credentials = format!("--token={}", token.trim());
        let user = format!("--user={name}");
        for args in [
            ["set-credentials", name, &credentials],
            ["set-context", "--current", &user],
        ] {
            let args: Vec<&str> = [&file, "config"].into_iter().chain(args).collect();
            self.kubectl(&args, "").await.unwrap();
        }
        kubeconfig
    }
}

fn manifest(path: &str) -> String {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy");
    std::fs::read_to_string(directory.join(path)).unwrap()
}

impl World {
    /// A Role or, by `scope`, a `ClusterRole`, and its binding to the operator.
    fn role(&self, scope: &str, name: &str, rules: &Value) -> [Value; 2] {
        let group = "rbac.authorization.k8s.io";
        let object = |kind: &str, mut with: Value| {
            with["apiVersion"] = format!("{group}/v1").into();
            with["kind"] = format!("{scope}{kind}").into();
            with["metadata"] = json!({"name": name});
            with
        };
        let role = json!({"apiGroup": group, "kind": format!("{scope}Role"), "name": name});
        let operator = json!({"kind": "ServiceAccount", "name": NAME, "namespace": self.namespace});
        [
            object("Role", json!({"rules": rules})),
            object(
                "RoleBinding",
                json!({"roleRef": role, "subjects": [operator]}),
            ),
        ]
    }
}

/// The requests of the operator's service account, or of a user, to the API server. Each is written to the audit
/// log before its answer is sent.
pub(crate) struct Audit<'a> {
    log: &'a Path,
    user: String,
}

impl<'a> Audit<'a> {
    /// The audit of this world, whose operator is restricted and whose control plane is our own.
    pub(crate) fn of(world: &World, log: &'a Path) -> Self {
        Self::of_user(world, NAME, log)
    }

    /// The audit of a user that [`World::user`] made.
    pub(crate) fn of_user(world: &World, name: &str, log: &'a Path) -> Self {
        Self {
            log,
            user: format!("system:serviceaccount:{}:{name}", world.namespace),
        }
    }

    /// The audit of an operator with the permissions of `deploy/`.
    pub(crate) fn of_deployed(log: &'a Path) -> Self {
        Self {
            log,
            user: format!("system:serviceaccount:{DEPLOYED}:{DEPLOYED}"),
        }
    }

    /// The requests about Secrets until now, oldest first.
    pub(crate) fn requests(&self) -> Vec<Value> {
        let mut requests = self.all_requests();
        requests.retain(|entry| entry["objectRef"]["resource"] == "secrets");
        requests
    }

    /// All requests until now, oldest first.
    pub(crate) fn all_requests(&self) -> Vec<Value> {
        let text = std::fs::read_to_string(self.log).unwrap();
        // Its last line may be half written.
        let entries = text
            .lines()
            .filter_map(|line| serde_json::from_str::<Value>(line).ok());
        entries
            .filter(|entry| entry["user"]["username"] == self.user.as_str())
            .collect()
    }

    /// The number of requests about Secrets with this verb and this status.
    pub(crate) fn count(&self, verb: &str, status: u16) -> usize {
        let requests = self.requests();
        let fits = |entry: &&Value| {
            entry["verb"] == verb
                && entry["responseStatus"]["code"] == status
                // A watch is logged when it begins, and again when it ends.
                && !(verb == "watch" && entry["stage"] == "ResponseComplete")
        };
        requests.iter().filter(fits).count()
    }

    /// The number of watches of Secrets that have ended.
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
