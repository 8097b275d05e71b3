//! The contract gate: a service whose version changes under a Workspace that is Ready.

use serde_json::json;

use run_operator::api::{ConditionType as Type, Phase};

use crate::support::{TOKEN, World, condition_of, holds_for_a_while};

/// Number of checks in about three seconds.
const A_WHILE: u32 = 120;
const REFUSED: &str = "VersionNotAccepted";

/// Proves: R13, P-workspace-check, E-getVersion
#[tokio::test]
async fn an_unaccepted_version_is_reported_and_blocks_submissions() {
    let world = World::new().await;
    world.running("old").await;
    let version = json!({"version": "2.0.0"});
    world.service.put("version", version).await;
    // A change of its Secret has the Workspace checked.
    let secret = json!({"token": TOKEN, "note": "another"});
    world.secret("run-operator-token", secret).await;
    for (kind, status, reason) in [
        (Type::VersionVerified, "False", REFUSED),
        (Type::Stalled, "True", REFUSED),
        (Type::Authenticated, "True", "Identified"),
    ] {
        let condition = world.workspace_condition("default", kind, status, reason);
        condition.await;
    }
    let held = world.create_run("held", json!({})).await;
    world.not_ready("held", REFUSED).await;

    world.set_state("old", "processing").await;
    let run = world.state("old", "processing").await;
    assert_eq!(condition_of(&run, Type::Synced).unwrap().status, "True");
    world.set_state("old", "succeeded").await;
    world.phase("old", Phase::Succeeded).await;

    holds_for_a_while(A_WHILE, async || {
        assert_eq!(world.posts_of(&held).await, 0, "a held Run was submitted");
    })
    .await;
    let version = json!({"version": "1.9.0"});
    world.service.put("version", version).await;
    world.phase("held", Phase::Succeeded).await;
    assert_eq!(world.posts_of(&held).await, 1);
    world.workspace_ready("default", "True", "Verified").await;
}
