//! The token is on the wire and nowhere else, also when the service repeats it (rule 7).

use base64::Engine as _;
use run_operator::decide::failure::Failure;
use run_operator::service::StreamItem;
use tempfile::NamedTempFile;

use crate::support::*;

/// Everything a person or a log could be shown of a failure.
fn shown(failure: &Failure) -> String {
    format!("{failure:?} {failure:#?}")
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

/// Proves: R7, X-canary
#[tokio::test]
async fn no_fault_shows_the_token() {
    let log = NamedTempFile::new().unwrap();
    // Global, and with the records of `log`: the messages of the HTTP libraries are searched too.
    tracing_subscriber::fmt()
        .with_max_level(tracing::Level::TRACE)
        .with_ansi(false)
        .with_writer(log.reopen().unwrap())
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

    let log = std::fs::read_to_string(log.path()).unwrap();
    assert!(log.contains("service call"), "the log was not caught");
    assert!(log.contains("TRACE"), "the libraries' log was not caught");
    for line in log.lines() {
        assert!(!line.contains("canary"), "{line}");
    }
}

/// Proves: R7
#[tokio::test]
async fn a_token_echoed_by_the_service_never_reaches_a_status() {
    let server = Server::start([
        vec![ok(&format!(r#"{{"id":"ws-1","note":"for {TOKEN}"}}"#))],
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
    let client = client(&server);
    let workspace = within(client.current_workspace(&credentials())).await;
    let workspace = workspace.unwrap();
    assert_eq!(workspace.record, r#"{"id":"ws-1","note":"for [redacted]"}"#);
    let view = get(&client).await.unwrap();
    assert_eq!(view.state.as_deref(), Some("held [redacted]"));
    let mut stream = events(&client, None).await.unwrap();
    let event = within(stream.next()).await.unwrap();
    assert!(matches!(event, Some(StreamItem::Event(_))), "{event:?}");
    assert!(!format!("{workspace:?} {view:?} {event:?} {stream:?}").contains("canary"));
}

/// Proves: R7, X-canary
#[tokio::test]
async fn a_run_id_that_repeats_the_token_never_gets_into_a_url() {
    let body = format!(r#"{{"runId":"run-{TOKEN}"}}"#);
    let server = Server::start([vec![ok(&body)]]).await;
    let failure = create(&client(&server)).await.unwrap_err();
    assert!(!shown(&failure).contains("canary"));
    let defect = unreadable::<()>(Err(failure));
    assert!(defect.ends_with("its runId repeats the token"), "{defect}");
}

/// The token that a rotation replaced.
const EARLIER: &str = "canary/of+the=earlier\"token";

/// A text as it is in JSON.
fn in_json(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// An answer that repeats the earlier token wherever the client keeps something of it.
fn echoes_of_the_earlier() -> [Vec<Step>; 6] {
    let token = in_json(&format!("of {EARLIER}"));
    let coded = base64::engine::general_purpose::STANDARD.encode(format!("Bearer {EARLIER}"));
    let problem = format!(r#"{{"code":{token},"title":{token},"requestId":{token}}}"#);
    let header = format!("X-Request-ID: {EARLIER}");
    let named = ["Content-Type: application/problem+json", &header];
    [
        vec![ok(&format!(r#"{{"version":{token}}}"#))],
        vec![ok(&format!(
            r#"{{"id":"ws-1","note":{token},"{coded}":"sk-proj-0a1b2c3d4e5f6g7h8"}}"#
        ))],
        vec![answer("403 Forbidden", &named, problem)],
        vec![ok(&format!(r#"{{"runId":"run-1","state":{token}}}"#))],
        vec![ok(&format!(r#"{{"runId":{token}}}"#))],
        vec![
            stream_head(),
            send(&format!(
                "id: {EARLIER}\nevent: {EARLIER}\ndata: {token}\n\n"
            )),
            send(&format!("id: 2\ndata: got {coded}\n\n")),
            Step::Close,
        ],
    ]
}

/// Proves: X-canary
#[tokio::test]
async fn a_token_that_was_rotated_away_is_taken_out_as_well() {
    let mut scripts = vec![vec![ok("{}")]];
    scripts.extend(echoes_of_the_earlier());
    let server = Server::start(scripts).await;
    let (client, earlier) = (client(&server), credentials_of(EARLIER));
    let with_it = within(client.get_run(&earlier, &run_id("run-1"))).await;
    with_it.unwrap();

    let version = within(client.version()).await.unwrap();
    assert_eq!(version.version.as_deref(), Some("of [redacted]"));
    let workspace = within(client.current_workspace(&credentials())).await;
    let workspace = workspace.unwrap();
    assert_eq!(workspace.identity.as_deref(), Some("ws-1"));
    assert!(workspace.record.contains(r#""note":"of [redacted]""#));
    assert!(workspace.record.contains(r#":"[redacted]","id""#));
    let refused = get_failure(&client).await;
    assert_eq!(refused.code.as_deref(), Some("of [redacted]"));
    assert_eq!(refused.message, "of [redacted]");
    assert_eq!(refused.request_id, None);
    let view = get(&client).await.unwrap();
    assert_eq!(view.state.as_deref(), Some("of [redacted]"));
    let unusable = get_failure(&client).await;
    let mut stream = events(&client, None).await.unwrap();
    let first = within(stream.next()).await.unwrap();
    let second = within(stream.next()).await.unwrap();
    let all = format!(
        "{version:?} {workspace:?} {view:?} {first:?} {second:?} {stream:?} {} {}",
        shown(&refused),
        shown(&unusable)
    );
    let coded = base64::engine::general_purpose::STANDARD.encode(format!("Bearer {EARLIER}"));
    for secret in ["canary", &coded[10..20], "sk-proj"] {
        assert!(!all.contains(secret), "{secret} is in {all}");
    }
    assert_eq!(server.requests()[1].headers("authorization"), [""; 0]);
}

/// Proves: X-canary
#[tokio::test]
async fn an_open_stream_redacts_the_next_token_too() {
    let server = Server::start([
        vec![
            stream_head(),
            Step::Await(1),
            send(&format!("id: 1\ndata: got {TOKEN}\n\n")),
            Step::Close,
        ],
        vec![ok("{}")],
    ])
    .await;
    let (client, earlier) = (client(&server), credentials_of(EARLIER));
    let opened = within(client.run_events(&earlier, &run_id("run-1"), None)).await;
    let mut stream = opened.unwrap();
    get(&client).await.unwrap();
    server.go();
    let Some(StreamItem::Event(event)) = within(stream.next()).await.unwrap() else {
        panic!("there was an event");
    };
    assert_eq!(event.data, "got [redacted]");
}

/// Proves: R7
#[tokio::test]
async fn the_version_hides_a_token_that_was_not_sent_yet() {
    let version = format!(r#"{{"version":"1 for {TOKEN}"}}"#);
    let server = Server::start([vec![ok(&version)]]).await;
    let client = client(&server);
    client.hide(&credentials().token);
    let reply = within(client.version()).await.unwrap();
    assert_eq!(reply.version.as_deref(), Some("1 for [redacted]"));
}

/// A token of which a cut has left only a part is not found any more.
/// Proves: X-canary
#[tokio::test]
async fn a_token_at_the_end_of_a_cut_text_is_taken_out_before_the_cut() {
    let body = format!(r#"{{"code":"c","title":"{}{TOKEN}"}}"#, "x".repeat(505));
    let server = Server::start([vec![problem("409 Conflict", &body)]]).await;
    let failure = get_failure(&client(&server)).await;
    assert!(failure.message.starts_with("xxx"), "{}", failure.message);
    assert!(!failure.message.contains("can"), "{}", failure.message);
}

/// Taken out, every workspace would have the same identity, and a token for another one would pass.
/// Proves: R4, X-canary
#[tokio::test]
async fn an_identity_that_repeats_the_token_is_no_identity() {
    let record = format!(r#"{{"id":"ws of {TOKEN}"}}"#);
    let server = Server::start([vec![ok(&record)]]).await;
    let asked = within(client(&server).current_workspace(&credentials())).await;
    let failure = asked.unwrap_err();
    assert!(!shown(&failure).contains("canary"));
    let defect = unreadable::<()>(Err(failure));
    assert!(
        defect.contains("identity of the workspace repeats the token"),
        "{defect}"
    );
}
