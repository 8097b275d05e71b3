//! Unprocessed answers, for the commands that check the service: no token is sent, and no status is an error.

use run_operator::api::contract::Contract;
use run_operator::service::RawAnswer;

use crate::support::*;

#[tokio::test]
async fn the_raw_version_is_read_without_a_token_and_kept_verbatim() {
    let body = r#"{ "version": "1.4" }"#;
    let headers = [
        "Content-Type: Application/JSON; charset=utf-8",
        "X-Request-ID: req-1",
    ];
    let server = Server::start([vec![answer("200 OK", &headers, body)]]).await;
    let came = within(client(&server).raw_version()).await.unwrap();
    assert_eq!((came.status, came.is_success()), (200, true));
    assert_eq!(came.media_type.as_deref(), Some("application/json"));
    assert_eq!(came.request_id.as_deref(), Some("req-1"));
    assert_eq!(came.body.as_deref(), Some(body.as_bytes()));
    let document = came.json().expect("it is JSON");
    let version = RawAnswer::version(&document, &Contract::builtin().unwrap());
    assert_eq!(version.as_deref(), Some("1.4"));
    let request = server.request();
    assert_eq!(request.line(), "GET /api/v1/version HTTP/1.1");
    assert!(request.headers("authorization").is_empty());
}

#[tokio::test]
async fn a_refusal_is_an_answer_like_any_other() {
    let body = r#"{"code":"unauthenticated"}"#;
    let server = Server::start([vec![problem("401 Unauthorized", body)]]).await;
    let asked = client(&server);
    let came = within(asked.current_workspace_without_token()).await;
    let came = came.unwrap();
    assert_eq!((came.status, came.is_success()), (401, false));
    let media_type = came.media_type.as_deref();
    assert_eq!(media_type, Some("application/problem+json"));
    assert_eq!(came.json().expect("JSON")["code"], "unauthenticated");
    let request = server.request();
    assert_eq!(request.line(), "GET /api/v1/workspaces/current HTTP/1.1");
    assert!(request.headers("authorization").is_empty());
}

#[tokio::test]
async fn a_body_that_is_no_json_or_too_large_is_none() {
    let large = "x".repeat(1_048_577);
    let server = Server::start([vec![ok("<html>")], vec![ok(&large)]]).await;
    let client = client(&server);
    let page = within(client.raw_version()).await.unwrap();
    assert_eq!(page.body.as_deref(), Some(&b"<html>"[..]));
    assert_eq!(page.json(), None);
    let large = within(client.raw_version()).await.unwrap();
    assert_eq!(large.json(), None);
    assert_eq!((large.status, large.body), (200, None));
}
