//! The status: its default, what is written once, and its size.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    JSONSchemaProps, JSONSchemaPropsOrArray,
};
use rstest::rstest;
use serde_json::{Map, Value, json};

use run_operator::api::crd;

use crate::namespace::{Space, assert_immutable, assert_refused};

const STATUS_LIMIT: usize = 32 * 1024;

/// Proves: P-status-default
#[rstest]
#[case::run("Run", json!({"workload": {"image": "x"}}))]
#[case::workspace("Workspace", json!({}))]
#[case::cluster_workspace("ClusterWorkspace", json!({}))]
#[tokio::test]
async fn a_fresh_object_is_seen_to_be_unobserved(#[case] kind: &str, #[case] spec: Value) {
    let space = Space::new().await;
    let created = space.create(kind, "a", spec).await.unwrap();
    assert_eq!(created["status"], json!({"observedGeneration": -1}));
}

fn workspace(name: &str) -> Value {
    json!({"kind": "Workspace", "name": name, "uid": "u-1", "baseUrl": "https://a.example/api/v1"})
}

/// Proves: P-one-way, P-place
#[rstest]
#[case::run_id("runId", json!("r-1"), json!("r-2"), "create a new Run")]
#[case::workspace("workspace", workspace("a"), workspace("b"), "create a new Run")]
#[tokio::test]
async fn what_is_written_once_can_t_be_changed_or_unset(
    #[case] field: &str,
    #[case] before: Value,
    #[case] after: Value,
    #[case] instead: &str,
) {
    let space = Space::new().await;
    let path = format!("status.{field}");
    space
        .create("Run", "a", json!({"workload": {"image": "x"}}))
        .await
        .unwrap();
    space
        .patch_status("Run", "a", json!({"phase": "Pending"}))
        .await
        .unwrap();
    space
        .patch_status("Run", "a", json!({field: before}))
        .await
        .unwrap();

    let refused = [
        space.patch_status("Run", "a", json!({field: after})).await,
        space.patch_status("Run", "a", json!({field: null})).await,
        space
            .replace_status("Run", "a", Some(json!({"phase": "Active"})))
            .await,
        space.replace_status("Run", "a", Some(json!({}))).await,
        space.replace_status("Run", "a", None).await,
    ];
    for answer in refused {
        assert_immutable(answer, &path, instead);
    }
    let kept = space
        .patch_status("Run", "a", json!({field: before, "phase": "Active"}))
        .await;
    assert_eq!(kept.unwrap()["status"]["phase"], "Active");
}

#[tokio::test]
async fn an_identity_can_t_be_added_to_a_workspace_that_was_written() {
    let space = Space::new().await;
    space
        .create("Run", "a", json!({"workload": {"image": "x"}}))
        .await
        .unwrap();
    space
        .patch_status("Run", "a", json!({"workspace": workspace("a")}))
        .await
        .unwrap();
    let answer = space
        .patch_status("Run", "a", json!({"workspace": {"identity": "i"}}))
        .await;
    assert_immutable(answer, "status.workspace", "create a new Run");
}

fn condition(kind: &str, status: &str) -> Value {
    json!({
        "type": kind, "status": status, "reason": "Active", "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    })
}

fn many(count: usize, item: impl Fn(usize) -> Value) -> Vec<Value> {
    (0..count).map(item).collect()
}

/// Proves: P-explain
#[rstest]
#[case::phase(json!({"phase": "Paused"}), "status.phase", "supported values")]
#[case::observed_generation(json!({"observedGeneration": -2}), "status.observedGeneration", "greater than or equal to -1")]
#[case::run_id(json!({"runId": ""}), "status.runId", "at least 1 chars")]
#[case::state(json!({"state": "x".repeat(257)}), "status.state", "more than 256")]
#[case::events(
    json!({"events": many(11, |_| json!({"type": "x", "time": "2026-01-01T00:00:00Z"}))}),
    "status.events", "at most 10 items"
)]
#[case::event_data(
    json!({"events": [{"type": "x", "time": "2026-01-01T00:00:00Z", "data": "x".repeat(513)}]}),
    "status.events[0].data", "more than 512"
)]
#[case::one_condition_twice(
    json!({"conditions": [condition("Ready", "True"), condition("Ready", "False")]}),
    "status.conditions[1]", "Duplicate value"
)]
#[case::conditions(
    json!({"conditions": many(11, |i| condition(&format!("C{i}"), "True"))}),
    "status.conditions", "at most 10 items"
)]
#[case::condition_status(
    json!({"conditions": [condition("Ready", "yes")]}), "status.conditions[0].status", "supported values"
)]
#[tokio::test]
async fn a_status_out_of_bounds_is_refused(
    #[case] status: Value,
    #[case] path: &str,
    #[case] message: &str,
) {
    let space = Space::new().await;
    space
        .create("Run", "a", json!({"workload": {"image": "x"}}))
        .await
        .unwrap();
    let status = merged(&json!({"observedGeneration": 1}), &status);
    assert_refused(
        space.replace_status("Run", "a", Some(status)).await,
        path,
        message,
    );
}

fn merged(base: &Value, over: &Value) -> Value {
    let mut all: Map<String, Value> = base.as_object().cloned().unwrap_or_default();
    all.extend(over.as_object().cloned().unwrap_or_default());
    Value::Object(all)
}

/// The largest value that a schema admits, with `index` to distinguish the items of a list.
fn largest(path: &str, schema: &JSONSchemaProps, index: usize) -> Value {
    let bound = |limit: Option<i64>| {
        let limit = limit.unwrap_or_else(|| panic!("{path} has no upper bound"));
        usize::try_from(limit).unwrap()
    };
    match schema.type_.as_deref() {
        Some("object") => {
            let fields = schema.properties.iter().flatten();
            let field = |(name, field): (&String, &JSONSchemaProps)| {
                (
                    name.clone(),
                    largest(&format!("{path}.{name}"), field, index),
                )
            };
            Value::Object(fields.map(field).collect())
        }
        Some("array") => {
            let Some(JSONSchemaPropsOrArray::Schema(items)) = &schema.items else {
                panic!("{path} has no schema for its items");
            };
            many(bound(schema.max_items), |i| {
                largest(&format!("{path}[]"), items, i)
            })
            .into()
        }
        Some("string") => match (&schema.enum_, schema.format.as_deref()) {
            (Some(values), _) => {
                let longest = values.iter().max_by_key(|value| value.0.to_string().len());
                longest.unwrap().0.clone()
            }
            (None, Some("date-time")) => json!("2026-01-01T00:00:00Z"),
            _ => format!("x{index:x<width$}", width = bound(schema.max_length) - 1).into(),
        },
        Some("integer") => schema.maximum.map_or(json!(i64::MAX), |_| json!(599)),
        Some("boolean") => json!(false),
        other => panic!("{path} has the type {other:?}"),
    }
}

/// Proves: P-status-bounded
#[rstest]
#[case::run("Run", json!({"workload": {"image": "x"}}))]
#[case::workspace("Workspace", json!({}))]
#[case::cluster_workspace("ClusterWorkspace", json!({}))]
#[tokio::test]
async fn the_largest_status_is_accepted_and_under_32_kib(#[case] kind: &str, #[case] spec: Value) {
    let crd = if kind == "Run" {
        crd::run()
    } else {
        crd::workspace()
    };
    let schema = crd.spec.versions[0]
        .schema
        .as_ref()
        .unwrap()
        .open_api_v3_schema
        .as_ref()
        .unwrap();
    let status = largest("status", &schema.properties.as_ref().unwrap()["status"], 0);

    let space = Space::new().await;
    space.create(kind, "a", spec).await.unwrap();
    let written = space
        .replace_status(kind, "a", Some(status.clone()))
        .await
        .unwrap();
    assert_eq!(written["status"], status);
    let bytes = written["status"].to_string().len();
    println!("the largest status of a {kind} has {bytes} bytes");
    assert!(bytes < STATUS_LIMIT, "{bytes} bytes");
}
