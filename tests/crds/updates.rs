//! Transitions that depend on what went before: `cancel`, `suspend`, and the operator's own writes.

use rstest::rstest;
use serde_json::{Value, json};

use crate::namespace::{Space, assert_immutable};

fn spec(field: &str, value: Option<bool>) -> Value {
    match value {
        Some(value) => json!({"workload": {"image": "x"}, field: value}),
        None => json!({"workload": {"image": "x"}}),
    }
}

/// Proves: P-one-way
#[rstest]
#[case::to_false(Some(false))]
#[case::to_unset(None)]
#[tokio::test]
async fn a_cancellation_can_t_be_taken_back(#[case] after: Option<bool>) {
    let space = Space::new().await;
    let before = spec("cancel", after);
    space.created("Run", "a", before).await;
    let cancelled = space.replace("Run", "a", spec("cancel", Some(true))).await;
    cancelled.unwrap();
    let back = space.replace("Run", "a", spec("cancel", after)).await;
    assert_immutable(back, "spec.cancel", "create a new Run");
    space.replaced("Run", "a", spec("cancel", Some(true))).await;
}

/// Proves: P-one-way
#[rstest]
#[case::from_unset(None)]
#[case::from_false(Some(false))]
#[tokio::test]
async fn a_submitted_run_can_t_be_suspended(#[case] before: Option<bool>) {
    let space = Space::new().await;
    space.created("Run", "a", spec("suspend", before)).await;
    space.with_status("Run", "a", json!({"runID": "r-1"})).await;
    let suspended = space.replace("Run", "a", spec("suspend", Some(true))).await;
    assert_immutable(suspended, "spec.suspend", "set cancel: true");
}

fn of_priority(priority: Option<i32>) -> Value {
    match priority {
        Some(priority) => json!({"workload": {"image": "x"}, "priority": priority}),
        None => json!({"workload": {"image": "x"}}),
    }
}

/// Proves: P-one-way
#[rstest]
#[case::from_the_default(None, Some(5))]
#[case::to_another(Some(5), Some(-5))]
#[case::to_the_default(Some(5), None)]
#[tokio::test]
async fn the_priority_of_a_submitted_run_can_t_be_changed(
    #[case] before: Option<i32>,
    #[case] after: Option<i32>,
) {
    let space = Space::new().await;
    space.created("Run", "a", of_priority(before)).await;
    for status in [json!({"runID": "r-1"}), json!({"state": "running"})] {
        space.with_status("Run", "a", status).await;
    }
    let changed = space.replace("Run", "a", of_priority(after)).await;
    assert_immutable(changed, "spec.priority", "orders submissions");
    space.replaced("Run", "a", of_priority(before)).await;
}

#[tokio::test]
async fn suspend_can_be_set_and_removed_before_the_submission() {
    let space = Space::new().await;
    space.created("Run", "a", spec("suspend", Some(true))).await;
    let pending = json!({"phase": "Pending"});
    space.with_status("Run", "a", pending).await;
    for value in [Some(false), Some(true), None, Some(true)] {
        space.replaced("Run", "a", spec("suspend", value)).await;
    }
}

/// The suspension came between the POST and the write of its answer: the rule must not stop that write,
/// else the runID is lost.
/// Proves: P-one-way
#[tokio::test]
async fn the_operator_s_writes_to_a_suspended_run_pass() {
    let space = Space::new().await;
    space.created("Run", "a", spec("suspend", Some(true))).await;
    let finalizer = json!({"metadata": {
        "finalizers": ["run-operator.dev/cancel"],
        "annotations": {"run-operator.dev/intent": "{}"},
    }});
    space.patch("Run", "a", &finalizer).await.unwrap();
    let submitted = json!({"runID": "r-1", "phase": "Active"});
    for status in [submitted, json!({"state": "running"})] {
        space.with_status("Run", "a", status).await;
    }
    let annotated =
        json!({"metadata": {"annotations": {"run-operator.dev/intent": "{\"uid\":\"\"}"}}});
    space.patch("Run", "a", &annotated).await.unwrap();
    let released = json!({"metadata": {"finalizers": null}});
    let freed = space.patch("Run", "a", &released).await.unwrap();
    assert_eq!(freed["spec"]["suspend"], json!(true));

    let resumed = spec("suspend", Some(false));
    space.replaced("Run", "a", resumed).await;
    let again = space.replace("Run", "a", spec("suspend", Some(true))).await;
    assert_immutable(again, "spec.suspend", "set cancel: true");
}

/// Proves: P-defaults
#[rstest]
#[case::run("Run", json!({"workload": {"image": "x", "args": ["a"]}, "provider": "auto"}))]
#[case::smallest_run("Run", json!({"workload": {"image": "x"}}))]
#[case::cluster_workspace(
    "ClusterWorkspace",
    json!({"namespaceSelector": {
        "matchLabels": {"runs": "yes"}, "matchExpressions": [{"key": "a", "operator": "Exists"}],
    }})
)]
#[case::workspace("Workspace", json!({"tokenSecretRef": {"name": "t"}, "rateLimit": {"burst": 3}}))]
#[tokio::test]
async fn applying_the_same_manifest_again_writes_nothing(#[case] kind: &str, #[case] spec: Value) {
    let space = Space::new().await;
    let first = space.apply(kind, "a", spec.clone()).await.unwrap();
    // The operator's first write, of whatever kind, also stores the status default, which is only added
    // on reading before that.
    let status = json!({"observedGeneration": 1});
    let written = space.with_status(kind, "a", status).await;

    let again = space.apply(kind, "a", spec).await.unwrap();
    let generation = |object: &Value| object["metadata"]["generation"].clone();
    assert_eq!(generation(&again), generation(&first));
    let version = |object: &Value| object["metadata"]["resourceVersion"].clone();
    assert_eq!(version(&again), version(&written));
}
