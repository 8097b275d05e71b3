//! The check of requests against `contract/openapi.yaml`, one planted difference at a time.

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

/// A create with this body, which else keeps to the document.
fn create(body: &str) -> Request {
    let headers = [
        ("authorization", "Bearer fingerprint"),
        ("idempotency-key", "k"),
        ("content-type", "application/json"),
        ("accept", "application/json"),
        ("x-service-workspace-id", "ws-1"),
    ];
    request("POST", "/runs", &headers, body)
}

/// A create with another value of a header, or without it.
fn header(name: &str, value: Option<&str>) -> Request {
    let mut request = create(BODY);
    match value {
        Some(value) => request.headers.insert(name.to_owned(), value.to_owned()),
        None => request.headers.remove(name),
    };
    request
}

/// A request with a token and this body.
fn with_token(method: &str, path: &str, body: &str) -> Request {
    request(
        method,
        path,
        &[("authorization", "Bearer fingerprint")],
        body,
    )
}

fn get(path: &str) -> Request {
    with_token("GET", path, "")
}

/// Proves: L-contract
#[test]
fn a_request_that_keeps_to_the_document_is_let_pass() {
    for request in [
        create(BODY),
        request("GET", "/version", &[], ""),
        get("/workspaces/current"),
        get("/runs/r%2F1%3Acancel"),
        with_token("POST", "/runs/r-1:cancel", ""),
        get("/runs/r-1/events"),
    ] {
        assert_eq!(request.violations(Document::pinned()), [""; 0]);
    }
}

#[track_caller]
#[expect(clippy::needless_pass_by_value, reason = "called with a new request")]
fn differs(request: Request, why: &str) {
    let found = request.violations(Document::pinned());
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].contains(why), "{found:?}");
}

/// Proves: L-contract
#[test]
fn a_request_that_differs_from_the_document_is_found() {
    let basic = [("authorization", "Basic eA==")];
    let no_region = r#"{"workload":{"image":"x"},"provider":"auto"}"#;
    let no_image = r#"{"workload":{},"provider":"auto","region":"auto"}"#;
    let null_image = r#"{"workload":{"image":null},"provider":"auto","region":"auto"}"#;
    let mut no_text = create("");
    no_text.body = None;
    differs(get("/../v2/runs/r"), "is not declared");
    differs(get("/runs/r/logs"), "is not declared");
    differs(with_token("DELETE", "/runs/r", ""), "DELETE is not");
    differs(get("/runs/r:cancel"), "{runId}:cancel");
    differs(get("/runs/"), "runId at ");
    differs(get("/runs/a:b"), "character that must be encoded");
    differs(get("/runs/%FF"), "runId is not UTF-8");
    differs(get("/runs/r?verbose=1"), "verbose is not declared");
    differs(get("/version"), "a token goes along");
    differs(request("GET", "/runs/r", &[], ""), "token is missing");
    differs(request("GET", "/runs/r", &basic, ""), "not one Bearer");
    differs(with_token("POST", "/runs/r:cancel", "{}"), "a body where");
    differs(header("idempotency-key", None), "key is missing");
    differs(header("idempotency-key", Some("")), "idempotency-key at ");
    differs(header("x-service-workspace-id", Some("")), "-id at ");
    differs(header("content-type", None), "content-type is missing");
    differs(header("content-type", Some("text/plain")), "text/plain is");
    differs(header("accept", Some("text/event-stream")), "allows none");
    differs(header("x-debug", Some("1")), "x-debug is not declared");
    differs(header("last-event-id", Some("1")), "last-event-id is not");
    differs(create(""), "the body is no JSON");
    differs(create("{"), "the body is no JSON");
    differs(create("[]"), "the body at ''");
    differs(create(no_region), "region");
    differs(create(no_image), "the body at '/workload'");
    differs(create(null_image), "the body at '/workload/image'");
    differs(no_text, "the body is no text");
}
