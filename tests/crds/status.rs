//! The status: what is written once, and its bounds.

use rstest::rstest;
use serde_json::{Value, json};

use crate::namespace::{Space, assert_immutable, assert_refused};

fn workspace(name: &str) -> Value {
    json!({"kind": "Workspace", "name": name, "uid": "u-1", "baseURL": "https://a.example/api/v1"})
}

/// Proves: P-one-way, P-place
#[rstest]
#[case::run_id("runID", json!("r-1"), json!("r-2"), "create a new Run")]
#[case::workspace("workspace", workspace("a"), workspace("b"), "create a new Run")]
#[case::later_identity("workspace", workspace("a"), json!({"identity": "i"}), "create a new Run")]
#[tokio::test]
async fn what_is_written_once_can_t_be_changed_or_unset(
    #[case] field: &str,
    #[case] before: Value,
    #[case] after: Value,
    #[case] instead: &str,
) {
    let space = Space::new().await;
    let path = format!("status.{field}");
    space.create_run("a").await;
    for status in [json!({"phase": "Pending"}), json!({field: before})] {
        space.with_status("Run", "a", status).await;
    }
    for patch in [json!({field: after}), json!({field: null})] {
        let answer = space.patch_status("Run", "a", patch).await;
        assert_immutable(answer, &path, instead);
    }
    for whole in [Some(json!({"phase": "Active"})), Some(json!({})), None] {
        let answer = space.replace_status("Run", "a", whole).await;
        assert_immutable(answer, &path, instead);
    }
    let same = json!({field: before, "phase": "Active"});
    let kept = space.with_status("Run", "a", same).await;
    assert_eq!(kept["status"]["phase"], "Active");
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

/// Proves: P-defaults
#[rstest]
#[case::phase(json!({"phase": "Paused"}), "status.phase", "supported values")]
#[case::observed_generation(json!({"observedGeneration": -2}), "status.observedGeneration", "greater than or equal to -1")]
#[case::run_id(json!({"runID": ""}), "status.runID", "at least 1 chars")]
#[case::state(json!({"state": "x".repeat(257)}), "status.state", "more than 256")]
#[case::kept_by(json!({"keptBy": "x".repeat(129)}), "status.keptBy", "more than 128")]
#[case::results(
    json!({"results": (0..17).map(|n| (format!("r{n}"), "x".into())).collect::<serde_json::Map<_, _>>()}),
    "status.results", "at most 16"
)]
#[case::result(json!({"results": {"a": "x".repeat(1025)}}), "status.results.a", "more than 1024")]
#[case::console_url(json!({"consoleURL": "x".repeat(2049)}), "status.consoleURL", "more than 2048")]
#[case::percent(json!({"progress": {"percent": 101}}), "status.progress.percent", "less than or equal to 100")]
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
    json!({"conditions": many(33, |i| condition(&format!("C{i}"), "True"))}),
    "status.conditions", "at most 32 items"
)]
#[case::condition_status(
    json!({"conditions": [condition("Ready", "yes")]}), "status.conditions[0].status", "supported values"
)]
#[tokio::test]
async fn a_status_out_of_bounds_is_refused(
    #[case] mut status: Value,
    #[case] path: &str,
    #[case] message: &str,
) {
    let space = Space::new().await;
    space.create_run("a").await;
    if status.get("observedGeneration").is_none() {
        status["observedGeneration"] = json!(1);
    }
    let answer = space.replace_status("Run", "a", Some(status)).await;
    assert_refused(answer, path, message);
}
