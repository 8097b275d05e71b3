//! An operator with few rights, and what the API server wrote down about it.

use std::path::PathBuf;

use jiff::Timestamp;
use kube::config::{AuthInfo, Kubeconfig};
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
        let apply = async |yaml: &str| self.control_plane.apply_yaml(yaml).await.unwrap();
        let (namespace, name) = match rights {
            Rights::Administrator => return,
            Rights::Deployed => {
                apply(&manifest("install.yaml")).await;
                (DEPLOYED, DEPLOYED)
            }
            Rights::DeployedHere => {
                self.create_namespace(DEPLOYED, json!({})).await;
                let account = ["create", "serviceaccount", DEPLOYED, "-n", DEPLOYED];
                self.kubectl(&account, "").await.unwrap();
                apply(&manifest("kustomize/base/leader-election.yaml")).await;
                let roles = manifest("kustomize/overlays/namespaced/role.yaml");
                let here = format!("namespace: {}", self.namespace);
                apply(&roles.replace("namespace: team-a", &here)).await;
                (DEPLOYED, DEPLOYED)
            }
            Rights::Secrets(rules) => {
                self.user(NAME, &rules).await;
                let needed = json!([
                    {"apiGroups": ["run-operator.dev"], "resources": ["*"], "verbs": ["*"]},
                    {"apiGroups": [""], "resources": ["events"], "verbs": ["create"]},
                    {"apiGroups": [""], "resources": ["namespaces"], "verbs": ["get", "list", "watch"]},
                ]);
                let scope = if everywhere { "Cluster" } else { "" };
                let account = (self.namespace.as_str(), NAME);
                self.grant(scope, &self.namespace, &needed, account).await;
                account
            }
        };
        self.recipe.kubeconfig = self.kubeconfig_of(namespace, name).await;
        self.account = account(namespace, name);
    }

    /// A user of the namespace with these permissions there, and no others; the kubeconfig.
    pub(crate) async fn user(&self, name: &str, rules: &Value) -> PathBuf {
        let create = ["create", "serviceaccount", name];
        self.kubectl(&create, "").await.unwrap();
        self.grant("", name, rules, (&self.namespace, name)).await;
        self.kubeconfig_of(&self.namespace, name).await
    }

    /// A kubeconfig with a token of this service account.
    async fn kubeconfig_of(&self, namespace: &str, name: &str) -> PathBuf {
        let token = ["create", "token", name, "--namespace", namespace];
        let token = self.kubectl(&token, "").await.unwrap();
        let mut config = Kubeconfig::read_from(self.control_plane.kubeconfig()).unwrap();
        for user in &mut config.auth_infos {
            user.auth_info = Some(AuthInfo {
                token: Some(token.trim().to_owned().into()),
                ..AuthInfo::default()
            });
        }
        let kubeconfig = self.folder().join(format!("{name}.kubeconfig"));
        std::fs::write(&kubeconfig, serde_json::to_string(&config).unwrap()).unwrap();
        kubeconfig
    }

    /// Makes a Role or, by `scope`, a `ClusterRole`, and binds it to a service account, by its namespace and name.
    pub(crate) async fn grant(
        &self,
        scope: &str,
        name: &str,
        rules: &Value,
        (namespace, account): (&str, &str),
    ) {
        let role = format!("{scope}Role").to_lowercase();
        let object = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": format!("{scope}Role"),
            "metadata": {"name": name}, "rules": rules,
        });
        let create = ["create", "-f", "-"];
        self.kubectl(&create, &object.to_string()).await.unwrap();
        let (binding, role) = (format!("{role}binding"), format!("--{role}={name}"));
        let account = format!("--serviceaccount={namespace}:{account}");
        let bind = ["create", &binding, name, &role, &account];
        self.kubectl(&bind, "").await.unwrap();
    }
}

/// The name under which the API server knows a service account.
fn account(namespace: &str, name: &str) -> String {
    format!("system:serviceaccount:{namespace}:{name}")
}

fn manifest(path: &str) -> String {
    test_support::files::text(&format!("deploy/{path}"))
}

/// The stage of a request that is answered whole. A watch is logged when it begins, and again when it ends.
const ENDED: &str = "ResponseComplete";

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
        let theirs = |entry: &Value| match self.user.as_str() {
            "" => {
                let agent = entry["userAgent"].as_str();
                agent.is_some_and(|agent| agent.starts_with("run-operator/"))
            }
            user => entry["user"]["username"] == user,
        };
        let recent = |entry: &Value| {
            let received = entry["requestReceivedTimestamp"].as_str();
            received.is_some_and(|time| time.parse::<Timestamp>().unwrap() >= self.since)
        };
        let entries = entries.filter(|entry| theirs(entry) && recent(entry));
        entries.collect()
    }

    /// The number of requests about Secrets with this verb and this status, which ended or, if watches, began.
    pub(crate) fn count(&self, verb: &str, status: u16) -> usize {
        let ends = verb != "watch";
        self.in_stage(verb, status, |stage| ends || stage != ENDED)
    }

    /// The number of watches of Secrets that have ended.
    pub(crate) fn ended_watches(&self) -> usize {
        self.in_stage("watch", 200, |stage| stage == ENDED)
    }

    fn in_stage(&self, verb: &str, status: u16, fits: impl Fn(&Value) -> bool) -> usize {
        let mut requests = self.requests();
        requests.retain(|entry| {
            entry["verb"] == verb
                && entry["responseStatus"]["code"] == status
                && fits(&entry["stage"])
        });
        requests.len()
    }
}
