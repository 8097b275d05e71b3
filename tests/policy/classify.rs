//! The classification of a failed call, answer by answer and call by call.

use rstest::rstest;
use run_operator::{
    api::Reason,
    decide::failure::{
        Call, Class, Failure, FailureKind, answers_not_created, classify, refuses_the_bytes,
    },
};

use crate::support::{CONTRACT, bare, hopeless, lost, no_file, problem, unreadable};

fn retryable(said: bool, failure: Failure) -> Failure {
    Failure {
        retryable: Some(said),
        ..failure
    }
}

fn unsent() -> Failure {
    Failure {
        kind: FailureKind::NotSent,
        ..lost()
    }
}

/// The class of a problem document for a create, and for a GET or a cancel.
fn ends(reason: Reason) -> (Class, Class) {
    (Class::Final(reason), Class::Refused(reason))
}

/// The same, where the two have reasons of their own.
fn differs(create: Reason, other: Reason) -> (Class, Class) {
    (Class::Final(create), Class::Refused(other))
}

const RETRIED: (Class, Class) = (Class::Retry, Class::Retry);

/// Answer, and what it means for a create, and for a GET or a cancel.
/// Proves: R8, R9, R10, R10a, F-retried, F-final, F-409, S-problem, F-refused-bytes, P-files, F-401
#[rstest]
#[case(lost(), RETRIED)]
#[case(no_file(), RETRIED)]
#[case(unsent(), ends(Reason::Refused))]
#[case(unreadable(), (Class::Violation, Class::Violation))]
#[case(problem(401, "expired"), (Class::Unauthorized, Class::Unauthorized))]
#[case(bare(401), (Class::Unauthorized, Class::Unauthorized))]
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
#[case(problem(408, "slow_client"), RETRIED)]
#[case(problem(425, "too_early"), RETRIED)]
#[case(problem(429, "slow"), RETRIED)]
#[case(retryable(false, problem(408, "slow_client")), ends(Reason::Refused))]
#[case(retryable(false, problem(429, "quota")), ends(Reason::Refused))]
#[case(retryable(true, problem(503, "busy")), RETRIED)]
#[case(problem(500, "boom"), RETRIED)]
#[case(problem(503, "busy"), RETRIED)]
#[case(hopeless(), ends(Reason::ServerError))]
#[case(problem(418, "teapot"), ends(Reason::Refused))]
// A proxy speaks, and not the service.
#[case(bare(400), RETRIED)]
#[case(bare(403), RETRIED)]
#[case(bare(404), RETRIED)]
#[case(bare(408), RETRIED)]
#[case(bare(409), RETRIED)]
#[case(bare(422), RETRIED)]
#[case(bare(425), RETRIED)]
#[case(bare(429), RETRIED)]
#[case(bare(502), RETRIED)]
fn an_answer_is_judged_by_status_and_code(
    #[case] failure: Failure,
    #[case] (create, other): (Class, Class),
) {
    assert_eq!(classify(&failure, Call::Create, &CONTRACT), create);
    assert_eq!(classify(&failure, Call::Get, &CONTRACT), other);
    assert_eq!(classify(&failure, Call::Cancel, &CONTRACT), other);
    let retitled = Failure {
        message: "run_not_found, approval_required, retryable".into(),
        ..failure
    };
    for (call, class) in [
        (Call::Create, create),
        (Call::Get, other),
        (Call::Cancel, other),
    ] {
        let by_title = classify(&retitled, call, &CONTRACT);
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
    let class = classify(&failure, Call::Create, &CONTRACT);
    assert_eq!(answers_not_created(&failure, class), request);
    assert_eq!(refuses_the_bytes(&failure, class), bytes);
}
