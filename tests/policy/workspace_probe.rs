//! The result of a Workspace's check where its Secret was deleted, and the submissions that are held.

use rstest::rstest;
use run_operator::{
    api::{ConditionType as Type, Reason, WorkspaceStatus, conditions, limits::MAX_IDENTITY},
    decide::{
        WorkspaceView,
        claims::needs_workspace,
        conditions::Why,
        failure::Failure,
        workspace::{Assessment, Check, assess, outlives, unheld},
    },
};

use crate::support::{
    BASE_URL, CONTRACT, Case, at, condition, identity_failed, lost, place, problem, session,
};

fn gone() -> Why {
    Why::new(
        Reason::SecretNotFound,
        "The Secret run-operator-token doesn't exist in namespace team; create it with the key token.",
    )
}

/// A check that the service answered for the last good token.
fn on_the_last_good_token() -> Check {
    Check {
        base_url: Some(place().base_url),
        version: Some(Some("1.4.0".into())),
        identity: Some(place().identity),
        secret_deleted: Some(gone()),
        ..Check::default()
    }
}

fn judged(check: &Check) -> Assessment {
    assess(None, check, 1, 1, &CONTRACT, at(0))
}

/// Status, reason and message of a condition.
fn said(status: &WorkspaceStatus, kind: Type) -> Option<(String, String, String)> {
    let found = conditions::find(&status.conditions, kind)?;
    Some((
        found.status.clone(),
        found.reason.clone(),
        found.message.clone(),
    ))
}

/// Proves: P-last-token
#[test]
fn without_its_secret_a_workspace_serves_only_submitted_runs() {
    let assessment = judged(&on_the_last_good_token());
    assert_eq!(assessment.usable, Ok(()));
    assert!(!assessment.ready, "it is probed until the Secret is back");
    let (reason, message) = assessment
        .submissions_blocked
        .clone()
        .expect("new submissions are held");
    assert_eq!(reason, Reason::SecretNotFound);
    for part in [
        "The Secret run-operator-token doesn't exist in namespace team; create it",
        "Submitted Runs continue with the last good token; new submissions are blocked.",
    ] {
        assert!(message.contains(part), "{part:?} is not in {message:?}");
    }
    let status = &assessment.status;
    let ready = ("False".to_owned(), reason.to_string(), message.clone());
    assert_eq!(said(status, Type::Ready), Some(ready));
    let reconciling = said(status, Type::Reconciling).expect("it waits for the Secret");
    assert_eq!(reconciling.1, "SecretNotFound");
    assert_eq!(said(status, Type::Stalled), None);
    let authenticated = said(status, Type::Authenticated).expect("the token was good");
    assert_eq!(
        (&*authenticated.0, &*authenticated.1),
        ("True", "Identified")
    );
}

/// Proves: P-last-token
#[test]
fn a_rejected_last_token_stops_calls_and_both_causes_are_named() {
    let rejected = |failure: Failure| Check {
        identity: None,
        obstacle: Some(identity_failed(failure)),
        ..on_the_last_good_token()
    };
    let assessment = judged(&rejected(problem(401, "unauthenticated")));
    let why = assessment.usable.expect_err("nothing is usable");
    assert_eq!(why.reason, Reason::Unauthorized);
    for part in [
        "401 unauthenticated",
        "last good one",
        "doesn't exist in namespace team",
    ] {
        assert!(why.message.contains(part), "{part:?} is not in {why:?}");
    }
    // An outage shows nothing about the token.
    let why = judged(&rejected(lost())).usable.expect_err("an outage");
    assert_eq!(why.reason, Reason::ServiceUnavailable);
    assert!(!why.message.contains("last good"), "{why:?}");
}

/// Proves: P-last-token
#[rstest]
#[case::gone(Reason::SecretNotFound, true)]
#[case::without_the_key(Reason::SecretKeyNotFound, false)]
#[case::no_token(Reason::TokenMalformed, false)]
#[case::another_kind_of_key(Reason::TokenIsProviderKey, false)]
#[case::not_allowed(Reason::SecretForbidden, false)]
#[case::not_read(Reason::Checking, false)]
fn only_a_missing_secret_keeps_its_last_token_in_use(
    #[case] reason: Reason,
    #[case] goes_on: bool,
) {
    assert_eq!(outlives(&Why::new(reason, "")), goes_on);
}

fn holding(reason: Reason) -> WorkspaceView {
    let mut session = session(1);
    session.submissions_blocked = Some((reason, "it is held".into()));
    WorkspaceView::Ready(session)
}

/// Answers that prove that no run was made, and those that don't.
/// Proves: P-workspace-check, P-last-token
#[rstest]
#[case::without_an_intent(Case::new(), true)]
#[case::announced(Case::new().mine(), true)]
#[case::rejected_token(Case::new().mine().posted(Err(problem(401, "unauthenticated"))).at(60), true)]
#[case::told_to_wait(Case::new().mine().posted(Err(problem(429, "slow_down"))).at(700), true)]
#[case::in_doubt(Case::new().mine().posted(Err(lost())).at(700), false)]
#[case::by_another_process(Case::new().mine().restarted(), false)]
fn a_hold_stops_every_submission_that_can_not_have_made_a_run(
    #[case] case: Case,
    #[case] held: bool,
) {
    for reason in [
        Reason::SecretNotFound,
        Reason::VersionNotAccepted,
        Reason::WorkspaceSuspended,
    ] {
        let mut view = holding(reason);
        if let WorkspaceView::Ready(session) = &mut view {
            session.number = 2;
        }
        let case = case.clone().view(view);
        let does = case.does();
        if held {
            assert_eq!(does, "nothing");
            let ready = condition(&case.settled(), "Ready").expect("told");
            assert_eq!(ready, ("False".to_owned(), reason.to_string()));
        } else {
            assert!(["submit", "intent"].contains(&does), "{does}");
        }
    }
}

/// Proves: P-last-token
#[test]
fn a_deleting_workspace_does_not_block_a_run_with_an_intent() {
    let view = holding(Reason::WorkspaceDeleting);
    assert_eq!(Case::new().view(view.clone()).does(), "nothing");
    assert_eq!(Case::new().mine().view(view).does(), "submit");
}

/// The Workspace waits for what has begun, so that may begin again: each would wait for the other.
#[rstest]
#[case::retried(Case::new().mine().retry("1"), "intent")]
#[case::retried_after_a_429(Case::new().mine().posted(Err(problem(429, "slow_down"))).retry("1"), "intent")]
#[case::its_key_forgotten(Case::new().mine().at(86_400), "intent")]
#[case::refused_and_retried(Case::new().mine().posted(Err(problem(403, "no"))).settle().retry("1"), "nothing")]
#[case::a_copy_retried(Case::new().foreign().settle().retry("1"), "nothing")]
fn a_deleting_workspace_blocks_only_runs_that_do_not_need_it(
    #[case] case: Case,
    #[case] does: &str,
) {
    let case = case.view(holding(Reason::WorkspaceDeleting)).settle();
    assert_eq!(case.does(), does);
    assert_eq!(needs_workspace(&case.run, Some(BASE_URL)), does == "intent");
}

#[test]
fn a_blocked_workspace_mirrors_and_cancels_submitted_runs() {
    let case = Case::new()
        .submitted("running")
        .view(holding(Reason::SecretNotFound));
    assert_eq!(case.does(), "refresh");
    assert_eq!(case.deleting().does(), "cancel");
}

/// A check that went well.
fn good() -> Check {
    Check {
        secret_deleted: None,
        ..on_the_last_good_token()
    }
}

/// Proves: P-workspace-check
#[rstest]
#[case::another(Some("9.0.0"), "reports version 9.0.0")]
#[case::none(None, "names no version")]
fn an_unaccepted_version_blocks_new_runs_and_names_the_accepted(
    #[case] version: Option<&str>,
    #[case] met: &str,
) {
    let assessment = judged(&Check {
        version: Some(version.map(str::to_owned)),
        ..good()
    });
    assert_eq!(assessment.usable, Ok(()));
    assert!(!assessment.ready);
    let (reason, message) = assessment
        .submissions_blocked
        .expect("new submissions are held");
    assert_eq!(reason, Reason::VersionNotAccepted);
    for part in [met, &CONTRACT.accepted_versions().join(", ")] {
        assert!(message.contains(part), "{part:?} is not in {message:?}");
    }
    let told = Some(("False".to_owned(), reason.to_string(), message.clone()));
    assert_eq!(said(&assessment.status, Type::VersionVerified), told);
    let stalled = Some(("True".to_owned(), reason.to_string(), message));
    assert_eq!(said(&assessment.status, Type::Stalled), stalled);
}

/// Proves: P-workspace-finalizer, P-refused-writes
#[rstest]
#[case::refused(Some("a policy says no"), Reason::WriteRefused, "a policy says no")]
#[case::not_answered(None, Reason::Checking, "the operator's log")]
fn a_workspace_without_its_finalizer_serves_only_submitted_runs(
    #[case] refused: Option<&str>,
    #[case] reason: Reason,
    #[case] names: &str,
) {
    let assessment = judged(&Check {
        unheld: Some(unheld(refused)),
        ..good()
    });
    assert_eq!(assessment.usable, Ok(()));
    assert!(!assessment.ready);
    let (told, message) = assessment
        .submissions_blocked
        .expect("new submissions are held");
    assert_eq!(told, reason);
    assert!(message.contains(names), "{message}");
    let unready = Some(("False".to_owned(), reason.to_string(), message));
    assert_eq!(said(&assessment.status, Type::Ready), unready);
    assert_eq!(said(&assessment.status, Type::Stalled), None);
}

/// Proves: P-workspace-check
#[test]
fn of_several_blocks_the_longest_lasting_is_reported() {
    let mut check = Check {
        version: Some(Some("9.0.0".into())),
        suspended: true,
        waits_for: Some(vec!["train".into()]),
        ..good()
    };
    let reason = |check: &Check| judged(check).submissions_blocked.map(|(reason, _)| reason);
    assert_eq!(reason(&check), Some(Reason::WorkspaceDeleting));
    check.waits_for = None;
    assert_eq!(reason(&check), Some(Reason::WorkspaceSuspended));
    check.suspended = false;
    assert_eq!(reason(&check), Some(Reason::VersionNotAccepted));
    assert_eq!(reason(&good()), None);
}

/// Proves: S-check-first, P-place
#[test]
fn a_workspace_with_an_unpinnable_identity_serves_no_run() {
    let of = |identity: Option<String>| {
        judged(&Check {
            identity: Some(identity),
            ..good()
        })
    };
    let longest = "w".repeat(MAX_IDENTITY);
    assert_eq!(of(Some(longest.clone())).usable, Ok(()));
    for identity in [None, Some(longest + "w")] {
        let assessment = of(identity);
        let why = assessment.usable.expect_err("nothing is usable");
        assert_eq!(why.reason, Reason::ContractViolation);
        assert!(
            why.message.contains("workspace.identityPointers"),
            "{why:?}"
        );
    }
}
