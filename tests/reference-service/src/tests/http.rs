//! The API as it should be.

use serde_json::json;

use crate::tests::{AUTH, Service, body, create_headers};

/// Proves: E-getVersion
#[tokio::test]
async fn the_version_is_public_and_the_workspace_is_not() {
    let service = Service::start().await;
    let (status, version) = service.json("GET /api/v1/version", "", "").await;
    assert_eq!((status, &version["version"]), (200, &json!("1.0.0")));
    let (status, head, problem) = service.call("GET /api/v1/workspaces/current", "", "").await;
    assert_eq!(status, 401);
    assert!(head.contains("www-authenticate: Bearer"), "{head}");
    assert!(
        problem.contains("\"code\":\"unauthenticated\""),
        "{problem}"
    );
    let named = format!("{AUTH}X-Service-Workspace-ID: ws-demo\r\n");
    for headers in [AUTH, &named] {
        let (status, workspace) = service
            .json("GET /api/v1/workspaces/current", headers, "")
            .await;
        assert_eq!((status, &workspace["id"]), (200, &json!("ws-demo")));
    }
}

/// What `contract/openapi.yaml` says of an error; of a success see [`Service::call`].
/// Proves: R4, L-contract
#[tokio::test]
async fn every_error_is_a_problem_with_the_request_id_of_its_header() {
    let service = Service::start().await;
    let wrong_workspace = format!("{AUTH}X-Service-Workspace-ID: ws-9\r\n");
    let no_type = format!("{AUTH}Idempotency-Key: k\r\n");
    let (large, fine) = ("x".repeat((2 << 20) + 1), create_headers("k"));
    let whole = body(json!({}));
    for (line, headers, body, status, code) in [
        ("GET /nowhere", "", "", 404, "path_not_found"),
        ("DELETE /api/v1/runs", AUTH, "", 405, "method_not_allowed"),
        ("GET /api/v1/runs/none", AUTH, "", 404, "run_not_found"),
        (
            "GET /api/v1/runs/none",
            "Authorization: Basic eA==\r\n",
            "",
            401,
            "unauthenticated",
        ),
        (
            "GET /api/v1/workspaces/current",
            &wrong_workspace,
            "",
            403,
            "workspace_mismatch",
        ),
        (
            "GET /api/v1/workspaces/current?token=dev",
            AUTH,
            "",
            400,
            "unexpected_query",
        ),
        (
            "POST /api/v1/runs/none:cancel",
            AUTH,
            "{}",
            400,
            "unexpected_body",
        ),
        (
            "POST /api/v1/runs",
            AUTH,
            &whole,
            400,
            "idempotency_key_missing",
        ),
        (
            "POST /api/v1/runs",
            &no_type,
            &whole,
            415,
            "unsupported_media_type",
        ),
        ("POST /api/v1/runs", &fine, "{", 400, "invalid_json"),
        ("POST /api/v1/runs", &fine, "{}", 422, "validation_failed"),
        ("POST /api/v1/runs", &fine, &large, 413, "body_too_large"),
    ] {
        let (got, head, text) = service.call(line, headers, body).await;
        let problem: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!((got, &problem["code"]), (status, &json!(code)), "{line}");
        assert!(
            head.contains("content-type: application/problem+json"),
            "{head}"
        );
        let request_id = problem["requestId"].as_str().expect("a request id");
        assert!(
            head.contains(&format!("x-request-id: {request_id}")),
            "{head}"
        );
        assert!(problem["retryable"].is_boolean() && problem["title"].is_string());
    }
}

/// Proves: E-streamRunEvents
#[tokio::test]
async fn a_stream_replays_follows_and_ends_with_its_run() {
    let service = Service::start().await;
    let (_, run) = service.create("k", json!({"logEvents": 1})).await;
    let id = run["runId"].as_str().expect("an id");
    let line = format!("GET /api/v1/runs/{id}/events");
    let (status, head, all) = service.call(&line, AUTH, "").await;
    assert_eq!(status, 200);
    assert!(head.contains("content-type: text/event-stream"), "{head}");
    assert_eq!(all.matches("\nid: ").count(), 5, "{all}");
    assert!(
        all.contains("\"state\":\"succeeded\"") && all.ends_with("0\r\n\r\n"),
        "{all}"
    );
    let resume = format!("{AUTH}Last-Event-ID: {id}-00004\r\n");
    let (_, _, rest) = service.call(&line, &resume, "").await;
    assert_eq!(rest.matches("\nid: ").count(), 1, "{rest}");
    assert!(rest.contains(&format!("id: {id}-00005\n")), "{rest}");
    let unknown = format!("{AUTH}Last-Event-ID: never heard of\r\n");
    assert_eq!(service.call(&line, &unknown, "").await.2, all);
}

#[tokio::test]
async fn tokens_come_and_go_and_are_never_shown() {
    let service = Service::start().await;
    let made = service.control("POST /_control/tokens", &json!({})).await;
    let token = made["token"].as_str().expect("a generated token");
    let auth = format!("Authorization: Bearer {token}\r\n");
    let whoami = "GET /api/v1/workspaces/current";
    assert_eq!(service.call(whoami, &auth, "").await.0, 200);
    let fingerprint = made["fingerprint"].as_str().expect("a fingerprint");
    let path = format!("/_control/tokens/{fingerprint}");
    for (verb, change, status) in [
        ("PATCH", json!({"expiresAfterMs": 0}), 401),
        ("PATCH", json!({}), 200),
        ("DELETE", json!({}), 401),
    ] {
        service.control(&format!("{verb} {path}"), &change).await;
        assert_eq!(service.call(whoami, &auth, "").await.0, status, "{change}");
    }
    service
        .call(&format!("{whoami}?t={token}"), &auth, "")
        .await;
    let shown = service.control("GET /_control/requests", &json!({})).await;
    assert!(!shown.to_string().contains(token), "{shown}");
}

#[tokio::test]
async fn a_record_has_every_request_unchanged_but_its_tokens() {
    let service = Service::start().await;
    let leaky = body(json!({})).replace("x:1", "dev");
    let (line, headers) = ("POST /api/v1/runs?t=dev", create_headers("k"));
    service.call(line, &headers, &leaky).await;
    service.call("GET /_control/stats", "", "").await;
    let record = service.record();
    let one: serde_json::Value = serde_json::from_str(&record).expect("one line of JSON");
    assert_eq!(one["method"], "POST");
    assert_eq!(one["headers"]["idempotency-key"], "k");
    let kept = one["body"].as_str().expect("a body");
    assert!(kept.contains(r#""provider":"auto""#), "{kept}");
    assert!(!record.contains("dev"), "{record}");
}
