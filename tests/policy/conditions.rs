//! The table "Conditions, by situation" of the design, every column.

use rstest::rstest;
use run_operator::{
    api::{Phase, Reason, conditions::whole_seconds, limits::MAX_OBJECT, run::ReadyWhen},
    decide::{Choice, WorkspaceView, failure::RunView},
};

use crate::support::{
    Case, UID, at, bare, condition, hopeless, lost, not_ready, problem, session, view,
};

const COLUMNS: [&str; 9] = [
    "Accepted",
    "Suspended",
    "Finished",
    "Complete",
    "Failed",
    "Cancelled",
    "Ready",
    "Reconciling",
    "Stalled",
];

/// Columns as T, F and - for absent.
fn row(case: &Case) -> String {
    let status = case.settled();
    let phase = format!("{:?}", status.phase.expect("a phase"));
    let columns = COLUMNS.map(|kind| match condition(&status, kind) {
        None => "-".to_owned(),
        Some((holds, _)) => holds[..1].to_owned(),
    });
    format!("{phase} {}", columns.join(""))
}

pub(crate) fn cancelled(case: Case) -> Case {
    case.spec(|s| s.cancel = Some(true))
}

pub(crate) fn held() -> WorkspaceView {
    let mut session = session(1);
    session.submissions_blocked = Some((Reason::VersionNotAccepted, "version 9".into()));
    WorkspaceView::Ready(session)
}

pub(crate) fn elsewhere() -> WorkspaceView {
    let mut session = session(1);
    session.resolved.identity = Some("another".into());
    WorkspaceView::Ready(session)
}

pub(crate) fn at_the_service(state: &str) -> Case {
    Case::new().submitted("queued").got(Ok(view(state)))
}

pub(crate) fn waits_for_key(mut case: Case) -> Case {
    case.key_holder = Some("elder".into());
    case
}

pub(crate) fn overdue(case: Case) -> Case {
    case.spec(|s| s.active_deadline_seconds = Some(0))
}

pub(crate) fn lost_run() -> Case {
    (0..3).fold(Case::new().submitted("running"), |case, n| {
        case.at(60 * n).got(Err(problem(404, "run_not_found")))
    })
}

/// Proves: P-conditions, P-defaults, P-unmapped
#[rstest]
#[case::no_workspace(Case::new().view(WorkspaceView::Missing), "Pending F-F---FT-", "WorkspaceNotFound")]
#[case::no_default(
    Case { by_rule: Choice::None, ..Case::new() }.view(WorkspaceView::Missing), "Pending F-F---FT-", "WorkspaceNotFound")]
#[case::several_defaults(
    Case { by_rule: Choice::Several(vec!["a".into(), "b".into()]), ..Case::new() }.view(WorkspaceView::Missing),
    "Pending F-F---F-T", "WorkspaceAmbiguous")]
#[case::provider_not_allowed(
    Case::new().rules(|r| r.allowed_providers = Some(vec!["a".into()])), "Pending F-F---F-T", "ProviderNotAllowed")]
#[case::workspace_not_ready(Case::new().view(not_ready()), "Pending F-F---FT-", "WorkspaceNotReady")]
#[case::held(Case::new().view(held()), "Pending F-F---FT-", "VersionNotAccepted")]
#[case::retrying(Case::new().mine().posted(Err(lost())), "Pending F-F---FT-", "Retrying")]
#[case::suspended(Case::new().spec(|s| s.suspend = Some(true)), "Pending FTF---F--", "Suspended")]
#[case::resumed(
    Case::new().spec(|s| s.suspend = Some(true)).settle().spec(|s| s.suspend = None).view(WorkspaceView::Missing),
    "Pending F-F---FT-", "WorkspaceNotFound")]
#[case::suspended_too_late(
    Case::new().mine().posted(Err(lost())).spec(|s| s.suspend = Some(true)), "Pending F-F---FT-", "Retrying")]
#[case::refused(Case::new().mine().posted(Err(problem(422, "bad"))), "Failed F-T-T-F-T", "CreateRefused")]
#[case::forbidden(Case::new().mine().posted(Err(problem(403, "no"))), "Pending F-F---F-T", "Forbidden")]
#[case::in_progress(
    Case::new().mine().posted(Err(problem(409, "idempotency_in_progress"))), "Pending F-F---FT-", "SubmissionInProgress")]
#[case::too_many(Case::new().mine().posted(Err(problem(429, "slow"))), "Pending F-F---FT-", "RateLimited")]
#[case::unknown(Case::new().intent("x", 1).at(86_400), "Pending F-F---F-T", "SubmissionUnknown")]
#[case::unreadable_intent(Case::new().annotate("run-operator.dev/intent", "?"), "Pending F-F---F-T", "SubmissionUnknown")]
#[case::forged_run_id(
    Case::new().status(|s| { s.phase = Some(Phase::Pending); s.run_id = Some("run-7".into()); }),
    "Active T-F---F-T", "SubmissionUnknown")]
#[case::restored(Case::new().foreign(), "Pending F-F---F-T", "Restored")]
#[case::restored_with_a_status(Case::new().submitted("running").foreign(), "Pending F-F---F-T", "Restored")]
#[case::key_in_use(waits_for_key(Case::new()), "Pending F-F---F-T", "KeyInUse")]
#[case::identity_changed(Case::new().mine().view(elsewhere()), "Pending F-F---F-T", "IdentityChanged")]
#[case::hopeless(Case::new().mine().posted(Err(hopeless())), "Pending F-F---F-T", "ServerError")]
#[case::active(at_the_service("running"), "Active T-F---FT-", "Active")]
#[case::queued(at_the_service("queued"), "Active T-F---FT-", "Active")]
#[case::unmapped(at_the_service("odd"), "Active T-F---FT-", "StateNotMapped")]
#[case::too_large(
    Case::new().spec(|s| s.object_bytes = MAX_OBJECT + 1), "Failed F-T-T-F-T", "RunTooLarge")]
#[case::unmapped_with_ready_when_accepted(
    at_the_service("odd").spec(|s| s.ready_when = Some(ReadyWhen::Accepted)), "Active T-F---T--", "StateNotMapped")]
#[case::unmapped_and_deleted(at_the_service("odd").deleting(), "Cancelling T-F---FT-", "StateNotMapped")]
#[case::ready_when_accepted(
    at_the_service("running").spec(|s| s.ready_when = Some(ReadyWhen::Accepted)), "Active T-F---T--", "Active")]
#[case::ready_when_accepted_and_queued(
    at_the_service("queued").spec(|s| s.ready_when = Some(ReadyWhen::Accepted)), "Active T-F---T--", "Active")]
#[case::ready_when_accepted_and_not_yet_submitted(
    Case::new().view(not_ready()).spec(|s| s.ready_when = Some(ReadyWhen::Accepted)),
    "Pending F-F---FT-", "WorkspaceNotReady")]
#[case::cancel_asked(
    cancelled(at_the_service("running")),
    "Cancelling T-F---FT-",
    "Cancelling"
)]
#[case::cancel_with_ready_when_accepted(
    cancelled(at_the_service("running")).spec(|s| s.ready_when = Some(ReadyWhen::Accepted)),
    "Cancelling T-F---FT-", "Cancelling")]
#[case::deleting(at_the_service("running").deleting(), "Cancelling T-F---FT-", "Cancelling")]
#[case::deadline(
    overdue(at_the_service("running")),
    "Cancelling T-F---FT-",
    "DeadlineExceeded"
)]
#[case::cancelling_elsewhere(at_the_service("stopping"), "Cancelling T-F---FT-", "Cancelling")]
#[case::cancel_refused(
    cancelled(at_the_service("running")).cancelled(Err(problem(403, "no"))),
    "Cancelling T-F---FT-", "CancelRefused")]
#[case::succeeded(at_the_service("Succeeded"), "Succeeded T-TT--T--", "Succeeded")]
#[case::succeeded_all_the_same(
    cancelled(at_the_service("done")),
    "Succeeded T-TT--T--",
    "Succeeded"
)]
#[case::failed(at_the_service("ERROR"), "Failed T-T-T-F-T", "Failed")]
#[case::not_found(lost_run(), "Failed T-T-T-F-T", "RunNotFound")]
#[case::deadline_confirmed(
    overdue(at_the_service("cancelled")),
    "Failed T-T-T-F-T",
    "DeadlineExceeded"
)]
#[case::cancelled(
    cancelled(at_the_service("cancelled")),
    "Cancelled T-T--TT--",
    "Cancelled"
)]
#[case::cancelled_elsewhere(
    at_the_service("cancelled"),
    "Cancelled T-T-TTF-T",
    "CancelledElsewhere"
)]
#[case::cancelled_unsubmitted(cancelled(Case::new()), "Cancelled F-T--TT--", "Cancelled")]
#[case::cancelled_while_refused(
    cancelled(Case::new().mine().posted(Err(problem(403, "no")))), "Cancelled F-T--TT--", "Cancelled")]
#[case::cancelled_copy(cancelled(Case::new().foreign()), "Cancelled F-T--TT--", "Cancelled")]
fn the_conditions_of_a_situation(#[case] case: Case, #[case] expected: &str, #[case] reason: &str) {
    assert_eq!(row(&case), expected);
    let status = case.settled();
    assert_eq!(
        condition(&status, "Ready").map(|c| c.1).as_deref(),
        Some(reason)
    );
    for c in &status.conditions {
        assert_eq!(
            c.observed_generation, case.run.metadata.generation,
            "{}",
            c.type_
        );
        assert!(!c.message.is_empty() && !c.message.contains('\n'));
        assert!(Reason::ALL.iter().any(|r| r.as_str() == c.reason));
    }
    assert_eq!(status.observed_generation, case.run.metadata.generation);
    assert_eq!(
        (status.provider.as_deref(), status.region.as_deref()),
        (Some("auto"), Some("auto"))
    );
    assert_eq!(status.idempotency_key.as_deref(), Some(UID));
    assert_eq!(
        status.completion_time.is_some(),
        status.phase.is_some_and(Phase::terminal)
    );
}

/// Synced shows that the mirror is stale, and why.
/// Proves: P-conditions
#[rstest]
#[case::fresh(at_the_service("running"), "True", "Mirrored")]
#[case::a_hiccup(at_the_service("running").got(Err(lost())), "True", "Mirrored")]
#[case::unreachable(
    (0..3).fold(at_the_service("running"), |c, _| c.got(Err(bare(502)))), "False", "ServiceUnavailable")]
#[case::forbidden(at_the_service("running").got(Err(problem(403, "no"))), "False", "Forbidden")]
#[case::first_401(at_the_service("running").got(Err(problem(401, "no"))), "True", "Mirrored")]
#[case::not_ready(at_the_service("running").view(not_ready()), "False", "WorkspaceNotReady")]
#[case::missing(at_the_service("running").view(WorkspaceView::Missing), "False", "WorkspaceNotFound")]
#[case::elsewhere(at_the_service("running").view(elsewhere()), "False", "IdentityChanged")]
#[case::ended(at_the_service("done"), "True", "Mirrored")]
#[case::lost(lost_run(), "False", "RunNotFound")]
fn synced_shows_whether_the_mirror_is_fresh(
    #[case] case: Case,
    #[case] holds: &str,
    #[case] reason: &str,
) {
    let synced = condition(&case.settled(), "Synced");
    assert_eq!(synced, Some((holds.into(), reason.into())));
}

/// Proves: P-conditions
#[test]
fn a_restart_claims_no_fresh_mirror_before_it_has_read_the_run() {
    let stale = at_the_service("running").view(not_ready()).settle();
    let before = stale.run.status.clone();
    let restarted = stale.restarted().view(WorkspaceView::Unknown);
    assert_eq!(restarted.decide().status, None, "nothing is known yet");
    let ready = restarted.view(WorkspaceView::Ready(session(1)));
    assert_eq!(
        condition(&ready.settled(), "Synced"),
        condition(&before.expect("one"), "Synced")
    );
    let read = ready.got(Ok(view("running")));
    assert_eq!(
        condition(&read.settled(), "Synced").map(|c| c.0),
        Some("True".into())
    );
}

#[test]
fn nothing_is_written_before_the_workspace_was_looked_at() {
    for case in [
        Case::new(),
        Case::new().mine(),
        Case::new().submitted("running"),
    ] {
        let decision = case.view(WorkspaceView::Unknown).decide();
        assert_eq!((decision.status, decision.effect), (None, None));
    }
}

#[test]
fn the_first_post_needs_no_status_before_its_answer() {
    assert_eq!(Case::new().decide().status, None);
    assert_eq!(Case::new().mine().decide().status, None);
}

/// Proves: P-conditions
#[test]
fn observed_generation_follows_an_active_run() {
    let mut edited = at_the_service("running").settle();
    edited.run.metadata.generation = Some(2);
    let status = edited.settled();
    assert_eq!(status.observed_generation, Some(2));
    for c in &status.conditions {
        assert_eq!(c.observed_generation, Some(2), "{}", c.type_);
    }
}

/// Proves: P-conditions
#[test]
fn observed_generation_follows_a_finished_run_but_no_deletion() {
    let ended = at_the_service("succeeded").settle();
    let mut edited = ended.clone();
    edited.run.metadata.generation = Some(2);
    let status = edited.decide().status.expect("a write");
    assert_eq!(status.observed_generation, Some(2));
    assert!(
        status
            .conditions
            .iter()
            .all(|c| c.observed_generation == Some(2))
    );
    assert_eq!(status.completion_time, ended.settled().completion_time);
    assert_eq!(ended.deleting().decide().status, None);
}

#[test]
fn last_transition_time_changes_only_with_the_condition_status() {
    let first = at_the_service("running").settle();
    let second = first.clone().at(50).got(Ok(view("odd"))).settle();
    let since = |case: &Case, kind: &str| {
        let status = case.settled();
        let found = status.conditions.iter().find(|c| c.type_ == kind);
        found.map(|c| c.last_transition_time.clone())
    };
    assert_eq!(since(&second, "Ready"), since(&first, "Ready"));
    let third = second.at(70).got(Ok(view("succeeded")));
    assert_eq!(since(&third, "Ready"), Some(whole_seconds(at(70))));
}

#[test]
fn last_sync_time_is_written_only_with_another_change() {
    let case = at_the_service("running").settle();
    assert_eq!(case.settled().last_sync_time, Some(whole_seconds(at(0))));
    let same = case.at(30).got(Ok(view("running")));
    assert_eq!(same.settled().last_sync_time, Some(whole_seconds(at(0))));
    let changed = same.at(60).got(Ok(view("done")));
    assert_eq!(
        changed.settled().last_sync_time,
        Some(whole_seconds(at(60)))
    );
}

#[test]
fn an_error_is_shown_until_a_call_succeeds_even_after_a_restart() {
    let case = Case::new()
        .mine()
        .posted(Err(problem(429, "slow")))
        .settle();
    let shown = case.settled().last_error.expect("an error");
    assert_eq!(
        (shown.code.as_str(), shown.attempts, shown.http_status),
        ("slow", 1, Some(429))
    );
    assert!(shown.retryable && shown.next_attempt_time.is_some());
    assert_eq!(case.settled().request_id.as_deref(), Some("req-9"));
    let restarted = case.restarted().view(not_ready());
    assert_eq!(restarted.settled().last_error, Some(shown));
    let intent = restarted.an_intent("me+", 2);
    let accepted = restarted
        .view(WorkspaceView::Ready(session(1)))
        .intent("me+", 2)
        .intent_written(intent, false)
        .posted(Ok(view("running")));
    assert_eq!(accepted.settled().last_error, None);
}

/// Whatever the content of the answer.
#[test]
fn a_read_removes_the_error_of_an_earlier_process() {
    let failed = (0..3).fold(at_the_service("running"), |c, _| c.got(Err(bare(502))));
    let restarted = failed.settle().restarted();
    assert!(restarted.settled().last_error.is_some());
    let unnamed = RunView {
        run_id: None,
        ..view("running")
    };
    assert_eq!(restarted.got(Ok(unnamed)).settled().last_error, None);
}

#[test]
fn a_cancel_that_failed_is_no_error_of_a_run_that_ended() {
    let case = cancelled(at_the_service("running")).cancelled(Err(problem(409, "else")));
    assert!(case.settled().last_error.is_some());
    assert_eq!(case.got(Ok(view("succeeded"))).settled().last_error, None);
}
