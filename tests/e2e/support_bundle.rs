//! `run-operator support-bundle`: what is in it, and what must not be.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;
use std::process::Command;

use flate2::read::GzDecoder;
use run_operator::api::ConditionType as Type;
use serde_json::{Value, json};

use crate::support::{Audit, TOKEN, World};

/// In a workload, which may hold what support must not see.
const CANARY: &str = "canary-in-a-workload";

/// Writes a bundle as the administrator; its files by their names, and what the command printed.
async fn bundle(world: &World, args: &[&str]) -> (BTreeMap<String, String>, String) {
    bundle_as(world, world.control_plane.kubeconfig(), args).await
}

async fn bundle_as(
    world: &World,
    kubeconfig: &Path,
    args: &[&str],
) -> (BTreeMap<String, String>, String) {
    let file = world.folder().join("bundle.tgz");
    let mut command = Command::new(env!("CARGO_BIN_EXE_run-operator"));
    command
        .args(["support-bundle", "--namespace", &world.namespace, "-o"])
        .arg(&file)
        .args(args)
        .args(["--operator-namespace", &world.namespace])
        .env("KUBECONFIG", kubeconfig);
    let output = tokio::task::spawn_blocking(move || command.output().unwrap())
        .await
        .unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{said}");
    (files(&file), said)
}

fn files(archive: &Path) -> BTreeMap<String, String> {
    let file = std::fs::File::open(archive).unwrap();
    let mut archive = tar::Archive::new(GzDecoder::new(file));
    let read = |mut entry: tar::Entry<'_, GzDecoder<std::fs::File>>| {
        let mut text = String::new();
        entry.read_to_string(&mut text).unwrap();
        let path = entry.path().unwrap().display().to_string();
        let path = path
            .strip_prefix("run-operator-support/")
            .unwrap()
            .to_owned();
        (path, text)
    };
    archive
        .entries()
        .unwrap()
        .map(|entry| read(entry.unwrap()))
        .collect()
}

/// A Run as `kubectl apply` makes it, which keeps a copy of the manifest in an annotation.
async fn apply(world: &World) {
    let run = json!({
        "apiVersion": "run-operator.dev/v1alpha1", "kind": "Run", "metadata": {"name": "train"},
        "spec": {"workload": {"image": "i", "secretLooking": CANARY}},
    });
    let apply = ["apply", "-f", "-"];
    world.kubectl(&apply, &run.to_string()).await.unwrap();
    world
        .condition("train", Type::Finished, "True", "Succeeded")
        .await;
}

/// Proves: K-bundle, R7
#[tokio::test]
async fn a_bundle_has_statuses_no_tokens_and_workloads_only_if_asked_for() {
    let world = World::new().await;
    apply(&world).await;
    let (files, said) = bundle(&world, &[]).await;
    for (name, text) in &files {
        assert!(!text.contains(TOKEN), "the token is in {name}");
        assert!(!text.contains(CANARY), "the workload is in {name}");
    }
    let path = format!("runs/{}/train.json", world.namespace);
    let run: Value = serde_json::from_str(&files[&path]).unwrap();
    assert_eq!(run["status"]["phase"], "Succeeded");
    assert_eq!(
        run["spec"]["workload"]["sha256"].as_str().unwrap().len(),
        64
    );
    let workspace = format!("workspaces/{}/default.json", world.namespace);
    for name in [
        &workspace,
        "events.json",
        "versions.json",
        "doctor.json",
        "crds/runs.run-operator.dev.json",
    ] {
        assert!(
            files.contains_key(name),
            "{name} is not among {:?}",
            files.keys()
        );
    }
    assert!(
        !files.keys().any(|name| name.contains("secret")),
        "{:?}",
        files.keys()
    );
    // The operator of this test is a process: there is no Deployment.
    let missing = "the Deployment, Pods, logs and metrics: ";
    assert!(said.contains(&format!("not in it: {missing}")), "{said}");
    let readme = &files["README.txt"];
    assert!(readme.contains(&format!("\n- {missing}")), "{readme}");

    let (files, _) = bundle(&world, &["--include-workloads"]).await;
    let run: Value = serde_json::from_str(&files[&path]).unwrap();
    assert_eq!(run["spec"]["workload"]["secretLooking"], CANARY);
    assert!(files["README.txt"].contains("Workloads are included"));
}

/// Proves: K-bundle
#[tokio::test]
async fn a_bundle_reads_no_secret_even_where_it_may() {
    let world = World::new().await;
    let read = json!(["get", "list"]);
    let rules = json!([
        {"apiGroups": [""], "resources": ["secrets"], "verbs": read},
        {"apiGroups": ["run-operator.dev"], "resources": ["workspaces"], "verbs": read},
    ]);
    let kubeconfig = world.user("support", &rules).await;
    let (files, _) = bundle_as(&world, &kubeconfig, &[]).await;
    let workspace = format!("workspaces/{}/default.json", world.namespace);
    assert!(files.contains_key(&workspace), "{:?}", files.keys());
    let readme = &files["README.txt"];
    assert!(readme.contains("\n- runs: "), "{readme}");
    let asked = Audit::of_user(&world, "support").all_requests();
    let of = |resource: &str| {
        let about = |entry: &&Value| entry["objectRef"]["resource"] == resource;
        asked.iter().filter(about).count()
    };
    assert!(of("workspaces") > 0, "{asked:?}");
    assert_eq!(of("secrets"), 0, "{asked:?}");
}
