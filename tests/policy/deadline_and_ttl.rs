//! `activeDeadlineSeconds` and `ttlSecondsAfterFinished`: from when they count, and what changes them.

use run_operator::api::Phase;

use crate::support::{Case, condition, view};

/// Submitted at second 0 and running.
fn running() -> Case {
    Case::new()
        .submitted("running")
        .got(Ok(view("running")))
        .settle()
}

// Proves: P-deadline
#[test]
fn a_changed_deadline_still_counts_from_the_submission() {
    let case = running()
        .spec(|s| s.active_deadline_seconds = Some(30))
        .at(20);
    let shorter = case.clone().spec(|s| s.active_deadline_seconds = Some(10));
    assert_eq!(shorter.does(), "cancel", "it has passed already");
    let longer = case
        .clone()
        .spec(|s| s.active_deadline_seconds = Some(60))
        .at(30);
    assert_ne!(longer.does(), "cancel");
    assert_eq!(longer.at(61).does(), "cancel");
    let none = case.spec(|s| s.active_deadline_seconds = None);
    assert_ne!(none.at(1000).does(), "cancel");
}

// Proves: P-deadline
#[test]
fn a_long_time_in_the_queue_counts_toward_the_deadline() {
    let queued = Case::new()
        .submitted("queued")
        .spec(|s| s.active_deadline_seconds = Some(30))
        .got(Ok(view("queued")))
        .settle();
    let case = queued.at(20).got(Ok(view("running"))).settle();
    assert_ne!(case.clone().at(30).does(), "cancel");
    assert_eq!(case.at(31).does(), "cancel");
}

/// Nothing else that cancels can be taken back, so it is known who it was.
// Proves: P-deadline
#[test]
fn a_deadline_changed_after_its_cancel_is_still_the_reason() {
    let case = running()
        .spec(|s| s.active_deadline_seconds = Some(30))
        .at(30)
        .cancelled(Ok(view("cancelling")))
        .got(Ok(view("cancelling")))
        .settle()
        .spec(|s| s.active_deadline_seconds = Some(3000));
    let told = |case: Case| {
        let status = case.got(Ok(view("cancelled"))).settled();
        (status.phase, condition(&status, "Failed").map(|c| c.1))
    };
    let exceeded = (Some(Phase::Failed), Some("DeadlineExceeded".to_owned()));
    assert_eq!(told(case.clone().at(40)), exceeded);
    assert_eq!(told(case.restarted().at(40)), exceeded);
    let elsewhere = running()
        .spec(|s| s.active_deadline_seconds = Some(30))
        .at(20);
    assert_eq!(told(elsewhere).1.as_deref(), Some("CancelledElsewhere"));
}

// Proves: P-deadline
#[test]
fn the_services_final_state_outranks_the_deadline() {
    for (state, phase, reason) in [
        ("succeeded", Phase::Succeeded, "Succeeded"),
        ("failed", Phase::Failed, "Failed"),
        ("cancelled", Phase::Failed, "DeadlineExceeded"),
    ] {
        let case = running()
            .spec(|s| s.active_deadline_seconds = Some(30))
            .at(31);
        let status = case.got(Ok(view(state))).settled();
        assert_eq!(status.phase, Some(phase), "{state}");
        assert_eq!(
            condition(&status, "Finished").map(|c| c.1).as_deref(),
            Some(reason)
        );
    }
}

// Proves: P-deadline, P-ttl
#[test]
fn extreme_deadlines_and_ttls_do_not_overflow() {
    let far = running().spec(|s| s.active_deadline_seconds = Some(i64::MAX));
    assert_ne!(far.at(1).does(), "cancel");
    // The schema refuses these; an older one may have accepted them.
    for odd in [0, -1, i64::MIN] {
        let case = running().spec(|s| s.active_deadline_seconds = Some(odd));
        case.at(1).settled();
    }
    for (ttl, does) in [
        (i32::MAX, "nothing"),
        (0, "delete"),
        (-1, "nothing"),
        (i32::MIN, "nothing"),
    ] {
        let mut case = running()
            .spec(|s| s.ttl_seconds_after_finished = Some(ttl))
            .at(5)
            .got(Ok(view("succeeded")))
            .settle();
        case.run.metadata.finalizers = None;
        assert_eq!(case.does(), does, "{ttl}");
    }
}
