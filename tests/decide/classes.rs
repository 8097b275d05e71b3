//! What a failed call means, answer by answer and call by call.

use rstest::rstest;
use run_operator::{
    api::Reason,
    decide::{
        answer::{Failure, FailureKind},
        classify::{Call, Class, answers_not_created, classify, refuses_the_bytes},
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

/// Answer, what it means for a create, and for a GET or a cancel.
#[rstest]
#[case(lost(), Class::Retry, Class::Retry)]
#[case(no_file(), Class::Retry, Class::Retry)]
#[case(unsent(), Class::Final(Reason::Refused), Class::Final(Reason::Refused))]
#[case(unreadable(), Class::Violation, Class::Violation)]
#[case(problem(401, "expired"), Class::Unauthorized, Class::Unauthorized)]
#[case(bare(401), Class::Unauthorized, Class::Unauthorized)]
#[case(
    problem(403, "no"),
    Class::Final(Reason::Forbidden),
    Class::Final(Reason::Forbidden)
)]
#[case(
    problem(404, "run_not_found"),
    Class::Final(Reason::Refused),
    Class::Final(Reason::RunNotFound)
)]
#[case(
    problem(404, "no_such_route"),
    Class::Final(Reason::Refused),
    Class::Final(Reason::Refused)
)]
#[case(
    bare(404),
    Class::Final(Reason::Refused),
    Class::Final(Reason::Refused)
)]
#[case(
    problem(400, "bad"),
    Class::Final(Reason::CreateRefused),
    Class::Final(Reason::Refused)
)]
#[case(
    problem(413, "big"),
    Class::Final(Reason::CreateRefused),
    Class::Final(Reason::Refused)
)]
#[case(
    problem(422, "bad"),
    Class::Final(Reason::CreateRefused),
    Class::Final(Reason::Refused)
)]
#[case(
    retryable(true, problem(422, "bad")),
    Class::Final(Reason::CreateRefused),
    Class::Final(Reason::Refused)
)]
#[case(
    problem(409, "approval_required"),
    Class::Final(Reason::ApprovalConflict),
    Class::Final(Reason::ApprovalConflict)
)]
#[case(
    problem(409, "version_conflict"),
    Class::Final(Reason::VersionConflict),
    Class::Final(Reason::VersionConflict)
)]
#[case(
    problem(409, "idempotency_conflict"),
    Class::Final(Reason::IdempotencyConflict),
    Class::Final(Reason::IdempotencyConflict)
)]
#[case(
    problem(409, "new_kind"),
    Class::Final(Reason::UnknownConflict),
    Class::Final(Reason::UnknownConflict)
)]
#[case(
    bare(409),
    Class::Final(Reason::UnknownConflict),
    Class::Final(Reason::UnknownConflict)
)]
#[case(problem(429, "slow"), Class::Retry, Class::Retry)]
#[case(bare(429), Class::Retry, Class::Retry)]
#[case(
    retryable(false, problem(429, "quota")),
    Class::Final(Reason::Refused),
    Class::Final(Reason::Refused)
)]
#[case(retryable(true, problem(503, "busy")), Class::Retry, Class::Retry)]
#[case(bare(502), Class::Retry, Class::Retry)]
#[case(
    hopeless(),
    Class::Final(Reason::ServerError),
    Class::Final(Reason::ServerError)
)]
#[case(
    problem(418, "teapot"),
    Class::Final(Reason::Refused),
    Class::Final(Reason::Refused)
)]
fn an_answer_is_judged_by_status_and_code(
    #[case] failure: Failure,
    #[case] create: Class,
    #[case] other: Class,
) {
    assert_eq!(classify(&failure, Call::Create, &CONTRACT), create);
    assert_eq!(classify(&failure, Call::Get, &CONTRACT), other);
    assert_eq!(classify(&failure, Call::Cancel, &CONTRACT), other);
    let retitled = Failure {
        message: "run_not_found, retryable".into(),
        ..failure
    };
    assert_eq!(
        classify(&retitled, Call::Create, &CONTRACT),
        create,
        "never by the title"
    );
}

#[rstest]
#[case(problem(403, "no"), true, false)]
#[case(problem(422, "bad"), true, true)]
#[case(problem(429, "slow"), true, false)]
#[case(problem(409, "approval_required"), true, false)]
#[case(problem(409, "idempotency_conflict"), false, false)]
#[case(bare(422), false, false)]
#[case(bare(403), false, false)]
#[case(hopeless(), false, false)]
#[case(lost(), false, false)]
fn a_4xx_problem_proves_its_request_made_nothing_and_a_refusal_proves_it_of_the_bytes(
    #[case] failure: Failure,
    #[case] request: bool,
    #[case] bytes: bool,
) {
    let class = classify(&failure, Call::Create, &CONTRACT);
    assert_eq!(answers_not_created(&failure, class), request);
    assert_eq!(refuses_the_bytes(&failure, class), bytes);
}
