//! The event stream over a connection. The meaning of bytes is tested with the decoder.

use rstest::rstest;
use run_operator::service::{Event, StreamItem};
use std::time::Duration;

use crate::support::*;

fn event(id: &str, data: &str) -> StreamItem {
    StreamItem::Event(Event {
        id: Some(id.to_owned()),
        kind: "message".to_owned(),
        data: data.to_owned(),
    })
}

/// Proves: E-streamRunEvents, X-sse
#[tokio::test]
async fn events_arrive_one_by_one_and_the_cursor_keeps_pace() {
    let server = Server::start([vec![
        stream_head(),
        send("retry: 4000\n\nid: 1\ndata: a\n\nid: 2\ndata: b\n\n"),
        send("id: 3\ndata: par"),
        Step::Await(1),
        send("tial\n\nid: 4\ndata: never whole\n"),
        Step::Close,
    ]])
    .await;
    let mut stream = events(&client(&server), None).await.unwrap();
    assert_eq!(stream.request_id(), Some("req-s"));
    let shown = |open| format!("EventStream {{ request_id: Some(\"req-s\"), open: {open}, .. }}");
    assert_eq!(format!("{stream:?}"), shown(true));
    assert_eq!(stream.last_event_id(), None);
    assert_eq!(within(stream.next()).await.unwrap(), Some(event("1", "a")));
    assert_eq!(stream.last_event_id(), Some("1"));
    assert_eq!(stream.retry(), Some(Duration::from_secs(4)));
    assert_eq!(within(stream.next()).await.unwrap(), Some(event("2", "b")));
    server.go();
    assert_eq!(
        within(stream.next()).await.unwrap(),
        Some(event("3", "partial"))
    );
    assert_eq!(within(stream.next()).await.unwrap(), None);
    assert_eq!(stream.last_event_id(), Some("3"));
    assert_eq!(within(stream.next()).await.unwrap(), None);
    assert_eq!(format!("{stream:?}"), shown(false));
}

/// Proves: P-stream-places
#[rstest]
#[case::bare("HTTP/1.1 204 No Content\r\n\r\n")]
#[case::that_says_it_is_one("HTTP/1.1 204 No Content\r\nContent-Type: text/event-stream\r\n\r\n")]
#[tokio::test]
async fn a_204_is_no_stream(#[case] answer: &str) {
    let server = Server::start([vec![send(answer)]]).await;
    let failure = events(&client(&server), None).await.unwrap_err();
    assert_eq!(failure.http_status, Some(204));
}

/// Proves: R2, E-streamRunEvents
#[rstest]
#[case::from_the_beginning(None, &[])]
#[case::reset(Some(""), &[])]
#[case::from_an_id(Some("ev-7"), &["ev-7"])]
#[case::from_an_id_beyond_ascii(Some("ev-ä"), &["ev-ä"])]
#[tokio::test]
async fn a_stream_is_resumed_by_its_last_event_s_id(
    #[case] last: Option<&str>,
    #[case] sent: &[&str],
) {
    let server = Server::start([vec![stream_head(), Step::Close]]).await;
    let stream = events(&client(&server), last).await.unwrap();
    assert_eq!(server.request().headers("last-event-id"), sent);
    // An empty stream loses no place.
    assert_eq!(stream.last_event_id(), last.filter(|id| !id.is_empty()));
}

/// Proves: R2
#[tokio::test]
async fn a_cut_stream_resumes_where_it_was_cut() {
    let chunked = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\n\
                   Transfer-Encoding: chunked\r\n\r\n";
    let server = Server::start([
        vec![
            send(chunked),
            send("10\r\nid: 1\ndata: a\n\nid\r\n"),
            Step::Close,
        ],
        vec![stream_head(), send("id: 2\ndata: b\n\n"), Step::Close],
    ])
    .await;
    let client = client(&server);
    let mut first = events(&client, None).await.unwrap();
    assert_eq!(within(first.next()).await.unwrap(), Some(event("1", "a")));
    let error = within(first.next()).await.unwrap_err();
    no_answer(&error, "failed to read the service's answer to its end");
    assert_eq!(within(first.next()).await.unwrap(), None);

    let mut second = events(&client, first.last_event_id()).await.unwrap();
    assert_eq!(within(second.next()).await.unwrap(), Some(event("2", "b")));
    assert_eq!(server.requests()[1].headers("last-event-id"), ["1"]);
}

/// Proves: L-contract, X-sse
#[rstest]
#[case::of_a_line(("eventLineBytes: 65536", "eventLineBytes: 2048"), 2049, 1)]
#[case::of_an_event(("eventBytes: 262144", "eventBytes: 2048"), 1024, 2)]
#[tokio::test]
async fn a_cap_of_the_stream_is_a_number_of_the_contract_file(
    #[case] change: (&str, &str),
    #[case] bytes: usize,
    #[case] lines: usize,
) {
    let event = |bytes: usize| {
        let line = format!("data: {}\n", "x".repeat(bytes - "data: ".len()));
        send(&(line.repeat(lines) + "\n"))
    };
    let script = vec![stream_head(), event(bytes), event(bytes - 1), Step::Close];
    let server = Server::start([script]).await;
    let client = client_with(&server, contract_with(&[change]));
    let mut stream = events(&client, None).await.unwrap();
    let discarded = within(stream.next()).await.unwrap();
    assert_eq!(discarded, Some(StreamItem::Discarded));
    let kept = within(stream.next()).await.unwrap();
    assert!(matches!(kept, Some(StreamItem::Event(_))), "{kept:?}");
}

/// Proves: P-stream-places
#[rstest]
#[case::from_the_start(vec![stream_head(), Step::Hang])]
#[case::within_an_event(vec![stream_head(), send("id: 1\ndata: a\n"), Step::Hang])]
#[tokio::test]
async fn a_silent_stream_ends_with_an_error(#[case] script: Vec<Step>) {
    let server = Server::start([script]).await;
    let client = client_with(&server, impatient());
    let mut stream = events(&client, None).await.unwrap();
    let failure = within(stream.next()).await.unwrap_err();
    let how = "failed to read the service's answer to its end: nothing was received for 1 s";
    no_answer(&failure, how);
    assert_eq!(failure.request_id.as_deref(), Some("req-s"));
    assert_eq!(within(stream.next()).await.unwrap(), None);
}

#[tokio::test]
async fn a_repeatedly_dropped_next_loses_no_event_and_no_idle_timeout() {
    let server = Server::start([vec![
        stream_head(),
        send("id: 1\nda"),
        Step::Await(1),
        send("ta: a\n\n"),
        Step::Hang,
    ]])
    .await;
    let client = client_with(&server, impatient());
    let mut stream = events(&client, None).await.unwrap();
    for _ in 0..20 {
        // Polled once, and dropped.
        let dropped = futures::poll!(Box::pin(stream.next()));
        assert!(dropped.is_pending());
        tokio::task::yield_now().await;
    }
    server.go();
    assert_eq!(within(stream.next()).await.unwrap(), Some(event("1", "a")));
    // The silence is counted from the last byte on, not from the latest call.
    let silent = within(async {
        loop {
            let short = Duration::from_millis(50);
            if let Ok(result) = tokio::time::timeout(short, stream.next()).await {
                return result;
            }
        }
    });
    assert!(silent.await.is_err());
}

/// Proves: E-streamRunEvents
#[rstest]
#[case::json("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}")]
#[case::no_type("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")]
#[case::no_content("HTTP/1.1 204 No Content\r\n\r\n")]
#[tokio::test]
async fn what_is_no_event_stream_is_not_listened_to(#[case] bytes: &str) {
    let server = Server::start([vec![send(bytes)]]).await;
    let defect = unreadable(events(&client(&server), None).await);
    assert!(defect.ends_with("it is no event stream"), "{defect}");
}

/// Proves: X-token
#[rstest]
#[case::another_header("a\r\nX-Injected: 1")]
#[case::a_nul("a\0b")]
#[case::an_escape("a\u{1b}[31m")]
#[tokio::test]
async fn an_id_illegal_in_a_header_restarts_the_stream_without_it(#[case] id: &str) {
    let server =
        Server::start([vec![stream_head(), send("id: 1\ndata: a\n\n"), Step::Close]]).await;
    let mut stream = events(&client(&server), Some(id)).await.unwrap();
    let request = server.request();
    assert!(request.headers("last-event-id").is_empty());
    assert!(request.headers("x-injected").is_empty());
    assert_eq!(stream.last_event_id(), None);
    assert_eq!(within(stream.next()).await.unwrap(), Some(event("1", "a")));
}
