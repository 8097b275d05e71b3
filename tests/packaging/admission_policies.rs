//! `statusPolicy`: only the operator writes a status and an intent. `finalizerPolicy`: a Run has its finalizer
//! from its creation.

use std::time::{Duration, Instant};

use run_operator::api::names;
use serde_json::{Value, json};

use crate::helm::{documents, manifests};
use crate::namespace::Space;

/// A policy counts from when the API server's own watch has seen it: a second or two as a rule.
const IN_FORCE_TIMEOUT: Duration = Duration::from_mins(2);

const RUN: &str = r#"{"apiVersion": "run-operator.dev/v1alpha1", "kind": "Run", "metadata": {"name": "train"},
    "spec": {"workload": {"image": "a"}}}"#;
const TRAIN: &str = "runs.run-operator.dev/train";
const STATUS: &str = r#"{"status": {"phase": "Pending"}}"#;
const CHECKED: &str = r#"{"status": {"observedGeneration": 1}}"#;
const AS_STATUS: &str = "--subresource=status";
const NO_STATUS: &str = "only the operator writes the status";
const NO_INTENT: &str = "only the operator writes the annotation run-operator.dev/intent";
const INTENT: &str = r#"{"metadata": {"annotations": {"run-operator.dev/intent": "forged"}}}"#;
const OTHER: &str = r#"{"metadata": {"annotations": {"example.com/note": "mine"}}}"#;

/// Waits for what only a policy in force brings about.
async fn in_force<T>(look: impl Fn() -> Option<T>) -> T {
    let deadline = Instant::now() + IN_FORCE_TIMEOUT;
    loop {
        if let Some(seen) = look() {
            return seen;
        }
        assert!(
            Instant::now() < deadline,
            "the policy never came into force"
        );
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

fn patch(space: &Space, object: &str, body: &str, further: &[&str]) -> Result<String, String> {
    let patch = [
        "patch",
        object,
        "--dry-run=server",
        "--type=merge",
        "--patch",
        body,
    ];
    space.kubectl(&[&patch[..], further].concat(), "")
}

/// A policy refused it, by a message with these words. A policy that only warns, and RBAC, have others around them.
#[track_caller]
fn denied(answer: Result<String, String>, words: &str) {
    let told = answer.unwrap_err();
    assert!(
        told.contains("denied request") && told.contains(words),
        "{told}"
    );
}

/// A Workspace or a `ClusterWorkspace`, which no namespace may use.
fn create_workspace(space: &Space, kind: &str, name: &str) {
    let workspace = json!({
        "apiVersion": "run-operator.dev/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": {},
    });
    space
        .kubectl(&["create", "-f", "-"], &workspace.to_string())
        .unwrap();
}

/// A space with the chart's `statusPolicy`, the operator's rights, and an object of each kind.
async fn with_status_policy() -> Space {
    let space = Space::new().await;
    let set = format!(
        "statusPolicy.enabled=true,watchNamespaces={{{}}}",
        space.namespace
    );
    let objects = documents(&manifests(&space.namespace, &["--set", &set]));
    space.kubectl(&["create", "-f", "-"], RUN).unwrap();
    create_workspace(&space, "Workspace", "default");
    create_workspace(&space, "ClusterWorkspace", &space.namespace);
    let kinds = [
        "ServiceAccount",
        "Role",
        "RoleBinding",
        "ValidatingAdmissionPolicy",
        "ValidatingAdmissionPolicyBinding",
    ];
    space.apply(&objects, &kinds);
    space
}

/// Proves: I-status-policy
#[tokio::test]
async fn the_policy_lets_only_the_operator_write_status_and_intent() {
    let space = with_status_policy().await;
    let told = in_force(|| patch(&space, TRAIN, STATUS, &[AS_STATUS]).err()).await;
    denied(Err(told), NO_STATUS);
    denied(patch(&space, TRAIN, INTENT, &[]), NO_INTENT);
    patch(&space, TRAIN, OTHER, &[]).unwrap();
    let mut copy: Value = serde_json::from_str(RUN).unwrap();
    copy["metadata"] = serde_json::from_str::<Value>(INTENT).unwrap()["metadata"].clone();
    copy["metadata"]["name"] = json!("copy");
    let create = ["create", "--dry-run=server", "-f", "-"];
    space.kubectl(&create, &copy.to_string()).unwrap();
    let shared = format!("clusterworkspaces.run-operator.dev/{}", space.namespace);
    for workspace in ["workspaces.run-operator.dev/default", &shared] {
        denied(patch(&space, workspace, CHECKED, &[AS_STATUS]), NO_STATUS);
    }

    // To RBAC both accounts are the same. kubectl reads before it patches; the operator doesn't.
    let resources = "--resource=runs,runs/status";
    let role = ["create", "role", "writer", "--verb=get,patch", resources];
    space.kubectl(&role, "").unwrap();
    let account = |name: &str| format!("--serviceaccount={}:{name}", space.namespace);
    let (first, second) = (account("run-operator"), account("another"));
    let binding = ["create", "rolebinding", "writer", "--role=writer"];
    let binding = [&binding[..], &[first.as_str(), second.as_str()]].concat();
    space.kubectl(&binding, "").unwrap();
    let user = |name: &str| format!("--as=system:serviceaccount:{}:{name}", space.namespace);
    let (operator, another) = (user("run-operator"), user("another"));
    patch(&space, TRAIN, STATUS, &[AS_STATUS, &operator]).unwrap();
    patch(&space, TRAIN, INTENT, &[&operator]).unwrap();
    let status = patch(&space, TRAIN, STATUS, &[AS_STATUS, &another]);
    denied(status, NO_STATUS);
    denied(patch(&space, TRAIN, INTENT, &[&another]), NO_INTENT);
}

/// The object that `kubectl create --dry-run=server` would store.
fn would_be(space: &Space) -> Result<Value, String> {
    let create = ["create", "--dry-run=server", "-o", "json", "-f", "-"];
    let stored = space.kubectl(&create, RUN)?;
    Ok(serde_json::from_str(&stored).unwrap())
}

/// Proves: I-finalizer-policy
#[tokio::test]
async fn runs_of_watched_namespaces_are_created_with_the_finalizer() {
    let (space, elsewhere) = (Space::new().await, Space::new().await);
    let policies = "MutatingAdmissionPolicy";
    if space.control_plane.lacks(36, policies).await.unwrap() {
        return;
    }
    let set = format!(
        "finalizerPolicy.enabled=true,watchNamespaces={{{}}}",
        space.namespace
    );
    let objects = documents(&manifests(&space.namespace, &["--set", &set]));
    let kinds = ["MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding"];
    space.apply(&objects, &kinds);
    let finalizers = json!([names::FINALIZER]);
    let held = |run: &Value| run["metadata"]["finalizers"] == finalizers;
    // Of a kind that is new the API server's policies know nothing for a moment, and it answers 503.
    in_force(|| would_be(&space).ok().filter(held)).await;
    let other = would_be(&elsewhere).unwrap();
    assert_eq!(other["metadata"]["finalizers"], Value::Null);

    // Its deletion waits, and what others put there stays.
    let mut run: Value = serde_json::from_str(RUN).unwrap();
    run["metadata"]["finalizers"] = json!(["example.com/mine"]);
    space
        .kubectl(&["create", "-f", "-"], &run.to_string())
        .unwrap();
    space
        .kubectl(&["delete", "run", "train", "--wait=false"], "")
        .unwrap();
    let stands = space
        .kubectl(&["get", "run", "train", "-o", "json"], "")
        .unwrap();
    let stands: Value = serde_json::from_str(&stands).unwrap();
    assert_ne!(stands["metadata"]["deletionTimestamp"], Value::Null);
    let mut finalizers: Vec<&str> = stands["metadata"]["finalizers"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(Value::as_str)
        .collect();
    finalizers.sort_unstable();
    assert_eq!(finalizers, ["example.com/mine", names::FINALIZER]);
}
