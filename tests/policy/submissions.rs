//! The POSTs of one Run: every one has the same key and the same bytes, whatever happened before it; what a person reads
//! of a refused one; and what belongs to a Run though nothing says so.

use rstest::rstest;
use run_operator::{
    api::Phase,
    decide::{
        Effect,
        failure::{Call, Failure},
        request::{body, idempotency_key},
    },
};

use crate::support::{Case, UID, lost, problem, view};

/// Proves: R1, P-at-most-one, F-retried, F-409, F-outage, D-in-doubt
#[rstest]
#[case::the_first(Case::new().mine())]
#[case::after_no_answer(Case::new().mine().posted(Err(lost())).at(700))]
#[case::after_three(Case::new().mine().posted(Err(lost())).posted(Err(lost())).posted(Err(lost())).at(700))]
#[case::after_a_429(Case::new().mine().posted(Err(problem(429, "slow_down"))).at(700))]
#[case::in_progress(Case::new().mine().posted(Err(problem(409, "idempotency_in_progress"))).at(700))]
#[case::taken_over(Case::new().taken_over())]
#[case::taken_over_and_not_answered(Case::new().taken_over().posted(Err(lost())).at(700))]
#[case::deleted_in_doubt(Case::new().mine().posted(Err(lost())).at(700).deleting())]
#[case::cancelled_in_doubt(Case::new().mine().posted(Err(lost())).at(700).spec(|s| s.cancel = Some(true)))]
fn every_post_of_a_run_has_its_key_and_its_bytes(#[case] case: Case) {
    let Some(Effect::Submit { key, body: bytes }) = case.effect() else {
        panic!("no POST: {}", case.does());
    };
    assert_eq!(key, UID);
    assert_eq!(Some(bytes), body(&Case::new().run.spec, 1));
}

/// Proves: P-key-in-use
#[test]
fn a_key_of_the_users_own_is_the_same_for_each_object_with_it() {
    let case = Case::new().spec(|s| s.idempotency_key = Some("nightly".into()));
    for uid in [UID, "another"] {
        assert_eq!(idempotency_key(&case.run.spec, "team", uid), "team/nightly");
    }
}

/// Proves: E-createRun
#[test]
fn a_create_has_its_parts_under_the_documents_names() {
    let case = Case::new().spec(|s| {
        s.provider = Some("acme".into());
        s.region = Some("moon".into());
    });
    let bytes = body(&case.run.spec, 1).expect("a body");
    let sent: serde_json::Value = serde_json::from_slice(&bytes).expect("JSON");
    let workload = serde_json::json!({"image": "ghcr.io/acme/train:1.4"});
    let wanted = serde_json::json!({"workload": workload, "provider": "acme", "region": "moon"});
    assert_eq!(sent, wanted);
}

/// Proves: R11, F-final, F-409
#[rstest]
#[case::an_unknown_conflict(
    problem(409, "moon_conflict"),
    "The service answered 409 moon_conflict: it went wrong."
)]
#[case::a_refusal(problem(403, "no"), "The service answered 403 no: it went wrong.")]
fn a_refused_create_is_shown_with_code_title_and_request_id(
    #[case] answer: Failure,
    #[case] what: &str,
) {
    let status = Case::new().mine().posted(Err(answer)).settled();
    let stalled = status.conditions.iter().find(|c| c.type_ == "Stalled");
    let said = &stalled.expect("a refusal").message;
    assert!(said.starts_with(what), "{said}");
    assert!(said.contains("Request id req-9. "), "{said}");
    let error = status.last_error.expect("an error");
    assert_eq!(error.request_id.as_deref(), Some("req-9"));
    assert_eq!(status.request_id.as_deref(), Some("req-9"));
}

/// As the chart's `finalizerPolicy` makes them.
/// Proves: I-status-policy
#[test]
fn a_finalizer_without_an_intent_makes_no_copy_of_another_run() {
    let case = Case::new().finalizer();
    assert_eq!(case.does(), "intent");
    assert_eq!(case.stalled(), None);
}

/// Proves: D-vanished
#[test]
fn a_run_that_is_learnt_after_its_object_vanished_is_cancelled() {
    let asked = Case::new().mine().sent(Call::Create).vanish();
    let learnt = asked.answered(Call::Create, Ok(view("running")));
    assert_eq!(learnt.does(), "cancel");
}

/// Proves: D-in-doubt, P-none-left
#[test]
fn a_deletion_that_learns_of_its_run_cancels_it_and_sees_it_end() {
    let in_doubt = Case::new().mine().posted(Err(lost())).at(700).deleting();
    let known = in_doubt.posted(Ok(view("running"))).settle();
    assert_eq!(known.does(), "cancel");
    let cancelled = known.cancelled(Ok(view("cancelling"))).settle();
    let seen = cancelled.at(710).got(Ok(view("cancelling"))).settle();
    assert_eq!(seen.settled().phase, Some(Phase::Cancelling));
    assert_ne!(seen.does(), "release", "it has not ended");
    let ended = seen.at(720).got(Ok(view("cancelled")));
    assert_eq!(ended.does(), "release");
}
