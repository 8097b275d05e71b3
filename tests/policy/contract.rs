//! The contract file: its content, and every way in which it can be wrong.

use rstest::rstest;
use run_operator::api::{
    Contract,
    contract::{CodeClass, ContractError, StateClass},
};
use serde_json::json;

use crate::support::CONTRACT;

const PROFILE: &str = include_str!("../../contract/profile.yaml");

fn changed(from: &str, to: &str) -> Result<Contract, ContractError> {
    assert!(PROFILE.contains(from), "the file has no {from}");
    Contract::parse(&PROFILE.replacen(from, to, 1))
}

/// Proves: R12, L-contract
#[rstest]
#[case(
    "pointers: [/version, /apiVersion]",
    "pointers: []",
    "the contract file is wrong at version.pointers: name at least one JSON pointer"
)]
#[case(
    "idPointers: [/runId]",
    "idPointers: []",
    "the contract file is wrong at run.idPointers: name at least one JSON pointer"
)]
#[case(
    "statePointers: [/state, /status]",
    "statePointers: []",
    "the contract file is wrong at run.statePointers: name at least one JSON pointer"
)]
#[case(
    "idPointers: [/runId]",
    "idPointers: [runId]",
    "the contract file is wrong at run.idPointers: \"runId\" is no JSON pointer; it must begin with \"/\""
)]
#[case(
    "statePointers: [/state]",
    "statePointers: [state]",
    "the contract file is wrong at event.statePointers: \"state\" is no JSON pointer; it must begin with \"/\""
)]
#[case(
    "identityPointers: [/id, /workspaceId]",
    "identityPointers: [id]",
    "the contract file is wrong at workspace.identityPointers: \"id\" is no JSON pointer; it must begin with \"/\""
)]
#[case(
    "accepted: [\"1\", \"v1\", \"1.*\", \"v1.*\"]",
    "accepted: []",
    "the contract file is wrong at version.accepted: name at least one version"
)]
#[case(
    "succeeded: [succeeded, success, completed, complete, done]",
    "succeeded: []",
    "the contract file is wrong at states.succeeded: without a state here no Run could ever end this way"
)]
#[case(
    "failed: [failed, failure, error, errored, timed_out, expired]",
    "failed: []",
    "the contract file is wrong at states.failed: without a state here no Run could ever end this way"
)]
#[case(
    "cancelled: [cancelled, canceled, aborted, stopped, terminated]",
    "cancelled: []",
    "the contract file is wrong at states.cancelled: without a state here no Run could ever end this way"
)]
#[case(
    "pending: [pending,",
    "pending: [DONE,",
    "the contract file is wrong at states: \"done\" is in two lists; keep it in one (a list that the file leaves out has its built-in words)"
)]
#[case(
    "runNotFound: [run_not_found,",
    "runNotFound: [version_conflict,",
    "the contract file is wrong at codes: \"version_conflict\" is in two lists; keep it in one (a list that the file leaves out has its built-in words)"
)]
#[case(
    "refusedFor: [400, 413, 422]",
    "refusedFor: [500]",
    "the contract file is wrong at create.refusedFor: 500 can't refuse a create for good; use 4xx other than 401, 403, 408, 409, 425 and 429"
)]
#[case(
    "refusedFor: [400, 413, 422]",
    "refusedFor: [422, 409]",
    "the contract file is wrong at create.refusedFor: 409 can't refuse a create for good; use 4xx other than 401, 403, 408, 409, 425 and 429"
)]
#[case(
    "refusedFor: [400, 413, 422]",
    "refusedFor: [422, 408]",
    "the contract file is wrong at create.refusedFor: 408 can't refuse a create for good; use 4xx other than 401, 403, 408, 409, 425 and 429"
)]
#[case(
    "keyRetentionSeconds: 86400",
    "keyRetentionSeconds: 59",
    "the contract file is wrong at keyRetentionSeconds: 59 is too small; the least is 60"
)]
#[case(
    "bodyBytes: 1048576",
    "bodyBytes: 1023",
    "the contract file is wrong at limits.bodyBytes: 1023 is too small; the least is 1024"
)]
#[case(
    "eventLineBytes: 65536",
    "eventLineBytes: 0",
    "the contract file is wrong at limits.eventLineBytes: 0 is too small; the least is 1024"
)]
#[case(
    "streamsPerConnection: 100",
    "streamsPerConnection: 0",
    "the contract file is wrong at limits.streamsPerConnection: 0 is too small; the least is 1"
)]
#[case(
    "eventBytes: 262144",
    "eventBytes: 1",
    "the contract file is wrong at limits.eventBytes: 1 is too small; the least is 1024"
)]
#[case(
    "connectSeconds: 5",
    "connectSeconds: 0",
    "the contract file is wrong at timeouts.connectSeconds: 0 is too small; the least is 1"
)]
#[case(
    "requestSeconds: 30",
    "requestSeconds: 0",
    "the contract file is wrong at timeouts.requestSeconds: 0 is too small; the least is 1"
)]
#[case(
    "streamIdleSeconds: 90",
    "streamIdleSeconds: 0",
    "the contract file is wrong at timeouts.streamIdleSeconds: 0 is too small; the least is 1"
)]
fn a_wrong_contract_file_is_refused_with_its_field(
    #[case] from: &str,
    #[case] to: &str,
    #[case] message: &str,
) {
    let error = changed(from, to).expect_err("refused");
    assert_eq!(error.to_string(), message);
}

/// Proves: L-contract
#[rstest]
#[case::a_star_in_the_middle(r#"accepted: ["1","#, r#"accepted: ["1.*.2","#, &["version.accepted: \"1.*.2\"", "a * matches the rest of a version", "write it last"])]
#[case::two_stars(r#"accepted: ["1","#, r#"accepted: ["1.**","#, &["\"1.**\"", "write it last"])]
#[case::every_version(r#"accepted: ["1","#, r#"accepted: ["*","#, &["accepts every version", "such as \"2.*\""])]
#[case::an_empty_version(r#"accepted: ["1","#, r#"accepted: ["","#, &["version.accepted: \"\"", "no version has white space"])]
#[case::a_version_with_space(r#"accepted: ["1","#, r#"accepted: ["1 ","#, &["\"1 \"", "white space"])]
#[case::an_escape_that_is_none("idPointers: [/runId]", "idPointers: [/run~Id]", &["run.idPointers", "\"/run~Id\" is no JSON pointer", "~0"])]
#[case::an_escape_at_the_end("idPointers: [/runId]", "idPointers: [/run~]", &["\"/run~\" is no JSON pointer"])]
#[case::an_empty_state("pending: [pending,", "pending: [\"\",", &["states.pending", "is empty or has white space around it"])]
#[case::a_state_with_space("failed: [failed,", "failed: [\"failed \",", &["states.failed: \"failed \"", "white space"])]
#[case::an_empty_code("runNotFound: [run_not_found,", "runNotFound: [\"\",", &["codes.runNotFound"])]
#[case::a_result_without_a_name("resultPointers: {}", "resultPointers: {\"\": [/a]}", &["run.resultPointers", "\"\" is no name of a result"])]
#[case::a_result_s_name_with_a_space("resultPointers: {}", "resultPointers: {a b: [/a]}", &["\"a b\" is no name of a result", "letters, digits"])]
#[case::a_result_s_name_that_ends_wrong("resultPointers: {}", "resultPointers: {a.: [/a]}", &["\"a.\" is no name of a result"])]
#[case::a_result_s_name_that_is_too_long("resultPointers: {}", &format!("resultPointers: {{{}: [/a]}}", "a".repeat(64)), &["is no name of a result", "1 to 63"])]
#[case::too_many_results("resultPointers: {}", &format!("resultPointers: {{{}}}", (0..17).map(|n| format!("a{n}: [/a]")).collect::<Vec<_>>().join(", ")), &["run.resultPointers: it has 17 names; 16 are the most"])]
#[case::a_result_without_pointers("resultPointers: {}", "resultPointers: {a: []}", &["run.resultPointers.a: name at least one JSON pointer"])]
#[case::a_result_s_wrong_pointer("resultPointers: {}", "resultPointers: {a: [b]}", &["run.resultPointers.a: \"b\" is no JSON pointer"])]
#[case::results_without_a_value("resultPointers: {}", "resultPointers:", &["names without a value", "write {}"])]
#[case::a_result_twice("resultPointers: {}", "resultPointers: {a: [/a], a: [/b]}", &["duplicate", "resultPointers"])]
#[case::a_wrong_pointer_to_a_console("consoleURLPointers: []", "consoleURLPointers: [url]", &["run.consoleURLPointers: \"url\" is no JSON pointer"])]
#[case::a_wrong_pointer_to_a_failure("failurePointers: []", "failurePointers: [url]", &["run.failurePointers: \"url\" is no JSON pointer"])]
#[case::a_prefix_of_every_token("providerKeyPrefixes: [sk-,", "providerKeyPrefixes: [\"\",", &["providerKeyPrefixes"])]
#[case::a_list_without_a_value("  cancelling: [cancelling, canceling, cancel_requested, stopping, terminating]", "  cancelling:", &["a list without a value", "write []", "cancelling:"])]
#[case::no_list("idPointers: [/runId]", "idPointers: /runId", &["expected sequence", "which reads \"idPointers: /runId\""])]
#[case::a_negative_number("keyRetentionSeconds: 86400", "keyRetentionSeconds: -1", &["failed to read the contract file", "keyRetentionSeconds: -1"])]
#[case::no_yaml("keyRetentionSeconds: 86400", "keyRetentionSeconds: [", &["failed to read the contract file"])]
#[case::no_number("keyRetentionSeconds: 86400", "keyRetentionSeconds: 24h", &["invalid u64 at line", "which reads \"keyRetentionSeconds: 24h\""])]
#[case::an_unknown_field("connectSeconds: 5", "connectSecond: 5", &["unknown field `connectSecond`, expected one of connectSeconds"])]
#[case::an_unknown_part("keyRetentionSeconds: 86400", "keyRetention: {seconds: 86400}", &["unknown field `keyRetention`, expected one of"])]
#[case::a_field_that_stands_twice("keyRetentionSeconds: 86400", "keyRetentionSeconds: 86400\nkeyRetentionSeconds: 1", &["duplicate", "keyRetentionSeconds"])]
#[case::two_documents("keyRetentionSeconds: 86400", "---\nkeyRetentionSeconds: 86400", &["only single YAML document expected"])]
#[case::a_second_document("ASIA]", "ASIA]\n---\na: 1", &["only single YAML document expected"])]
#[case::a_star_without_quotes(r#"accepted: ["1","#, "accepted: [1.*, *,", &["which reads", "accepted: [1.*, *,"])]
fn an_ineffective_contract_entry_is_rejected_with_its_location(
    #[case] from: &str,
    #[case] to: &str,
    #[case] words: &[&str],
) {
    let told = changed(from, to).expect_err("refused").to_string();
    assert_eq!(told.lines().count(), 1, "{told}");
    for word in words {
        assert!(told.contains(word), "{word:?} is not in {told:?}");
    }
}

#[test]
fn an_openapi_document_is_not_taken_for_a_contract_file() {
    let transcription = include_str!("../../contract/openapi.yaml");
    for text in [transcription, r#"{"swagger":"2.0"}"#] {
        let error = Contract::parse(text).expect_err("refused");
        assert!(matches!(error, ContractError::OpenApi), "{error}");
    }
    for text in ["[]", "openapi", "{"] {
        let error = Contract::parse(text).expect_err("refused");
        assert!(matches!(error, ContractError::Parse(_)), "{error}");
        assert_eq!(error.to_string().lines().count(), 1);
    }
}

const HEADER: &str = "apiVersion: contract.run-operator.dev/v1alpha1\nkind: Contract\n";

fn overlay(text: &str) -> Contract {
    Contract::parse(&format!("{HEADER}{text}")).expect("accepted")
}

/// Proves: L-contract
#[rstest]
#[case::of_the_old_form(&PROFILE.replace(HEADER, ""))]
#[case::with_a_part("version: {accepted: [\"2\"]}")]
#[case::without_a_kind("apiVersion: contract.run-operator.dev/v1alpha1")]
#[case::empty("")]
fn a_file_that_does_not_say_what_it_is_is_refused_with_the_lines_to_write(#[case] text: &str) {
    let error = Contract::parse(text).expect_err("refused");
    assert!(matches!(error, ContractError::NoHeader), "{error}");
    assert_eq!(
        error.to_string(),
        "the contract file does not say what it is: begin it with the lines \
         \"apiVersion: contract.run-operator.dev/v1alpha1\" and \"kind: Contract\", and keep below them what differs \
         from the built-in values, which `kubectl runop contract show` prints"
    );
}

#[test]
fn a_file_of_another_version_is_refused_by_its_name() {
    let other = HEADER.replace("v1alpha1", "v2");
    let told = Contract::parse(&other).expect_err("refused").to_string();
    assert!(
        told.contains("has apiVersion \"contract.run-operator.dev/v2\" and kind \"Contract\""),
        "{told}"
    );
}

/// Proves: L-contract
#[test]
fn what_a_file_leaves_out_has_the_built_in_value_and_a_list_replaces_the_whole_list() {
    let nothing = overlay("");
    assert_eq!(
        format!("{:?}", nothing.in_force()),
        format!("{:?}", CONTRACT.in_force())
    );
    let some = overlay("states: {succeeded: [finished]}\ntimeouts: {requestSeconds: 7}\n");
    assert_eq!(some.state("finished"), StateClass::Succeeded);
    assert_eq!(
        some.state("done"),
        StateClass::Unmapped,
        "the list as a whole"
    );
    assert_eq!(
        some.state("failed"),
        StateClass::Failed,
        "the lists beside it stay"
    );
    let timeouts = some.timeouts();
    assert_eq!((timeouts.request_seconds, timeouts.connect_seconds), (7, 5));
    assert_eq!(some.given()["states"], json!({"succeeded": ["finished"]}));
    assert_eq!(
        some.given()["limits"],
        json!(null),
        "only what the file gives"
    );
}

/// Proves: L-contract
#[test]
fn a_word_that_a_built_in_list_has_in_another_meaning_is_refused() {
    let text = format!("{HEADER}states: {{succeeded: [stopped]}}");
    let told = Contract::parse(&text).expect_err("refused").to_string();
    assert!(
        told.contains("\"stopped\" is in two lists") && told.contains("built-in words"),
        "{told}"
    );
}

#[test]
fn unquoted_versions_are_read_verbatim() {
    let numbers = changed(
        r#"accepted: ["1", "v1", "1.*", "v1.*"]"#,
        "accepted: [2, 1.10, 3.*]",
    );
    let contract = numbers.expect("accepted");
    assert_eq!(contract.accepted_versions(), ["2", "1.10", "3.*"]);
    assert!(contract.accepts_version("1.10") && !contract.accepts_version("1.1"));
}

/// Proves: S-state
#[rstest]
#[case("queued", StateClass::Pending)]
#[case("RUNNING", StateClass::Active)]
#[case("Cancelling", StateClass::Cancelling)]
#[case("Done", StateClass::Succeeded)]
#[case("ERROR", StateClass::Failed)]
#[case("canceled", StateClass::Cancelled)]
#[case("", StateClass::Unmapped)]
#[case(" done", StateClass::Unmapped)]
#[case("paused", StateClass::Unmapped)]
fn states_are_compared_without_case_and_never_guessed(
    #[case] state: &str,
    #[case] class: StateClass,
) {
    assert_eq!(CONTRACT.state(state), class);
}

/// Proves: S-unknown, L-contract
#[test]
fn the_names_of_states_are_those_of_the_file() {
    let other = changed(
        "succeeded: [succeeded, success, completed, complete, done]",
        "succeeded: [finished]",
    );
    let contract = other.expect("accepted");
    assert_eq!(contract.state("finished"), StateClass::Succeeded);
    assert_eq!(contract.state("done"), StateClass::Unmapped);
}

/// Proves: R8
#[rstest]
#[case("run_not_found", CodeClass::RunNotFound)]
#[case("RUN_NOT_FOUND", CodeClass::Unknown)]
#[case("approval_required", CodeClass::ApprovalConflict)]
#[case("version_conflict", CodeClass::VersionConflict)]
#[case("idempotency_in_progress", CodeClass::IdempotencyInProgress)]
#[case("", CodeClass::Unknown)]
fn codes_are_compared_exactly(#[case] code: &str, #[case] class: CodeClass) {
    assert_eq!(CONTRACT.code(code), class);
}

/// Proves: R13
#[rstest]
#[case("1", true)]
#[case("v1", true)]
#[case("1.4.2", true)]
#[case("v1.0", true)]
#[case("10", false)]
#[case("v10.1", false)]
#[case("2", false)]
#[case("", false)]
#[case("1-beta", false)]
fn a_version_is_accepted_by_its_pattern(#[case] version: &str, #[case] accepted: bool) {
    assert_eq!(CONTRACT.accepts_version(version), accepted);
}

/// Proves: S-unknown
#[test]
fn the_first_pointer_with_a_text_or_a_number_counts() {
    assert_eq!(
        CONTRACT
            .run_state_of(&raw(&json!({"state": "a", "status": "b"})))
            .as_deref(),
        Some("a")
    );
    assert_eq!(
        CONTRACT
            .run_state_of(&raw(&json!({"state": "", "status": "b"})))
            .as_deref(),
        Some("b")
    );
    assert_eq!(
        CONTRACT
            .run_state_of(&raw(&json!({"state": {}, "status": "b"})))
            .as_deref(),
        Some("b")
    );
    assert_eq!(CONTRACT.run_state_of(&raw(&json!({"state": null}))), None);
    assert_eq!(
        CONTRACT.run_id_of(&raw(&json!({"runId": 7}))).as_deref(),
        Some("7")
    );
    assert_eq!(CONTRACT.run_id_of(&raw(&json!([]))), None);
    assert_eq!(
        CONTRACT
            .version_of(&raw(&json!({"apiVersion": 1})))
            .as_deref(),
        Some("1")
    );
    assert_eq!(
        CONTRACT
            .identity_of(&raw(&json!({"workspaceId": "w"})))
            .as_deref(),
        Some("w")
    );
    assert_eq!(
        CONTRACT.event_state_of(r#"{"state":"done"}"#).as_deref(),
        Some("done")
    );
    assert_eq!(CONTRACT.event_state_of("done"), None);
    let nested = changed("[/runId]", "[/data/run~1id/0]").expect("accepted");
    assert_eq!(
        nested
            .run_id_of(&raw(&json!({"data": {"run/id": ["x"]}})))
            .as_deref(),
        Some("x")
    );
}

/// Proves: S-unknown
#[test]
fn an_identity_pointer_and_an_event_pointer_may_be_left_out() {
    let open = changed(
        "identityPointers: [/id, /workspaceId]",
        "identityPointers: []",
    )
    .expect("accepted");
    assert!(!open.knows_identity() && CONTRACT.knows_identity());
    assert_eq!(open.identity_of(&raw(&json!({"id": "w"}))), None);
    let silent = changed("statePointers: [/state]", "statePointers: []").expect("accepted");
    assert_eq!(silent.event_state_of(r#"{"state":"done"}"#), None);
}

fn raw(document: &serde_json::Value) -> Box<serde_json::value::RawValue> {
    serde_json::value::to_raw_value(document).expect("JSON")
}

/// Proves: L-contract, P-details
#[test]
fn an_answer_s_details_are_read_where_the_file_says_and_only_texts_numbers_and_booleans() {
    let text = "run: {resultPointers: {accuracy: [/metrics/accuracy], best: [/best, /metrics/best], odd: [/metrics]}, \
        consoleURLPointers: [/links/console], failurePointers: [/error], \
        progressPercentPointers: [/error, /metrics/steps, /progress]}\n";
    let contract = overlay(text);
    let given = &contract.given()["run"];
    assert_eq!(given["consoleURLPointers"], json!(["/links/console"]));
    assert_eq!(given["resultPointers"]["odd"], json!(["/metrics"]));
    let answer = json!({
        "runId": "r", "best": null, "metrics": {"accuracy": 0.93, "best": true, "steps": 900},
        "progress": "41.7", "error": "", "links": {"console": "https://console.example.com/r"}, "message": "not asked for",
    });
    let shown = |text: &str, max: usize| text.chars().take(max).collect();
    let details = contract.run_details_of(&raw(&answer), shown).expect("some");
    let results: Vec<_> = details
        .results
        .iter()
        .map(|(name, value)| (&**name, &**value))
        .collect();
    assert_eq!(results, [("accuracy", "0.93"), ("best", "true")]);
    assert_eq!(details.percent, Some(41));
    assert_eq!((details.message, details.failure), (None, None));
    assert_eq!(CONTRACT.run_details_of(&raw(&answer), shown), None);
    assert_eq!(CONTRACT.detail_pointers().count(), 0);
}
