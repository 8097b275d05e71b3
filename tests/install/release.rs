//! The life of a release: installed, tested, uninstalled and installed again.

use std::collections::BTreeSet;

use kube::ResourceExt;
use kube::api::ListParams;
use serde_json::{Value, json};

use run_operator::api::{Phase, names};

use crate::installation::{Installation, RELEASE, RELEASED_TO, say};
use crate::load::troubles;
use crate::pod;
use crate::wait::eventually;

/// Proves: I-image, I-restricted
#[tokio::test]
async fn the_installed_chart_completes_runs_with_its_own_permissions() {
    let mut installation = Installation::prepare().await;
    installation.install().await;
    for number in 0..5 {
        let simulate = json!({"runTimeMs": 200, "logEvents": 2});
        installation
            .create_run(&format!("train-{number}"), simulate)
            .await;
    }
    installation
        .create_run("endless", json!({"outcome": "never"}))
        .await;
    let mut seen = BTreeSet::new();
    for number in 0..5 {
        let run = installation
            .phase(&format!("train-{number}"), Phase::Succeeded)
            .await;
        let runs = installation.runs_of(&run.uid().unwrap()).await;
        assert_eq!(runs.len(), 1);
        assert_eq!(
            runs[0]["runId"].as_str(),
            run.status.unwrap().run_id.as_deref()
        );
        seen.insert(runs[0]["runId"].to_string());
    }
    let endless = installation.state("endless", "running").await;
    installation.delete_run("endless").await;
    installation.gone("endless").await;
    let runs = installation.runs_of(&endless.uid().unwrap()).await;
    assert!(
        runs.len() == 1 && runs[0]["state"] == "cancelled",
        "{runs:#?}"
    );
    assert_eq!(seen.len(), 5);

    assert_eq!(installation.refusals(), Vec::<Value>::new());
    let log = installation.log().await;
    assert!(log.lines().count() > 0, "it logs nothing");
    assert_eq!(troubles(&log), Vec::<Value>::new(), "{log}");
    pod::is_restricted(&installation).await;
}

/// Proves: I-test
#[tokio::test]
async fn helm_test_passes_and_fails_while_the_service_is_down() {
    let mut installation = Installation::prepare().await;
    installation.install().await;
    let passed = installation
        .helm_test()
        .await
        .unwrap_or_else(|error| panic!("{error}"));
    let stored = installation.runs().list(&ListParams::default()).await;
    assert!(stored.unwrap().items.is_empty(), "{passed}");
    assert!(passed.contains("ok    an operator is active"), "{passed}");
    assert!(
        passed.contains("ok    the Workspaces are Ready"),
        "{passed}"
    );
    // A Run that nothing stores is all that it doesn't try.
    let last = "No check failed. Not tried: 1.\nThese take Runs from here: default.";
    assert!(passed.contains(last), "{passed}");

    installation.service.kill();
    let failed = installation.helm_test().await.unwrap_err();
    assert!(failed.contains("FAIL  GET /version"), "{failed}");
    say(&format!(
        "helm test, and again without the service:\n{passed}\n{failed}"
    ));
    assert_eq!(installation.refusals(), Vec::<Value>::new());
    installation.service.start_again().await;
}

/// Proves: I-uninstall
#[tokio::test]
async fn a_reinstalled_release_resumes_the_runs_that_uninstall_left() {
    let mut installation = Installation::prepare().await;
    installation.install().await;
    for name in ["ends-meanwhile", "deleted-meanwhile", "goes-on"] {
        installation
            .create_run(name, json!({"outcome": "never"}))
            .await;
    }
    let mut ids = Vec::new();
    for name in ["ends-meanwhile", "deleted-meanwhile", "goes-on"] {
        let run = installation.state(name, "running").await;
        ids.push(run.status.unwrap().run_id.unwrap());
    }
    installation.uninstall().await;

    let kept = [
        "clusterworkspaces.run-operator.dev",
        "runs.run-operator.dev",
        "workspaces.run-operator.dev",
    ];
    let mut kept: BTreeSet<String> = kept
        .map(|name| format!("customresourcedefinition.apiextensions.k8s.io/{name}"))
        .into();
    kept.insert("workspace.run-operator.dev/default".to_owned());
    eventually("nothing else is left", async || {
        let left = installation.labelled().await;
        let policy = "admissionregistration.k8s.io/";
        let unexpected: Vec<_> = left
            .iter()
            .filter(|name| !kept.contains(*name) && !name.contains(policy))
            .collect();
        if unexpected.is_empty() && left.is_superset(&kept) {
            Ok(())
        } else {
            Err(format!("{left:?}"))
        }
    })
    .await;
    // With its holder, as a rule: Helm deletes the roles before the Pod has ended.
    let lease = ["--namespace", RELEASED_TO, "get", "lease", RELEASE];
    installation.kubectl(&lease, "").await.unwrap();
    say(&format!(
        "left by the uninstall: {:?}",
        installation.labelled().await
    ));
    let path = format!("runs/{}/state", ids[0]);
    installation
        .service
        .post(&path, json!({"state": "succeeded"}))
        .await;
    installation.delete_run("deleted-meanwhile").await;
    let run = installation.runs().get("deleted-meanwhile").await.unwrap();
    assert!(run.finalizers().iter().any(|name| name == names::FINALIZER));

    installation.install().await;
    installation.phase("ends-meanwhile", Phase::Succeeded).await;
    installation.gone("deleted-meanwhile").await;
    installation.delete_run("goes-on").await;
    installation.gone("goes-on").await;
    let runs = installation.service.runs().await;
    let ends: BTreeSet<_> = runs
        .iter()
        .map(|run| {
            (
                run["runId"].as_str().unwrap(),
                run["state"].as_str().unwrap(),
            )
        })
        .collect();
    let wanted: BTreeSet<_> = ids
        .iter()
        .map(String::as_str)
        .zip(["succeeded", "cancelled", "cancelled"])
        .collect();
    assert_eq!(ends, wanted);
}

impl Installation {
    /// Everything in the cluster, of whatever kind, that carries the release's label: `KIND.GROUP/NAME`.
    async fn labelled(&self) -> BTreeSet<String> {
        let kinds = ["api-resources", "--verbs=list", "--output=name"];
        let kinds = self
            .kubectl(&kinds, "")
            .await
            .unwrap()
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(",");
        let label = format!("app.kubernetes.io/instance={RELEASE}");
        let get = [
            "get",
            &kinds,
            "--all-namespaces",
            "--selector",
            &label,
            "--output=name",
        ];
        let found = self.kubectl(&get, "").await.unwrap();
        let mut found: BTreeSet<String> = found.split_whitespace().map(str::to_owned).collect();
        // Where Helm keeps what it installed: it has a label of its own.
        let get = [
            "get",
            "secrets",
            "--all-namespaces",
            "--selector",
            "owner=helm",
            "--output=name",
        ];
        found.extend(
            self.kubectl(&get, "")
                .await
                .unwrap()
                .split_whitespace()
                .map(str::to_owned),
        );
        found
    }
}
