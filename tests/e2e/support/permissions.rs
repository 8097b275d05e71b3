//! An operator with few rights, and what the API server wrote down about it.

use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{Rights, World};

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
    /// Gives the operator a service account, but for an administrator.
    pub(super) async fn restrict(&mut self, rights: Rights, everywhere: bool) {
        let (namespace, name) = match rights {
            Rights::Administrator => return,
            Rights::Deployed => {
                self.as_deployed().await;
                (DEPLOYED, DEPLOYED)
            }
            Rights::DeployedHere => {
                self.as_deployed_here().await;
                (DEPLOYED, DEPLOYED)
            }
            Rights::Secrets(rules) => {
                self.restricted(&rules, everywhere).await;
                (self.namespace.as_str(), NAME)
            }
        };
        let account = account(namespace, name);
        self.recipe.kubeconfig = self.kubeconfig_of(namespace, name).await;
        self.account = account;
    }

    /// A service account with the permissions of `rules` for Secrets of the namespace, and all else that the
    /// operator needs, in the namespace or everywhere.
    async fn restricted(&self, rules: &Value, everywhere: bool) {
        let needed = json!([
            {"apiGroups": ["run-operator.dev"], "resources": ["*"], "verbs": ["*"]},
            {"apiGroups": [""], "resources": ["events"], "verbs": ["create"]},
            {"apiGroups": [""], "resources": ["namespaces"], "verbs": ["get", "list", "watch"]},
        ]);
        let scope = if everywhere { "Cluster" } else { "" };
        self.service_account(NAME).await;
        let secrets = format!("{NAME}-secrets");
        self.grant("", &secrets, rules, (&self.namespace, NAME))
            .await;
        self.grant(scope, &self.namespace, &needed, (&self.namespace, NAME))
            .await;
    }

    async fn create(&self, object: Value) {
        let create = ["create", "-f", "-"];
        self.kubectl(&create, &object.to_string()).await.unwrap();
    }

    async fn service_account(&self, name: &str) {
        let metadata = json!({"name": name});
        self.create(json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata}))
            .await;
    }

    /// A service account with the permissions of `deploy/install.yaml`, and no others.
    async fn as_deployed(&self) {
        let manifest = manifest("install.yaml");
        self.control_plane.apply_yaml(&manifest).await.unwrap();
    }

    /// The same with the permissions of the overlay for one namespace, in this one.
    async fn as_deployed_here(&self) {
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
    }

    /// A user of the namespace with these permissions there, and no others; the kubeconfig.
    pub(crate) async fn user(&self, name: &str, rules: &Value) -> PathBuf {
        self.service_account(name).await;
        self.grant("", name, rules, (&self.namespace, name)).await;
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

/// The name under which the API server knows a service account.
fn account(namespace: &str, name: &str) -> String {
    format!("system:serviceaccount:{namespace}:{name}")
}

fn manifest(path: &str) -> String {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy");
    std::fs::read_to_string(directory.join(path)).unwrap()
}

impl World {
    /// Makes a Role or, by `scope`, a `ClusterRole`, and binds it to a service account, by its namespace and name.
    pub(crate) async fn grant(
        &self,
        scope: &str,
        name: &str,
        rules: &Value,
        (namespace, account): (&str, &str),
    ) {
        let group = "rbac.authorization.k8s.io";
        let object = |kind: &str, mut with: Value| {
            with["apiVersion"] = format!("{group}/v1").into();
            with["kind"] = format!("{scope}{kind}").into();
            with["metadata"] = json!({"name": name});
            with
        };
        let role = json!({"apiGroup": group, "kind": format!("{scope}Role"), "name": name});
        let account = json!({"kind": "ServiceAccount", "name": account, "namespace": namespace});
        self.create(object("Role", json!({"rules": rules}))).await;
        let binding = json!({"roleRef": role, "subjects": [account]});
        self.create(object("RoleBinding", binding)).await;
    }
}

/// Requests to the API server, from its audit log. Each is written there before its answer is sent.
pub(crate) struct Audit {
    log: PathBuf,
    since: Timestamp,
    user: String,
}

impl Audit {
    /// Those of this world's operator. One that is the administrator, as the test is, must be alone.
    pub(crate) fn of(world: &World) -> Self {
        Self::by(world, world.account.clone())
    }

    /// Those of a user that [`World::user`] made.
    pub(crate) fn of_user(world: &World, name: &str) -> Self {
        Self::by(world, account(&world.namespace, name))
    }

    fn by(world: &World, user: String) -> Self {
        let log = world.control_plane.audit_log();
        Self {
            log: log.expect("a control plane of ours"),
            since: world.began,
            user,
        }
    }

    /// The requests about Secrets until now, oldest first.
    pub(crate) fn requests(&self) -> Vec<Value> {
        let mut requests = self.all_requests();
        requests.retain(|entry| entry["objectRef"]["resource"] == "secrets");
        requests
    }

    /// All requests since the world began, oldest first.
    pub(crate) fn all_requests(&self) -> Vec<Value> {
        let text = std::fs::read_to_string(&self.log).unwrap();
        // Its last line may be half written.
        let entries = text
            .lines()
            .filter(|line| line.contains(&self.user))
            .filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let received = |entry: &Value| -> Option<Timestamp> {
            entry["requestReceivedTimestamp"].as_str()?.parse().ok()
        };
        let theirs = |entry: &Value| match self.user.as_str() {
            "" => {
                let agent = entry["userAgent"].as_str();
                agent.is_some_and(|agent| agent.starts_with("run-operator/"))
            }
            user => entry["user"]["username"] == user,
        };
        entries
            .filter(theirs)
            .filter(|entry| received(entry).is_some_and(|time| time >= self.since))
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
