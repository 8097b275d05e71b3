//! No answer leads a call, and so the token, elsewhere.

use std::net::TcpListener;

use rstest::rstest;
use run_operator::decide::failure::{Failure, FailureKind};
use run_operator::service::{Client, Operation};

use crate::support::*;

/// Makes one call of the operation, and returns how it failed.
async fn failure_of(client: &Client, operation: Operation) -> Failure {
    let failed = match operation {
        Operation::Version => within(client.version()).await.err(),
        Operation::CurrentWorkspace => {
            let who = credentials();
            within(client.current_workspace(&who)).await.err()
        }
        Operation::CreateRun => create(client).await.err(),
        Operation::GetRun => get(client).await.err(),
        Operation::CancelRun => cancel(client).await.err(),
        Operation::RunEvents => events(client, None).await.err(),
    };
    failed.expect("a redirect is no success")
}

/// Addresses that a redirect may name; `{port}` is that of a listener which counts.
const ELSEWHERE: [&str; 8] = [
    "http://127.0.0.1:{port}/api/v1/runs/run-1",
    "http://localhost:{port}/",
    "//127.0.0.1:{port}/api/v1/version",
    "https://127.0.0.1:{port}/",
    "http://user:password@127.0.0.1:{port}/",
    "file:///etc/passwd",
    "/api/v1/elsewhere",
    "?again",
];

/// Proves: X-allow-list
#[rstest]
#[case("300 Multiple Choices")]
#[case("301 Moved Permanently")]
#[case("302 Found")]
#[case("303 See Other")]
#[case("304 Not Modified")]
#[case("307 Temporary Redirect")]
#[case("308 Permanent Redirect")]
#[tokio::test]
async fn no_operation_follows_a_redirect_anywhere(#[case] status: &str) {
    // A connection waits in its queue until it is accepted: none is missed.
    let elsewhere = TcpListener::bind("127.0.0.1:0").unwrap();
    elsewhere.set_nonblocking(true).unwrap();
    let port = elsewhere.local_addr().unwrap().port().to_string();
    let redirect = |to: &str| {
        let location = format!("Location: {}", to.replace("{port}", &port));
        vec![answer(status, &[&location, "X-Request-ID: req-1"], "")]
    };
    let calls = ELSEWHERE.len() * Operation::ALL.len();
    let scripts = Operation::ALL
        .iter()
        .flat_map(|_| ELSEWHERE.map(redirect))
        .collect::<Vec<_>>();
    let server = Server::start(scripts).await;
    let client = client(&server);
    for operation in Operation::ALL {
        for to in ELSEWHERE {
            let failure = failure_of(&client, operation).await;
            assert_eq!(
                failure.kind,
                FailureKind::Unreadable,
                "{operation:?} to {to}"
            );
            assert_eq!(failure.request_id.as_deref(), Some("req-1"));
            assert!(failure.message.contains("redirects are not followed"));
            assert!(!failure.message.contains(&port), "{}", failure.message);
        }
    }
    assert_eq!(server.requests().len(), calls, "one request a call");
    let came = elsewhere.accept();
    assert!(came.is_err(), "a call went elsewhere: {came:?}");
}
