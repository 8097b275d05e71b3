//! Answers that are meant to be too much: packed, endless, with too many headers.

use std::time::Duration;

use rstest::rstest;
use run_operator::decide::failure::FailureKind;

use crate::support::*;

/// 10 MiB of zeros in 10 KiB: `head -c 10485760 /dev/zero | gzip -9n`.
const BOMB: &[u8] = include_bytes!("ten-mebibytes-of-zeros.gz");

fn packed(status: &str, coding: &str, media_type: &str) -> Step {
    let coding = format!("Content-Encoding: {coding}");
    let media_type = format!("Content-Type: {media_type}");
    answer(status, &[&coding, &media_type, "X-Request-ID: req-1"], BOMB)
}

/// Proves: X-caps
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
    let failures = [
        create(&client).await.unwrap_err(),
        get_failure(&client).await,
        events(&client, None).await.unwrap_err(),
    ];
    for failure in failures {
        assert_eq!(failure.request_id.as_deref(), Some("req-1"));
        let defect = unreadable::<()>(Err(failure));
        assert!(defect.contains("Accept-Encoding: identity"), "{defect}");
    }
    for request in server.requests() {
        assert_eq!(request.headers("accept-encoding"), ["identity"]);
    }
}

/// Proves: X-caps
#[tokio::test]
async fn a_packed_problem_teaches_its_status_alone() {
    let problem = packed("409 Conflict", "gzip", "application/problem+json");
    let server = Server::start([vec![problem]]).await;
    let failure = get_failure(&client(&server)).await;
    assert_eq!(failure.kind, FailureKind::Answered);
    assert_eq!(failure.http_status, Some(409));
    assert_eq!(failure.code, None);
}

/// A mebibyte for what is needed, and 24 for what is repeated.
/// Proves: X-caps
#[rstest]
#[case::announced("Content-Length: 26214401", 0)]
#[case::in_chunks("Transfer-Encoding: chunked", 401)]
#[tokio::test]
async fn an_answer_over_the_cap_is_not_read_to_its_end(
    #[case] length: &str,
    #[case] chunks: usize,
) {
    let head = format!("HTTP/1.1 200 OK\r\nX-Request-ID: req-1\r\n{length}\r\n\r\n");
    let mut script = vec![send(&head), send("6\r\n{\"w\":\"\r\n")];
    let chunk = format!("10000\r\n{}\r\n", "x".repeat(0x10000));
    script.extend((0..chunks).map(|_| send(&chunk)));
    // A client that waits for the end never returns.
    script.push(Step::Hang);
    let server = Server::start([script]).await;
    let defect = unreadable(cancel(&client(&server)).await);
    assert!(defect.contains("larger than 1048576 bytes"), "{defect}");
}

/// Proves: X-caps
#[tokio::test]
async fn what_is_needed_of_an_answer_has_a_cap_of_its_own() {
    let head = "HTTP/1.1 200 OK\r\nContent-Length: 20000000\r\n\r\n{\"state\":\"";
    let script = vec![send(head), send(&"x".repeat(1 << 20)), Step::Hang];
    let server = Server::start([script]).await;
    let defect = unreadable(get(&client(&server)).await);
    assert!(defect.contains("larger than 1048576 bytes"), "{defect}");
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
    let failure = get_failure(&client(&server)).await;
    no_answer(&failure, NO_HEAD);
    assert!(failure.message.len() <= 512);
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
    let failure = tokio::select! {
        failure = get_failure(&client) => failure,
        () = drops => unreachable!("it drips for ever"),
    };
    let how = "failed to read the service's answer to its end: it did not end within 1 s";
    no_answer(&failure, how);
}
