//! The result of a Workspace's failed check, and the time of the next one.

use std::time::Duration;

use rstest::rstest;
use run_operator::{
    api::Reason,
    decide::{
        conditions::Why,
        failure::Failure,
        workspace::{Assessment, Check, Obstacle, assess},
    },
};

use crate::support::{
    CONTRACT, at, bare, identity_failed, lost, no_file, problem, unreadable, version_failed,
};

/// The third failed check in a row.
fn stopped_by(obstacle: Obstacle) -> Assessment {
    let check = Check {
        obstacle: Some(obstacle),
        ..Check::default()
    };
    assess(None, &check, 1, 3, &CONTRACT, at(0))
}

#[rstest]
#[case::of_no_shape(unreadable(), Reason::ContractViolation, "the contract file")]
#[case::of_another_path(
    problem(404, "no_route"),
    Reason::ContractViolation,
    "the version segment"
)]
#[case::of_another_server(bare(404), Reason::ContractViolation, "the version segment")]
#[case::in_trouble(
    problem(503, "busy"),
    Reason::ServiceUnavailable,
    "retried automatically"
)]
#[case::none(lost(), Reason::ServiceUnavailable, "retried automatically")]
// No token is sent with this call, so nothing is wrong with it.
#[case::forbidden(
    problem(403, "no"),
    Reason::ServiceUnavailable,
    "retried automatically"
)]
#[case::without_a_token(
    problem(401, "no"),
    Reason::ServiceUnavailable,
    "retried automatically"
)]
fn an_answer_to_the_question_for_the_version_says_where_to_look(
    #[case] answer: Failure,
    #[case] reason: Reason,
    #[case] look: &str,
) {
    let failed = stopped_by(version_failed(answer));
    let why = failed.usable.expect_err("nothing is usable");
    assert_eq!(why.reason, reason);
    assert!(why.message.contains(look), "{why:?}");
}

#[rstest]
#[case(lost(), "no_answer")]
#[case(bare(502), "no_problem_body")]
#[case(unreadable(), "unreadable_answer")]
fn a_failed_check_shows_the_code_that_a_run_would_show(
    #[case] answer: Failure,
    #[case] code: &str,
) {
    let shown = stopped_by(identity_failed(answer)).status.last_error;
    assert_eq!(shown.expect("an error").code, code);
}

#[rstest]
#[case::of_the_service(
    problem(403, "no"),
    Reason::WorkspaceMismatch,
    "check spec.workspaceID"
)]
// Whatever stands between them knows nothing of the token.
#[case::of_a_proxy(bare(403), Reason::ServiceUnavailable, "the proxies on the way")]
fn a_403_to_the_token_is_believed_of_the_service_alone(
    #[case] answer: Failure,
    #[case] reason: Reason,
    #[case] look: &str,
) {
    let failed = stopped_by(identity_failed(answer));
    let why = failed.usable.expect_err("nothing is usable");
    assert_eq!(why.reason, reason);
    assert!(why.message.contains(look), "{why:?}");
}

#[test]
fn a_check_that_lacked_a_file_is_no_answer_of_the_service() {
    assert!(version_failed(no_file()).no_file());
    assert!(identity_failed(no_file()).no_file());
    assert!(!version_failed(lost()).no_file());
    let why = Why::new(Reason::CAInvalid, "not a certificate");
    assert!(!Obstacle::Config(why).no_file());
}

/// Proves: R10a, F-retried
#[test]
fn a_failed_probe_shows_its_request_id_and_honours_retry_after() {
    let wait = Duration::from_secs(90);
    let busy = Failure {
        retry_after: Some(wait),
        ..problem(503, "busy")
    };
    for obstacle in [version_failed(busy.clone()), identity_failed(busy)] {
        assert_eq!(obstacle.retry_after(), Some(wait));
        let status = stopped_by(obstacle).status;
        assert_eq!(status.request_id.as_deref(), Some("req-9"));
        let shown = status.last_error.expect("an error");
        assert_eq!(
            (&*shown.code, shown.http_status, shown.attempts),
            ("busy", Some(503), 3)
        );
    }
    for (answer, heeded) in [
        (bare(503), 30),
        (bare(429), 600),
        (problem(503, "busy"), 600),
    ] {
        let slow = Failure {
            retry_after: Some(Duration::from_mins(10)),
            ..answer
        };
        let heeded = Some(Duration::from_secs(heeded));
        assert_eq!(version_failed(slow.clone()).retry_after(), heeded);
        assert_eq!(identity_failed(slow).retry_after(), heeded);
    }
    let unasked = Obstacle::Config(Why::new(Reason::SecretNotFound, "It is not there."));
    assert_eq!(unasked.retry_after(), None);
    let status = stopped_by(unasked).status;
    assert_eq!(status.last_error, None, "nothing was asked");
}
