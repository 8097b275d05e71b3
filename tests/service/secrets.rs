//! The token is on the wire and nowhere else, also when the service repeats it (rule 7).

use std::fmt::Write as _;
use std::io;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use run_operator::decide::answer::Failure;
use run_operator::service::{CallError, StreamItem, UnreadableReason};

use crate::support::*;

/// Where every log line of the process goes.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Everything a person or a log could be shown of an error.
fn shown(error: &CallError) -> String {
    let mut text = format!("{error} {error:?} {error:#?} {:?}", Failure::from(error));
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        write!(text, "{error} {error:?}").unwrap();
        cause = error.source();
    }
    text
}

fn echoing(status: &str) -> Step {
    answer(
        status,
        &[
            "Content-Type: application/problem+json",
            &format!("X-Request-ID: {TOKEN}"),
            &format!("X-Echo: Bearer {TOKEN}"),
        ],
        format!(
            r#"{{"code":"no_{TOKEN}","title":"Bearer {TOKEN} is not valid","requestId":"{TOKEN}"}}"#
        ),
    )
}

#[tokio::test]
async fn no_fault_shows_the_token() {
    let log = Log::default();
    let writer = log.clone();
    // Global, and with the records of `log`: what the HTTP libraries say is looked through as well.
    tracing_subscriber::fmt()
        .with_max_level(tracing::Level::TRACE)
        .with_ansi(false)
        .with_writer(move || writer.clone())
        .try_init()
        .unwrap();

    let cut = "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n";
    let server = Server::start([
        vec![echoing("401 Unauthorized")],
        vec![echoing("500 Internal Server Error")],
        vec![echoing("302 Found")],
        vec![answer("200 OK", &[], format!("Bearer {TOKEN}"))],
        vec![answer("502 Bad Gateway", &[], format!("Bearer {TOKEN}"))],
        vec![send(&format!("{cut}{TOKEN}")), Step::Close],
        vec![Step::Close],
        vec![send(&format!("not HTTP but {TOKEN}\r\n")), Step::Close],
        vec![Step::Hang],
    ])
    .await;
    let client = client_with(&server, impatient());
    for _ in 0..9 {
        let text = shown(&get_failure(&client).await);
        assert!(!text.contains("canary"), "{text}");
        assert!(!text.contains("/api/v1"), "a URL shows in {text}");
    }
    let requests = server.requests();
    assert_eq!(requests.len(), 9);
    for request in &requests {
        assert_eq!(request.headers("authorization").len(), 1);
        assert!(!request.line().contains("canary"));
    }

    let log = String::from_utf8_lossy(&log.0.lock().unwrap()).into_owned();
    assert!(log.contains("service call"), "the log was not caught");
    assert!(log.contains("TRACE"), "the libraries' log was not caught");
    for line in log.lines() {
        assert!(!line.contains("canary"), "{line}");
    }
}

#[tokio::test]
async fn a_service_that_repeats_the_token_cannot_bring_it_into_a_status() {
    let server = Server::start([
        vec![ok(&format!(r#"{{"id":"{TOKEN}","note":"for {TOKEN}"}}"#))],
        vec![ok(&format!(
            r#"{{"runId":"run-1","state":"held {TOKEN}"}}"#
        ))],
        vec![
            stream_head(),
            send(&format!("id: {TOKEN}\nevent: {TOKEN}\ndata: {TOKEN}\n\n")),
            Step::Close,
        ],
    ])
    .await;
    let (client, who, run) = (client(&server), credentials(), run_id("run-1"));
    let workspace = within(client.current_workspace(&who)).await.unwrap();
    assert_eq!(
        workspace.record,
        r#"{"id":"[redacted]","note":"for [redacted]"}"#
    );
    let view = within(client.get_run(&who, &run)).await.unwrap();
    assert_eq!(view.state.as_deref(), Some("held [redacted]"));
    let mut stream = within(client.run_events(&who, &run, None)).await.unwrap();
    let Some(StreamItem::Event(event)) = within(stream.next()).await.unwrap() else {
        panic!("there was an event");
    };
    assert!(!format!("{workspace:?} {view:?} {event:?} {stream:?}").contains("canary"));
}

#[tokio::test]
async fn a_run_id_that_repeats_the_token_never_gets_into_a_url() {
    let body = format!(r#"{{"runId":"run-{TOKEN}"}}"#);
    let server = Server::start([vec![ok(&body)]]).await;
    let client = client(&server);
    let created =
        within(client.create_run(&credentials(), &key("k"), Bytes::from_static(b"{}"))).await;
    let error = created.unwrap_err();
    assert!(matches!(
        error,
        CallError::Unreadable {
            reason: UnreadableReason::TokenInRunId,
            ..
        }
    ));
    assert!(!shown(&error).contains("canary"));
}
