//! `statusPolicy`: only the operator writes a status and an intent. `finalizerPolicy`: a Run has its finalizer
//! from its creation. `deploy/examples/quota.yaml`: the TTL of a Run is bounded.

use std::time::{Duration, Instant};

use run_operator::api::names;
use serde_json::{Value, json};

use crate::helm::{documents, manifests, texts};
use crate::namespace::Space;

/// A policy counts from when the API server's own watch has seen it: a second or two as a rule.
const IN_FORCE_TIMEOUT: Duration = Duration::from_mins(2);

const RUN: &str = r#"{"apiVersion": "run-operator.dev/v1alpha1", "kind": "Run", "metadata": {"name": "train"},
    "spec": {"workload": {"image": "a"}}}"#;
const SCHEDULE: &str = r#"{"apiVersion": "run-operator.dev/v1alpha1", "kind": "RunSchedule", "metadata": {"name": "nightly"},
    "spec": {"schedules": ["17 2 * * *"], "template": {"spec": {"workload": {"image": "a"}}}}}"#;
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
        let in_time = Instant::now() < deadline;
        assert!(in_time, "the policy never came into force");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

fn patch(space: &Space, object: &str, body: &str, further: &[&str]) -> Result<String, String> {
    let patch = ["patch", object, "--dry-run=server", "--type=merge", "-p"];
    space.kubectl(&[&patch[..], &[body], further].concat(), "")
}

/// A policy refused it, by a message with these words. A policy that only warns, and RBAC, have others around them.
#[track_caller]
fn denied(answer: Result<String, String>, words: &str) {
    let told = answer.unwrap_err();
    let by_policy = told.contains("denied request") && told.contains(words);
    assert!(by_policy, "{told}");
}

fn create(space: &Space, object: &str) {
    space.kubectl(&["create", "-f", "-"], object).unwrap();
}

/// What the chart makes of this policy for the space, of these kinds.
fn apply_policy(space: &Space, policy: &str, kinds: &[&str]) {
    let here = &space.namespace;
    let set = format!("{policy}.enabled=true,watchNamespaces={{{here}}}");
    let objects = documents(&manifests(here, &["--set", &set]));
    space.apply(&objects, kinds);
}

/// A space with the chart's `statusPolicy`, the operator's rights, and an object of each kind.
async fn with_status_policy() -> Space {
    let space = Space::new().await;
    create(&space, RUN);
    // The ClusterWorkspace is one that no namespace may use.
    let names = [
        ("Workspace", "default"),
        ("ClusterWorkspace", space.namespace.as_str()),
    ];
    for (kind, name) in names {
        let workspace = json!({
            "apiVersion": "run-operator.dev/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": {},
        });
        create(&space, &workspace.to_string());
    }
    create(&space, SCHEDULE);
    let kinds = [
        "ServiceAccount",
        "Role",
        "RoleBinding",
        "ValidatingAdmissionPolicy",
        "ValidatingAdmissionPolicyBinding",
    ];
    apply_policy(&space, "statusPolicy", &kinds);
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
    let schedule = "runschedules.run-operator.dev/nightly";
    for object in ["workspaces.run-operator.dev/default", &shared, schedule] {
        denied(patch(&space, object, CHECKED, &[AS_STATUS]), NO_STATUS);
    }

    // To RBAC both accounts are the same. kubectl reads before it patches; the operator doesn't.
    let resources = "--resource=runs,runs/status";
    let role = ["create", "role", "writer", "--verb=get,patch", resources];
    space.kubectl(&role, "").unwrap();
    for name in ["run-operator", "another"] {
        let account = format!("--serviceaccount={}:{name}", space.namespace);
        let writer = format!("writer-{name}");
        let binding = ["create", "rolebinding", &writer, "--role=writer", &account];
        space.kubectl(&binding, "").unwrap();
    }
    let user = |name: &str| format!("--as=system:serviceaccount:{}:{name}", space.namespace);
    let (operator, another) = (user("run-operator"), user("another"));
    patch(&space, TRAIN, STATUS, &[AS_STATUS, &operator]).unwrap();
    patch(&space, TRAIN, INTENT, &[&operator]).unwrap();
    let by_another = [AS_STATUS, &another];
    denied(patch(&space, TRAIN, STATUS, &by_another), NO_STATUS);
    denied(patch(&space, TRAIN, INTENT, &[&another]), NO_INTENT);
}

/// The object that `kubectl create --dry-run=server` would store.
fn would_be(space: &Space) -> Result<Value, String> {
    let create = ["create", "--dry-run=server", "-o", "json", "-f", "-"];
    let stored = space.kubectl(&create, RUN)?;
    Ok(serde_json::from_str(&stored).unwrap())
}

/// Proves: I-status-policy
#[tokio::test]
async fn runs_of_watched_namespaces_are_created_with_the_finalizer() {
    let (space, elsewhere) = (Space::new().await, Space::new().await);
    let policies = "MutatingAdmissionPolicy";
    if space.control_plane.lacks(36, policies).await.unwrap() {
        return;
    }
    let kinds = [policies, "MutatingAdmissionPolicyBinding"];
    apply_policy(&space, "finalizerPolicy", &kinds);
    let finalizers = json!([names::FINALIZER]);
    let held = |run: &Value| run["metadata"]["finalizers"] == finalizers;
    // Of a kind that is new the API server's policies know nothing for a moment, and it answers 503.
    in_force(|| would_be(&space).ok().filter(held)).await;
    let other = would_be(&elsewhere).unwrap();
    assert_eq!(other["metadata"]["finalizers"], Value::Null);

    // Its deletion waits, and what others put there stays.
    let mut run: Value = serde_json::from_str(RUN).unwrap();
    run["metadata"]["finalizers"] = json!(["example.com/mine"]);
    create(&space, &run.to_string());
    let delete = ["delete", "run", "train", "--wait=false"];
    space.kubectl(&delete, "").unwrap();
    let stands = ["get", "run", "train", "-o", "json"];
    let stands = space.kubectl(&stands, "").unwrap();
    let stands: Value = serde_json::from_str(&stands).unwrap();
    assert_ne!(stands["metadata"]["deletionTimestamp"], Value::Null);
    let mut finalizers = texts(&stands["metadata"]["finalizers"]);
    finalizers.sort_unstable();
    assert_eq!(finalizers, ["example.com/mine", names::FINALIZER]);
}

#[tokio::test]
async fn the_example_of_a_quota_bounds_a_ttl_and_leaves_a_default_to_the_workspace() {
    let space = Space::new().await;
    let quota = test_support::root().join("deploy/examples/quota.yaml");
    let quota = std::fs::read_to_string(quota).unwrap();
    let objects = documents(&quota.replace("team-a", &space.namespace));
    let kinds = [
        "ValidatingAdmissionPolicy",
        "ValidatingAdmissionPolicyBinding",
    ];
    space.apply(&objects, &kinds);
    let with = |ttl: u32| {
        let mut run: Value = serde_json::from_str(RUN).unwrap();
        run["spec"]["ttlSecondsAfterFinished"] = json!(ttl);
        let create = ["create", "--dry-run=server", "-f", "-"];
        space.kubectl(&create, &run.to_string())
    };
    let told = in_force(|| with(3601).err().filter(|told| told.contains("denied"))).await;
    denied(Err(told), "at most 3600");
    with(3600).unwrap();
    would_be(&space).unwrap();
}
