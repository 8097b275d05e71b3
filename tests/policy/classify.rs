//! The classification of a failed call, answer by answer and call by call.

use std::time::Duration;

use rstest::rstest;
use run_operator::{
    api::Reason,
    decide::failure::{
        Call, Capacity, Class, FailedCall, Failure, FailureKind, ProbeTrigger, classify,
    },
};

use crate::support::{CONTRACT, bare, hopeless, lost, no_file, problem, unreadable};

fn retryable(said: bool, failure: Failure) -> Failure {
    Failure {
        retryable: Some(said),
        ..failure
    }
}

const MINUTE: Duration = Duration::from_mins(1);

fn unsent() -> Failure {
    Failure {
        kind: FailureKind::NotSent,
        ..lost()
    }
}

/// One class for a create, and for every other call.
fn both(class: Class) -> (Class, Class) {
    (class, class)
}

/// A refusal with one reason for a create, and for every other call.
fn ends(reason: Reason) -> (Class, Class) {
    both(Class::Refused(reason))
}

/// The same, where the two have reasons of their own.
fn differs(create: Reason, other: Reason) -> (Class, Class) {
    (Class::Refused(create), Class::Refused(other))
}

/// Answer, and what it means for a create, and for every other call.
/// Proves: R8, R9, R10, R10a, F-retried, F-final, F-409, S-problem, F-refused-bytes, P-files, F-401
#[rstest]
#[case(lost(), both(Class::NoAnswer))]
#[case(no_file(), both(Class::NoFile))]
#[case(unsent(), both(Class::NotSent))]
#[case(unreadable(), both(Class::Unreadable))]
#[case(problem(401, "expired"), both(Class::Unauthorized))]
#[case(bare(401), both(Class::Unauthorized))]
#[case(problem(403, "no"), ends(Reason::Forbidden))]
#[case(
    problem(404, "run_not_found"),
    differs(Reason::Refused, Reason::RunNotFound)
)]
#[case(problem(404, "no_such_route"), ends(Reason::Refused))]
#[case(problem(410, "run_not_found"), ends(Reason::Refused))]
#[case(problem(400, "bad"), differs(Reason::CreateRefused, Reason::Refused))]
#[case(problem(413, "big"), differs(Reason::CreateRefused, Reason::Refused))]
#[case(problem(422, "bad"), differs(Reason::CreateRefused, Reason::Refused))]
#[case(
    retryable(true, problem(422, "bad")),
    differs(Reason::CreateRefused, Reason::Refused)
)]
#[case(problem(409, "approval_required"), ends(Reason::ApprovalConflict))]
#[case(problem(409, "version_conflict"), ends(Reason::VersionConflict))]
#[case(
    problem(409, "idempotency_conflict"),
    ends(Reason::IdempotencyConflict)
)]
#[case(
    problem(409, "idempotency_in_progress"),
    (Class::InProgress, Class::Refused(Reason::UnknownConflict))
)]
#[case(problem(409, "new_kind"), ends(Reason::UnknownConflict))]
#[case(problem(408, "slow_client"), both(Class::Passing))]
#[case(problem(425, "too_early"), both(Class::Passing))]
#[case(problem(429, "slow"), both(Class::TooMany))]
#[case(retryable(false, problem(408, "slow_client")), ends(Reason::Refused))]
#[case(retryable(false, problem(429, "quota")), ends(Reason::Refused))]
#[case(retryable(true, problem(503, "busy")), both(Class::Passing))]
#[case(problem(500, "boom"), both(Class::Passing))]
#[case(problem(503, "busy"), both(Class::Passing))]
#[case(hopeless(), ends(Reason::ServerError))]
#[case(problem(418, "teapot"), ends(Reason::Refused))]
// A proxy speaks, and not the service.
#[case(bare(400), both(Class::Passing))]
#[case(bare(403), both(Class::Passing))]
#[case(bare(404), both(Class::Passing))]
#[case(bare(408), both(Class::Passing))]
#[case(bare(409), both(Class::Passing))]
#[case(bare(422), both(Class::Passing))]
#[case(bare(425), both(Class::Passing))]
#[case(bare(429), both(Class::TooMany))]
#[case(bare(502), both(Class::NoAnswer))]
#[case(bare(501), both(Class::Passing))]
fn an_answer_is_judged_by_status_and_code(
    #[case] failure: Failure,
    #[case] (create, other): (Class, Class),
) {
    // A check asks for no run.
    let check = match other {
        Class::Refused(Reason::RunNotFound) => Class::Refused(Reason::Refused),
        _ => other,
    };
    let retitled = Failure {
        message: "run_not_found, approval_required, retryable".into(),
        ..failure.clone()
    };
    for (call, class) in [
        (Call::Create, create),
        (Call::Get, other),
        (Call::Cancel, other),
        (Call::Version, check),
        (Call::Workspace, check),
    ] {
        assert_eq!(classify(call, &failure, &CONTRACT), class, "{call:?}");
        let by_title = classify(call, &retitled, &CONTRACT);
        assert_eq!(by_title, class, "{call:?}: never by the title");
    }
}

/// Proves: D-proof
#[rstest]
#[case(problem(403, "no"), true, false)]
#[case(problem(422, "bad"), true, true)]
#[case(problem(429, "slow"), true, false)]
#[case(problem(409, "approval_required"), true, false)]
#[case(problem(409, "idempotency_conflict"), false, false)]
#[case(problem(409, "idempotency_in_progress"), false, false)]
#[case(problem(408, "slow_client"), false, false)]
#[case(problem(425, "too_early"), false, false)]
#[case(bare(422), false, false)]
#[case(bare(403), false, false)]
#[case(hopeless(), false, false)]
#[case(lost(), false, false)]
fn a_4xx_problem_proves_no_run_and_a_422_refuses_the_bytes(
    #[case] failure: Failure,
    #[case] request: bool,
    #[case] bytes: bool,
) {
    let failed = FailedCall::new(Call::Create, failure, &CONTRACT);
    assert_eq!(failed.proves_not_created(), request);
    assert_eq!(failed.refuses_the_bytes(), bytes);
}

/// What the failure of a Run's call tells about the service's capacity, and about its Workspace.
/// Proves: P-pause, F-401
#[rstest]
#[case(
    retryable(true, problem(429, "slow")),
    Capacity::TooMany(Some(MINUTE)),
    None
)]
#[case(bare(429), Capacity::TooMany(Some(MINUTE)), None)]
#[case(retryable(false, problem(429, "quota")), Capacity::Served, None)]
#[case(problem(422, "bad"), Capacity::Served, None)]
#[case(problem(408, "slow_client"), Capacity::Served, None)]
#[case(problem(409, "idempotency_in_progress"), Capacity::Served, None)]
#[case(
    problem(401, "expired"),
    Capacity::Unknown,
    Some(ProbeTrigger::Unauthorized)
)]
#[case(bare(401), Capacity::Unknown, Some(ProbeTrigger::Unauthorized))]
#[case(problem(503, "busy"), Capacity::Unknown, None)]
#[case(hopeless(), Capacity::Unknown, None)]
#[case(bare(404), Capacity::Unknown, None)]
#[case(unreadable(), Capacity::Unknown, None)]
#[case(unsent(), Capacity::Unknown, None)]
#[case(no_file(), Capacity::Unknown, None)]
#[case(bare(502), Capacity::Lost, Some(ProbeTrigger::Outage))]
#[case(lost(), Capacity::Lost, Some(ProbeTrigger::Outage))]
fn a_failure_is_evidence_about_the_service(
    #[case] failure: Failure,
    #[case] capacity: Capacity,
    #[case] recheck: Option<ProbeTrigger>,
) {
    let failure = Failure {
        retry_after: Some(MINUTE),
        ..failure
    };
    for call in [Call::Create, Call::Get, Call::Cancel] {
        let failed = FailedCall::new(call, failure.clone(), &CONTRACT);
        assert_eq!(
            (failed.capacity(), failed.class.recheck()),
            (capacity, recheck)
        );
    }
}
