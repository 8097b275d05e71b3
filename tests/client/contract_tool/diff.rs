//! `contract diff` as a process: exit codes, forms and files; what is reported is tested with the diff itself.

use rstest::rstest;
use serde_json::{Value, json};

use super::{changed, contract, contract_with, file};

const BUILTIN: &str = include_str!("../../../contract/profile.yaml");

#[test]
fn differences_are_listed_by_field_with_their_meaning() {
    let new = changed(
        "moved.yaml",
        "failed: [failed,",
        "failed: [failed, completed,",
    );
    let text = std::fs::read_to_string(&new).unwrap();
    let text = text
        .replace("success, completed,", "success,")
        .replace("keyRetentionSeconds: 86400", "keyRetentionSeconds: 3600");
    std::fs::write(&new, text).unwrap();
    let old = file("old.yaml", BUILTIN);
    let done = contract(&["diff", &old, &new]);
    assert_eq!((done.code, done.told.as_str()), (Some(1), ""), "{done:?}");
    let expected = format!(
        "--- {old}\n+++ {new}\n\n\
         states.succeeded\n  \"completed\" -> states.failed\n      \
         A run that ends in this state makes its Run Failed and not Succeeded; Runs that have ended stay as they are.\n\n\
         keyRetentionSeconds\n  86400 -> 3600\n      \
         A create in doubt is repeated for a shorter time, then a person has to decide (SubmissionUnknown), also for Runs that are in doubt already.\n"
    );
    assert_eq!(done.out, expected);
}

#[test]
fn for_pipelines_it_is_one_document() {
    let new = changed("json.yaml", "\"v1.*\"]", "\"2.*\"]");
    let done = contract(&["diff", "--output", "json", &new]);
    assert_eq!(done.code, Some(1));
    let document = done.json();
    assert_eq!(document["old"], "built-in");
    assert_eq!(document["new"], new.as_str());
    assert_eq!(document["same"], false);
    let changes = document["changes"].as_array().unwrap();
    let gist: Vec<Value> = changes
        .iter()
        .map(|c| json!([c["field"], c["change"], c["value"]]))
        .collect();
    assert_eq!(
        gist,
        [
            json!(["version.accepted", "removed", "v1.*"]),
            json!(["version.accepted", "added", "2.*"])
        ]
    );
    assert!(
        changes
            .iter()
            .all(|c| !c["meaning"].as_str().unwrap().is_empty())
    );
}

#[test]
fn files_that_mean_the_same_differ_in_nothing() {
    let new = changed(
        "same.yaml",
        "succeeded: [succeeded, success, completed, complete, done]",
        "succeeded: [done, COMPLETE, Success, succeeded, done, completed] # in another order",
    );
    let done = contract(&["diff", &new]);
    assert_eq!(
        (done.code, done.out.as_str(), done.told.as_str()),
        (Some(0), "No difference.\n", "")
    );
    let done = contract(&["diff", "--output", "json", &new, &new]);
    assert_eq!(done.code, Some(0));
    assert_eq!(done.json()["same"], true);
    assert_eq!(done.json()["changes"], json!([]));
}

#[test]
fn one_side_may_come_from_standard_input() {
    let new = changed("stdin.yaml", "requestSeconds: 30", "requestSeconds: 31");
    let done = contract_with(&["diff", "-", &new], &[], BUILTIN);
    assert_eq!(done.code, Some(1), "{done:?}");
    assert!(done.out.contains("  30 -> 31\n"), "{done:?}");
    let done = contract_with(&["diff", &new, "-"], &[], BUILTIN);
    assert!(done.out.contains("  31 -> 30\n"), "{done:?}");
    contract(&["diff", "-", "-"]).is_trouble(&["two files from standard input"]);
    contract_with(&["diff", "-"], &[], "no: contract")
        .is_trouble(&["contract file -", "unknown field"]);
}

#[rstest]
#[case::missing("/nonexistent.yaml", &["/nonexistent.yaml", "No such file"])]
#[case::a_folder("/", &["contract file /", "directory"])]
#[case::without_end("/dev/zero", &["/dev/zero", "larger than"])]
fn a_file_that_can_t_be_read_is_named(#[case] path: &str, #[case] words: &[&str]) {
    let good = file("good.yaml", BUILTIN);
    contract(&["diff", path, &good]).is_trouble(words);
    contract(&["diff", &good, path]).is_trouble(words);
}

#[test]
fn a_wrong_file_is_named_on_either_side() {
    let wrong = changed("wrong.yaml", "keyRetentionSeconds:", "keyRetention:");
    for args in [["diff", &wrong].as_slice(), &["diff", &wrong, "-"]] {
        contract(args).is_trouble(&[&wrong, "unknown field `keyRetention`"]);
    }
}

#[test]
fn openapi_documents_are_distinguished_from_contract_files() {
    let openapi = include_str!("../../../contract/openapi.yaml");
    let document = file("openapi.yaml", openapi);
    let words = [
        "OpenAPI document, not a contract file",
        "run-operator contract show",
    ];
    contract(&["diff", &document, &document]).is_trouble(&words);
    let json = file("openapi.json", r#"{"swagger": "2.0", "paths": {}}"#);
    contract(&["diff", &json]).is_trouble(&words);
}

/// The meanings of the first change that a text of the built-in file leads to, and of the reverse change.
fn meanings(name: &str, from: &str, to: &str) -> [String; 2] {
    let old = file(&format!("{name}-old.yaml"), BUILTIN);
    let new = changed(&format!("{name}-new.yaml"), from, to);
    [[&old, &new], [&new, &old]].map(|[old, new]| {
        let done = contract(&["diff", "--output", "json", old, new]);
        assert_eq!(done.code, Some(1), "{done:?}");
        done.json()["changes"][0]["meaning"]
            .as_str()
            .unwrap()
            .to_owned()
    })
}

/// Proves: P-contract-diff
#[rstest]
#[case::an_end("end", ", done]", "]", "never ends", "counts as ended")]
#[case::cancelling(
    "cancelling",
    ", terminating]",
    "]",
    "repeats the cancellation",
    "may lose its finalizer five minutes later"
)]
#[case::active(
    "active",
    ", processing]",
    "]",
    "an Event notes it",
    "an Event no longer notes it"
)]
#[case::pending(
    "pending",
    ", waiting]",
    "]",
    "an Event notes it",
    "an Event no longer notes it"
)]
#[case::approval(
    "approval",
    ", approval_pending]",
    "]",
    "Only the reason",
    "Only the reason"
)]
#[case::idempotency(
    "idempotency",
    ", idempotency_key_reused]",
    "]",
    "counts as proof that no run was made",
    "it stays in doubt"
)]
#[case::not_found(
    "not-found",
    ", not_found]",
    "]",
    "no longer proves anything",
    "fail the Run (RunNotFound)"
)]
#[case::refused(
    "refused",
    "[400, 413, 422]",
    "[400, 413]",
    "is not given up",
    "ends the Run as Failed"
)]
#[case::prefix(
    "prefix",
    ", ASIA]",
    "]",
    "would be sent as a token",
    "is refused before it is sent"
)]
#[case::no_version(
    "no-version",
    "\"1.*\", \"v1.*\"]",
    "\"v1.*\"]",
    "new submissions stop; Runs already submitted are mirrored and cancelled",
    "New Runs are submitted"
)]
#[case::narrower(
    "narrower",
    "[\"1\", \"v1\", \"1.*\", \"v1.*\"]",
    "[\"1\", \"v1\", \"1.*\", \"v1.*\", \"1.4\"]",
    "\"1.*\" accepted it before",
    "\"1.*\" still accepts it"
)]
#[case::in_progress(
    "in-progress",
    "[idempotency_in_progress]",
    "[]",
    "counts as proof",
    "repeated with the same key"
)]
#[case::version_pointers(
    "version-pointers",
    "[/version, ",
    "[/v, ",
    "VersionNotAccepted",
    "VersionNotAccepted"
)]
#[case::run_ids(
    "run-ids",
    "[/runId]",
    "[/id]",
    "ContractViolation",
    "ContractViolation"
)]
#[case::run_states(
    "run-states",
    "[/state, /status]",
    "[/status, /state]",
    "never end",
    "never end"
)]
#[case::event_states("event-states", "[/state]", "[]", "costs a GET", "costs a GET")]
#[case::identity(
    "identity",
    "[/id, /workspaceId]",
    "[/workspaceId, /id]",
    "IdentityChanged",
    "IdentityChanged"
)]
#[case::retention(
    "retention",
    ": 86400",
    ": 90000",
    "a second run is possible",
    "a person has to decide"
)]
#[case::body(
    "body",
    ": 1048576",
    ": 2097152",
    "Larger answers are read",
    "ContractViolation"
)]
#[case::line("line", ": 65536", ": 131072", "Larger events are read", "discarded")]
#[case::event("event", ": 262144", ": 524288", "Larger events are read", "discarded")]
#[case::connect("connect", ": 5", ": 6", "given up later", "Slower calls fail")]
#[case::request("request", ": 30", ": 60", "given up later", "Slower calls fail")]
#[case::idle("idle", ": 90", ": 120", "noticed later", "reopened again and again")]
fn each_change_explains_its_effect_on_runs_in_both_directions(
    #[case] name: &str,
    #[case] from: &str,
    #[case] to: &str,
    #[case] there: &str,
    #[case] back: &str,
) {
    let [a, b] = meanings(name, from, to);
    assert!(a.contains(there), "{there:?} is not in {a:?}");
    assert!(b.contains(back), "{back:?} is not in {b:?}");
}

#[test]
fn a_state_that_changes_lists_is_explained_by_both() {
    let move_word = |name: &str, word: &str, to: &str| {
        let text = BUILTIN.replacen(&format!(", {word}"), "", 1);
        let text = text.replacen(&format!("{to}: ["), &format!("{to}: [{word}, "), 1);
        let path = file(&format!("move-{name}.yaml"), &text);
        let done = contract(&["diff", "--output", "json", &path]);
        let document = done.json();
        let change = &document["changes"][0];
        assert_eq!(change["to"], format!("states.{to}"), "{done:?}");
        change["meaning"].as_str().unwrap().to_owned()
    };
    for (name, word, to, words) in [
        (
            "ends",
            "done",
            "cancelled",
            "makes its Run Cancelled and not Succeeded",
        ),
        (
            "going",
            "expired",
            "active",
            "never ends, and a deleted object waits",
        ),
        (
            "ended",
            "processing",
            "failed",
            "its Run is Failed, no further call is made",
        ),
        (
            "stops",
            "starting",
            "cancelling",
            "may lose its finalizer five minutes later",
        ),
        ("goes", "stopping", "active", "repeats the cancellation"),
        (
            "starts",
            "waiting",
            "active",
            "The first read that shows it sets status.startTime",
        ),
        (
            "waits",
            "processing",
            "pending",
            "no longer sets status.startTime",
        ),
    ] {
        let told = move_word(name, word, to);
        assert!(told.contains(words), "{words:?} is not in {told:?}");
    }
}
