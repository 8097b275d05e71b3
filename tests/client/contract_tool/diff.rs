//! `contract diff` as a process: exit codes, forms and files; what is reported is tested with the diff itself.

use rstest::rstest;
use serde_json::json;

use super::{changed, contract, contract_with, file};

const BUILTIN: &str = include_str!("../../../contract/profile.yaml");

#[test]
fn differences_are_listed_by_field_with_their_meaning() {
    let text = BUILTIN
        .replace("failed: [failed,", "failed: [failed, completed,")
        .replace("success, completed,", "success,")
        .replace("keyRetentionSeconds: 86400", "keyRetentionSeconds: 3600");
    let new = file("moved.yaml", &text);
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
    assert_eq!(changes.len(), 2);
    for (change, (kind, value)) in changes.iter().zip([("removed", "v1.*"), ("added", "2.*")]) {
        assert_eq!(change["field"], "version.accepted");
        assert_eq!(
            (&change["change"], &change["value"]),
            (&json!(kind), &json!(value))
        );
        assert_ne!(change["meaning"], "");
    }
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

const OPENAPI: &str = include_str!("../../../contract/openapi.yaml");
const NO_CONTRACT: [&str; 2] = [
    "OpenAPI document, not a contract file",
    "run-operator contract show",
];

#[rstest]
#[case::missing("/nonexistent.yaml", &["/nonexistent.yaml", "No such file"])]
#[case::a_folder("/", &["contract file /", "directory"])]
#[case::without_end("/dev/zero", &["/dev/zero", "larger than"])]
#[case::an_unknown_field(
    &changed("wrong.yaml", "keyRetentionSeconds:", "keyRetention:"),
    &["wrong.yaml", "unknown field `keyRetention`"]
)]
#[case::an_openapi_document(&file("openapi.yaml", OPENAPI), &NO_CONTRACT)]
#[case::one_in_json(&file("openapi.json", r#"{"swagger": "2.0", "paths": {}}"#), &NO_CONTRACT)]
fn a_file_that_can_t_be_used_is_named(#[case] path: &str, #[case] words: &[&str]) {
    let good = file("good.yaml", BUILTIN);
    contract(&["diff", path, &good]).is_trouble(words);
    contract(&["diff", &good, path]).is_trouble(words);
}

/// The meanings of the first change that a text of the built-in file leads to, and of the reverse change.
fn meanings(from: &str, to: &str) -> [String; 2] {
    let old = file("change-old.yaml", BUILTIN);
    let new = changed("change-new.yaml", from, to);
    [[&old, &new], [&new, &old]].map(|[old, new]| {
        let done = contract(&["diff", "--output", "json", old, new]);
        assert_eq!(done.code, Some(1), "{done:?}");
        done.json()["changes"][0]["meaning"]
            .as_str()
            .unwrap()
            .to_owned()
    })
}

/// A text of the built-in file, its replacement, and a part of what is said of this change and of the reverse one.
const CHANGES: &str = r#"
, done] | ] | never ends | counts as ended
, terminating] | ] | repeats the cancellation | may lose its finalizer five minutes later
, processing] | ] | an Event notes it | an Event no longer notes it
, waiting] | ] | an Event notes it | an Event no longer notes it
, approval_pending] | ] | Only the reason | Only the reason
, idempotency_key_reused] | ] | counts as proof that no run was made | it stays in doubt
, not_found] | ] | no longer proves anything | fail the Run (RunNotFound)
[400, 413, 422] | [400, 413] | is not given up | ends the Run as Failed
, ASIA] | ] | would be sent as a token | is refused before it is sent
"1.*", "v1.*"] | "v1.*"] | new submissions stop; Runs already submitted are mirrored and cancelled | New Runs are submitted
["1", "v1", "1.*", "v1.*"] | ["1", "v1", "1.*", "v1.*", "1.4"] | "1.*" accepted it before | "1.*" still accepts it
[idempotency_in_progress] | [] | counts as proof | repeated with the same key
[/version,  | [/v,  | VersionNotAccepted | VersionNotAccepted
[/runId] | [/id] | ContractViolation | ContractViolation
[/state, /status] | [/status, /state] | never end | never end
[/state] | [] | costs a GET | costs a GET
[/id, /workspaceId] | [/workspaceId, /id] | IdentityChanged | IdentityChanged
: 86400 | : 90000 | a second run is possible | a person has to decide
: 1048576 | : 2097152 | Larger answers are read | ContractViolation
: 65536 | : 131072 | Larger events are read | discarded
: 262144 | : 524288 | Larger events are read | discarded
: 5 | : 6 | given up later | Slower calls fail
: 30 | : 60 | given up later | Slower calls fail
: 90 | : 120 | noticed later | reopened again and again
"#;

/// Proves: P-contract-diff
#[test]
fn each_change_explains_its_effect_on_runs_in_both_directions() {
    for change in CHANGES.lines().skip(1) {
        let [from, to, there, back] = change.split(" | ").collect::<Vec<_>>()[..] else {
            panic!("{change}");
        };
        let [a, b] = meanings(from, to);
        assert!(a.contains(there), "{there:?} is not in {a:?}");
        assert!(b.contains(back), "{back:?} is not in {b:?}");
    }
}

/// A word of the built-in file, the list that it moves to, and a part of what is said of that.
const MOVES: &str = "
done | cancelled | makes its Run Cancelled and not Succeeded
expired | active | never ends, and a deleted object waits
processing | failed | its Run is Failed, no further call is made
starting | cancelling | may lose its finalizer five minutes later
stopping | active | repeats the cancellation
waiting | active | The first read that shows it sets status.startTime
processing | pending | no longer sets status.startTime
";

#[test]
fn a_state_that_changes_lists_is_explained_by_both() {
    let move_word = |word: &str, to: &str| {
        let text = BUILTIN.replacen(&format!(", {word}"), "", 1);
        let text = text.replacen(&format!("{to}: ["), &format!("{to}: [{word}, "), 1);
        let path = file("move.yaml", &text);
        let done = contract(&["diff", "--output", "json", &path]);
        let document = done.json();
        let change = &document["changes"][0];
        assert_eq!(change["to"], format!("states.{to}"), "{done:?}");
        change["meaning"].as_str().unwrap().to_owned()
    };
    for moved in MOVES.lines().skip(1) {
        let [word, to, words] = moved.split(" | ").collect::<Vec<_>>()[..] else {
            panic!("{moved}");
        };
        let told = move_word(word, to);
        assert!(told.contains(words), "{words:?} is not in {told:?}");
    }
}
