//! The JSON schemas of the release, as kubeconform reads them.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};
use tempfile::TempDir;
use test_support::{files, root, tools::go_tool};

use crate::dist::VERSION;
use crate::helm::done;
use crate::published::RELEASE;

/// The schemas, unpacked from the release's archive.
fn schemas() -> TempDir {
    let folder = TempDir::new().unwrap();
    let archive = RELEASE.path(&format!("run-operator-{VERSION}-schemas.tar.gz"));
    let mut tar = Command::new("tar");
    tar.arg("-xzf").arg(archive).arg("-C").arg(folder.path());
    done(&tar.output().unwrap());
    folder
}

/// What kubeconform says of each object in the files: kind, status and message. Kinds of others are left out.
fn judged(schemas: &Path, files: &[String]) -> Vec<(String, String, String)> {
    let location = "{{.Group}}/{{.ResourceKind}}_{{.ResourceAPIVersion}}.json";
    let mut kubeconform = Command::new(go_tool("kubeconform").unwrap());
    kubeconform
        .arg("-schema-location")
        .arg(schemas.join(location));
    kubeconform.args(["-ignore-missing-schemas", "-verbose", "-output", "json"]);
    let output = kubeconform
        .args(files)
        .current_dir(root())
        .output()
        .unwrap();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let resources = report["resources"].as_array().unwrap().iter();
    let judged = resources.filter(|resource| resource["status"] != "statusSkipped");
    let text = |field: &Value| field.as_str().unwrap_or_default().to_owned();
    judged
        .map(|r| {
            (
                text(&r["kind"]),
                text(&r["status"]),
                format!("{}: {}", r["filename"], r["msg"]),
            )
        })
        .collect()
}

/// Proves: I-release
#[test]
fn kubeconform_takes_every_example_and_the_readme_s_own_run() {
    let schemas = schemas();
    let readme = files::text("README.md");
    let run = readme
        .split("```yaml\n")
        .nth(1)
        .and_then(|rest| rest.split("```").next());
    let own = schemas.path().join("readme.yaml");
    fs::write(&own, run.unwrap()).unwrap();
    let ours = "apiVersion: run-operator.dev/v1alpha1";
    let mut examples = files::below("deploy", "yaml");
    examples.retain(|name| files::text(name).lines().any(|line| line == ours));
    assert!(examples.len() > 10, "{examples:?}");
    examples.push(own.display().to_string());
    let mut kinds = BTreeSet::new();
    for (kind, status, why) in judged(schemas.path(), &examples) {
        assert_eq!(status, "statusValid", "{why}");
        kinds.insert(kind);
    }
    assert_eq!(
        Vec::from_iter(kinds),
        [
            "ClusterWorkspace",
            "Run",
            "RunSchedule",
            "RunTemplate",
            "Workspace"
        ]
    );
}

/// Proves: I-release
#[test]
fn kubeconform_refuses_what_the_api_server_would_and_knows_that_the_workload_is_open() {
    let schemas = schemas();
    for (spec, taken) in [
        (
            json!({"workload": {"image": "a", "any": {"deep": [null, 1.5]}}}),
            true,
        ),
        (
            json!({"workload": {"image": "a"}, "activeDeadlineSecond": 5}),
            false,
        ),
        (
            json!({"workload": {"image": "a"}, "deletionPolicy": "Keep"}),
            false,
        ),
        (json!({"workload": {"epochs": 3}}), false),
        (
            json!({"workload": {"image": "a"}, "workspaceRef": {"nam": "b"}}),
            false,
        ),
    ] {
        let run = json!({
            "apiVersion": "run-operator.dev/v1alpha1",
            "kind": "Run",
            "metadata": {"name": "train", "labels": {"team": "a"}},
            "spec": spec,
        });
        let file = schemas.path().join("run.json");
        fs::write(&file, run.to_string()).unwrap();
        let found = judged(schemas.path(), &[file.display().to_string()]);
        let wanted = if taken {
            "statusValid"
        } else {
            "statusInvalid"
        };
        assert_eq!(found[0].1, wanted, "{spec}: {found:?}");
    }
}
