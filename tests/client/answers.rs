//! Successes: what is kept of them, and which can't be read.

use rstest::rstest;
use run_operator::api::limits::MAX_STATE;

use crate::support::*;

/// Proves: S-unknown, S-state, E-getRun
#[tokio::test]
async fn a_run_is_read_where_the_contract_file_points() {
    let server = Server::start([vec![ok(
        r#"{"data":{"id":42,"phase":"Läuft"},"runId":"not this"}"#,
    )]])
    .await;
    let contract = contract_with(&[
        ("idPointers: [/runId]", "idPointers: [/run/id, /data/id]"),
        (
            "statePointers: [/state, /status]",
            "statePointers: [/data/phase]",
        ),
    ]);
    let client = client_with(&server, contract);
    let run = run_id("42");
    let view = within(client.get_run(&credentials(), &run)).await.unwrap();
    assert_eq!(view.run_id.as_deref(), Some("42"));
    assert_eq!(view.state.as_deref(), Some("Läuft"));
}

/// Proves: P-details, X-caps, X-canary
#[tokio::test]
async fn what_a_run_says_beside_its_state_is_made_fit_to_be_shown_and_never_in_the_way() {
    let huge = "x".repeat(2 << 20);
    let body = format!(
        r#"{{"runId":"run-1","state":"running","metrics":{{"loss":0.25,"note":"a\nb {TOKEN}","log":"{huge}"}},
            "links":{{"console":"https://console.example.com/?key={TOKEN}"}},"progress":41.7,"error":"{}"}}"#,
        "y".repeat(5000)
    );
    let server = Server::start([vec![ok(&body)], vec![ok(&body)]]).await;
    let pointers = "resultPointers: {loss: [/metrics/loss], log: [/metrics/log], note: [/metrics/note], all: [/metrics]}";
    let contract = contract_with(&[
        ("resultPointers: {}", pointers),
        (
            "consoleURLPointers: []",
            "consoleURLPointers: [/links/console]",
        ),
        (
            "progressPercentPointers: []",
            "progressPercentPointers: [/progress]",
        ),
        ("failurePointers: []", "failurePointers: [/error]"),
    ]);
    let view = get(&client_with(&server, contract)).await.unwrap();
    let details = view.details.unwrap();
    let results: Vec<_> = details
        .results
        .iter()
        .map(|(name, value)| (&**name, &**value))
        .collect();
    assert_eq!(results, [("loss", "0.25"), ("note", "a b [redacted]")]);
    let console = details.console_url.as_deref();
    assert_eq!(console, Some("https://console.example.com/?key=[redacted]"));
    assert_eq!((details.percent, details.message), (Some(41), None));
    assert_eq!(details.failure.map(|text| text.len()), Some(1024));
    // By default none of it is read.
    assert_eq!(get(&client(&server)).await.unwrap().details, None);
}

/// Proves: P-details, F-heavy
#[rstest]
#[case::no_json(r#""metrics":{"loss":NaN,"note":"a""#, Some("a"))]
#[case::a_long_way(&format!(r#""history":[{}0],"metrics":{{"note":"a""#, "0,".repeat(300_000)), None)]
#[tokio::test]
async fn nothing_that_is_only_shown_makes_an_answer_unreadable(
    #[case] said: &str,
    #[case] note: Option<&str>,
) {
    let body = format!(r#"{{{said}}},"runId":"run-1","state":"succeeded"}}"#);
    let server = Server::start([vec![ok(&body)]]).await;
    let pointers =
        "resultPointers: {loss: [/metrics/loss, /history/0/loss], note: [/metrics/note]}";
    let contract = contract_with(&[("resultPointers: {}", pointers)]);
    let view = get(&client_with(&server, contract)).await.unwrap();
    assert_eq!(view.state.as_deref(), Some("succeeded"));
    let results = view.details.map(|details| details.results);
    let results = results.unwrap_or_default();
    assert_eq!(results.get("note").map(String::as_str), note);
    assert_eq!(results.get("loss"), None);
}

/// Proves: S-workspace, E-getCurrentWorkspace
#[tokio::test]
async fn the_workspace_is_kept_in_a_compact_form() {
    let long = "x".repeat(2000);
    let record = format!("{{ \"id\" : \"ws-1\",\n \"name\": \"{long}\" }}");
    let server = Server::start([vec![ok(&record)], vec![ok(r#"{ "name": "n" }"#)]]).await;
    let client = client(&server);
    let who = credentials();
    let reply = within(client.current_workspace(&who)).await.unwrap();
    assert_eq!(reply.identity.as_deref(), Some("ws-1"));
    assert!(reply.record.starts_with(r#"{"id":"ws-1","name":"xxx"#));
    assert!(reply.record.len() <= 1024);
    let reply = within(client.current_workspace(&who)).await.unwrap();
    assert_eq!(reply.identity, None, "the contract's pointers find nothing");
    assert_eq!(reply.record, r#"{"name":"n"}"#);
}

/// Proves: E-cancelRun
#[rstest]
#[case(send("HTTP/1.1 204 No Content\r\nX-Request-ID: req-1\r\n\r\n"), None)]
#[case(answer("202 Accepted", &["X-Request-ID: req-1"], ""), None)]
#[case(answer("202 Accepted", &["X-Request-ID: req-1"], "{}"), None)]
#[case(ok(r#"{"state":"cancelling"}"#), Some("cancelling"))]
#[tokio::test]
async fn a_cancellation_is_taken_on_whatever_its_body(
    #[case] step: Step,
    #[case] state: Option<&str>,
) {
    let server = Server::start([vec![step]]).await;
    let view = cancel(&client(&server)).await.unwrap();
    assert_eq!(view.state.as_deref(), state);
    assert_eq!(view.request_id.as_deref(), Some("req-1"));
}

#[tokio::test]
async fn an_oversized_multiline_state_becomes_one_bounded_line() {
    let body = format!(r#"{{"runId":"run-1","state":"a\nb{}"}}"#, "x".repeat(4096));
    let server = Server::start([vec![ok(&body)]]).await;
    let view = get(&client(&server)).await.unwrap();
    let state = view.state.unwrap();
    assert!(state.starts_with("a bxxx"), "{state:?}");
    assert_eq!(state.len(), MAX_STATE);
}

const NOT_JSON: &str = "it is not JSON";
const NO_RUN_ID: &str = "it names no runId";
const ILLEGAL: &str = "its runId can't be used";
const OTHER: &str = "it names another runId than the one asked for";

/// Why a create, a read and a cancellation of `run-1` can't use this answer; nothing where it is not asked.
/// Proves: S-run, E-getRun, F-final, P-run-id-at-once
#[rstest]
#[case::empty("", [NOT_JSON, NOT_JSON, ""])]
#[case::html("<html>sign in</html>", [NOT_JSON; 3])]
#[case::truncated(r#"{"runId":"run-1","state":"run"#, [NOT_JSON; 3])]
#[case::no_id(r#"{"state":"queued"}"#, [NO_RUN_ID, "", ""])]
#[case::empty_id(r#"{"runId":""}"#, [NO_RUN_ID, "", ""])]
#[case::id_of_no_text(r#"{"runId":{"a":1}}"#, [NO_RUN_ID, "", ""])]
#[case::no_object(r#"["run-1"]"#, [NO_RUN_ID, "", ""])]
#[case::id_that_no_path_can_carry(r#"{"runId":".."}"#, [ILLEGAL, "", ""])]
#[case::id_of_two_lines(r#"{"runId":"a\nb"}"#, [ILLEGAL, "", ""])]
#[case::another_run(r#"{"runId":"run-2","state":"succeeded"}"#, ["", OTHER, OTHER])]
#[tokio::test]
async fn an_answer_that_is_none_of_the_run_cannot_be_read(
    #[case] body: &str,
    #[case] defects: [&str; 3],
) {
    for (number, expected) in defects.into_iter().enumerate() {
        let server = Server::start([vec![ok(body)]]).await;
        let client = client(&server);
        let result = match number {
            _ if expected.is_empty() => continue,
            0 => create(&client).await,
            1 => get(&client).await,
            _ => cancel(&client).await,
        };
        let defect = unreadable(result);
        assert!(defect.contains(expected), "{number}: {defect}");
    }
}

/// Proves: L-contract
#[tokio::test]
async fn the_largest_answer_is_a_number_of_the_contract_file() {
    let large = format!(r#"{{"state":"{}"}}"#, "x".repeat(2049));
    let server = Server::start([vec![ok(&large)]]).await;
    let contract = contract_with(&[("bodyBytes: 1048576", "bodyBytes: 2048")]);
    let got = get(&client_with(&server, contract)).await;
    assert!(unreadable(got).contains("larger than 2048 bytes"));
}

/// A run that was made must be known, whatever else the answer says.
/// Proves: F-heavy, X-caps
#[rstest]
#[case::text(format!(r#""{}""#, "\\u00e4".repeat(1_400_000)))]
#[case::small_values(format!(r"[{}0]", "{ \"a\": 0 }, ".repeat(160_000)))]
#[case::deep(format!("{}{}", "[".repeat(700_000), "]".repeat(700_000)))]
#[tokio::test]
async fn an_answer_that_repeats_a_large_workload_is_read(#[case] value: String) {
    let workload = format!(r#"{{"image":"i","runId":"another","a":{value}}}"#);
    let run = format!(
        r#"{{"workload":{workload},"runId":"run-1","again":{workload},"state":"running"}}"#
    );
    let server = Server::start((0..3).map(|_| vec![ok(&run)])).await;
    let client = client(&server);
    for view in [
        create(&client).await,
        get(&client).await,
        cancel(&client).await,
    ] {
        let view = view.unwrap();
        assert_eq!(view.run_id.as_deref(), Some("run-1"));
        assert_eq!(view.state.as_deref(), Some("running"));
    }
}

#[tokio::test]
async fn an_interim_answer_is_passed_over() {
    let early = send("HTTP/1.1 103 Early Hints\r\nLink: </style.css>\r\n\r\n");
    let server = Server::start([vec![early, ok(r#"{"runId":"run-1"}"#)]]).await;
    let view = create(&client(&server)).await.unwrap();
    assert_eq!(view.run_id.as_deref(), Some("run-1"));
}
