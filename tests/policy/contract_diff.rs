//! Differences between two contract files: everything that the operator reads differently, and nothing else.

use proptest::prelude::*;
use rstest::rstest;
use run_operator::api::Contract;
use run_operator::api::contract::{BUILTIN, Change, Difference};
use serde_json::{Value, json};

use crate::support::CONTRACT;

/// The built-in file, to be changed.
fn document() -> Value {
    serde_saphyr::from_str(BUILTIN).expect("readable")
}

/// JSON is YAML.
fn parsed(document: &Value) -> Contract {
    Contract::parse(&document.to_string()).expect("accepted")
}

/// The built-in file with one field set.
fn with(pointer: &str, value: Value) -> Contract {
    let mut document = document();
    *document.pointer_mut(pointer).expect("a field") = value;
    parsed(&document)
}

/// A change as one line.
fn line(change: &Change) -> String {
    let field = change.field.as_str();
    match &change.what {
        Difference::Added(word) => format!("{field} +{word}"),
        Difference::Removed(word) => format!("{field} -{word}"),
        Difference::Moved { word, to } => format!("{field} {word} to {}", to.as_str()),
        Difference::Pointers { old, new } => format!("{field} {old:?} to {new:?}"),
        Difference::Number { old, new } => format!("{field} {old} to {new}"),
    }
}

fn lines(old: &Contract, new: &Contract) -> Vec<String> {
    old.changes_to(new).iter().map(line).collect()
}

/// Proves: P-contract-diff
#[rstest]
#[case::a_pointer_is_added("/version/pointers", json!(["/version", "/apiVersion", "/v"]), &[r#"version.pointers ["/version", "/apiVersion"] to ["/version", "/apiVersion", "/v"]"#])]
#[case::pointers_change_places("/run/statePointers", json!(["/status", "/state"]), &[r#"run.statePointers ["/state", "/status"] to ["/status", "/state"]"#])]
#[case::a_pointer_stands_twice("/run/statePointers", json!(["/state", "/status", "/state"]), &[])]
#[case::run_ids_stand_elsewhere("/run/idPointers", json!(["/id"]), &[r#"run.idPointers ["/runId"] to ["/id"]"#])]
#[case::events_name_no_state("/event/statePointers", json!([]), &[r#"event.statePointers ["/state"] to []"#])]
#[case::the_identity_stands_elsewhere("/workspace/identityPointers", json!(["/workspaceId"]), &[r#"workspace.identityPointers ["/id", "/workspaceId"] to ["/workspaceId"]"#])]
#[case::versions_in_another_order("/version/accepted", json!(["v1.*", "1.*", "1", "v1", "1"]), &[])]
#[case::another_version("/version/accepted", json!(["1", "v1", "1.*", "2.*"]), &["version.accepted -v1.*", "version.accepted +2.*"])]
#[case::states_in_another_order_and_case("/states/failed", json!(["EXPIRED", "Error", "failure", "failed", "errored", "timed_out", "error"]), &[])]
#[case::a_state_is_taken_out("/states/failed", json!(["failed", "failure", "error", "errored", "timed_out"]), &["states.failed -expired"])]
#[case::a_state_is_added("/states/failed", json!(["failed", "failure", "error", "errored", "timed_out", "expired", "Evicted"]), &["states.failed +Evicted"])]
#[case::codes_have_case("/codes/runNotFound", json!(["RUN_NOT_FOUND", "not_found"]), &["codes.runNotFound -run_not_found", "codes.runNotFound +RUN_NOT_FOUND"])]
#[case::statuses_in_another_order("/create/refusedFor", json!([422, 400, 413, 400]), &[])]
#[case::another_status("/create/refusedFor", json!([400, 404, 422]), &["create.refusedFor -413", "create.refusedFor +404"])]
#[case::a_shorter_retention("/keyRetentionSeconds", json!(3600), &["keyRetentionSeconds 86400 to 3600"])]
#[case::a_limit("/limits/bodyBytes", json!(2048), &["limits.bodyBytes 1048576 to 2048"])]
#[case::a_timeout("/timeouts/streamIdleSeconds", json!(5), &["timeouts.streamIdleSeconds 90 to 5"])]
#[case::no_prefix("/providerKeyPrefixes", json!(["sk-"]), &["-AIza", "-AKIA", "-ASIA", "-gsk_", "-hf_", "-nvapi-", "-pplx-", "-r8_", "-rk_live_", "-sk_live_", "-xai-"])]
fn a_change_of_one_field_is_reported_by_its_kind(
    #[case] pointer: &str,
    #[case] value: Value,
    #[case] expected: &[&str],
) {
    let told = lines(&CONTRACT, &with(pointer, value));
    let told: Vec<_> = told
        .iter()
        .map(|line| line.strip_prefix("providerKeyPrefixes ").unwrap_or(line))
        .collect();
    assert_eq!(told, expected);
}

/// Proves: P-contract-diff
#[test]
fn a_moved_state_is_reported_once_at_its_old_list() {
    let mut document = document();
    document["states"]["succeeded"] = json!(["succeeded", "success", "complete", "done"]);
    document["states"]["failed"] = json!([
        "failed",
        "failure",
        "error",
        "errored",
        "timed_out",
        "expired",
        "Completed"
    ]);
    document["codes"]["approvalConflict"] = json!(["approval_conflict", "approval_required"]);
    document["codes"]["versionConflict"] = json!([
        "approval_pending",
        "version_conflict",
        "contract_version_conflict"
    ]);
    let new = parsed(&document);
    assert_eq!(
        lines(&CONTRACT, &new),
        [
            "states.succeeded Completed to states.failed",
            "codes.approvalConflict approval_pending to codes.versionConflict",
        ]
    );
    assert_eq!(
        lines(&new, &CONTRACT),
        [
            "states.failed completed to states.succeeded",
            "codes.versionConflict approval_pending to codes.approvalConflict",
        ]
    );
}

#[test]
fn changes_stand_in_the_file_s_order() {
    let mut document = document();
    document["providerKeyPrefixes"] = json!([]);
    document["limits"]["eventBytes"] = json!(4096);
    document["states"]["pending"] = json!(["queued"]);
    document["version"]["accepted"] = json!(["9"]);
    let changes = CONTRACT.changes_to(&parsed(&document));
    let fields: Vec<_> = changes.iter().map(|change| change.field).collect();
    assert!(fields.is_sorted(), "{fields:?}");
}

/// The path of every field that holds no further fields.
fn leaves(value: &Value, at: &str) -> Vec<String> {
    match value {
        Value::Object(fields) => fields
            .iter()
            .flat_map(|(name, value)| leaves(value, &format!("{at}/{name}")))
            .collect(),
        _ => vec![at.to_owned()],
    }
}

/// The same field with something that it does not hold yet.
fn other(value: &Value, pointer: &str, seed: u16) -> Value {
    match value {
        Value::Number(number) => json!(number.as_u64().expect("whole") + 1 + u64::from(seed)),
        Value::Array(items) => {
            let new = match items.first() {
                Some(Value::Number(_)) => json!(450 + seed % 40),
                _ if pointer.ends_with("ointers") => json!(format!("/new{seed}")),
                _ => json!(format!("new{seed}")),
            };
            let mut items = items.clone();
            items.insert(usize::from(seed) % (items.len() + 1), new);
            Value::Array(items)
        }
        _ => panic!("{pointer} is neither a number nor a list"),
    }
}

proptest! {
    /// Proves: P-contract-diff
    #[test]
    fn each_field_change_is_reported_by_name_in_both_directions(
        at in any::<prop::sample::Index>(),
        seed in any::<u16>(),
    ) {
        let document = document();
        let leaves = leaves(&document, "");
        let pointer = at.get(&leaves);
        let old = document.pointer(pointer).expect("a field");
        let new = with(pointer, other(old, pointer, seed));
        for changes in [CONTRACT.changes_to(&new), new.changes_to(&CONTRACT)] {
            prop_assert_eq!(changes.len(), 1);
            let field = changes[0].field.as_str().replace('.', "/");
            prop_assert_eq!(&format!("/{field}"), pointer);
        }
    }

    /// Proves: P-contract-diff
    #[test]
    fn the_order_of_words_and_the_case_of_states_change_nothing(seed in any::<u64>()) {
        let mut document = document();
        for pointer in leaves(&document, "") {
            let ordered = pointer.ends_with("ointers");
            let list = document.pointer_mut(&pointer).and_then(Value::as_array_mut);
            let Some(list) = list.filter(|_| !ordered) else {
                continue;
            };
            let length = list.len();
            list.rotate_left(usize::try_from(seed % 64).expect("small") % length);
            if pointer.starts_with("/states") {
                let first = list[0].as_str().expect("a word").to_uppercase();
                list[0] = json!(first);
            }
        }
        prop_assert_eq!(lines(&CONTRACT, &parsed(&document)), Vec::<String>::new());
    }
}

#[test]
fn a_file_differs_from_itself_in_nothing() {
    assert_eq!(lines(&CONTRACT, &CONTRACT), Vec::<String>::new());
}
