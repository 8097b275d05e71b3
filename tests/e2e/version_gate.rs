//! The contract gate: a service whose version changes under Workspaces that are Ready.

use serde_json::{Value, json};

use run_operator::api::{ConditionType as Type, Phase};

use crate::support::{
    Setup, TOKEN, World, condition_of, contract_file, eventually, holds_for_a_while, says,
};

/// Number of checks in about three seconds.
const A_WHILE: u32 = 120;
const REFUSED: &str = "VersionNotAccepted";

/// The words about a version in the messages of a Workspace and its held Runs.
fn words(version: &str) -> [String; 3] {
    [
        format!("reports version {version}; the contract file accepts 1, v1, 1.*, v1.*"),
        "New Runs are not submitted; submitted Runs continue".to_owned(),
        "Review the change of contract, then add the version to the contract file".to_owned(),
    ]
}

impl World {
    async fn service_is_upgraded(&self, version: &str) {
        let answer = json!({"version": version});
        self.service.put("version", answer).await;
    }

    /// Has the Workspace checked now: a change of its Secret does.
    async fn looked_at(&self) {
        let note = uuid::Uuid::new_v4().to_string();
        self.secret("run-operator-token", json!({"token": TOKEN, "note": note}))
            .await;
    }

    /// Sets the service's version, and waits until the Workspace shows that it is not accepted.
    async fn refuses(&self, version: &str) {
        self.service_is_upgraded(version).await;
        self.looked_at().await;
        for kind in [Type::VersionVerified, Type::Ready] {
            let told = self
                .workspace_condition("default", kind, "False", REFUSED)
                .await;
            says(&told, &words(version).each_ref().map(String::as_str));
        }
    }

    /// So many Runs that continue until the test ends them; their runIds are their names.
    async fn running(&self, names: &[String]) {
        for name in names {
            let simulate = json!({"runId": name, "outcome": "never"});
            self.simulate(name, simulate).await;
        }
        for name in names {
            self.state(name, "running").await;
        }
    }
}

/// Proves: R13, P-version-holds, E-getVersion
#[tokio::test]
async fn an_unaccepted_version_is_reported_and_blocks_submissions() {
    let world = World::new().await;
    world.running(&["old".to_owned(), "gone".to_owned()]).await;
    world.refuses("2.0.0").await;
    let workspace = world.workspaces().get("default").await.unwrap();
    let status = workspace.status.unwrap();
    assert_eq!(status.service_version.as_deref(), Some("2.0.0"));
    world
        .workspace_condition("default", Type::Authenticated, "True", "Identified")
        .await;

    world
        .workspace_condition("default", Type::Stalled, "True", REFUSED)
        .await;

    let held = world.create_run("held", json!({})).await;
    let run = world.condition("held", Type::Ready, "False", REFUSED).await;
    let told = condition_of(&run, Type::Ready).unwrap().message;
    says(&told, &words("2.0.0").each_ref().map(String::as_str));
    assert_eq!(run.status.unwrap().phase, Some(Phase::Pending));
    assert_eq!(run.metadata.finalizers, None, "nothing was begun");

    let next = json!({"state": "processing"});
    world.service.post("runs/old/state", next).await;
    let run = world.state("old", "processing").await;
    assert_eq!(condition_of(&run, Type::Synced).unwrap().status, "True");
    let end = json!({"state": "succeeded"});
    world.service.post("runs/old/state", end).await;
    world.phase("old", Phase::Succeeded).await;
    world.delete_run("gone").await;
    world.gone("gone").await;
    assert_eq!(world.service.get("stats").await["cancels"], 1);

    holds_for_a_while(A_WHILE, async || {
        assert_eq!(world.posts_of(&held).await, 0, "a held Run was submitted");
    })
    .await;
    world.service_is_upgraded("1.9.0").await;
    world.phase("held", Phase::Succeeded).await;
    assert_eq!(world.posts_of(&held).await, 1);
    world.workspace_ready("default", "True", "Verified").await;
}

/// Proves: P-version-holds
#[tokio::test]
async fn a_run_in_doubt_is_asked_for_again_whatever_the_version() {
    let world = World::new().await;
    let lost = json!({"type": "doThenLose"});
    let creates = json!({"operation": "createRun"});
    world.service.lasting_fault(creates, lost).await;
    let run = world.create_run("train", json!({})).await;
    world.asked("createRun", 1).await;
    world.refuses("2.0.0").await;
    world.service.delete("faults").await;
    world.phase("train", Phase::Succeeded).await;
    assert!(world.posts_of(&run).await >= 2);
    world.one_run_each().await;
    world.workspace_ready("default", "False", REFUSED).await;
}

/// Proves: P-version-holds
#[tokio::test]
async fn a_start_under_an_unaccepted_version_mirrors_and_cancels() {
    let mut world = World::new().await;
    world.running(&["kept".to_owned(), "gone".to_owned()]).await;
    world.kill_operator();
    world.service_is_upgraded("2.0.0").await;
    let held = world.create_run("held", json!({})).await;
    world.delete_run("gone").await;
    world.start_operator().await;
    world.workspace_ready("default", "False", REFUSED).await;
    world.condition("held", Type::Ready, "False", REFUSED).await;
    let end = json!({"state": "failed"});
    world.service.post("runs/kept/state", end).await;
    world.phase("kept", Phase::Failed).await;
    world.gone("gone").await;
    assert_eq!(world.service.get("stats").await["cancels"], 1);
    assert_eq!(world.posts_of(&held).await, 0);
}

/// Proves: P-version-holds
#[tokio::test]
async fn an_answer_without_a_version_blocks_and_names_the_pointers() {
    let world = World::new().await;
    world.service.put("version", json!({"release": "1"})).await;
    world.looked_at().await;
    let told = world
        .workspace_condition("default", Type::VersionVerified, "False", REFUSED)
        .await;
    says(
        &told,
        &["names no version", "accepted: 1, v1", "version.pointers"],
    );
    let held = world.create_run("held", json!({})).await;
    world.condition("held", Type::Ready, "False", REFUSED).await;
    assert_eq!(world.posts_of(&held).await, 0);
    world.service_is_upgraded("1.0.0").await;
    world.phase("held", Phase::Succeeded).await;
}

/// Proves: P-version-holds, S-unknown, L-contract
#[tokio::test]
async fn a_reviewed_contract_file_and_a_restart_unblock_the_runs() {
    let mut world = World::with(Setup {
        service: vec!["--api-version", "2.1.0"],
        ..Setup::default()
    })
    .await;
    let held = world.create_run("held", json!({})).await;
    world.condition("held", Type::Ready, "False", REFUSED).await;
    assert_eq!(world.posts_of(&held).await, 0);
    let change = ("accepted: [\"1\"", "accepted: [\"2.*\", \"1\"");
    let reviewed = contract_file("contract-reviewed", &[change]);
    world
        .restart_operator_with(&["--contract", &reviewed])
        .await;
    world.phase("held", Phase::Succeeded).await;
    assert_eq!(world.posts_of(&held).await, 1);
    let told = world
        .workspace_condition("default", Type::VersionVerified, "True", "VersionAccepted")
        .await;
    says(&told, &["reports version 2.1.0"]);
}

/// The regular check comes after five minutes, longer than any wait here.
/// Proves: P-version-again
#[tokio::test]
async fn dropped_streams_after_an_upgrade_trigger_one_early_probe() {
    let world = World::new().await;
    let names: Vec<String> = (0..20).map(|n| format!("run-{n:02}")).collect();
    world.running(&names).await;
    let opened = world.service.requests("streamEvents").await.len();
    let asked = world.service.requests("getVersion").await.len();
    world.service_is_upgraded("1.9.0").await;
    eventually("each stream was opened three times more", async || {
        world.service.delete("streams").await;
        let again = world.service.requests("streamEvents").await.len() - opened;
        if again >= 3 * names.len() {
            Ok(())
        } else {
            Err(again)
        }
    })
    .await;
    eventually("the Workspace shows the new version", async || {
        let workspace = world.workspaces().get("default").await.unwrap();
        let version = workspace.status.and_then(|s| s.service_version);
        if version.as_deref() == Some("1.9.0") {
            Ok(())
        } else {
            Err(format!("{version:?}"))
        }
    })
    .await;
    let checks = |requests: Vec<Value>| requests.len() - asked;
    assert_eq!(
        checks(world.service.requests("getVersion").await),
        1,
        "sixty streams were opened again"
    );
    world.workspace_ready("default", "True", "Verified").await;
    for name in &names {
        let run = world.run(name).await;
        assert_eq!(condition_of(&run, Type::Synced).unwrap().status, "True");
    }
}
