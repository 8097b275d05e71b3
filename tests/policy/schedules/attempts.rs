//! Further attempts at a tick.

use rstest::rstest;
use run_operator::api::{Phase, Reason};
use serde_json::json;

use super::world::{World, time};

/// The Run of 01:00 is active at 01:10.
pub(crate) fn retried(limit: u8, seconds: u32) -> World {
    let policy = json!({"limit": limit, "backoffSeconds": seconds});
    let mut world = World::new(&json!({"retryPolicy": policy}));
    world.at("01:00:00").clock_shows("01:10:00");
    world
}

/// Proves: P-schedule-policy
#[test]
fn a_tick_whose_run_failed_is_tried_again_after_a_pause_and_so_often() {
    let mut world = retried(2, 120);
    world.fails("0100");
    assert_eq!(world.due, Some(time("01:12:00")));
    assert_eq!(world.at("01:11:59").log(), "created 0100");
    assert_eq!(world.at("01:12:00").log(), "created 0100, created 0100.a2");
    let key = world.named("0100.a2").spec.idempotency_key.as_deref();
    assert_eq!(key, Some("uid-of-nightly.202611300100.a2"));
    world.clock_shows("01:20:00");
    world.fails("0100.a2");
    world.at("01:22:00").clock_shows("01:30:00");
    world.fails("0100.a3");
    let log = "created 0100, created 0100.a2, created 0100.a3";
    assert_eq!(world.at("01:59:59").log(), log);
    assert_eq!(world.at("02:00:00").log(), format!("{log}, created 0200"));
}

/// Proves: P-schedule-policy
#[rstest]
#[case::succeeded(Phase::Succeeded, Reason::Succeeded)]
#[case::cancelled(Phase::Cancelled, Reason::Cancelled)]
#[case::too_late(Phase::Failed, Reason::DeadlineExceeded)]
#[case::refused(Phase::Failed, Reason::CreateRefused)]
#[case::in_doubt(Phase::Failed, Reason::SubmissionUnknown)]
#[case::lost(Phase::Failed, Reason::RunNotFound)]
fn only_a_run_that_failed_itself_is_followed_by_another(
    #[case] phase: Phase,
    #[case] reason: Reason,
) {
    let mut world = retried(5, 1);
    world.ends("0100", phase, reason);
    assert_eq!(world.at("01:59:59").log(), "created 0100");
}

/// Proves: P-schedule-policy
#[test]
fn a_new_tick_supersedes_a_retry() {
    let mut world = retried(1, 3600);
    world.fails("0100");
    world.at("02:00:00").at("02:10:00").at("02:59:59");
    assert_eq!(world.log(), "created 0100, created 0200");
}

/// Its key may be forgotten by then, so that it would be a second run.
/// Proves: P-schedule
#[test]
fn a_further_attempt_whose_run_is_deleted_is_not_begun_again() {
    let mut world = retried(1, 60);
    world.fails("0100");
    world.at("01:11:00").runs.pop();
    world.restart();
    let log = "created 0100, created 0100.a2";
    assert_eq!(world.at("01:11:30").at("01:59:59").log(), log);
    assert_eq!(world.status().last_attempt, Some(2));
    world.at("02:00:00");
    assert_eq!(world.status().last_attempt, None);
}

/// It waits for the Run that a person triggered.
/// Proves: P-schedule-policy
#[test]
fn a_new_tick_supersedes_a_retry_that_waits() {
    let mut world = retried(1, 60);
    world.trigger("nightly-x7f2k");
    world.fails("0100");
    world.at("01:11:00");
    assert_eq!(world.status().pending_tick.unwrap().attempt, 2);
    assert_eq!(world.at("02:00:00").log(), "created 0100, skipped 0200");
    world.end_all();
    assert_eq!(world.at("02:59:59").log(), "created 0100, skipped 0200");
}

/// Proves: P-schedule-policy
#[test]
fn a_failed_run_stays_while_another_attempt_may_follow() {
    let policy = json!({"limit": 1, "backoffSeconds": 120});
    let spec = json!({"retryPolicy": policy, "failedRunsHistoryLimit": 0});
    let mut world = World::new(&spec);
    world.at("01:00:00").clock_shows("01:10:00");
    world.fails("0100");
    assert_eq!(world.at("01:11:00").names(), ["0100"]);
    assert_eq!(world.at("01:12:00").names(), ["0100.a2"]);
    world.fails("0100.a2");
    let log = "created 0100, created 0100.a2, deleted 0100, deleted 0100.a2";
    assert_eq!(world.at("01:59:59").log(), log);
}
