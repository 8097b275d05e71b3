//! The contract gate: a service whose version changes under Workspaces that are Ready.

use serde_json::json;

use run_operator::api::{ConditionType as Type, Phase};

use crate::support::{Setup, TOKEN, World, condition_of, contract_file, holds_for_a_while};

/// Number of checks in about three seconds.
const A_WHILE: u32 = 120;
const REFUSED: &str = "VersionNotAccepted";

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
            self.workspace_condition("default", kind, "False", REFUSED)
                .await;
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
    world
        .workspace_condition("default", Type::VersionVerified, "True", "VersionAccepted")
        .await;
}
