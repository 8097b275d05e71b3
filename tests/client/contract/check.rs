//! `contract check`: against the reference service, its faults, and servers of bytes.

use rstest::rstest;
use serde_json::{Value, json};

use super::{Done, changed, contract_with, file};
use crate::reference_service::Reference;
use crate::support::*;
use crate::tls;

const EVERY_CHECK: [&str; 9] = [
    "version.answered",
    "version.json",
    "version.named",
    "version.accepted",
    "version.requestId",
    "workspace.refused",
    "workspace.problem",
    "workspace.problemFields",
    "workspace.requestId",
];

/// Runs `contract check` concurrently with the server that it calls.
async fn check(args: &[&str]) -> Done {
    check_in(args, &[]).await
}

async fn check_in(args: &[&str], env: &[(&str, &str)]) -> Done {
    let own = |text: &&str| (*text).to_owned();
    let args: Vec<String> = args.iter().map(own).collect();
    let env: Vec<(String, String)> = env.iter().map(|(k, v)| (own(k), own(v))).collect();
    let run = move || {
        let mut all = vec!["check"];
        all.extend(args.iter().map(String::as_str));
        let env: Vec<_> = env.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
        contract_with(&all, &env)
    };
    within(tokio::task::spawn_blocking(run)).await.unwrap()
}

/// Checks a service, and returns the checks with this verdict.
async fn verdicts(base_url: &str, verdict: &str) -> (Done, Vec<String>) {
    let done = check(&["--output", "json", "--base-url", base_url]).await;
    let with = with_verdict(&done.json(), verdict);
    (done, with)
}

fn with_verdict(document: &Value, verdict: &str) -> Vec<String> {
    let checks = document["checks"].as_array().unwrap();
    let name = |check: &Value| check["check"].as_str().unwrap().to_owned();
    let all: Vec<_> = checks.iter().map(name).collect();
    assert_eq!(all, EVERY_CHECK, "each is named, and in this order");
    let with = checks.iter().filter(|c| c["verdict"] == verdict);
    with.map(name).collect()
}

/// Proves: L-contract
#[tokio::test]
async fn a_conforming_service_passes() {
    let service = Reference::start(&[]).await;
    let (done, ok) = verdicts(&service.base_url(), "ok").await;
    assert_eq!((done.code, done.told.as_str()), (Some(0), ""), "{done:?}");
    assert_eq!(ok, EVERY_CHECK);
    assert_eq!(done.json()["good"], true);
}

/// Proves: L-contract
#[tokio::test]
async fn for_people_each_statement_is_a_line_and_the_last_one_sums_up() {
    let service = Reference::start(&["--api-version", "2.0.0"]).await;
    let done = check(&["--base-url", &service.base_url()]).await;
    assert_eq!(done.code, Some(1), "{done:?}");
    let lines: Vec<_> = done.out.lines().collect();
    assert_eq!(lines.len(), EVERY_CHECK.len() + 2, "{done:?}");
    let first = format!("{} against the contract file built-in", service.base_url());
    assert_eq!(lines[0], first);
    let fails: Vec<_> = lines.iter().filter(|l| l.starts_with("FAIL  ")).collect();
    assert_eq!(fails.len(), 1);
    for word in [
        "reports version 2.0.0",
        "accepts 1, v1, 1.*, v1.*",
        "New Runs are not submitted",
        "add the version to the contract file",
    ] {
        assert!(fails[0].contains(word), "{word:?} is not in {fails:?}");
    }
    assert_eq!(lines[10], "Against the contract: 1.");
}

#[tokio::test]
async fn check_without_arguments_uses_the_controllers_environment() {
    let service = Reference::start(&["--api-version", "3"]).await;
    let path = changed("accepts-3.yaml", "accepted: [\"1\"", "accepted: [\"3\"");
    let env = [
        ("RUN_OPERATOR_BASE_URL", service.base_url()),
        ("RUN_OPERATOR_CONTRACT", path.clone()),
    ];
    let env = env.each_ref().map(|(name, value)| (*name, value.as_str()));
    let done = check_in(&[], &env).await;
    assert_eq!(done.code, Some(0), "{done:?}");
    let against = format!("against the contract file {path}");
    assert!(done.out.contains(&against), "{done:?}");
}

const JSON: &str = "application/json";

/// Proves: L-contract
#[rstest]
#[case::a_web_page("getVersion", json!({"type": "answer", "status": 200, "body": "<html>Sign in</html>", "contentType": "text/html"}), &["version.json"], &["text/html", "web page or a proxy"])]
#[case::half_a_document("getVersion", json!({"type": "invalidJson"}), &["version.json"], &["can't be read as JSON"])]
#[case::a_cut_answer("getVersion", json!({"type": "truncatedBody"}), &["version.answered"], &["to its end"])]
#[case::an_answer_too_large("getVersion", json!({"type": "hugeBody", "bytes": 3_000_000}), &["version.json"], &["limits.bodyBytes"])]
#[case::a_redirect("getVersion", json!({"type": "redirect", "location": "http://127.0.0.1:9/"}), &["version.answered"], &["HTTP 30", "Redirects are not followed"])]
#[case::a_version_elsewhere("getVersion", json!({"type": "mergeBody", "merge": {"version": null, "release": "1"}}), &["version.named"], &["There is nothing at /version, /apiVersion", "\"release\"", "version.pointers"])]
#[case::a_version_that_wants_a_token("getVersion", json!({"type": "answer", "status": 401, "code": "unauthenticated"}), &["version.answered"], &["HTTP 401", "must be public (rule 3)"])]
#[case::a_wrong_path("getVersion", json!({"type": "answer", "status": 404, "body": "no", "contentType": "text/plain"}), &["version.answered"], &["HTTP 404, text/plain", "must contain the version segment"])]
#[case::an_outage("getVersion", json!({"type": "answer", "status": 503}), &["version.answered"], &["HTTP 503", "Try again later"])]
#[case::a_connection_that_is_cut("getVersion", json!({"type": "loseBefore"}), &["version.answered"], &["Failed to get an answer"])]
#[case::a_workspace_for_everybody("getWorkspace", json!({"type": "answer", "status": 200, "body": "{\"id\":\"ws-1\"}", "contentType": JSON}), &["workspace.refused"], &["HTTP 200", "without a token (rule 3)"])]
#[case::a_login_page("getWorkspace", json!({"type": "redirect", "location": "http://127.0.0.1:9/"}), &["workspace.refused"], &["login page"])]
#[case::a_refusal_that_is_none_of_a_token("getWorkspace", json!({"type": "answer", "status": 403, "code": "forbidden"}), &["workspace.refused"], &["HTTP 403", "must be a 401"])]
#[case::a_proxy_s_refusal("getWorkspace", json!({"type": "answer", "status": 401, "body": "<h1>401</h1>", "contentType": "text/html"}), &["workspace.problem", "workspace.problemFields"], &["application/problem+json (rule 8)"])]
#[case::a_refusal_that_never_comes("getWorkspace", json!({"type": "loseBefore"}), &["workspace.refused"], &["Failed to get an answer"])]
#[tokio::test]
async fn a_deviation_from_the_contract_is_reported_with_its_remedy(
    #[case] operation: &str,
    #[case] action: Value,
    #[case] failing: &[&str],
    #[case] words: &[&str],
) {
    let service = Reference::start(&[]).await;
    service.fault(operation, action).await;
    let (done, failed) = verdicts(&service.base_url(), "fail").await;
    assert_eq!(done.code, Some(1), "{done:?}");
    assert_eq!(failed, failing, "{done:?}");
    assert_eq!(done.json()["good"], false);
    for word in words {
        let quoted = Value::from(*word).to_string();
        let word = quoted.trim_matches('"');
        assert!(done.out.contains(word), "{word:?} is not in {}", done.out);
    }
}

#[tokio::test]
async fn without_a_listener_the_remaining_checks_are_skipped() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    let base_url = format!("http://127.0.0.1:{port}/api/v1");
    let (done, untried) = verdicts(&base_url, "note").await;
    assert_eq!(done.code, Some(1), "{done:?}");
    assert_eq!(untried, EVERY_CHECK[1..]);
    assert!(done.out.contains("Failed to connect to the service"));
}

#[tokio::test]
async fn check_stops_after_the_contract_files_request_timeout() {
    let server = Server::start([vec![Step::Hang]]).await;
    let path = changed("impatient.yaml", "requestSeconds: 30", "requestSeconds: 1");
    let done = check(&["--base-url", &server.base_url(), "--contract", &path]).await;
    assert_eq!(done.code, Some(1));
    assert!(done.out.contains("within 1 s"), "{done:?}");
}

/// A server of bytes that answers `/version` and `/workspaces/current` so.
async fn bytes(version: Step, workspace: Step) -> (Server, String) {
    let server = Server::start([vec![version], vec![workspace]]).await;
    let base_url = server.base_url();
    (server, base_url)
}

const VERSION: &str = r#"{"version":"1"}"#;
const PROBLEM: &str =
    r#"{"code":"unauthenticated","requestId":"r","retryable":false,"title":"no"}"#;

#[tokio::test]
async fn an_answer_without_a_request_id_is_reported() {
    let version = answer("200 OK", &["Content-Type: application/json"], VERSION);
    let kind = "Content-Type: application/problem+json; charset=utf-8";
    let (_server, url) = bytes(version, answer("401 Unauthorized", &[kind], PROBLEM)).await;
    let (done, failed) = verdicts(&url, "fail").await;
    assert_eq!(done.code, Some(1));
    assert_eq!(failed, ["version.requestId", "workspace.requestId"]);
}

#[rstest]
#[case(r#"{"requestId":"r","retryable":false,"title":"t"}"#, "code")]
#[case(r#"{"code":"","requestId":"r","retryable":false,"title":"t"}"#, "code")]
#[case(r#"{"code":"c","retryable":false,"title":"t"}"#, "requestId")]
#[case(r#"{"code":"c","requestId":"r","title":"t"}"#, "retryable")]
#[case(
    r#"{"code":"c","requestId":"r","retryable":"no","title":"t"}"#,
    "retryable"
)]
#[case(
    r#"{"code":"c","requestId":"r","retryable":true,"title":"t","params":[]}"#,
    "params"
)]
#[case("{}", "code, requestId, retryable, title")]
#[tokio::test]
async fn a_problem_without_its_fields_is_reported(#[case] body: &str, #[case] missing: &str) {
    let (_server, url) = bytes(ok(r#"{"version":1}"#), problem("401 Unauthorized", body)).await;
    let (done, failed) = verdicts(&url, "fail").await;
    assert_eq!(failed, ["workspace.problemFields"], "{done:?}");
    assert!(
        done.out.contains(&format!("wrong type: {missing}. ")),
        "{done:?}"
    );
}

/// Proves: L-contract
#[tokio::test]
async fn two_requests_are_made_with_no_token_and_nothing_secret() {
    let (server, url) = bytes(ok(VERSION), problem("401 Unauthorized", PROBLEM)).await;
    let (done, _) = verdicts(&url, "fail").await;
    assert_eq!(done.code, Some(0), "{done:?}");
    let requests = server.requests();
    let lines: Vec<_> = requests.iter().map(Arrived::line).collect();
    assert_eq!(
        lines,
        [
            "GET /api/v1/version HTTP/1.1",
            "GET /api/v1/workspaces/current HTTP/1.1"
        ]
    );
    for request in &requests {
        let expected = ["accept", "accept-encoding", "host", "user-agent"];
        assert_eq!(request.names(), expected);
        assert!(!request.head.contains(TOKEN));
    }
}

#[tokio::test]
async fn check_output_is_bounded_and_free_of_control_characters() {
    let version = json!({"version": format!("1.\u{1b}[2J\r\n{}", "x".repeat(5000))});
    let code = json!({"code": format!("c\u{1b}[2J{}", "y".repeat(5000)), "requestId": "r", "retryable": false, "title": "t"});
    let refusal = problem("401 Unauthorized", &code.to_string());
    let (_server, url) = bytes(ok(&version.to_string()), refusal).await;
    let done = check(&["--base-url", &url]).await;
    assert_eq!(done.out.lines().count(), EVERY_CHECK.len() + 2, "{done:?}");
    assert!(
        !done.out.contains('\u{1b}') && !done.out.contains('\r'),
        "{done:?}"
    );
    assert!(done.out.lines().all(|line| line.len() < 400), "{done:?}");
}

/// Proves: L-contract
#[rstest]
#[case::relative(&["--base-url", "/api/v1"], &["failed to use --base-url", "failed to parse"])]
#[case::a_user(&["--base-url", "https://me:hunter2@runs.example.com/api/v1"], &["user name or password"])]
#[case::a_query(&["--base-url", "https://runs.example.com/api/v1?a=b"], &["query or a fragment"])]
#[case::a_fragment(&["--base-url", "https://runs.example.com/api/v1#a"], &["query or a fragment"])]
#[case::plain_http(&["--base-url", "http://runs.example.com/api/v1"], &["plain http to runs.example.com", "use https"])]
#[case::another_scheme(&["--base-url", "file:///etc/passwd"], &["must begin with https://"])]
#[case::no_ca(&["--base-url", "http://127.0.0.1:9", "--ca-file", "/nonexistent.pem"], &["CA certificates /nonexistent.pem", "No such file"])]
#[case::a_ca_without_end(&["--base-url", "http://127.0.0.1:9", "--ca-file", "/dev/zero"], &["/dev/zero", "larger than"])]
#[tokio::test]
async fn what_can_t_be_tried_is_trouble_in_one_line(#[case] args: &[&str], #[case] words: &[&str]) {
    let done = check(args).await;
    done.is_trouble(words);
    assert!(!done.told.contains("hunter2"), "{done:?}");
}

const OPENAPI: &str = include_str!("../../../contract/openapi.yaml");
const NO_CONTRACT: [&str; 2] = [
    "OpenAPI document, not a contract file",
    "kubectl runop contract init",
];

#[rstest]
#[case::missing("/nonexistent.yaml", &["/nonexistent.yaml", "No such file"])]
#[case::a_folder("/", &["contract file /", "directory"])]
#[case::without_end("/dev/zero", &["/dev/zero", "larger than"])]
#[case::an_unknown_field(
    &changed("wrong.yaml", "keyRetentionSeconds:", "keyRetention:"),
    &["wrong.yaml", "unknown field `keyRetention`"]
)]
#[case::one_of_the_old_form(&file("old-form.yaml", "version: {accepted: [1]}"), &["old-form.yaml", "begin it with the lines"])]
#[case::an_openapi_document(&file("openapi.yaml", OPENAPI), &NO_CONTRACT)]
#[case::one_in_json(&file("openapi.json", r#"{"swagger": "2.0", "paths": {}}"#), &NO_CONTRACT)]
#[tokio::test]
async fn a_contract_file_that_can_t_be_used_is_named(#[case] path: &str, #[case] words: &[&str]) {
    let done = check(&["--base-url", "http://127.0.0.1:9", "--contract", path]).await;
    done.is_trouble(words);
}

#[tokio::test]
async fn check_trusts_only_the_ca_that_was_given() {
    let refusal = problem("401 Unauthorized", PROBLEM);
    let server = tls::server(vec![vec![ok(VERSION)], vec![refusal]]).await;
    let url = format!("https://127.0.0.1:{}/api/v1", server.port);
    let with = async |ca: &str| {
        let ca = format!("{}/tests/client/tls/{ca}", env!("CARGO_MANIFEST_DIR"));
        check(&["--base-url", &url, "--ca-file", &ca]).await
    };
    let other = with("other-ca.pem").await;
    assert_eq!(other.code, Some(1));
    assert!(other.out.contains("certificate"), "{other:?}");
    assert!(server.requests().is_empty());
    let given = with("ca.pem").await;
    assert_eq!(given.code, Some(0), "{given:?}");
}
