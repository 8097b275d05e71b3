//! `spec.workload`, which is open: its fences, and what the API server does to what is in it.

use rstest::rstest;
use serde_json::{Value, json};

use run_operator::api::crd;

use crate::kubectl::printed;
use crate::namespace::{Answer, Space, assert_immutable};
use test_cluster::{ControlPlane, Options};

/// Asserts the policy's refusal, or the CRD's: which of them comes first is the server's affair.
#[track_caller]
fn assert_workload_refused(answer: Answer) {
    let status = match answer {
        Err(status) => status,
        Ok(object) => panic!("not refused: {object}"),
    };
    let invalid = (status.code, status.reason.as_str());
    let message = &status.message;
    assert_eq!(invalid, (422, "Invalid"), "{message}");
    for part in ["spec.workload", "workload is immutable", "create a new Run"] {
        assert!(message.contains(part), "{part:?} is not in {message:?}");
    }
}

/// Proves: P-immutable
#[rstest]
#[case::image(json!({"image": "x"}), json!({"image": "y"}))]
#[case::changed_key(json!({"image": "x", "a": 1}), json!({"image": "x", "a": 2}))]
#[case::added_key(json!({"image": "x"}), json!({"image": "x", "a": 1}))]
#[case::removed_key(json!({"image": "x", "a": 1}), json!({"image": "x"}))]
#[case::swapped_key(json!({"image": "x", "a": 1}), json!({"image": "x", "b": 1}))]
#[case::swapped_key_deep_down(
    json!({"image": "x", "env": {"a": {"b": 1}}}), json!({"image": "x", "env": {"a": {"c": 1}}})
)]
#[case::key_swapped_in_a_list(
    json!({"image": "x", "env": [{"a": 1}]}), json!({"image": "x", "env": [{"b": 1}]})
)]
#[case::changed_deep_down(
    json!({"image": "x", "env": {"a": [1, 2]}}), json!({"image": "x", "env": {"a": [2, 1]}})
)]
#[case::changed_type(json!({"image": "x", "a": "1"}), json!({"image": "x", "a": 1}))]
#[case::null_for_a_value(json!({"image": "x", "a": 1}), json!({"image": "x", "a": null}))]
#[tokio::test]
async fn a_workload_can_t_be_changed(#[case] before: Value, #[case] after: Value) {
    let space = Space::with_policy().await;
    let spec = |workload: &Value| json!({"workload": workload});
    space.created("Run", "a", spec(&before)).await;
    assert_workload_refused(space.replace("Run", "a", spec(&after)).await);
    space.replaced("Run", "a", spec(&before)).await;

    space.apply("Run", "b", spec(&before)).await.unwrap();
    assert_workload_refused(space.apply("Run", "b", spec(&after)).await);
}

/// The reason for the policy: the part of an open object that CEL in the CRD sees, on a server without the
/// policy.
/// Proves: P-immutable
#[tokio::test]
async fn cel_alone_sees_a_changed_workload_but_no_swapped_key() {
    let control_plane = ControlPlane::start(Options::default()).await.unwrap();
    let files = crd::files().unwrap();
    for (name, text) in files.iter().filter(|(name, _)| name != "policy.yaml") {
        let applied = control_plane.apply_yaml(text).await;
        applied.unwrap_or_else(|e| panic!("{name}: {e}"));
    }
    let space = Space::on(&control_plane).await;
    let written = json!({"workload": {"image": "x", "a": 1}});
    space.created("Run", "a", written).await;
    for changed in [
        json!({"image": "y", "a": 1}),
        json!({"image": "x", "a": 2}),
        json!({"image": "x"}),
    ] {
        let changed = json!({"workload": changed});
        let answer = space.replace("Run", "a", changed).await;
        assert_immutable(answer, "spec.workload", "create a new Run");
    }
    let swapped = json!({"image": "x", "b": 1});
    let answer = space
        .replace("Run", "a", json!({"workload": swapped}))
        .await;
    assert_eq!(answer.unwrap()["spec"]["workload"], swapped);
}

/// A Run with this workload, as text: as the server gives it back, as text.
async fn stored(workload: &str) -> String {
    let space = Space::new().await;
    let text = format!(
        r#"{{"apiVersion":"run-operator.dev/v1alpha1","kind":"Run","metadata":{{"name":"a"}},"spec":{{"workload":{workload}}}}}"#
    );
    let created = space.create_text("Run", &text).await.unwrap();
    let read = space.get("Run", "a").await;
    assert_eq!(created["spec"], read["spec"]);
    read["spec"]["workload"].to_string()
}

/// The rows of the table in the documentation: what is written, and what is stored.
fn documented() -> Vec<(&'static str, &'static str)> {
    let text = include_str!("../../docs/limits.md");
    let heading = "## Numbers and nulls in `workload`\n";
    let (_, section) = text.split_once(heading).unwrap();
    let lines = section.lines().skip_while(|line| !line.starts_with('|'));
    let rows = lines.take_while(|line| line.starts_with('|')).skip(2);
    let cells = rows.map(|row| row.trim_matches('|').split_once('|').unwrap());
    cells
        .map(|(written, read)| (written.trim(), read.trim()))
        .collect()
}

/// The numbers in a cell of the table.
fn numbers(cell: &str) -> impl Iterator<Item = &str> {
    cell.split('`').skip(1).step_by(2)
}

/// The tests below try the nulls.
/// Proves: P-same-bytes
#[tokio::test]
async fn the_api_server_does_to_numbers_and_nulls_what_is_documented() {
    let kept = ["9007199254740993", "9223372036854775807"];
    let rows = documented();
    assert_eq!(rows.len(), 6, "{rows:?}");
    for (written, read) in rows {
        let numbers = match (written, read) {
            ("a whole number up to 2^63-1", "the same") => {
                kept.map(|number| (number, number)).to_vec()
            }
            ("a null, by create or `kubectl apply --server-side`", "null")
            | ("a null, by `kubectl apply` without that flag", "the field is missing") => vec![],
            _ => numbers(written).zip(numbers(read)).collect(),
        };
        for (written, read) in numbers {
            let workload = stored(&format!(r#"{{"a":{written},"image":"x"}}"#)).await;
            assert_eq!(workload, format!(r#"{{"a":{read},"image":"x"}}"#));
        }
    }
}

/// Proves: P-same-bytes
#[tokio::test]
async fn a_null_in_a_workload_survives_create_and_server_side_apply() {
    let space = Space::new().await;
    let workload = json!({"image": "x", "a": null, "b": {"c": null}, "d": [null]});
    let spec = json!({"workload": workload});
    let created = space.created("Run", "created", spec.clone()).await;
    assert_eq!(created["spec"]["workload"], workload);
    let applied = space.apply("Run", "applied", spec).await.unwrap();
    assert_eq!(applied["spec"]["workload"], workload);
}

/// `kubectl apply` without `--server-side` drops nulls before it sends anything.
/// Proves: P-same-bytes
#[tokio::test]
async fn a_null_in_a_workload_is_dropped_by_client_side_apply() {
    let space = Space::new().await;
    let manifest = format!(
        "apiVersion: run-operator.dev/v1alpha1\nkind: Run\nmetadata: {{name: a, namespace: {}}}\n\
         spec: {{workload: {{image: x, a: null}}}}\n",
        space.namespace()
    );
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("run.yaml");
    std::fs::write(&file, manifest).unwrap();
    let mut apply = space.control_plane.kubectl();
    printed(apply.args(["apply", "-f"]).arg(&file));
    let stored = space.get("Run", "a").await;
    assert_eq!(stored["spec"]["workload"], json!({"image": "x"}));
}
