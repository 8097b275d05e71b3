use serde_json::json;

use super::*;

fn run(version: u64, status: &serde_json::Value) -> Arc<Run> {
    let run = json!({
        "apiVersion": "run-operator.dev/v1alpha1", "kind": "Run",
        "metadata": {"name": "train", "namespace": "team", "uid": "u", "resourceVersion": version.to_string()},
        "spec": {"workload": {"image": "i"}}, "status": status,
    });
    Arc::new(serde_json::from_value(run).unwrap())
}

fn tracked(status: &serde_json::Value) -> TrackedRun<Run> {
    let mut tracked = TrackedRun::new(Memory::default());
    tracked.observe(run(1, status));
    tracked
}

/// Proves: F-stale
#[test]
fn the_newest_version_stands_whoever_read_or_wrote_it() {
    let mut tracked = tracked(&json!({}));
    tracked.wrote(run(3, &json!({"runId": "r"})));
    assert_eq!(
        *tracked.observe(run(2, &json!({}))),
        *run(3, &json!({"runId": "r"}))
    );
    assert_eq!(*tracked.observe(run(4, &json!({}))), *run(4, &json!({})));
}

/// Proves: D-vanished
#[test]
fn cleanup_waits_for_the_reconcile_and_the_call_in_flight() {
    let mut tracked = tracked(&json!({}));
    assert!(tracked.begin_reconcile() && !tracked.begin_reconcile());
    assert_eq!(tracked.cleanup(), Cleanup::Busy);
    tracked.begin_call();
    assert_eq!(tracked.end_reconcile(), None);
    assert_eq!(
        (tracked.activity(), tracked.cleanup()),
        (Activity::Call, Cleanup::Busy)
    );
    assert!(tracked.reconcilable());
    tracked.end_call();
    assert_eq!(tracked.cleanup(), Cleanup::Done);
    assert!(!tracked.reconcilable());
}

#[test]
fn it_is_idle_with_nothing_in_flight_and_no_cleanup_begun() {
    let mut busy = tracked(&json!({}));
    assert!(busy.idle());
    assert!(busy.begin_reconcile() && !busy.idle());
    assert_eq!(busy.end_reconcile(), None);
    assert!(busy.idle());
    let mut gone = tracked(&json!({}));
    gone.release_answered(Ok(false));
    assert!(gone.idle());
    gone.release_answered(Ok(true));
    assert!(!gone.idle());
}

#[test]
fn the_result_of_a_call_is_unprocessed_until_a_reconcile_begins() {
    let mut run = tracked(&json!({}));
    run.begin_call();
    assert!(!run.unprocessed());
    run.end_call();
    assert!(run.unprocessed());
    assert!(run.begin_reconcile() && !run.unprocessed());
}

#[test]
fn a_memory_remembers_what_it_learns() {
    let mut memory = Memory::default();
    memory.change(|memory| memory.run_id = Some("run-1".to_owned()));
    assert_eq!(Remembers::memory(&memory).run_id.as_deref(), Some("run-1"));
}

#[test]
fn a_reconcile_requested_during_another_follows_at_its_version() {
    let mut tracked = tracked(&json!({}));
    let newer = run(2, &json!({}));
    assert!(tracked.begin_reconcile_of(run(1, &json!({}))).is_some());
    assert!(tracked.begin_reconcile_of(Arc::clone(&newer)).is_none());
    assert_eq!(tracked.end_reconcile(), Some(Arc::clone(&newer)));
    assert_eq!(tracked.begin_reconcile_of(Arc::clone(&newer)), Some(newer));
    assert_eq!(tracked.end_reconcile(), None);
}

#[test]
fn what_is_seen_during_a_call_is_taken_in_after_it() {
    let mut tracked = tracked(&json!({}));
    assert!(tracked.begin_reconcile());
    tracked.begin_call();
    tracked.end_reconcile();
    let other = run(2, &json!({"runId": "r"}));
    assert!(tracked.begin_reconcile_of(Arc::clone(&other)).is_none());
    assert_eq!(tracked.latest(), Some(&run(1, &json!({}))));
    tracked.end_call();
    assert_eq!(tracked.end_reconcile(), None);
    assert_eq!(tracked.begin_reconcile_of(Arc::clone(&other)), Some(other));
}

/// Proves: D-vanished
#[test]
fn a_missing_object_starts_one_cleanup_however_it_was_noticed() {
    // By the watch.
    let mut missed = tracked(&json!({"runId": "r"}));
    assert!(missed.begin_cleanup() && !missed.begin_cleanup() && !missed.deleted());
    missed.confirm_deleted();
    assert_eq!(missed.presence(), Presence::Cancelling);
    assert!(!missed.begin_cleanup());
    // By a write.
    let mut written = tracked(&json!({"runId": "r"}));
    written.confirm_deleted();
    assert!(written.deleted() && !written.reconcilable());
    assert!(written.begin_cleanup() && !written.begin_cleanup());
    // And exists after all.
    let mut found = tracked(&json!({"runId": "r"}));
    assert!(found.begin_cleanup());
    found.found();
    assert!(found.reconcilable() && found.begin_cleanup());
}

/// Proves: D-vanished
#[test]
fn a_deleted_run_needs_its_workspace_until_it_is_released() {
    let mut tracked = self::tracked(&json!({"runId": "r"}));
    assert!(matches!(tracked.cleanup(), Cleanup::Owed(_)));
    assert!(tracked.owed().is_some());
    tracked.release_answered(Ok(false));
    assert!(tracked.owed().is_none(), "it was released in good order");
    let mut posting = self::tracked(&json!({}));
    assert!(posting.owed().is_none());
    posting.begin_call();
    assert!(posting.owed().is_some(), "the POST may bring a runId");
}

#[test]
fn the_result_of_a_release_is_kept() {
    for (answer, presence) in [
        (Ok(true), Presence::Done),
        (Ok(false), Presence::Released),
        (Err(WriteFailure::Deleted), Presence::Released),
        (Err(WriteFailure::Other), Presence::Present),
    ] {
        let mut tracked = tracked(&json!({"runId": "r"}));
        tracked.release_answered(answer);
        assert_eq!(tracked.presence(), presence);
    }
}

/// The object was removed by force while its POST was under way: no version of it has the runId.
/// Proves: D-vanished
#[test]
fn a_run_that_only_memory_knows_is_owed_its_cancellation() {
    let mut memory = Memory::default();
    memory.run_id = Some("r".to_owned());
    let mut tracked = TrackedRun::new(memory);
    tracked.observe(run(1, &json!({})));
    assert!(matches!(tracked.cleanup(), Cleanup::Owed(_)));
}
