//! `contract diff` as a process: exit codes, forms and files; what is reported is tested with the diff itself.

use rstest::rstest;
use serde_json::{Value, json};

use super::{changed, contract, contract_with, file};

const BUILTIN: &str = include_str!("../../../contract/profile.yaml");

#[test]
fn differences_are_told_field_by_field_with_what_they_mean() {
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
         A create in doubt is repeated for a shorter time, then a person is asked (SubmissionUnknown), also for Runs that are in doubt already.\n"
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
fn openapi_documents_are_told_from_contract_files() {
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
