//! `kubectl runop support-bundle`: what is in it, and what must not be.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;
use std::process::Command;

use flate2::read::GzDecoder;
use serde_json::{Value, json};
use test_support::programs;

use crate::runs::{SUCCEEDED, shows};
use crate::support::{Audit, Setup, TOKEN, World, output_of, says};

/// In a workload, which may hold what support must not see.
const CANARY: &str = "canary-in-a-workload";

/// Writes a bundle; its files by their names, and what the command printed.
async fn bundle(
    world: &World,
    kubeconfig: &Path,
    args: &[&str],
) -> (BTreeMap<String, String>, String) {
    let file = world.folder().join("bundle.tgz");
    let mut command = Command::new(programs::kubectl_runop());
    command
        .args(["support-bundle", "--namespace", &world.namespace, "-o"])
        .arg(&file)
        .args(args)
        .args(["--operator-namespace", &world.namespace])
        .env("KUBECONFIG", kubeconfig);
    let said = output_of(command, "").await.unwrap();
    let file = std::fs::File::open(file).unwrap();
    let mut files = BTreeMap::new();
    for entry in tar::Archive::new(GzDecoder::new(file)).entries().unwrap() {
        let mut entry = entry.unwrap();
        let mut text = String::new();
        entry.read_to_string(&mut text).unwrap();
        let path = entry.path().unwrap().display().to_string();
        let path = path.strip_prefix("run-operator-support/").unwrap();
        files.insert(path.to_owned(), text);
    }
    (files, said)
}

/// Proves: K-why, R7
#[tokio::test]
async fn a_bundle_has_statuses_no_tokens_and_workloads_only_if_asked_for() {
    let world = World::unattended(Setup::default()).await;
    // `kubectl apply` keeps a copy of the manifest in an annotation.
    let run = json!({
        "apiVersion": "run-operator.dev/v1alpha1", "kind": "Run", "metadata": {"name": "train"},
        "spec": {"workload": {"image": "i", "secretLooking": CANARY}},
    });
    let apply = ["apply", "-f", "-"];
    world.kubectl(&apply, &run.to_string()).await.unwrap();
    shows(&world, "train", SUCCEEDED, "Succeeded").await;
    let administrator = world.control_plane.kubeconfig();
    let (files, said) = bundle(&world, administrator, &[]).await;
    for (name, text) in &files {
        assert!(!text.contains(TOKEN), "the token is in {name}");
        assert!(!text.contains(CANARY), "the workload is in {name}");
    }
    let path = format!("runs/{}/train.json", world.namespace);
    let run: Value = serde_json::from_str(&files[&path]).unwrap();
    assert_eq!(run["status"]["phase"], "Succeeded");
    let hash = run["spec"]["workload"]["sha256"].as_str().unwrap();
    assert_eq!(hash.len(), 64);
    let workspace = format!("workspaces/{}/default.json", world.namespace);
    for name in [
        &workspace,
        "events.json",
        "versions.json",
        "doctor.json",
        "crds/runs.run-operator.dev.json",
    ] {
        let names = files.keys();
        assert!(files.contains_key(name), "{name} is not among {names:?}");
    }
    let secrets = files.keys().filter(|name| name.contains("secret"));
    assert_eq!(secrets.count(), 0);
    // The operator of this test is a process: there is no Deployment.
    let missing = "the Deployment, Pods, logs and metrics: ";
    says(&said, &[&format!("not in it: {missing}")]);
    says(&files["README.txt"], &[&format!("\n- {missing}")]);

    let (files, _) = bundle(&world, administrator, &["--include-workloads"]).await;
    let run: Value = serde_json::from_str(&files[&path]).unwrap();
    assert_eq!(run["spec"]["workload"]["secretLooking"], CANARY);
    says(&files["README.txt"], &["Workloads are included"]);
}

/// Proves: K-why
#[tokio::test]
async fn a_bundle_reads_no_secret_even_where_it_may() {
    let world = World::unattended(Setup::default()).await;
    let read = json!(["get", "list"]);
    let rules = json!([
        {"apiGroups": [""], "resources": ["secrets"], "verbs": read},
        {"apiGroups": ["run-operator.dev"], "resources": ["workspaces"], "verbs": read},
    ]);
    let kubeconfig = world.user("support", &rules).await;
    let (files, _) = bundle(&world, &kubeconfig, &[]).await;
    let workspace = format!("workspaces/{}/default.json", world.namespace);
    assert!(files.contains_key(&workspace), "{:?}", files.keys());
    says(&files["README.txt"], &["\n- runs: "]);
    let asked = Audit::of_user(&world, "support").all_requests();
    let of = |resource: &str| {
        let about = |entry: &&Value| entry["objectRef"]["resource"] == resource;
        asked.iter().filter(about).count()
    };
    assert!(of("workspaces") > 0, "{asked:?}");
    assert_eq!(of("secrets"), 0, "{asked:?}");
}
