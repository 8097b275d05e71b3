#![allow(clippy::unwrap_used, reason = "a test stops at what it did not expect")]

use rstest::rstest;
use serde_json::{Value, json};

use crate::api::names;
use crate::controller::{
    apiserver::decode,
    state::fixtures::{intent, merged, phase, run},
};

use super::*;

fn counted(runs: impl IntoIterator<Item = (&'static str, Value)>) -> RunCounts {
    let mut counts = RunCounts::default();
    for (name, fields) in runs {
        counts.add(&run(name, fields).into(), &Contract::builtin().unwrap());
    }
    counts
}

fn condition(kind: &str, reason: &str) -> Value {
    let at = "2026-01-01T00:00:00Z";
    json!({"type": kind, "status": "True", "reason": reason, "message": "", "lastTransitionTime": at})
}

/// Proves: P-metrics
#[test]
fn a_run_is_counted_as_stalled_until_it_is_finished() {
    let with = |phase: &str, conditions: Value| json!({"status": {"phase": phase, "conditions": conditions}});
    let refused = json!([condition("Stalled", "Forbidden")]);
    let odd = json!([condition("Stalled", "made-up")]);
    let finished = json!([
        condition("Stalled", "Failed"),
        condition("Finished", "Failed")
    ]);
    let counts = counted([
        ("a", with("Pending", refused)),
        ("b", with("Pending", odd)),
        ("c", with("Failed", finished)),
    ]);
    assert_eq!(
        counts.stalled,
        Counts::from([("Forbidden", 1), ("Other", 1)])
    );
    assert_eq!(counts.phases, Counts::from([("Pending", 2), ("Failed", 1)]));
}

/// Proves: P-metrics, P-unmapped
#[test]
fn a_run_whose_state_is_not_mapped_is_counted_until_it_is_finished() {
    let with = |phase: &str, state: &str| json!({"status": {"phase": phase, "runID": "r", "state": state}});
    let counts = counted([
        ("a", with("Active", "odd")),
        ("b", with("Cancelling", "odd")),
        ("c", with("Active", "running")),
        ("d", with("Failed", "odd")),
    ]);
    assert_eq!(counts.not_mapped, 2);
}

/// Proves: P-metrics
#[test]
fn the_oldest_doubt_is_an_intent_without_an_answer_or_end() {
    let refusal = json!({"reason": "CreateRefused", "notCreated": true, "epoch": 1});
    let refused = json!({"status": {"refusal": refusal}});
    let submitted = json!({"status": {"runID": "r"}});
    let counts = counted([
        ("a", merged(intent("a", 2020), refused)),
        ("b", merged(intent("b", 2021), phase("Failed"))),
        ("c", intent("c", 2025)),
        ("d", intent("d", 2024)),
        ("e", intent("another", 2019)),
        ("f", merged(intent("f", 2018), submitted)),
    ]);
    let oldest = counts.oldest_doubt.map(|at| at.to_string());
    assert_eq!(counts.in_doubt, 2);
    assert_eq!(oldest.as_deref(), Some("2024-01-01T00:00:00Z"));
}

/// Proves: P-metrics, F-undecodable
#[test]
fn an_undecodable_run_is_pending_and_stalled_if_it_is_the_operator_s() {
    let spec = json!({"spec": {"workload": 1}});
    let held = json!({"metadata": {"finalizers": [names::FINALIZER]}});
    let counts = counted([("broken", merged(spec.clone(), held)), ("alien", spec)]);
    assert_eq!(counts.phases, Counts::from([("Pending", 2)]));
    assert_eq!(counts.stalled, Counts::from([("RunInvalid", 1)]));
}

/// Proves: P-metrics, P-schedule
#[rstest]
#[case::ready(json!({}), json!([condition("Ready", "Scheduled")]), ("True", None))]
#[case::suspended(
    json!({}), json!([condition("Ready", "Suspended"), condition("Suspended", "Suspended")]), ("True", None)
)]
#[case::new(json!({}), json!([]), ("Unknown", None))]
#[case::stalled(json!({}), json!([condition("Stalled", "ScheduleInvalid")]), ("Unknown", Some("ScheduleInvalid")))]
#[case::of_a_later_version(json!({}), json!([condition("Stalled", "made-up")]), ("Unknown", Some("Other")))]
#[case::undecodable(
    json!({"schedules": 1}), json!([condition("Ready", "Scheduled")]), ("False", Some("ScheduleInvalid"))
)]
fn a_schedule_is_counted_by_its_conditions(
    #[case] spec: Value,
    #[case] conditions: Value,
    #[case] counted: (&str, Option<&str>),
) {
    let schedule = json!({
        "metadata": {"name": "nightly", "namespace": "team", "uid": "s"},
        "spec": merged(json!({"schedules": ["17 2 * * *"]}), spec),
        "status": {"conditions": conditions},
    });
    let raw = serde_json::value::to_raw_value(&schedule).unwrap();
    assert_eq!(of_schedule(&decode::<RunSchedule>(&raw)), counted);
}

/// Proves: P-metrics, F-undecodable
#[rstest]
#[case::ready(json!({}), json!([condition("Ready", "Verified")]), ("True", "Verified"))]
#[case::new(json!({}), json!([]), ("Unknown", "Other"))]
#[case::undecodable(
    json!({"baseURL": 1}), json!([condition("Ready", "Verified")]), ("False", "WorkspaceInvalid")
)]
fn a_workspace_is_counted_by_its_ready_condition(
    #[case] spec: Value,
    #[case] conditions: Value,
    #[case] counted: (&str, &str),
) {
    let workspace = json!({
        "metadata": {"name": "default", "namespace": "team", "uid": "w"}, "spec": spec,
        "status": {"conditions": conditions},
    });
    let raw = serde_json::value::to_raw_value(&workspace).unwrap();
    assert_eq!(ready(&decode::<Workspace>(&raw)), counted);
}
