//! Errors by rule 8, and answers that only resemble them.

use std::sync::Arc;
use std::time::Duration;

use rstest::rstest;
use run_operator::api::contract::Contract;
use run_operator::decide::failure::{Failure, FailureKind};
use run_operator::service::{Client, ClientConfig};

use crate::support::*;

/// The operator's view of one answer to a GET.
async fn failure(step: Step) -> Failure {
    let server = Server::start([vec![step]]).await;
    get_failure(&client(&server)).await
}

/// Proves: S-problem, R11
#[tokio::test]
async fn a_problem_is_read_whole() {
    let body = r#"{"type":"about:blank","title":"Slow down","status":429,"code":"rate_limited",
        "requestId":"req-body","retryable":true,"params":{"limit":5}}"#;
    let headers = [
        "Content-Type: application/problem+json",
        "X-Request-ID: req-1",
        "Retry-After: 17",
    ];
    let step = answer("429 Too Many Requests", &headers, body);
    assert_eq!(
        failure(step).await,
        Failure {
            kind: FailureKind::Answered,
            http_status: Some(429),
            code: Some("rate_limited".to_owned()),
            request_id: Some("req-1".to_owned()),
            retryable: Some(true),
            retry_after: Some(Duration::from_secs(17)),
            message: "Slow down".to_owned(),
        }
    );
}

/// Proves: S-problem
#[rstest]
#[case("Content-Type: application/problem+json")]
#[case("Content-Type: application/problem+json; charset=utf-8")]
#[case("Content-Type: application/problem+json;charset=\"ISO-8859-1\"")]
#[case("content-type: Application/Problem+JSON ; x=y")]
#[tokio::test]
async fn a_problem_is_known_by_its_media_type_whatever_its_parameters(#[case] header: &str) {
    // A byte of another charset in the title must not cost the code.
    let mut body = br#"{"code":"quota","retryable":false,"title":"f"#.to_vec();
    body.extend_from_slice(b"\xFCr\"}");
    let failure = failure(answer("403 Forbidden", &[header], body)).await;
    assert_eq!(failure.kind, FailureKind::Answered);
    assert_eq!(failure.code.as_deref(), Some("quota"));
    assert_eq!(failure.retryable, Some(false));
    assert_eq!(failure.message, "f\u{FFFD}r");
}

/// Proves: S-problem
#[rstest]
#[case::code_alone(r#"{"code":"c"}"#, None)]
#[case::wrong_types(r#"{"code":"c","retryable":"yes","title":7,"requestId":false}"#, None)]
#[case::nulls(r#"{"code":"c","retryable":null,"title":null,"requestId":null}"#, None)]
#[case::with_a_bom("\u{feff}{\"code\":\"c\"}", None)]
#[case::id_in_the_body(r#"{"code":"c","requestId":"req-body"}"#, Some("req-body"))]
#[case::id_that_forges_a_line(r#"{"code":"c","requestId":"a\nb"}"#, None)]
#[tokio::test]
async fn what_is_missing_in_a_problem_is_missing_and_no_more(
    #[case] body: &str,
    #[case] request_id: Option<&str>,
) {
    let kind = ["Content-Type: application/problem+json"];
    let failure = failure(answer("500 Internal Server Error", &kind, body)).await;
    assert_eq!(failure.kind, FailureKind::Answered);
    assert_eq!(failure.code.as_deref(), Some("c"));
    assert_eq!(failure.retryable, None);
    assert_eq!(failure.request_id.as_deref(), request_id);
    assert!(failure.message.contains("HTTP 500"), "{}", failure.message);
}

/// Proves: R8, R11
#[rstest]
#[case::html("text/html", "<h1>502</h1>")]
#[case::json_with_a_code("application/json", r#"{"code":"c","retryable":true}"#)]
#[case::problem_without_a_code("application/problem+json", r#"{"title":"t","retryable":true}"#)]
#[case::problem_with_an_empty_code("application/problem+json", r#"{"code":"","retryable":true}"#)]
#[case::problem_that_is_no_object("application/problem+json", r#"["code"]"#)]
#[case::problem_that_is_cut("application/problem+json", r#"{"code":"c","#)]
#[case::problem_in_xml("application/problem+xml", "<code>c</code>")]
#[case::nothing("application/problem+json", "")]
#[tokio::test]
async fn what_is_not_the_service_s_problem_teaches_the_status_alone(
    #[case] media_type: &str,
    #[case] body: &str,
) {
    let kind = format!("Content-Type: {media_type}");
    let headers = [&kind, "X-Request-ID: req-1", "Retry-After: 3"];
    let failure = failure(answer("502 Bad Gateway", &headers, body)).await;
    assert_eq!(failure.kind, FailureKind::Answered);
    assert_eq!(failure.http_status, Some(502));
    assert_eq!(failure.code, None);
    assert_eq!(failure.retryable, None);
    assert_eq!(failure.request_id.as_deref(), Some("req-1"));
    assert_eq!(failure.retry_after, Some(Duration::from_secs(3)));
    assert_eq!(
        failure.message,
        "the service answered HTTP 502 without a problem body"
    );
}

/// Proves: X-caps
#[tokio::test]
async fn a_problem_over_its_cap_teaches_the_status_alone() {
    let title = "x".repeat(64 * 1024);
    let body = format!(r#"{{"code":"c","title":"{title}"}}"#);
    let failure = failure(problem("400 Bad Request", &body)).await;
    assert_eq!(failure.kind, FailureKind::Answered);
    assert_eq!(failure.http_status, Some(400));
    assert_eq!(failure.code, None);
}

/// Proves: S-problem
#[tokio::test]
async fn a_problem_that_repeats_the_workload_is_read() {
    let workload = "x".repeat(1_400_000);
    let body = format!(r#"{{"params":{{"workload":"{workload}"}},"code":"c","retryable":false}}"#);
    let failure = failure(problem("422 Unprocessable Content", &body)).await;
    assert_eq!(failure.code.as_deref(), Some("c"));
    assert_eq!(failure.retryable, Some(false));
}

#[tokio::test]
async fn an_endless_error_page_is_not_read() {
    let page = "HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/html\r\n\r\n<html>";
    let server = Server::start([vec![send(page), Step::Hang]]).await;
    let failure = get_failure(&client(&server)).await;
    assert_eq!(failure.kind, FailureKind::Answered);
    assert_eq!(failure.http_status, Some(503));
}

#[tokio::test]
async fn texts_of_a_problem_are_cut_to_one_short_line() {
    let title = "ä\\r\\n\\u001b[31m".repeat(400);
    let body = format!(r#"{{"code":"{}","title":"{title}"}}"#, "c".repeat(300));
    let failure = failure(problem("409 Conflict", &body)).await;
    assert!(failure.message.len() <= 512);
    assert!(!failure.message.chars().any(char::is_control));
    assert!(failure.code.unwrap().len() <= 128);
}

#[tokio::test]
async fn a_status_that_http_does_not_know_cannot_be_read() {
    let failure = failure(answer("799 Odd", &[], "")).await;
    assert_eq!(failure.kind, FailureKind::Unreadable);
    assert_eq!(failure.http_status, Some(799));
}

#[tokio::test]
async fn every_call_is_reported_to_the_observer_once() {
    let server = Server::start([
        vec![ok("{}")],
        vec![problem("404 Not Found", r#"{"code":"run_not_found"}"#)],
        vec![Step::Close],
    ])
    .await;
    let told = Arc::new(Told::default());
    let client = Client::new(ClientConfig {
        observer: told.clone(),
        ..config(&server.base_url(), Contract::builtin().unwrap())
    })
    .unwrap();
    within(client.version()).await.unwrap();
    get_failure(&client).await;
    events(&client, None).await.unwrap_err();
    let calls = ["Version Some(200)", "GetRun Some(404)", "RunEvents None"];
    assert_eq!(*told.0.lock().unwrap(), calls);
}
