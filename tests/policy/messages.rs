//! The instructions to a person in a condition's message.

use rstest::rstest;
use run_operator::{
    api::{WorkspaceKind, WorkspaceRef},
    decide::{
        WorkspaceView,
        failure::{Failure, FailureKind},
        truncate::cut,
    },
};

use crate::support::{Case, hopeless, lost, no_file, not_ready, problem, unreadable};

/// The message of a condition.
fn says(case: &Case, kind: &str) -> String {
    let conditions = case.settled().conditions;
    let found = conditions.iter().find(|c| c.type_ == kind);
    found.map(|c| c.message.clone()).unwrap_or_default()
}

/// Proves: P-conditions
#[rstest]
#[case::of_the_spec(problem(422, "bad"), "Correct the spec in a new Run.")]
#[case::of_the_token(
    problem(403, "no"),
    "The token of the Workspace default in namespace team lacks the permission to create this run; grant it at the service, then set"
)]
#[case::for_an_approval(
    problem(409, "approval_required"),
    "needs an approval at the service; when it is given, set"
)]
#[case::for_a_version(
    problem(409, "version_conflict"),
    "Something changed at the service meanwhile; check it, then set"
)]
#[case::of_the_key(
    problem(409, "idempotency_conflict"),
    "use another spec.idempotencyKey in a new Run"
)]
#[case::by_a_broken_service(hopeless(), "answered not to retry; ask its support, then set")]
#[case::for_no_known_reason(problem(409, "new_kind"), "When the cause is resolved, set")]
fn a_refusal_says_what_happened_and_what_to_do_about_it(
    #[case] answer: Failure,
    #[case] todo: &str,
) {
    let said = says(&Case::new().mine().posted(Err(answer)), "Stalled");
    let (what, what_to_do) = said.split_once(" Request id req-9. ").expect("both");
    assert!(what.starts_with("The service answered "), "{said}");
    assert!(what.ends_with(": it went wrong."), "{said}");
    assert!(what_to_do.contains(todo), "{said}");
}

#[test]
fn unreadable_answers_are_reported_with_what_to_check() {
    let case = (0..5).fold(Case::new().mine(), |c, _| c.posted(Err(unreadable())));
    let said = says(&case, "Stalled");
    let todo = "Check the base URL and the contract file, then set";
    assert!(said.contains(todo), "{said}");
}

#[test]
fn the_text_of_the_service_ends_with_one_full_stop() {
    let whole = Failure {
        message: "It went wrong.".into(),
        ..problem(422, "bad")
    };
    let said = says(&Case::new().mine().posted(Err(whole)), "Stalled");
    assert!(said.contains("bad: It went wrong. Request id"), "{said}");
}

/// Answers without a code of the service's own.
#[rstest]
#[case::no_answer(lost(), "no_answer")]
#[case::no_request(Failure { kind: FailureKind::NotSent, ..lost() }, "not_sent")]
#[case::no_file(no_file(), "no_file")]
#[case::no_problem(Failure { code: None, ..problem(503, "") }, "no_problem_body")]
#[case::no_sense(unreadable(), "unreadable_answer")]
fn an_error_has_a_code_to_search_for(#[case] failure: Failure, #[case] word: &str) {
    let status = Case::new().mine().posted(Err(failure)).settled();
    assert_eq!(status.last_error.expect("an error").code, word);
}

#[test]
fn next_attempt_is_set_only_for_an_automatic_retry() {
    let next = |failure| {
        let case = Case::new().mine().posted(Err(failure)).view(not_ready());
        case.settled()
            .last_error
            .expect("an error")
            .next_attempt_time
    };
    assert!(next(lost()).is_some());
    assert_eq!(next(problem(422, "bad")), None, "a person has to act");
    assert_eq!(next(problem(401, "expired")), None, "the Workspace has to");
}

/// Proves: P-defaults, P-conditions
#[test]
fn a_workspace_is_named_by_kind_and_place() {
    let own = Case::new().view(WorkspaceView::Missing);
    let shared = own.clone().spec(|s| {
        s.workspace_ref = Some(WorkspaceRef {
            kind: Some(WorkspaceKind::ClusterWorkspace),
            name: "shared".into(),
        });
    });
    for (case, name) in [
        (own, "Workspace default in namespace team"),
        (shared, "ClusterWorkspace shared"),
    ] {
        let said = says(&case, "Ready");
        let waits = format!("Waiting for the {name}, which doesn't exist; create it.");
        assert_eq!(said, waits);
    }
}

#[test]
fn only_a_suspend_between_intent_and_run_is_reported_as_ignored() {
    let suspended = |case: Case| case.spec(|s| s.suspend = Some(true));
    for (case, late) in [
        (suspended(Case::new().mine()), true),
        (Case::new().mine(), false),
        (Case::new(), false),
        (suspended(Case::new().submitted("running")), false),
    ] {
        let case = case.view(not_ready());
        let said = says(&case, "Ready") + &says(&case, "Synced");
        assert_eq!(said.contains("spec.suspend is ignored"), late, "{said}");
    }
}

/// The bounds of a status are bytes of JSON.
#[test]
fn what_is_cut_takes_no_more_as_json_than_it_may() {
    let text = "a\"\\\n\u{1}ä\u{7f}€\u{85}𝄞".repeat(5);
    for max in 0..100 {
        let kept = serde_json::to_string(cut(&text, max)).expect("JSON");
        assert!(kept.len() - 2 <= max, "{kept} has more than {max}");
    }
    assert_eq!(cut("ten bytes!", 10), "ten bytes!");
    assert_eq!(cut("ten bytes!", 9), "ten bytes");
}
