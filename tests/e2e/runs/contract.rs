//! `contract check --run` with the token of a Workspace.

use run_operator::api::Phase;
use serde_json::json;

use crate::support::{World, says};

use super::runs;

/// Proves: L-contract, R7
#[tokio::test]
async fn a_real_run_is_read_with_its_workspace_s_token_which_goes_nowhere_else() {
    let mut world = World::new().await;
    // Asked for without a token, which must be refused.
    world.service.will_differ("the token is missing");
    world.service.will_differ("is not below /api/v1");
    world.simulate("train", json!({"outcome": "failed"})).await;
    let run = world.phase("train", Phase::Failed).await;
    let id = run.status.unwrap().run_id.unwrap();
    let url = world.service.base_url();
    let check = format!("contract check --base-url {url} --run {id}");
    let said = runs(&world, &check).await.ok();
    says(
        &said,
        &[&id, "\"failed\", at /state", "the phase is Failed"],
    );
    let elsewhere = check.replace("/api/v1", "/api/v2");
    let told = runs(&world, &elsewhere).await.ended(2);
    says(
        &told,
        &["the Workspace default has the base URL", "--token-file"],
    );
}
