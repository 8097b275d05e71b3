//! Requests on the wire, byte for byte.

use bytes::Bytes;
use rstest::rstest;
use run_operator::api::contract::Contract;
use run_operator::service::Client;

use crate::support::*;

const COMMON: [&str; 4] = ["accept", "accept-encoding", "host", "user-agent"];

fn with_common(more: &[&str]) -> Vec<String> {
    let mut names = [&COMMON[..], more].concat();
    names.sort_unstable();
    names.into_iter().map(str::to_owned).collect()
}

/// Proves: E-getVersion, R3, P-workspace-check
#[tokio::test]
async fn version_is_asked_for_without_a_token() {
    let server = Server::start([vec![ok(r#"{"version":"1.4"}"#)]]).await;
    let reply = within(client(&server).version()).await.unwrap();
    assert_eq!(reply.version.as_deref(), Some("1.4"));
    assert_eq!(reply.request_id.as_deref(), Some("req-1"));
    let request = server.request();
    assert_eq!(request.line(), "GET /api/v1/version HTTP/1.1");
    assert_eq!(request.names(), with_common(&[]));
    assert_eq!(request.headers("user-agent"), ["run-operator/test"]);
    assert_eq!(request.headers("accept-encoding"), ["identity"]);
    assert_eq!(
        request.headers("accept"),
        ["application/json, application/problem+json"]
    );
    assert_eq!(
        request.headers("host"),
        [format!("127.0.0.1:{}", server.port)]
    );
}

/// Proves: S-workspace, E-getCurrentWorkspace, P-workspace-check
#[tokio::test]
async fn the_workspace_is_asked_for_with_the_token() {
    let server = Server::start([vec![ok(r#"{"id":"ws-1"}"#)]]).await;
    within(client(&server).current_workspace(&credentials()))
        .await
        .unwrap();
    let request = server.request();
    assert_eq!(request.line(), "GET /api/v1/workspaces/current HTTP/1.1");
    assert_eq!(request.names(), with_common(&["authorization"]));
    assert_eq!(
        request.headers("authorization"),
        [format!("Bearer {TOKEN}")]
    );
}

/// Proves: R4
#[tokio::test]
async fn the_workspace_header_is_sent_only_when_given() {
    let server = Server::start([vec![ok("{}")], vec![ok("{}")]]).await;
    let client = client(&server);
    for who in [credentials_for("ws-1"), credentials()] {
        within(client.current_workspace(&who)).await.unwrap();
    }
    let requests = server.requests();
    assert_eq!(requests[0].headers("x-service-workspace-id"), ["ws-1"]);
    assert!(requests[1].headers("x-service-workspace-id").is_empty());
}

/// Proves: E-createRun, R1
#[tokio::test]
async fn every_create_attempt_sends_the_same_key_and_the_exact_bytes() {
    // Not what a serializer would write: no byte may change on its way.
    let body: &[u8] =
        br#"{ "region":"auto","workload":{"image":"a","n":1.0,"x":null} ,"provider":"auto"}"#;
    let json = ["Content-Type: application/json"];
    let created = answer("201 Created", &json, r#"{"runId":"run-1"}"#);
    let server = Server::start([vec![Step::Close], vec![created]]).await;
    let client = client(&server);
    let (who, key) = (credentials(), key("9d0f3b1e-uid"));
    let create = || client.create_run(&who, &key, Bytes::from_static(body));
    within(create()).await.expect_err("the answer was lost");
    let view = within(create()).await.unwrap();
    assert_eq!(view.run_id.as_deref(), Some("run-1"));

    let requests = server.requests();
    assert_eq!(requests.len(), 2, "one attempt a call");
    for request in &requests {
        assert_eq!(request.line(), "POST /api/v1/runs HTTP/1.1");
        let own = [
            "authorization",
            "content-length",
            "content-type",
            "idempotency-key",
        ];
        assert_eq!(request.names(), with_common(&own));
        assert_eq!(request.headers("idempotency-key"), ["9d0f3b1e-uid"]);
        assert_eq!(request.headers("content-type"), ["application/json"]);
        assert_eq!(request.body, body);
    }
}

/// Proves: S-paths, S-run, E-getRun, E-cancelRun, E-streamRunEvents, P-files, X-forged
#[rstest]
#[case("run-1", "run-1")]
#[case::that_could_lead_elsewhere("../r:cancel?x", "..%2Fr%3Acancel%3Fx")]
#[tokio::test]
async fn get_cancel_and_events_use_the_runs_own_path(#[case] id: &str, #[case] segment: &str) {
    let server = Server::start([
        vec![ok(r#"{"state":"running"}"#)],
        vec![ok("{}")],
        vec![stream_head(), Step::Close],
    ])
    .await;
    let (client, who, run) = (client(&server), credentials(), run_id(id));
    within(client.get_run(&who, &run)).await.unwrap();
    within(client.cancel_run(&who, &run)).await.unwrap();
    within(client.run_events(&who, &run, None)).await.unwrap();

    let requests = server.requests();
    let with_length = ["authorization", "content-length"];
    for (request, (start, end), headers) in [
        (&requests[0], ("GET", ""), &["authorization"][..]),
        (&requests[1], ("POST", ":cancel"), &with_length),
        (&requests[2], ("GET", "/events"), &["authorization"]),
    ] {
        let line = format!("{start} /api/v1/runs/{segment}{end} HTTP/1.1");
        assert_eq!(request.line(), line);
        assert_eq!(request.names(), with_common(headers));
    }
    assert_eq!(requests[1].headers("content-length"), ["0"]);
    assert_eq!(
        requests[2].headers("accept"),
        ["text/event-stream, application/problem+json"]
    );
}

/// Proves: S-paths
#[tokio::test]
async fn a_base_url_without_a_path_works_too() {
    let server = Server::start([vec![ok("{}")]]).await;
    let base_url = format!("http://localhost:{}/", server.port);
    let client = Client::new(config(&base_url, Contract::builtin().unwrap())).unwrap();
    within(client.version()).await.unwrap();
    assert_eq!(server.request().line(), "GET /version HTTP/1.1");
}
