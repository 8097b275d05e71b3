//! The life of a release: installed, tested, uninstalled and installed again.

use std::collections::BTreeSet;

use kube::ResourceExt;
use kube::api::ListParams;
use serde_json::{Value, json};

use run_operator::api::{Phase, names};

use crate::installation::{Installation, RELEASE, RELEASED_TO};
use crate::load::troubles;
use crate::pod;
use crate::wait::eventually;

/// Proves: I-upgrade, I-pod
#[tokio::test]
async fn the_installed_chart_completes_runs_with_its_own_permissions() {
    let Some(installation) = Installation::prepare().await else {
        return;
    };
    installation.install().await;
    let names: Vec<String> = (0..5).map(|number| format!("train-{number}")).collect();
    for name in &names {
        let simulate = json!({"runTimeMs": 200, "logEvents": 2});
        installation.simulate(name, simulate).await;
    }
    let never = json!({"outcome": "never"});
    installation.simulate("endless", never).await;
    let mut seen = BTreeSet::new();
    for name in &names {
        let run = installation.phase(name, Phase::Succeeded).await;
        let runs = installation.runs_of(&run.uid().unwrap()).await;
        assert_eq!(runs.len(), 1);
        let id = run.status.unwrap().run_id;
        assert_eq!(runs[0]["runId"].as_str(), id.as_deref());
        seen.insert(id);
    }
    assert_eq!(seen.len(), 5);
    let endless = installation.state("endless", "running").await;
    installation.delete_run("endless").await;
    installation.gone("endless").await;
    let runs = installation.runs_of(&endless.uid().unwrap()).await;
    let ended = runs.len() == 1 && runs[0]["state"] == "cancelled";
    assert!(ended, "{runs:#?}");

    assert_eq!(installation.refusals(), Vec::<Value>::new());
    let log = installation.log().await;
    assert!(log.lines().count() > 0, "it logs nothing");
    assert_eq!(troubles(&log), Vec::<Value>::new(), "{log}");
    pod::is_restricted(&installation).await;
}

/// Proves: I-doctor
#[tokio::test]
async fn helm_test_passes_and_fails_while_the_service_is_down() {
    let Some(mut installation) = Installation::prepare().await else {
        return;
    };
    installation.install().await;
    let passed = installation.helm_test().await;
    let passed = passed.unwrap_or_else(|error| panic!("{error}"));
    let stored = installation.runs().list(&ListParams::default()).await;
    assert!(stored.unwrap().items.is_empty(), "{passed}");
    let words = [
        "ok    an operator is active",
        "ok    the Workspaces are Ready",
        "All checks passed.\nThese take Runs from here: default.",
    ];
    test_support::says(&passed, &words);

    installation.service.kill();
    let failed = installation.helm_test().await.unwrap_err();
    assert!(
        failed.contains("FAIL  the service's version is accepted"),
        "{failed}"
    );
    assert_eq!(installation.refusals(), Vec::<Value>::new());
    installation.service.start_again().await;
}

/// Proves: I-uninstall
#[tokio::test]
async fn a_reinstalled_release_resumes_the_runs_that_uninstall_left() {
    let Some(installation) = Installation::prepare().await else {
        return;
    };
    installation.install().await;
    let names = ["ends-meanwhile", "deleted-meanwhile", "goes-on"];
    for name in names {
        let never = json!({"outcome": "never"});
        installation.simulate(name, never).await;
    }
    let mut ids = Vec::new();
    for name in names {
        let run = installation.state(name, "running").await;
        ids.push(run.status.unwrap().run_id.unwrap());
    }
    installation.uninstall().await;

    let kept = [
        "clusterworkspaces.run-operator.dev",
        "runs.run-operator.dev",
        "runschedules.run-operator.dev",
        "runtemplates.run-operator.dev",
        "workspaces.run-operator.dev",
    ];
    let kept: BTreeSet<String> = kept
        .map(|name| format!("customresourcedefinition.apiextensions.k8s.io/{name}"))
        .into();
    eventually("nothing else is left", async || {
        let left = installation.labelled().await;
        let policy = "admissionregistration.k8s.io/";
        let mut more = left.difference(&kept).filter(|name| !name.contains(policy));
        if more.next().is_none() && left.is_superset(&kept) {
            Ok(())
        } else {
            Err(format!("{left:?}"))
        }
    })
    .await;
    // With its holder, as a rule: Helm deletes the roles before the Pod has ended.
    let lease = ["--namespace", RELEASED_TO, "get", "lease", RELEASE];
    installation.kubectl(&lease, "").await.unwrap();
    let path = format!("runs/{}/state", ids[0]);
    let succeeded = json!({"state": "succeeded"});
    installation.service.post(&path, succeeded).await;
    installation.delete_run("deleted-meanwhile").await;
    let run = installation.runs().get("deleted-meanwhile").await.unwrap();
    assert!(run.finalizers().iter().any(|name| name == names::FINALIZER));

    installation.install().await;
    installation.phase("ends-meanwhile", Phase::Succeeded).await;
    installation.gone("deleted-meanwhile").await;
    installation.delete_run("goes-on").await;
    installation.gone("goes-on").await;
    let runs = installation.service.runs().await;
    for (id, state) in ids.iter().zip(["succeeded", "cancelled", "cancelled"]) {
        let run = runs.iter().find(|run| run["runId"] == **id).unwrap();
        assert_eq!(run["state"], state, "{run:#?}");
    }
    assert_eq!(runs.len(), ids.len());
}

impl Installation {
    /// Everything in the cluster, of whatever kind, that carries the release's label: `KIND.GROUP/NAME`.
    async fn labelled(&self) -> BTreeSet<String> {
        let kinds = ["api-resources", "--verbs=list", "--output=name"];
        let kinds = self.kubectl(&kinds, "").await.unwrap();
        let kinds: Vec<&str> = kinds.split_whitespace().collect();
        let label = format!("app.kubernetes.io/instance={RELEASE}");
        let mut found = BTreeSet::new();
        // Where Helm keeps what it installed it has a label of its own.
        for (kinds, label) in [
            (kinds.join(","), label.as_str()),
            ("secrets".to_owned(), "owner=helm"),
        ] {
            let everywhere = ["--all-namespaces", "--output=name", "--selector", label];
            let get = [&["get", kinds.as_str()], &everywhere[..]].concat();
            let names = self.kubectl(&get, "").await.unwrap();
            found.extend(names.split_whitespace().map(str::to_owned));
        }
        found
    }
}
