//! `contract check`, `init` and `diff` with OpenAPI documents: the project's own, and the small ones of `fixtures`, each
//! of which shows a kind of document that real services publish.

use std::fmt::Write;

use rstest::rstest;
use serde_json::Value;

use super::{Done, contract, file};
use crate::support::*;

const DOCUMENT: &str = include_str!("../../../contract/openapi.yaml");

fn fixture(name: &str) -> String {
    format!(
        "{}/tests/client/contract/fixtures/{name}",
        env!("CARGO_MANIFEST_DIR")
    )
}

fn check(document: &str, args: &[&str]) -> Done {
    contract(&[&["check", "--openapi", document], args].concat())
}

/// The verdict and the text of each check, as `ok At /runs.`
fn findings(document: &str, args: &[&str]) -> impl Fn(&str) -> String + use<> {
    let done = check(document, &[&["--output", "json"], args].concat());
    let all = done.json();
    move |name| {
        let checks = all["checks"].as_array().unwrap();
        let found = checks.iter().find(|check| check["check"] == name);
        let found = found.unwrap_or_else(|| panic!("no {name} in {all}"));
        format!("{} {}", text(&found["verdict"]), text(&found["saw"]))
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap()
}

fn verdicts(done: &Done) -> Vec<&str> {
    let lines = done.out.lines().skip(1);
    lines
        .filter_map(|line| line.get(..4))
        .map(str::trim_end)
        .collect()
}

/// Proves: L-contract, R13
#[test]
fn the_project_s_own_document_has_all_that_the_operator_relies_on() {
    let done = check("contract/openapi.yaml", &[]);
    assert_eq!((done.code, done.told.as_str()), (Some(0), ""), "{done:?}");
    let verdicts = verdicts(&done);
    assert!(
        !verdicts.contains(&"FAIL") && !verdicts.contains(&"WARN"),
        "{}",
        done.out
    );
    // What it leaves open is said, and not taken for there.
    let found = findings("contract/openapi.yaml", &[]);
    for open in ["run.statePointers", "version.pointers", "states", "codes"] {
        assert!(found(open).starts_with("note The document "), "{open}");
    }
    assert_eq!(found("run.idPointers"), "ok /runId is there.");
}

/// Proves: L-contract, R13
#[test]
fn a_service_with_wholly_other_names_is_read_through_references_and_alternatives() {
    let own = fixture("own-names.contract.yaml");
    let document = fixture("own-names.yaml");
    let done = check(&document, &["--contract", &own]);
    assert_eq!(done.code, Some(0), "{done:?}");
    assert!(!verdicts(&done).contains(&"FAIL"), "{}", done.out);
    let found = findings(&document, &["--contract", &own]);
    assert_eq!(
        found("operation.cancel"),
        "ok At /api/v3/runs/{job_id}:cancel."
    );
    assert_eq!(
        found("run.statePointers"),
        "ok /job/phase is there; it may be null."
    );
    assert_eq!(
        found("event.statePointers"),
        "ok /data/phase is there; it may be null."
    );
    assert_eq!(
        found("states"),
        "ok pending: JOB_QUEUED. active: JOB_RUNNING. cancelling: JOB_STOPPING. succeeded: JOB_DONE. \
         failed: JOB_FAILED. cancelled: JOB_CANCELED."
    );
    assert!(
        found("codes").contains("In no list: QUOTA (final and shown)."),
        "{}",
        found("codes")
    );
}

/// Proves: L-contract, S-unknown
#[test]
fn with_the_built_in_names_each_one_that_is_missing_is_a_line_and_each_state_is_named() {
    let document = fixture("own-names.yaml");
    let found = findings(&document, &[]);
    assert_eq!(
        found("run.idPointers"),
        "fail /runId is not there, but job."
    );
    assert!(found("workspace.identityPointers").contains("display, tenant_id"));
    // Where no pointer leads to a state there is none to be mapped.
    assert!(found("states").starts_with("note"));
    let text = std::fs::read_to_string(fixture("own-names.contract.yaml")).unwrap();
    let partly = file(
        "partly.yaml",
        &text.replace("failed: [job_failed]", "failed: [broken]"),
    );
    let done = check(&document, &["--contract", &partly]);
    assert_eq!(done.code, Some(1), "{done:?}");
    test_support::says(
        &done.out,
        &["FAIL  every state is mapped", "In no list: JOB_FAILED."],
    );
}

/// Proves: L-contract
#[rstest]
#[case::a_parameter_that_is_never_sent(
    "operation.create",
    "fail It requires what the operator doesn't send: query tenant."
)]
#[case::headers_that_openapi_ignores("operation.get", "ok At /runs/{run}.")]
#[case::no_such_path("operation.version", "fail There is no path /version.")]
#[case::a_field_that_is_never_sent(
    "create.body",
    "fail It requires what the operator doesn't send: job_id."
)]
#[case::no_key("header.idempotencyKey", "fail The operation doesn't name it.")]
#[case::an_answer_that_is_a_list("run.idPointers", "fail /runId is not there, but nothing.")]
#[case::a_state_that_is_an_object_in_some_answers(
    "run.statePointers",
    "fail /state is object, string. /status is not there, but state."
)]
#[case::a_state_that_is_a_number("states", "fail In no list: 7, PAUSED. succeeded: DONE.")]
#[case::errors_of_another_type(
    "problem.answers",
    "fail Not of POST /runs (application/json), GET /runs/{} (nothing)."
)]
fn a_document_that_differs_is_told_line_by_line(#[case] name: &str, #[case] expected: &str) {
    let found = findings(&fixture("another-service.json"), &[]);
    assert_eq!(found(name), expected);
}

/// Proves: L-contract, S-unknown
#[rstest]
#[case::another_file(
    "operation.version",
    "$ref \"other.yaml#/paths/version\" leads out of the document"
)]
#[case::nowhere(
    "workspace.identityPointers",
    "$ref \"#/components/schemas/Gone\" leads nowhere"
)]
#[case::itself("run.idPointers", "a schema that contains itself")]
#[case::states_elsewhere("states", "$ref \"states.yaml#/State\" leads out of the document")]
#[case::a_value_that_is_none("states", "[1] among the values")]
#[case::responses_in_a_circle("problem.answers", "GET /runs/{}/events (nothing)")]
fn what_is_not_understood_fails_by_its_name(#[case] name: &str, #[case] expected: &str) {
    let found = findings(&fixture("not-understood.yaml"), &[]);
    assert!(
        found(name).starts_with("fail ") && found(name).contains(expected),
        "{}",
        found(name)
    );
    assert!(
        found("event.statePointers").starts_with("note"),
        "text is no field"
    );
}

/// Proves: L-contract
#[rstest]
#[case::newer("openapi: 3.1.0\ninfo: {}\n", &["OpenAPI 3.1.0", "OpenAPI 3.0 is understood here"])]
#[case::older(r#"{"swagger": "2.0"}"#, &["Swagger 2.0", "OpenAPI 3.0 is understood here"])]
#[case::none("kind: Contract\n", &["no OpenAPI document"])]
#[case::a_web_page("<html><body>Sign in", &["no OpenAPI document"])]
#[case::half_of_one(r#"{"openapi": "3.0.0", "#, &["failed to read it as JSON"])]
#[case::not_yaml("openapi: [", &["failed to read it as YAML"])]
fn what_is_no_document_of_3_0_is_trouble_in_one_line(#[case] text: &str, #[case] words: &[&str]) {
    let document = file(
        &format!("trouble-{}.yaml", words[0].replace(' ', "-")),
        text,
    );
    check(&document, &[]).is_trouble(words);
    let diff = ["diff", "--openapi", "contract/openapi.yaml", &document];
    contract(&diff).is_trouble(words);
    contract(&["init", "--openapi", &document]).is_trouble(words);
}

/// Proves: L-contract, S-unknown
#[test]
fn of_another_api_s_document_nothing_is_found_by_chance() {
    let text = "openapi: 3.0.0\ninfo: {title: Tasks, version: '1'}\npaths: {'/tasks/{id}/version': {get: {responses: {}}}}\n";
    let found = findings(&file("another-api.yaml", text), &[]);
    assert_eq!(
        found("operation.version"),
        "fail There is no path /version."
    );
    for name in [
        "header.requestID",
        "problem.answers",
        "problem.fields",
        "run.idPointers",
    ] {
        assert!(found(name).starts_with("note Not tried"), "{name}");
    }
}

#[test]
fn a_document_without_end_or_with_endless_alternatives_is_bounded() {
    check("/dev/zero", &[]).is_trouble(&["/dev/zero", "larger than"]);
    // Each schema has two alternatives of the next.
    let mut text = DOCUMENT.replace(
        "    Run:\n",
        "    Run:\n      allOf: [{$ref: '#/components/schemas/S0'}]\n",
    );
    for n in 0..40 {
        let next = format!("{{$ref: '#/components/schemas/S{}'}}", n + 1);
        let _ = writeln!(
            text,
            "    S{n}: {{oneOf: [{next}, {next}], anyOf: [{next}, {next}]}}"
        );
    }
    text.push_str("    S40: {type: object}\n");
    let found = findings(&file("endless.yaml", &text), &[]);
    assert!(
        found("run.idPointers").contains("too large to follow"),
        "{}",
        found("run.idPointers")
    );
}

#[test]
fn what_a_document_says_can_t_steer_the_terminal() {
    let hostile = "\"\\u001b[2J\\r\\n\"";
    let text = std::fs::read_to_string(fixture("another-service.json")).unwrap();
    let text = text
        .replace("\"PAUSED\"", hostile)
        .replace("\"Jobs\"", hostile);
    let document = file("hostile.json", &text);
    let done = check(&document, &[]);
    let init = contract(&["init", "--openapi", &document]);
    for out in [done.out, init.out] {
        assert!(!out.contains(['\u{1b}', '\r']), "{out:?}");
    }
}

/// Proves: L-contract, S-unknown
#[test]
fn init_writes_a_contract_file_by_which_the_document_matches() {
    let document = fixture("own-names.yaml");
    let first = contract(&["init", "--openapi", &document]);
    assert_eq!(
        (first.code, first.told.as_str()),
        (Some(0), ""),
        "{first:?}"
    );
    for words in [
        "# Guess: by its name; the answer has /commit, /release.\n  pointers: [\"/release\"]",
        "# Guess: the document's own version.\n  accepted: [\"3.2.0\"]",
        "statePointers: [\"/job/phase\"]",
        "identityPointers: [\"/tenant_id\"]",
        "# Guess: by their words.\n  succeeded: [\"JOB_DONE\"]",
    ] {
        assert!(first.out.contains(words), "{words} is not in {}", first.out);
    }
    let written = file("first.yaml", &first.out);
    let done = check(&document, &["--contract", &written]);
    assert_eq!(done.code, Some(0), "{}\n{}", first.out, done.out);
}

/// Proves: L-contract, S-unknown
#[test]
fn init_leaves_out_and_names_what_it_can_t_guess() {
    let first = contract(&["init", "--openapi", &fixture("another-service.json")]);
    test_support::says(
        &first.out,
        &[
            "# run: idPointers: no name is like it; the answer has nothing.",
            "# states: in no list yet: \"7\", \"PAUSED\".",
        ],
    );
    let written = file("little.yaml", &first.out);
    let shown = contract(&["show", "--contract", &written]);
    assert_eq!(shown.code, Some(0), "{shown:?}");
}

/// Proves: L-contract, R13
#[test]
fn diff_says_what_a_change_of_the_document_means_for_runs() {
    let own = fixture("own-names.contract.yaml");
    let old = fixture("own-names.yaml");
    let same = contract(&["diff", "--openapi", &old, &old, "--contract", &own]);
    assert_eq!(same.code, Some(0), "{same:?}");
    assert!(
        same.out
            .ends_with("\nNothing changes that the operator relies on.\n"),
        "{}",
        same.out
    );
    let text = std::fs::read_to_string(&old).unwrap();
    let text = text
        .replace("JOB_QUEUED", "JOB_PARKED")
        .replace("version: 3.2.0", "version: 4.0.0")
        .replace(
            "name: idempotency-key, in: header",
            "name: idempotency-key, in: query",
        );
    let new = file("own-names-4.yaml", &text);
    let done = contract(&["diff", "--openapi", &old, &new, "--contract", &own]);
    assert_eq!(done.code, Some(1), "{done:?}");
    test_support::says(
        &done.out,
        &[
            "From Foundry 3.2.0 to Foundry 4.0.0",
            "FAIL  POST /runs                      It requires what the operator doesn't send: query idempotency-key.",
            "FAIL  header Idempotency-Key",
            "WARN  version.accepted                The document has 4.0.0, accepted are 3.*.",
            "      before                          ok: The document has 3.2.0.",
            "+     states that are new             \"JOB_PARKED\" (in no list: counts as active, also if it is an end).",
            "-     states that are gone            \"JOB_QUEUED\" (pending).",
            "Nothing else changes that the operator relies on.",
        ],
    );
}

/// Proves: L-contract, R7
#[rstest]
#[case::to_check(&["check", "--openapi"])]
#[case::to_begin_from(&["init", "--openapi"])]
#[case::to_compare(&["diff", "--openapi", "contract/openapi.yaml"])]
#[tokio::test]
async fn a_document_is_read_from_a_url_without_a_token(#[case] args: &'static [&'static str]) {
    let server = Server::start([vec![answer(
        "200 OK",
        &["Content-Type: application/yaml"],
        DOCUMENT,
    )]])
    .await;
    let url = format!("{}/openapi.yaml", server.base_url());
    let read = tokio::task::spawn_blocking(move || contract(&[args, &[url.as_str()]].concat()));
    let done = within(read).await.unwrap();
    assert_eq!(done.code, Some(0), "{done:?}");
    let requests = server.requests();
    assert_eq!(requests[0].line(), "GET /api/v1/openapi.yaml HTTP/1.1");
    assert_eq!(
        requests[0].names(),
        ["accept", "accept-encoding", "host", "user-agent"]
    );
}

/// Proves: L-contract
#[rstest]
#[case::a_redirect("302 Found", "HTTP 302; redirects are not followed")]
#[case::none("404 Not Found", "HTTP 404; download it")]
#[tokio::test]
async fn a_url_without_a_document_is_trouble(#[case] status: &str, #[case] why: &str) {
    let server =
        Server::start([vec![answer(status, &["Location: http://127.0.0.1:9/"], "")]]).await;
    let url = format!("{}/openapi.yaml", server.base_url());
    let read = tokio::task::spawn_blocking(move || check(&url, &[]));
    within(read)
        .await
        .unwrap()
        .is_trouble(&["failed to get the OpenAPI document", why]);
}

#[rstest]
#[case::to_check(&["check", "--openapi"])]
#[case::to_begin_from(&["init", "--openapi"])]
#[case::to_compare(&["diff", "--openapi", "contract/openapi.yaml"])]
fn a_url_with_a_password_is_refused_and_not_repeated(#[case] args: &[&str]) {
    let done = contract(&[args, &["https://me:secret@runs.example.com/openapi.yaml"]].concat());
    done.is_trouble(&["--openapi", "contains a user name or password"]);
    assert!(!done.told.contains("secret"), "{}", done.told);
}

#[test]
fn a_base_url_beside_a_document_is_said_to_have_no_effect() {
    let done = check(
        "contract/openapi.yaml",
        &["--base-url", "https://runs.example.com/api/v1"],
    );
    assert_eq!(done.code, Some(0), "{done:?}");
    test_support::says(&done.told, &["the service is not called", "--base-url"]);
}

#[test]
fn a_url_by_plain_http_is_refused_but_for_loopback() {
    check("http://runs.example.com/openapi.yaml", &[]).is_trouble(&["--openapi", "plain http"]);
}
