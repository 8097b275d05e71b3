//! Answers that are meant to be too much: packed, endless, with too many headers.

use std::time::Duration;

use rstest::rstest;
use run_operator::decide::failure::{Failure, FailureKind};
use run_operator::service::{BodyError, CallError, UnreadableReason};

use crate::support::*;

/// 10 MiB of zeros in 10 KiB: `head -c 10485760 /dev/zero | gzip -9n`.
const BOMB: &[u8] = include_bytes!("ten-mebibytes-of-zeros.gz");

fn packed(status: &str, coding: &str, media_type: &str) -> Step {
    let coding = format!("Content-Encoding: {coding}");
    let media_type = format!("Content-Type: {media_type}");
    answer(status, &[&coding, &media_type, "X-Request-ID: req-1"], BOMB)
}

/// Proves: X-memory
#[rstest]
#[case::gzip("gzip")]
#[case::in_capitals("GZIP")]
#[case::deflate("deflate")]
#[case::brotli("br")]
#[case::zstd("zstd")]
#[case::unknown("x-of-my-own")]
#[case::twice("gzip, gzip")]
#[tokio::test]
async fn a_compressed_answer_is_refused_unread_with_the_remedy(#[case] coding: &str) {
    let answers = [
        vec![packed("201 Created", coding, "application/json")],
        vec![packed("200 OK", coding, "application/json")],
        vec![packed("200 OK", coding, "text/event-stream")],
    ];
    let server = Server::start(answers).await;
    let client = client(&server);
    let errors = [
        create(&client).await.unwrap_err(),
        get_failure(&client).await,
        events(&client, None).await.unwrap_err(),
    ];
    for error in errors {
        let failure = Failure::from(&error);
        assert_eq!(failure.request_id.as_deref(), Some("req-1"));
        assert!(failure.message.contains("Accept-Encoding: identity"));
        let reason = unreadable::<()>(Err(error));
        assert!(matches!(reason, UnreadableReason::Compressed), "{reason:?}");
    }
    for request in server.requests() {
        assert_eq!(request.headers("accept-encoding"), ["identity"]);
    }
}

/// Proves: X-memory
#[tokio::test]
async fn a_packed_problem_teaches_its_status_alone() {
    let problem = packed("409 Conflict", "gzip", "application/problem+json");
    let server = Server::start([vec![problem]]).await;
    let failure = Failure::from(&get_failure(&client(&server)).await);
    assert_eq!(failure.kind, FailureKind::Answered);
    assert_eq!(failure.http_status, Some(409));
    assert_eq!(failure.code, None);
}

/// Proves: X-caps
#[rstest]
#[case::announced("Content-Length: 1048577", 0)]
#[case::in_chunks("Transfer-Encoding: chunked", 17)]
#[tokio::test]
async fn an_answer_over_the_cap_is_not_read_to_its_end(
    #[case] length: &str,
    #[case] chunks: usize,
) {
    let head = format!("HTTP/1.1 200 OK\r\nX-Request-ID: req-1\r\n{length}\r\n\r\n");
    let mut script = vec![send(&head)];
    let chunk = format!("10000\r\n{}\r\n", "x".repeat(0x10000));
    script.extend((0..chunks).map(|_| send(&chunk)));
    // A client that waits for the end never returns.
    script.push(Step::Hang);
    let server = Server::start([script]).await;
    let reason = unreadable(get(&client(&server)).await);
    let too_large = matches!(reason, UnreadableReason::TooLarge { limit: 1_048_576 });
    assert!(too_large, "{reason:?}");
}

/// Proves: X-caps
#[rstest]
#[case::too_many("X-Again: x\r\n".repeat(200))]
#[case::too_long(format!("X-Long: {}\r\n", "x".repeat(1 << 20)))]
#[case::without_end("x".repeat(1 << 20))]
#[tokio::test]
async fn headers_without_bound_are_a_transport_failure(#[case] headers: String) {
    let answer = format!("HTTP/1.1 200 OK\r\n{headers}\r\n{{}}");
    let server = Server::start([vec![send(&answer), Step::Hang]]).await;
    let error = get_failure(&client(&server)).await;
    assert!(matches!(error, CallError::Exchange(_)), "{error:?}");
    assert!(Failure::from(&error).message.len() <= 512);
}

/// An answer in single bytes, each well within any idle time, ends with the call's own time.
/// Proves: X-caps
#[tokio::test]
async fn an_answer_in_drops_is_given_up_when_the_call_s_time_is_over() {
    let mut script = vec![send("HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")];
    for drop in 1..1000 {
        script.extend([Step::Await(drop), send("x")]);
    }
    let server = Server::start([script]).await;
    let client = client_with(&server, impatient());
    let drops = async {
        loop {
            tokio::time::sleep(Duration::from_millis(50)).await;
            server.go();
        }
    };
    let error = tokio::select! {
        error = get_failure(&client) => error,
        () = drops => unreachable!("it drips for ever"),
    };
    let CallError::ReadBody { source, .. } = error else {
        panic!("{error:?}");
    };
    assert!(matches!(source, BodyError::TimedOut { seconds: 1 }));
}
