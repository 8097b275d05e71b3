//! One failed check of a Workspace is no outage.

use std::time::Duration;

use rstest::rstest;
use run_operator::{
    api::{ConditionType as Type, Reason, conditions},
    decide::{
        WorkspaceView,
        claims::needs_workspace,
        conditions::Why,
        delays::{check_again, next_check},
        failure::{Failure, FailureKind},
        workspace::{Check, Obstacle, Standing, ignores_failure, still_blocked},
    },
};

use crate::support::{
    BASE_URL, Case, at, bare, condition, identity_failed, lost, problem, unreadable, version_failed,
};

const VERIFIED: Standing = Standing {
    verified: true,
    failure_ignored: false,
};

fn stopped_by(obstacle: Obstacle) -> Check {
    Check {
        obstacle: Some(obstacle),
        ..Check::default()
    }
}

fn not_sent() -> Failure {
    Failure {
        kind: FailureKind::NotSent,
        ..lost()
    }
}

/// Proves: P-one-failure
#[rstest]
#[case::lost(lost(), true)]
#[case::unreadable(unreadable(), true)]
#[case::a_proxy_without_a_route(bare(404), true)]
#[case::a_proxy_that_forbids(bare(403), true)]
#[case::a_proxy_that_has_no_backend(bare(502), true)]
#[case::too_slow(problem(408, "timeout"), true)]
#[case::too_early(problem(425, "early"), true)]
#[case::too_many(problem(429, "slow_down"), true)]
#[case::too_many_for_good(Failure { retryable: Some(false), ..problem(429, "quota") }, false)]
#[case::out_of_order(problem(503, "busy"), true)]
#[case::a_rejected_token(problem(401, "unauthenticated"), true)]
#[case::another_workspace(problem(403, "forbidden"), false)]
#[case::no_such_path(problem(404, "no_route"), false)]
#[case::not_sent(not_sent(), false)]
fn a_first_failure_that_may_pass_is_failure_ignored(#[case] failure: Failure, #[case] over: bool) {
    for obstacle in [version_failed(failure.clone()), identity_failed(failure)] {
        assert_eq!(ignores_failure(&stopped_by(obstacle), VERIFIED), over);
    }
}

/// Proves: P-one-failure
#[rstest]
#[case::never_verified(Standing { verified: false, failure_ignored: false })]
#[case::the_second_in_a_row(Standing { verified: true, failure_ignored: true })]
fn a_failure_without_a_good_check_before_it_is_no_passing_one(#[case] standing: Standing) {
    let check = stopped_by(version_failed(lost()));
    assert!(!ignores_failure(&check, standing));
}

/// Proves: P-one-failure
#[rstest]
#[case(Reason::SecretNotFound)]
#[case(Reason::SecretKeyNotFound)]
#[case(Reason::TokenIsProviderKey)]
#[case(Reason::BaseURLNotAllowed)]
fn what_an_edit_did_counts_at_once(#[case] reason: Reason) {
    let check = stopped_by(Obstacle::Config(Why::new(reason, "It is wrong.")));
    assert!(!ignores_failure(&check, VERIFIED));
    assert!(
        !ignores_failure(&Check::default(), VERIFIED),
        "a good check"
    );
}

/// Proves: P-one-failure
#[test]
fn the_next_check_is_soon_but_not_before_retry_after() {
    for uid in ["w1", "w2", "w3"] {
        let soon = check_again(uid, None);
        assert!((Duration::from_secs(1)..Duration::from_secs(2)).contains(&soon));
        assert!((1..100).all(|n| next_check(false, uid, n, None) <= Duration::from_secs(30)));
    }
    assert_ne!(
        check_again("w1", None),
        check_again("w2", None),
        "all at once"
    );
    let asked = Some(Duration::from_mins(1));
    assert_eq!(check_again("w1", asked), Duration::from_mins(1));
    assert_eq!(next_check(false, "w1", 1, asked), Duration::from_mins(1));
}

/// Proves: P-workspace-check
#[test]
fn a_ready_workspace_is_checked_every_five_minutes() {
    for asked in [None, Some(Duration::from_mins(1))] {
        assert_eq!(next_check(true, "w1", 0, asked), Duration::from_mins(5));
    }
}

/// Proves: P-one-failure
#[test]
fn a_block_that_a_failed_check_could_not_examine_stays() {
    let hold = |reason| Some((reason, "held".to_owned()));
    for unseen in [Reason::VersionNotAccepted, Reason::SecretNotFound] {
        assert_eq!(still_blocked(hold(unseen), None), hold(unseen));
    }
    let suspended = hold(Reason::WorkspaceSuspended);
    assert_eq!(
        still_blocked(suspended.clone(), None),
        None,
        "it was lifted"
    );
    assert_eq!(still_blocked(None, suspended.clone()), suspended);
}

/// Nothing is written and no call is made.
fn at_rest(case: &Case) -> bool {
    let decision = case.decide();
    let stands = |status| case.run.status.as_ref() == Some(status);
    decision.effect.is_none() && decision.status.as_ref().is_none_or(stands)
}

/// Down since second 0.
fn down() -> WorkspaceView {
    WorkspaceView::NotReady {
        reason: Reason::ServiceUnavailable,
        message: "no answer".into(),
        since: at(0),
    }
}

/// The second at which the Run shows that its Workspace is not Ready.
fn said_at(case: &Case) -> i64 {
    let says = |second: &i64| {
        let status = case.clone().at(*second).settled();
        let synced = conditions::find(&status.conditions, Type::Synced);
        synced.is_some_and(|c| c.reason == Reason::WorkspaceNotReady.as_str())
    };
    (0..=60).find(says).expect("it is said")
}

/// Proves: P-workspace-check, P-one-failure
#[test]
fn an_active_run_reports_only_a_lasting_workspace_outage() {
    let case = Case::new().submitted("running").settle().view(down());
    assert!(at_rest(&case.clone().at(1)));
    let early = case.clone().at(1).decide();
    let again = early.requeue_at.expect("it is looked at again");
    assert!((at(5)..=at(15)).contains(&again), "{again}");
    assert!(!at_rest(&case.clone().at(16)));
    // The Runs of one Workspace show it one after the other.
    let said: Vec<i64> = (0..20)
        .map(|n| {
            let mut case = case.clone();
            let uid = format!("6f1f0c0e-0000-4000-8000-0000000000{n:02}");
            let intent = case.run.metadata.annotations.as_mut().unwrap();
            for text in intent.values_mut() {
                *text = text.replace(crate::support::UID, &uid);
            }
            case.run.metadata.uid = Some(uid);
            said_at(&case)
        })
        .collect();
    assert!(
        said.iter().all(|second| (5..=15).contains(second)),
        "{said:?}"
    );
    assert!(said.iter().any(|second| *second != said[0]), "all at once");
}

/// Proves: P-workspace-check, P-one-failure
#[test]
fn a_fresh_run_reports_an_outage_at_once_a_retrying_one_later() {
    let fresh = Case::new().view(down()).at(1);
    let ready = condition(&fresh.settled(), "Ready").expect("told");
    assert_eq!(ready.1, "WorkspaceNotReady");
    let retrying = Case::new().mine().posted(Err(lost())).settle().view(down());
    assert!(at_rest(&retrying.clone().at(1)));
    let early = retrying.clone().at(1).decide();
    assert!(early.requeue_at.is_some_and(|again| again <= at(15)));
    let ready = condition(&retrying.at(16).settled(), "Ready").expect("told");
    assert_eq!(ready.1, "WorkspaceNotReady");
}

/// Proves: P-one-failure
#[test]
fn another_session_alone_makes_no_run_read_or_write() {
    let mut session = crate::support::session(2);
    session.number = 7;
    let case = Case::new()
        .submitted("running")
        .got(Ok(crate::support::view("running")))
        .settle();
    let mut case = case.view(WorkspaceView::Ready(session)).at(1);
    case.stream = run_operator::decide::Stream::Open;
    assert!(at_rest(&case));
}

/// Proves: P-workspace-finalizer
#[rstest]
#[case::here(Some(BASE_URL), true)]
#[case::elsewhere(Some("https://other.example.com/api/v1"), false)]
#[case::nowhere(None, false)]
fn a_run_pinned_to_another_base_url_does_not_need_the_workspace(
    #[case] base_url: Option<&str>,
    #[case] needed: bool,
) {
    for case in [
        Case::new().submitted("running"),
        Case::new().mine().posted(Err(lost())),
        Case::new().submitted("running").deleting(),
    ] {
        assert_eq!(needs_workspace(&case.run, base_url), needed);
    }
}
