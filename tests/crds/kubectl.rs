//! Views for people: the table, the selectors, `kubectl explain`.

use std::process::Command;

use rstest::rstest;
use serde_json::{Value, json};

use crate::namespace::Space;

const JSON: &str = "application/json";
const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";

/// A Run in the middle of its life.
async fn active(space: &Space<'_>) {
    let spec = json!({"workload": {"image": "x"}, "provider": "p"});
    space.created("Run", "active", spec).await;
    let status = json!({
        "phase": "Active", "state": "running", "runID": "r-1",
        "workspace": {"kind": "Workspace", "name": "w", "uid": "u-1", "baseURL": "https://a.example/api/v1"},
        "conditions": [{
            "type": "Ready", "status": "False", "reason": "Active", "message": "The run is at the service.",
            "lastTransitionTime": "2026-01-01T00:00:00Z", "observedGeneration": 1,
        }, {
            "type": "Synced", "status": "True", "reason": "Mirrored", "message": "As the service said.",
            "lastTransitionTime": "2026-01-01T00:00:00Z", "observedGeneration": 1,
        }],
    });
    space.with_status("Run", "active", status).await;
}

/// The columns, each with its priority, and the cells of the first row.
async fn columns_and_row(space: &Space<'_>, kind: &str) -> (Vec<(String, i64)>, Vec<Value>) {
    let table = space.list(kind, "", TABLE).await.unwrap();
    let column = |column: &Value| -> (String, i64) {
        let name = column["name"].as_str().unwrap().to_owned();
        (name, column["priority"].as_i64().unwrap())
    };
    let columns = table["columnDefinitions"].as_array().unwrap().iter();
    let row = table["rows"][0]["cells"].as_array().unwrap().clone();
    (columns.map(column).collect(), row)
}

fn named(columns: &[(&str, i64)]) -> Vec<(String, i64)> {
    let own = |(name, priority): &(&str, i64)| ((*name).to_owned(), *priority);
    columns.iter().map(own).collect()
}

/// Proves: P-defaults
#[tokio::test]
async fn kubectl_get_shows_the_phase_and_reason_of_a_run() {
    let space = Space::new().await;
    active(&space).await;
    let (columns, row) = columns_and_row(&space, "Run").await;
    let expected = [
        ("Name", 0),
        ("Phase", 0),
        ("State", 0),
        ("Ready", 0),
        ("Reason", 0),
        ("Synced", 0),
        ("Run ID", 1),
        ("Progress", 1),
        ("Age", 0),
    ];
    assert_eq!(columns, named(&expected));
    assert_eq!(
        row[..7],
        [
            "active", "Active", "running", "False", "Active", "True", "r-1"
        ]
    );
}

/// Proves: P-defaults
#[tokio::test]
async fn kubectl_get_shows_the_state_and_reason_of_a_workspace() {
    let space = Space::new().await;
    space
        .created("Workspace", "default", json!({"suspend": true}))
        .await;
    let status = json!({
        "serviceVersion": "1.2", "identity": "ws-1",
        "conditions": [{
            "type": "Ready", "status": "True", "reason": "Verified", "message": "Runs can be submitted.",
            "lastTransitionTime": "2026-01-01T00:00:00Z", "observedGeneration": 1,
        }],
    });
    space.with_status("Workspace", "default", status).await;
    let (columns, row) = columns_and_row(&space, "Workspace").await;
    let expected = [
        ("Name", 0),
        ("Ready", 0),
        ("Reason", 0),
        ("Version", 0),
        ("Suspended", 1),
        ("Identity", 1),
        ("Age", 0),
    ];
    assert_eq!(columns, named(&expected));
    let cells = json!(["default", "True", "Verified", "1.2", true, "ws-1"]);
    assert_eq!(json!(row[..6]), cells);
}

/// Proves: P-defaults
#[rstest]
#[case::phase("status.phase=Active", "status.phase=Pending")]
#[case::provider("spec.provider=p", "spec.provider=q")]
#[case::region_by_default("spec.region=auto", "spec.region=r")]
#[case::workspace("status.workspace.name=w", "status.workspace.name=v")]
#[case::run_id("status.runID=r-1", "status.runID=r-2")]
#[case::two_at_once(
    "status.phase=Active,spec.provider=p",
    "status.phase=Active,spec.provider!=p"
)]
#[tokio::test]
async fn runs_are_selected_by_field(#[case] matching: &str, #[case] other: &str) {
    let space = Space::new().await;
    active(&space).await;
    for (selector, found) in [(matching, 1), (other, 0)] {
        let selector = selector.replace('=', "%3D").replace(',', "%2C");
        let query = format!("fieldSelector={selector}");
        let list = space.list("Run", &query, JSON).await.unwrap();
        assert_eq!(list["items"].as_array().unwrap().len(), found, "{selector}");
    }
}

/// Proves: P-defaults
#[rstest]
#[case::run("run", "One Run object is one run")]
#[case::run_conditions("run.status.conditions", "Time of the last change of the status.")]
#[case::workspace_secret("workspace.spec.tokenSecretRef", "Name of the Secret.")]
#[tokio::test]
async fn kubectl_explains_every_field(#[case] path: &str, #[case] text: &str) {
    let space = Space::new().await;
    let mut explain = space.control_plane.kubectl();
    explain.args(["explain", "--api-version=run-operator.dev/v1alpha1", path]);
    let explained = printed(&mut explain);
    let words: Vec<&str> = explained.split_whitespace().collect();
    assert!(words.join(" ").contains(text), "{explained}");
    assert!(!explained.contains("<no description>"), "{explained}");
}

/// What a command prints, which has to succeed.
pub(crate) fn printed(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{told}");
    String::from_utf8(output.stdout).unwrap()
}
