//! Fields that keep what they were created with, and stay unset, or at their default, when they were created unset.

use rstest::rstest;
use serde_json::{Value, json};

use crate::namespace::{Space, assert_immutable};

/// A spec of `kind` that is complete without optional fields.
fn minimal(kind: &str) -> Value {
    match kind {
        "Run" => json!({"workload": {"image": "x"}}),
        "RunSchedule" => {
            json!({"schedules": ["17 2 * * *"], "template": {"spec": {"workload": {"image": "x"}}}})
        }
        _ => json!({}),
    }
}

fn with(kind: &str, field: &str, value: &Value) -> Value {
    let mut spec = minimal(kind);
    spec[field] = value.clone();
    spec
}

/// Proves: P-immutable
#[rstest]
#[case::provider("Run", "provider", json!("a"), json!("b"), "create a new Run")]
#[case::region("Run", "region", json!("a"), json!("b"), "create a new Run")]
#[case::workspace("Run", "workspaceRef", json!({"name": "a"}), json!({"name": "b"}), "create a new Run")]
#[case::kind_of_workspace(
    "Run", "workspaceRef",
    json!({"kind": "Workspace", "name": "a"}), json!({"kind": "ClusterWorkspace", "name": "a"}),
    "create a new Run"
)]
#[case::named_kind_of_workspace(
    "Run", "workspaceRef",
    json!({"name": "a"}), json!({"kind": "Workspace", "name": "a"}),
    "create a new Run"
)]
#[case::idempotency_key("Run", "idempotencyKey", json!("a"), json!("b"), "create a new Run")]
#[case::manager("Run", "managedBy", json!("a.example/queue"), json!("run-operator.dev/run-operator"), "create a new Run")]
#[case::base_url(
    "Workspace", "baseURL", json!("https://a.example/api/v1"), json!("https://b.example/api/v1"),
    "create a new Workspace"
)]
#[case::cluster_base_url(
    "ClusterWorkspace", "baseURL", json!("https://a.example/api/v1"), json!("https://b.example/api/v1"),
    "create a new ClusterWorkspace"
)]
#[case::cluster_workspace_id(
    "ClusterWorkspace", "workspaceID", json!("ws-1"), json!("ws-2"), "create a new ClusterWorkspace"
)]
#[case::workspace_id("Workspace", "workspaceID", json!("ws-1"), json!("ws-2"), "create a new Workspace")]
#[tokio::test]
async fn an_immutable_field_can_t_be_changed_unset_or_set_later(
    #[case] kind: &str,
    #[case] field: &str,
    #[case] before: Value,
    #[case] after: Value,
    #[case] instead: &str,
) {
    let space = Space::new().await;
    let path = format!("spec.{field}");
    let set = with(kind, field, &before);
    space.created(kind, "set", set.clone()).await;
    space.created(kind, "unset", minimal(kind)).await;

    let changed = space.replace(kind, "set", with(kind, field, &after)).await;
    assert_immutable(changed, &path, instead);
    let unset = space.replace(kind, "set", minimal(kind)).await;
    assert_immutable(unset, &path, instead);
    let set_later = space.replace(kind, "unset", set.clone()).await;
    assert_immutable(set_later, &path, instead);

    let left_alone = space.replaced(kind, "set", set).await;
    assert_eq!(left_alone["spec"][field], before);
    space.replaced(kind, "unset", minimal(kind)).await;
}

/// Proves: P-immutable
#[rstest]
#[case::cancel("Run", "cancel", json!(true))]
#[case::suspend_before_the_submission("Run", "suspend", json!(true))]
#[case::deadline("Run", "activeDeadlineSeconds", json!(60))]
#[case::time_to_live("Run", "ttlSecondsAfterFinished", json!(0))]
#[case::deletion_policy("Run", "deletionPolicy", json!("Orphan"))]
#[case::ready_when("Run", "readyWhen", json!("Accepted"))]
#[case::priority_before_the_submission("Run", "priority", json!(5))]
#[case::token_secret("Workspace", "tokenSecretRef", json!({"name": "other"}))]
#[case::ca_secret("Workspace", "caSecretRef", json!({"name": "other", "key": "ca.pem"}))]
#[case::rate_limit("Workspace", "rateLimit", json!({"requestsPerSecond": 5, "burst": 5}))]
#[case::suspend_of_a_workspace("Workspace", "suspend", json!(true))]
#[case::limit("Workspace", "maxActiveRuns", json!(0))]
#[case::cluster_token_secret("ClusterWorkspace", "tokenSecretRef", json!({"name": "other"}))]
#[case::cluster_limit("ClusterWorkspace", "maxActiveRuns", json!(10))]
#[case::limit_of_a_namespace("ClusterWorkspace", "maxActiveRunsPerNamespace", json!(4))]
#[case::no_selector("ClusterWorkspace", "namespaceSelector", json!({}))]
#[case::selector(
    "ClusterWorkspace", "namespaceSelector",
    json!({"matchExpressions": [{"key": "team", "operator": "In", "values": ["a", "b"]}]})
)]
#[case::schedules("RunSchedule", "schedules", json!(["@hourly", "5 4 * * MON-FRI"]))]
#[case::time_zone("RunSchedule", "timeZone", json!("Europe/Berlin"))]
#[case::suspend_of_a_schedule("RunSchedule", "suspend", json!(true))]
#[case::concurrency("RunSchedule", "concurrencyPolicy", json!("Replace"))]
#[case::starting_deadline("RunSchedule", "startingDeadlineSeconds", json!(60))]
#[case::catch_up("RunSchedule", "catchUp", json!("Latest"))]
#[case::retries("RunSchedule", "retryPolicy", json!({"limit": 5, "backoffSeconds": 1}))]
#[case::history("RunSchedule", "successfulRunsHistoryLimit", json!(0))]
#[case::template("RunSchedule", "template", json!({"spec": {"workload": {"image": "y"}}}))]
#[tokio::test]
async fn a_mutable_field_can_be_set_later(
    #[case] kind: &str,
    #[case] field: &str,
    #[case] value: Value,
) {
    let space = Space::new().await;
    let created = space.created(kind, "a", minimal(kind)).await;
    let set = space.replaced(kind, "a", with(kind, field, &value)).await;
    assert_eq!(set["spec"][field], value);
    if field != "cancel" {
        let unset = space.replaced(kind, "a", minimal(kind)).await;
        assert_eq!(unset["spec"][field], created["spec"][field]);
    }
}
