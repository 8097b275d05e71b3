//! Whole lives, step by step.

use rstest::rstest;
use run_operator::{
    api::{Phase, Reason},
    decide::{EventDraft, WorkspaceView},
};

use crate::{
    support::{Case, FINALIZER, bare, condition, hopeless, not_ready, problem, session},
    world::{Fate, World},
};

/// Proves: B-writes
#[test]
fn the_happy_path_makes_no_call_and_no_write_beyond_the_budget() {
    let mut world = World::new(Case::new()).script(&["running", "succeeded"]);
    world.play(1000);
    assert_eq!(
        world.log,
        [
            "intent 1",
            "submit",
            "status Active",
            "refresh",
            "status Active",
            "refresh",
            "status Succeeded",
            "release"
        ]
    );
    assert_eq!(world.case.run.metadata.finalizers, None);
    world.play(100_000);
    assert_eq!(world.log.len(), 8, "terminal is absorbing");
}

/// Proves: R1, P-same-bytes
#[test]
fn a_lost_answer_is_retried_with_the_same_key_and_bytes() {
    let mut world = World::new(Case::new())
        .fate(Fate::AnswerLost)
        .fate(Fate::Lost)
        .script(&["succeeded"]);
    world.play(1000);
    let posts = &world.service.posts;
    assert_eq!(posts.len(), 3);
    assert!(posts.iter().all(|p| *p == posts[0]), "{posts:?}");
    assert_eq!(world.service.runs.len(), 1);
    assert_eq!(
        world.case.run.status.and_then(|s| s.phase),
        Some(Phase::Succeeded)
    );
}

/// Kills the process before step `n` of a life with every kind of fault, and continues with the next process.
/// Proves: P-at-most-one
#[rstest]
fn a_crash_at_any_step_leaves_one_run(
    #[values(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10)] crash_at: usize,
    #[values(None, Some(Fate::AnswerLost), Some(Fate::Lost))] fate: Option<Fate>,
) {
    let mut world = World::new(Case::new()).script(&["running", "running", "succeeded"]);
    world.service.fates.extend(fate);
    for _ in 0..crash_at {
        if let Err(Some(next)) = world.step() {
            world.case.now = next;
        }
    }
    let owner_before = world.case.settings.process.clone();
    world.crash();
    world.play(3000);
    assert_eq!(world.service.runs.len(), 1, "{:?}", world.log);
    let status = world.case.run.status.expect("a status");
    assert_eq!(status.phase, Some(Phase::Succeeded), "{:?}", world.log);
    let posts = &world.service.posts;
    assert!(posts.iter().all(|p| *p == posts[0]));
    assert_eq!(world.case.run.metadata.finalizers, None);
    assert_ne!(owner_before, world.case.settings.process);
}

/// Proves: P-owner-posts
#[test]
fn another_process_takes_the_intent_over_before_it_posts() {
    let mut world = World::new(Case::new()).fate(Fate::AnswerLost);
    world.step().expect("the intent");
    world.step().expect("the POST");
    world.crash();
    world.play(0);
    assert_eq!(
        world.log[..5],
        ["intent 1", "submit", "crash", "intent 2", "submit"]
    );
    assert_eq!(world.service.runs.len(), 1);
}

/// Deletes at every step of a life, with a crash or without: nothing is left behind.
/// Proves: P-none-left
#[rstest]
fn a_deletion_at_any_step_leaves_no_live_run(
    #[values(0, 1, 2, 3, 4, 5, 6)] delete_at: usize,
    #[values(false, true)] crash: bool,
    #[values(
        None,
        Some(Fate::AnswerLost),
        Some(Fate::Lost),
        Some(Fate::Answered(hopeless())),
        Some(Fate::Answered(problem(403, "no"))),
        Some(Fate::Answered(bare(404)))
    )]
    fate: Option<Fate>,
) {
    let mut world = World::new(Case::new()).script(&["running"]);
    world.service.fates.extend(fate);
    for _ in 0..delete_at {
        if let Err(Some(next)) = world.step() {
            world.case.now = next;
        }
    }
    world.case.delete();
    if crash && !world.gone() {
        world.crash();
    }
    // The service needs a while to cancel.
    for seconds in [30, 60, 90, 600] {
        world.play(seconds);
        if seconds == 90 && world.state("run-1").as_deref() == Some("cancelling") {
            world.set_state("run-1", "cancelled");
        }
    }
    assert!(world.gone(), "{:?}", world.log);
    let left = world.state("run-1");
    assert!(
        matches!(left.as_deref(), None | Some("cancelled")),
        "{left:?} {:?}",
        world.log
    );
}

/// Proves: D-cancel, D-cancelling
#[test]
fn a_run_stuck_cancelling_5_minutes_is_released_with_an_event() {
    let mut world = World::new(Case::new().submitted("running"));
    world
        .service
        .runs
        .insert("k".into(), (vec![], "run-1=running".into()));
    world.case.delete();
    world.play(250);
    assert!(!world.gone(), "{:?}", world.log);
    world.play(1000);
    assert!(world.gone(), "{:?}", world.log);
    let event = EventDraft::cancel_unconfirmed("run-1");
    assert!(world.events.contains(&event));
    assert_eq!(
        world.case.reasons(),
        ["Submitted", "Cancelling", "CancelUnconfirmed"]
    );
    assert_eq!(world.service.cancels, 1);
}

/// Proves: P-none-left, D-vanished
#[test]
fn an_object_that_vanished_has_its_run_cancelled() {
    let mut case = Case::new().submitted("running");
    case = case.vanish();
    let mut world = World::new(case);
    world
        .service
        .runs
        .insert("k".into(), (vec![], "run-1=running".into()));
    world.play(100);
    world.set_state("run-1", "cancelled");
    world.play(1000);
    assert!(world.gone());
    assert_eq!(world.service.cancels, 1);
    assert_eq!(world.status_writes, 0, "there is nothing to write to");
}

/// Proves: D-not-found
#[test]
fn a_run_purged_after_its_cancel_is_released_after_two_404s() {
    let mut world = World::new(Case::new().submitted("cancelling").status(|s| {
        s.cancel_accepted_time = s.submission_time.clone();
    }));
    world.case.delete();
    world.play(100);
    assert!(world.gone(), "{:?}", world.log);
    assert_eq!(world.service.cancels, 1);
    assert_eq!(world.log.last().map(String::as_str), Some("release"));
}

/// Proves: P-terminal
#[test]
fn a_run_that_was_lost_and_then_deleted_is_asked_for_once_more() {
    let mut world = World::new(Case::new().submitted("running"));
    world.play(1000);
    let status = world.case.run.status.clone().expect("a status");
    assert_eq!(
        condition(&status, "Finished"),
        Some(("True".into(), "RunNotFound".into()))
    );
    assert_eq!(
        world.case.run.metadata.finalizers,
        Some(vec![FINALIZER.to_owned()])
    );
    let gets = world.log.iter().filter(|l| *l == "refresh").count();
    assert!((3..=8).contains(&gets), "{gets} GETs");
    assert!(world.case.now >= crate::support::at(120));
    world.crash();
    world.case.delete();
    world.play(5000);
    assert!(world.gone(), "{:?}", world.log);
    assert_eq!(world.service.cancels, 1);
    let tail = &world.log[world.log.len() - 3..];
    assert_eq!(tail, ["cancel", "refresh", "release"]);
}

#[test]
fn cancel_true_cancels_once_and_ends_as_cancelled() {
    let case = Case::new()
        .submitted("running")
        .spec(|s| s.cancel = Some(true));
    let mut world = World::new(case);
    world
        .service
        .runs
        .insert("k".into(), (vec![], "run-1=running".into()));
    world.play(10);
    world.set_state("run-1", "cancelled");
    world.play(1000);
    let status = world.case.run.status.clone().expect("a status");
    assert_eq!(status.phase, Some(Phase::Cancelled));
    assert!(status.cancel_accepted_time.is_some());
    assert_eq!(
        condition(&status, "Ready").map(|c| c.0),
        Some("True".into())
    );
    assert_eq!(world.service.cancels, 1);
}

/// Proves: P-deadline
#[test]
fn a_deadline_that_passes_cancels_and_fails_the_run() {
    let case = Case::new().spec(|s| s.active_deadline_seconds = Some(100));
    let mut world = World::new(case).script(&["running"]);
    world.play(99);
    assert_eq!(world.service.cancels, 0);
    world.play(110);
    assert_eq!(world.service.cancels, 1);
    world.set_state("run-1", "cancelled");
    world.play(1000);
    let status = world.case.run.status.expect("a status");
    assert_eq!(status.phase, Some(Phase::Failed));
    assert_eq!(
        condition(&status, "Failed"),
        Some(("True".into(), "DeadlineExceeded".into()))
    );
}

#[test]
fn spec_cancel_in_doubt_resolves_the_run_and_then_cancels_it() {
    let mut world = World::new(Case::new()).fate(Fate::AnswerLost);
    world.step().expect("the intent");
    world.step().expect("the POST");
    world.case.run.spec.cancel = Some(true);
    world.play(10);
    assert_eq!(world.service.posts.len(), 2);
    assert_eq!(world.service.runs.len(), 1);
    assert_eq!(world.service.cancels, 1);
}

/// Proves: R3, P-rotation, F-401
#[test]
fn an_expired_token_fails_no_run_and_a_new_session_resumes_it() {
    let mut world = World::new(Case::new()).fate(Fate::Answered(problem(401, "token_expired")));
    world.play(10_000);
    assert_eq!(world.log, ["intent 1", "submit"]);
    world.case.view = not_ready();
    world.play(10_000);
    assert_eq!(world.log, ["intent 1", "submit", "status Pending"]);
    world.case.view = WorkspaceView::Ready(session(2));
    world.step().expect("the POST");
    assert_eq!(world.service.runs.len(), 1);
}

/// Proves: F-401
#[test]
fn repeated_401s_with_a_verified_token_back_off() {
    let mut world = World::new(Case::new());
    for number in 2..6 {
        world
            .service
            .fates
            .push_back(Fate::Answered(problem(401, "token_expired")));
        world.play(0);
        world.case.view = WorkspaceView::Ready(session(number));
    }
    assert_eq!(world.service.posts.len(), 2, "{:?}", world.log);
    let status = world.case.run.status.expect("a status");
    assert_eq!(
        condition(&status, "Reconciling"),
        Some(("True".into(), Reason::Retrying.to_string()))
    );
}

/// Proves: P-ttl
#[test]
fn a_finished_object_is_deleted_when_its_ttl_passes() {
    let case = Case::new().spec(|s| s.ttl_seconds_after_finished = Some(600));
    let mut world = World::new(case).script(&["succeeded"]);
    world.play(599);
    assert!(!world.gone());
    world.play(700);
    assert!(world.gone(), "{:?}", world.log);
    assert_eq!(world.log.last().map(String::as_str), Some("delete"));
}

/// Proves: F-final
#[test]
fn a_retry_submits_a_refused_run_once_and_adopts_no_run() {
    let mut world = World::new(Case::new()).fate(Fate::Answered(problem(403, "forbidden")));
    world.play(1000);
    assert_eq!(world.service.posts.len(), 1);
    world.crash();
    world.play(1000);
    assert_eq!(
        world.service.posts.len(),
        1,
        "the refusal outlives the process"
    );
    world.case = world.case.retry("1");
    world.play(1001);
    assert_eq!(world.service.posts.len(), 2);
    assert_eq!(world.service.runs.len(), 1);
    let status = world.case.run.status.expect("a status");
    assert_eq!(status.handled_retry.as_deref(), Some("1"));
    assert_eq!(status.refusal, None);
    assert_eq!(status.last_error, None);
}
