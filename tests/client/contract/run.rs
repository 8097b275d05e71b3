//! `contract check --run`: one real run, by a token.

use rstest::rstest;

use super::{Done, contract, file};
use crate::support::*;

const VERSION: &str = r#"{"version":"1"}"#;
const PROBLEM: &str =
    r#"{"code":"unauthenticated","requestId":"r","retryable":false,"title":"no"}"#;

/// Asks for the run `run-1`, which the service answers so.
async fn check(answer: Step) -> (Done, Vec<Arrived>) {
    check_by("contract/profile.yaml", answer).await
}

async fn check_by(contract_file: &str, answer: Step) -> (Done, Vec<Arrived>) {
    let refusal = problem("401 Unauthorized", PROBLEM);
    let server = Server::start([vec![ok(VERSION)], vec![refusal], vec![answer]]).await;
    let url = server.base_url();
    let (token, contract_file) = (file("token", TOKEN), contract_file.to_owned());
    let run = move || {
        contract(&[
            "check",
            "--base-url",
            &url,
            "--run",
            "run-1",
            "--token-file",
            &token,
            "--contract",
            &contract_file,
        ])
    };
    let done = within(tokio::task::spawn_blocking(run)).await.unwrap();
    assert!(
        !done.out.contains(TOKEN) && !done.told.contains(TOKEN),
        "{done:?}"
    );
    (done, server.requests())
}

/// Proves: L-contract, R3, R7
#[tokio::test]
async fn a_run_is_read_with_the_token_and_shown_as_the_operator_would_take_it() {
    let (done, requests) = check(ok(r#"{"runId":"run-1","status":"RUNNING"}"#)).await;
    assert_eq!(done.code, Some(0), "{done:?}");
    test_support::says(
        &done.out,
        &[
            "ok    GET /runs/{id} is answered      HTTP 200, application/json.",
            "ok    it names its id                 \"run-1\", at /runId.",
            "ok    it names its state              \"RUNNING\", at /status.",
            "ok    the state is mapped             It is in the list active: the phase is Active.",
            "The public part and the run match the contract.",
        ],
    );
    assert_eq!(requests[2].line(), "GET /api/v1/runs/run-1 HTTP/1.1");
    let with_token: Vec<bool> = requests.iter().map(|r| r.head.contains(TOKEN)).collect();
    assert_eq!(with_token, [false, false, true]);
}

/// Proves: L-contract, P-details
#[tokio::test]
async fn what_else_the_contract_file_names_is_looked_for_in_the_run() {
    let header = "apiVersion: contract.run-operator.dev/v1alpha1\nkind: Contract\n";
    let run = "run: {resultPointers: {loss: [/loss]}, failurePointers: [/error], \
        progressPercentPointers: [/progress], consoleURLPointers: [/console]}";
    let path = file("details.yaml", &format!("{header}{run}\n"));
    let whole = r#"{"runId":"run-1","state":"done","loss":0.5,"error":"none","progress":41.7,
        "console":"https://console.example.com/"}"#;
    let (done, _) = check_by(&path, ok(whole)).await;
    assert_eq!(done.code, Some(0), "{done:?}");
    let told = "run.resultPointers.loss is \"0.5\"; run.consoleURLPointers is \"https://console.example.com/\"; \
        run.progressPercentPointers is \"41\"; run.failurePointers is \"none\".";
    test_support::says(&done.out, &[told]);
    // What the operator leaves out, too.
    let none =
        r#"{"runId":"run-1","state":"done","loss":{},"progress":140,"console":"http://a.example"}"#;
    let (done, _) = check_by(&path, ok(none)).await;
    assert_eq!(done.code, Some(0), "{done:?}");
    let told = "There is nothing to show for run.resultPointers.loss, run.consoleURLPointers, \
        run.progressPercentPointers, run.failurePointers.";
    test_support::says(&done.out, &[told]);
}

/// Proves: L-contract, S-unknown
#[rstest]
#[case::no_mapped_state(
    ok(r#"{"runId":"run-1","state":"PAUSED"}"#),
    "It is in no list, so the phase is Active."
)]
#[case::no_state(
    ok(r#"{"runId":"run-1","phase":"x"}"#),
    "There is nothing at /state, /status. Its fields are \"phase\", \"runId\"."
)]
#[case::another_run(
    ok(r#"{"runId":"run-2","state":"done"}"#),
    "\"run-2\", at /runId. That is not the id that was asked for."
)]
#[case::no_id(ok(r#"{"id":"run-1","state":"done"}"#), "There is nothing at /runId.")]
#[case::a_refusal(
    problem("404 Not Found", PROBLEM),
    "HTTP 404, application/problem+json. Check the id"
)]
#[case::no_json(ok("<html>"), "HTTP 200, application/json. It must be JSON")]
#[tokio::test]
async fn a_run_that_the_operator_could_not_use_fails(#[case] answer: Step, #[case] saw: &str) {
    let (done, _) = check(answer).await;
    assert_eq!(done.code, Some(1), "{done:?}");
    assert!(done.out.contains(saw), "{saw} is not in {}", done.out);
}

/// Proves: R7
#[tokio::test]
async fn a_token_in_the_answer_is_not_shown() {
    let state = format!(r#"{{"runId":"run-1","state":"{TOKEN}"}}"#);
    let (done, _) = check(ok(&state)).await;
    assert!(done.out.contains("[redacted]"), "{done:?}");
}

#[rstest]
#[case::an_id_that_is_none("..", "contract/openapi.yaml", &["--run", "runId"])]
#[case::a_provider_s_key("run-1", &file("provider-key", "sk-abc"), &["provider-key", "model provider's key"])]
#[case::no_token_file("run-1", "/nonexistent", &["/nonexistent", "No such file"])]
#[tokio::test]
async fn a_run_that_can_t_be_asked_for_is_trouble(
    #[case] id: &'static str,
    #[case] token: &str,
    #[case] words: &[&str],
) {
    let server = Server::start([
        vec![ok(VERSION)],
        vec![problem("401 Unauthorized", PROBLEM)],
    ])
    .await;
    let (url, token) = (server.base_url(), token.to_owned());
    let run = move || {
        contract(&[
            "check",
            "--base-url",
            &url,
            "--run",
            id,
            "--token-file",
            &token,
        ])
    };
    within(tokio::task::spawn_blocking(run))
        .await
        .unwrap()
        .is_trouble(words);
}
