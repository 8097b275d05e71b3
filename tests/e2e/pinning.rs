//! A Run is served where it was submitted: not with a token of another workspace of the service, not at another base
//! URL, and whatever the contract file says of identities.

use kube::api::DeleteParams;
use serde_json::{Value, json};

use run_operator::api::{ConditionType as Type, Phase};

use crate::support::{
    Service, Setup, TOKEN, World, contract_file, eventually, holds_for_a_while, row,
};
use test_cluster::Scratch;

const POINTERS: &str = "identityPointers: [/id, /workspaceId]";

const OTHERS: &str = "canary-of-another-workspace-2f6a";
/// Number of checks in about two seconds: several of the operator's poll intervals.
const A_WHILE: u32 = 80;

/// A token of another workspace; its fingerprint in the list of requests.
async fn others(world: &World) -> String {
    let other = json!({"token": OTHERS, "workspace": "ws-other"});
    let made = world.service.post("tokens", other).await;
    made["fingerprint"].as_str().unwrap().to_owned()
}

/// The requests for Runs that carried this token.
async fn calls_with(world: &World, fingerprint: &str) -> Vec<Value> {
    let all = world.service.get("requests").await;
    let for_runs = |request: &&Value| {
        request["token"] == fingerprint && request["operation"] != "getWorkspace"
    };
    all.as_array()
        .unwrap()
        .iter()
        .filter(for_runs)
        .cloned()
        .collect()
}

/// Proves: P-place, P-pinned
#[tokio::test]
async fn an_active_run_is_never_called_with_another_workspaces_token() {
    let world = World::new().await;
    let history = world.history().await;
    let other = others(&world).await;
    world
        .simulate("train", json!({"runId": "train", "outcome": "never"}))
        .await;
    world.state("train", "running").await;
    world.asked("streamEvents", 1).await;
    world.token(OTHERS).await;
    let run = world
        .condition("train", Type::Synced, "False", "IdentityChanged")
        .await;
    assert_eq!(row(&run), "Active: Accepted !Finished !Ready Reconciling");
    eventually("the stream of the first token is closed", async || {
        let open = world.operator().metric("run_operator_open_streams").await;
        if open == 0.0 { Ok(()) } else { Err(open) }
    })
    .await;
    world.delete_run("train").await;
    let run = world
        .condition("train", Type::Ready, "False", "IdentityChanged")
        .await;
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

/// Proves: P-pinned
#[tokio::test]
async fn without_an_identity_pointer_runs_are_pinned_to_the_base_url() {
    let nameless = [(POINTERS, "identityPointers: []")];
    let path = contract_file("identity-unknown", &nameless);
    let mut world = World::with(Setup {
        operator: vec!["--contract", path.leak()],
        ..Setup::default()
    })
    .await;
    let simulate = |id: &str| json!({"runId": id, "outcome": "never"});
    world.simulate("early", simulate("early")).await;
    let run = world.state("early", "running").await;
    assert_eq!(run.status.unwrap().workspace.unwrap().identity, None);
    // The contract file gets the pointers later: submitted Runs continue.
    contract_file("identity-unknown", &[]);
    world.kill_operator();
    world.start_operator().await;
    world.simulate("late", simulate("late")).await;
    let run = world.state("late", "running").await;
    let pinned = run.status.unwrap().workspace.unwrap().identity;
    assert_eq!(pinned.as_deref(), Some("ws-demo"));
    let state = json!({"state": "processing"});
    world.service.post("runs/early/state", state).await;
    world.state("early", "processing").await;
    // And are forgotten again: what is pinned to an identity waits for one.
    contract_file("identity-unknown", &nameless);
    world.kill_operator();
    world.start_operator().await;
    world
        .condition("late", Type::Synced, "False", "IdentityChanged")
        .await;
    let state = json!({"state": "running"});
    world.service.post("runs/early/state", state).await;
    world.state("early", "running").await;
    world.one_run_each().await;
}

/// Proves: P-workspace-finalizer
#[tokio::test]
async fn a_deleted_workspace_does_not_wait_for_runs_pinned_elsewhere() {
    let mut world = World::new().await;
    let scratch = Scratch::new("identity").unwrap();
    let elsewhere = Service::start(&scratch, &[]).await;
    let names = ["one", "two"];
    for name in names {
        let never = json!({"runId": name, "outcome": "never"});
        world.simulate(name, never).await;
        world.state(name, "running").await;
    }
    let old = world.service.base_url();
    world
        .restart_operator_with(&["--allowed-base-url", &old])
        .await;
    world.restart_operator_at(&elsewhere.base_url()).await;
    for name in names {
        world
            .condition(name, Type::Synced, "False", "WorkspaceChanged")
            .await;
    }
    let api = world.workspaces();
    api.delete("default", &DeleteParams::default())
        .await
        .unwrap();
    eventually(
        "the Workspace is deleted without a further request",
        async || match api.get_opt("default").await {
            Ok(None) => Ok(()),
            other => Err(format!("{other:?}")),
        },
    )
    .await;
    world
        .create_workspace("default", json!({"baseUrl": old}))
        .await;
    for name in names {
        world
            .condition(name, Type::Synced, "True", "Mirrored")
            .await;
        let end = json!({"state": "succeeded"});
        world.service.post(&format!("runs/{name}/state"), end).await;
        world.phase(name, Phase::Succeeded).await;
    }
    world.one_run_each().await;
    assert_eq!(elsewhere.run_calls().await, 0);
}
