//! A Run is not served with a token of another workspace of the service. At another base URL: `policy`.

use serde_json::{Value, json};

use crate::support::{TOKEN, World, holds_for_a_while, row};

const OTHERS: &str = "canary-of-another-workspace-2f6a";
/// Number of checks in about two seconds: several of the operator's poll intervals.
const A_WHILE: u32 = 80;

/// The requests for Runs that carried the token with this fingerprint.
async fn calls_with(world: &World, fingerprint: &Value) -> Vec<Value> {
    let mut all = world.service.get("requests").await;
    let requests = all.as_array_mut().unwrap();
    requests.retain(|r| r["token"] == *fingerprint && r["operation"] != "getWorkspace");
    requests.clone()
}

/// Proves: P-place
#[tokio::test]
async fn an_active_run_is_never_called_with_another_workspaces_token() {
    let world = World::new().await;
    let history = world.history().await;
    let other = json!({"token": OTHERS, "workspace": "ws-other"});
    let other = world.service.post("tokens", other).await["fingerprint"].clone();
    world.running("train").await;
    world.asked("streamEvents", 1).await;
    world.token(OTHERS).await;
    let run = world.not_synced("train", "IdentityChanged").await;
    assert_eq!(row(&run), "Active: Accepted !Finished !Ready Reconciling");
    world.metric_is("run_operator_open_streams", 0.0).await;
    world.delete_run("train").await;
    let run = world.not_ready("train", "IdentityChanged").await;
    assert_eq!(
        row(&run),
        "Cancelling: Accepted !Finished !Ready Reconciling"
    );
    holds_for_a_while(A_WHILE, async || {
        assert_eq!(calls_with(&world, &other).await, Vec::<Value>::new());
    })
    .await;
    assert_eq!(world.service.requests("cancelRun").await.len(), 0);
    world.token(TOKEN).await;
    world.gone("train").await;
    assert_eq!(world.service.runs().await[0]["state"], "cancelled");
    assert_eq!(calls_with(&world, &other).await, Vec::<Value>::new());
    history.holds().await;
}
