//! No answer, half an answer, an answer too late.

use proptest::prelude::*;
use rstest::rstest;
use run_operator::api::contract::Contract;
use run_operator::decide::failure::FailureKind;
use run_operator::service::Client;
use std::time::Duration;
use tokio::net::{TcpSocket, TcpStream};

use crate::support::*;

#[tokio::test]
async fn a_refused_connection_is_a_transport_failure_with_its_cause() {
    // A port that is taken and has no listener: no other test can get it meanwhile.
    let taken = TcpSocket::new_v4().unwrap();
    taken.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let port = taken.local_addr().unwrap().port();
    let base_url = format!("http://127.0.0.1:{port}");
    let client = Client::new(config(&base_url, Contract::builtin().unwrap())).unwrap();
    let failure = get_failure(&client).await;
    no_answer(
        &failure,
        "failed to connect to the service: client error (Connect): tcp connect",
    );
    assert_eq!(failure.http_status, None);
    assert!(failure.message.contains("Connection refused"));
}

/// Proves: R10a
#[rstest]
#[case::before_the_answer(vec![Step::Close])]
#[case::within_the_status_line(vec![send("HTTP/1.1 20"), Step::Close])]
#[case::within_the_headers(vec![send("HTTP/1.1 200 OK\r\nContent-Le"), Step::Close])]
#[case::by_something_else(vec![send("SSH-2.0-OpenSSH_9.2\r\n"), Step::Close])]
#[tokio::test]
async fn an_answer_that_never_began_is_a_transport_failure(#[case] script: Vec<Step>) {
    let server = Server::start([script]).await;
    no_answer(&get_failure(&client(&server)).await, NO_HEAD);
    assert_eq!(server.requests().len(), 1, "one attempt a call");
}

/// Proves: R10a
#[rstest]
#[case::a_success("200 OK", "application/json")]
#[case::a_problem("422 Unprocessable Entity", "application/problem+json")]
#[tokio::test]
async fn a_truncated_body_is_a_transport_failure_with_its_request_id(
    #[case] status: &str,
    #[case] media_type: &str,
) {
    let begun = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {media_type}\r\nContent-Length: 100\r\n\
         X-Request-ID: req-1\r\n\r\n{{\"runId\":\"run-1\""
    );
    let server = Server::start([vec![send(&begun), Step::Close]]).await;
    let failure = get_failure(&client(&server)).await;
    assert_eq!(failure.kind, FailureKind::NoAnswer);
    assert_eq!(failure.http_status, status[..3].parse().ok());
    assert_eq!(failure.request_id.as_deref(), Some("req-1"));
    assert_eq!(failure.code, None);
}

/// Proves: R10a, R12, X-caps
#[rstest]
#[case::before_the_answer(vec![Step::Hang], None)]
#[case::within_the_headers(vec![send("HTTP/1.1 200 OK\r\n"), Step::Hang], None)]
#[case::within_the_body(
    vec![send("HTTP/1.1 200 OK\r\nContent-Length: 9\r\nX-Request-ID: req-1\r\n\r\n{"), Step::Hang],
    Some("req-1")
)]
#[case::within_a_problem(
    vec![
        send(
            "HTTP/1.1 500 Oops\r\nContent-Type: application/problem+json\r\n\
             X-Request-ID: req-1\r\nContent-Length: 9\r\n\r\n{"
        ),
        Step::Hang,
    ],
    Some("req-1")
)]
#[tokio::test]
async fn an_answer_that_takes_too_long_is_given_up(
    #[case] script: Vec<Step>,
    #[case] request_id: Option<&str>,
) {
    let server = Server::start([script]).await;
    let failure = get_failure(&client_with(&server, impatient())).await;
    assert_eq!(failure.kind, FailureKind::NoAnswer);
    assert_eq!(failure.request_id.as_deref(), request_id);
    assert!(
        failure.message.contains("within 1 s"),
        "{}",
        failure.message
    );
}

/// The listener's queue is full, so the system leaves the client's connection unanswered.
/// Proves: X-caps
#[tokio::test]
async fn a_connection_that_takes_too_long_is_given_up() {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let listener = socket.listen(1).unwrap();
    let address = listener.local_addr().unwrap();
    let briefly = Duration::from_millis(500);
    let mut queue = Vec::new();
    while let Ok(connected) = tokio::time::timeout(briefly, TcpStream::connect(address)).await {
        queue.push(connected.unwrap());
        assert!(queue.len() < 100, "the queue has no end");
    }
    let contract = contract_with(&[("connectSeconds: 5", "connectSeconds: 1")]);
    let client = Client::new(config(&format!("http://{address}"), contract)).unwrap();
    no_answer(&get_failure(&client).await, NO_CONNECTION);
    drop((listener, queue));
}

/// Two of them that hang must be over within 30 s; the contract file allows each other call as much.
/// Proves: P-many-workspaces, X-caps
#[tokio::test]
async fn each_call_of_a_check_has_ten_seconds() {
    let server = Server::start([vec![Step::Hang], vec![Step::Hang]]).await;
    let (client, who) = (client(&server), credentials());
    let (version, workspace) = tokio::join!(
        within(client.version()),
        within(client.current_workspace(&who)),
    );
    let in_time = format!("{NO_HEAD} within 10 s");
    no_answer(&version.unwrap_err(), &in_time);
    no_answer(&workspace.unwrap_err(), &in_time);
}

/// Proves: X-caps
#[tokio::test]
async fn a_stream_that_is_not_opened_in_time_is_given_up() {
    let server = Server::start([vec![Step::Hang]]).await;
    let opened = events(&client_with(&server, impatient()), None).await;
    no_answer(&opened.unwrap_err(), &format!("{NO_HEAD} within 1 s"));
}

/// Proves: X-allow-list
#[tokio::test]
async fn no_proxy_is_taken_from_the_environment() {
    let proxy = Server::start([vec![ok(r#"{"version":"of the proxy"}"#)]]).await;
    let address = format!("http://127.0.0.1:{}", proxy.port);
    let names = "HTTP_PROXY http_proxy HTTPS_PROXY https_proxy ALL_PROXY";
    let variables: Vec<_> = names
        .split(' ')
        .map(|name| (name, address.as_str()))
        .collect();
    let test = "transport::no_proxy_is_taken_from_the_environment";
    // The child has a proxy of its own that it must not ask either; what counts is its answer.
    if !is_child_with(test, &variables) {
        assert!(proxy.requests().is_empty());
        return;
    }
    let server = Server::start([vec![ok(r#"{"version":"of the service"}"#)]]).await;
    let reply = within(client(&server).version()).await.unwrap();
    assert_eq!(reply.version.as_deref(), Some("of the service"));
}

/// Pieces of answers, good and bad, in any order.
fn answers() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        Just(b"HTTP/1.1 200 OK\r\n".to_vec()),
        (100..999u16).prop_map(|status| format!("HTTP/1.1 {status} X\r\n").into_bytes()),
        Just(b"Content-Type: application/problem+json\r\n".to_vec()),
        Just(b"Content-Type: text/event-stream\r\n".to_vec()),
        Just(b"Transfer-Encoding: chunked\r\n".to_vec()),
        any::<u32>().prop_map(|n| format!("Content-Length: {n}\r\n").into_bytes()),
        "(X-Request-ID|Retry-After): [ -~]{0,40}\r\n".prop_map(String::into_bytes),
        Just(b"\r\n".to_vec()),
        Just(b"5\r\nid: 1\r\n".to_vec()),
        Just(br#"{"code":"c","runId":"run-1","state":["#.to_vec()),
        Just(b"data: a\n\n".to_vec()),
        prop::collection::vec(any::<u8>(), 0..40),
    ];
    prop::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(64) })]

    /// Asserts only that each call returns: no panic, no hang.
    /// Proves: X-caps
    #[test]
    fn whatever_bytes_a_server_sends_each_call_ends(bytes in answers()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let scripts = vec![vec![Step::Send(bytes), Step::Close]; 4];
            let server = Server::start(scripts).await;
            let client = client(&server);
            let answers = [create(&client).await, get(&client).await, cancel(&client).await];
            for failure in answers.into_iter().filter_map(Result::err) {
                assert!(failure.message.len() <= 512 && !failure.message.is_empty());
                assert!(!failure.message.chars().any(char::is_control));
            }
            if let Ok(mut stream) = events(&client, None).await {
                while let Ok(Some(_)) = within(stream.next()).await {}
            }
        });
    }
}
