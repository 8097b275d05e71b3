//! The check of requests against `contract/openapi.yaml`, one planted difference at a time.

use rstest::rstest;

use test_support::openapi::{Document, Request};

const BODY: &str = r#"{"workload":{"image":"x","gpus":1},"provider":"auto","region":"auto"}"#;

fn request(method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Request {
    let headers = headers.iter().chain(&[("host", "127.0.0.1:1")]);
    Request {
        method: method.to_owned(),
        target: format!("/api/v1{path}"),
        headers: headers
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect(),
        body: Some(body.to_owned()),
    }
}

/// A create that keeps to the document.
fn create() -> Request {
    let headers = [
        ("authorization", "Bearer fingerprint"),
        ("idempotency-key", "k"),
        ("content-type", "application/json"),
        ("accept", "application/json"),
        ("x-service-workspace-id", "ws-1"),
    ];
    request("POST", "/runs", &headers, BODY)
}

/// A request with a token and nothing else.
fn with_token(method: &str, path: &str) -> Request {
    request(method, path, &[("authorization", "Bearer fingerprint")], "")
}

fn violations(request: &Request) -> Vec<String> {
    request.violations(Document::pinned())
}

/// Proves: L-document
#[rstest]
#[case(create())]
#[case(request("GET", "/version", &[], ""))]
#[case(with_token("GET", "/workspaces/current"))]
#[case(with_token("GET", "/runs/r%2F1%3Acancel"))]
#[case(with_token("POST", "/runs/r-1:cancel"))]
#[case(with_token("GET", "/runs/r-1/events"))]
fn a_request_that_keeps_to_the_document_is_let_pass(#[case] request: Request) {
    assert_eq!(violations(&request), Vec::<String>::new());
}

/// Proves: L-document
#[rstest]
#[case::base(with_token("GET", "/../v2/runs/r"), "is not declared")]
#[case::path(with_token("GET", "/runs/r/logs"), "is not declared")]
#[case::method(
    with_token("DELETE", "/runs/r"),
    "DELETE is not declared for /runs/{runId}"
)]
#[case::longer_path_is_meant(
    with_token("GET", "/runs/r:cancel"),
    "GET is not declared for /runs/{runId}:cancel"
)]
#[case::run_id(with_token("GET", "/runs/"), "runId at ")]
#[case::not_encoded(
    with_token("GET", "/runs/a:b"),
    "runId holds a character that must be encoded"
)]
#[case::not_utf_8(with_token("GET", "/runs/%FF"), "runId is not UTF-8")]
#[case::query(
    with_token("GET", "/runs/r?verbose=1"),
    "the query parameter verbose is not declared"
)]
#[case::token_on_version(with_token("GET", "/version"), "a token goes along where none belongs")]
#[case::no_token(request("GET", "/runs/r", &[], ""), "the token is missing")]
#[case::no_bearer(request("GET", "/runs/r", &[("authorization", "Basic eA==")], ""), "not one Bearer token")]
#[case::unknown_body({ let mut r = with_token("POST", "/runs/r:cancel"); r.body = Some("{}".into()); r }, "there is a body where none is known")]
fn a_request_that_differs_from_the_document_is_found(#[case] request: Request, #[case] why: &str) {
    let found = violations(&request);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].contains(why), "{found:?}");
}

/// Proves: L-document
#[rstest]
#[case::no_key("idempotency-key", None, "idempotency-key is missing")]
#[case::empty_key("idempotency-key", Some(""), "idempotency-key at ")]
#[case::empty_workspace("x-service-workspace-id", Some(""), "x-service-workspace-id at ")]
#[case::no_type("content-type", None, "content-type is missing")]
#[case::other_type(
    "content-type",
    Some("text/plain"),
    "content-type: text/plain is not declared"
)]
#[case::other_answer("accept", Some("text/event-stream"), "allows none of the answers")]
#[case::other_header("x-debug", Some("1"), "the header x-debug is not declared")]
#[case::event_id("last-event-id", Some("1"), "the header last-event-id is not declared")]
fn a_header_that_differs_from_the_document_is_found(
    #[case] name: &str,
    #[case] value: Option<&str>,
    #[case] why: &str,
) {
    let mut request = create();
    match value {
        Some(value) => request.headers.insert(name.to_owned(), value.to_owned()),
        None => request.headers.remove(name),
    };
    let found = violations(&request);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].contains(why), "{found:?}");
}

/// Proves: L-document
#[rstest]
#[case::nothing("", "the body is no JSON")]
#[case::no_json("{", "the body is no JSON")]
#[case::no_object("[]", "the body at ''")]
#[case::no_region(r#"{"workload":{"image":"x"},"provider":"auto"}"#, "region")]
#[case::no_image(
    r#"{"workload":{},"provider":"auto","region":"auto"}"#,
    "the body at '/workload'"
)]
#[case::image_is_null(
    r#"{"workload":{"image":null},"provider":"auto","region":"auto"}"#,
    "the body at '/workload/image'"
)]
fn a_body_that_differs_from_the_document_is_found(#[case] body: &str, #[case] why: &str) {
    let mut request = create();
    request.body = Some(body.to_owned());
    let found = violations(&request);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].contains(why), "{found:?}");
    request.body = None;
    assert_eq!(violations(&request), ["the body is no text"]);
}
