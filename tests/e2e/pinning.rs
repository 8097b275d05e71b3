//! A Run whose Workspace stands for another place: another base URL, a Workspace that was created again, an
//! identity that the contract file does not name.

use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};

use run_operator::api::{ConditionType as Type, Phase};

use crate::identity::{A_WHILE, STALLED, lost, one_run_in_the_right_place, told};
use crate::support::{
    Service, Setup, World, contract_file, eventually, holds_for_a_while, row, says,
};
use test_cluster::Scratch;

const POINTERS: &str = "identityPointers: [/id, /workspaceId]";

/// Proves: P-place
#[tokio::test]
async fn a_lost_create_is_not_repeated_at_another_base_url() {
    let mut world = World::new().await;
    let scratch = Scratch::new("identity").unwrap();
    let elsewhere = Service::start(&scratch, &[]).await;
    let created = lost(&world, "train").await;
    world.kill_operator();
    world.service.delete("faults").await;
    let posts = world.posts_of(&created).await;
    world.restart_operator_at(&elsewhere.base_url()).await;
    let run = world
        .condition("train", Type::Stalled, "True", "WorkspaceChanged")
        .await;
    assert_eq!(row(&run), STALLED);
    let (then, now) = (world.service.base_url(), elsewhere.base_url());
    says(&told(&run, Type::Stalled), &[&then, &now, "--base-url"]);
    // What was never submitted is simply submitted there.
    world.create_run("new", json!({})).await;
    world.phase("new", Phase::Succeeded).await;
    assert_eq!(elsewhere.requests("createRun").await.len(), 1);
    assert_eq!(world.posts_of(&created).await, posts);
    // Deleted, or its run would be read at the first service below.
    world.delete_run("new").await;
    world.gone("new").await;
    let back = world.service.base_url();
    world.restart_operator_at(&back).await;
    one_run_in_the_right_place(&world, &created).await;
    assert_eq!(elsewhere.requests("createRun").await.len(), 1);
}

/// Deletes the Workspace `default`, by force if it has a finalizer, and creates it again.
async fn recreate_workspace(world: &World, spec: Value) {
    let workspaces = world.workspaces();
    workspaces
        .delete("default", &DeleteParams::default())
        .await
        .unwrap();
    let free = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    // One without a finalizer no longer exists.
    let _ = workspaces
        .patch("default", &PatchParams::default(), &free)
        .await;
    eventually("the Workspace is gone", async || {
        match workspaces.get_opt("default").await {
            Ok(None) => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
    world.create_workspace("default", spec).await;
    world.workspace_ready("default", "True", "Verified").await;
}

/// Proves: P-place
#[tokio::test]
async fn a_recreated_workspace_is_used_only_with_the_same_base_url() {
    let mut world = World::new().await;
    let scratch = Scratch::new("identity").unwrap();
    let elsewhere = Service::start(&scratch, &[]).await;
    let url = elsewhere.base_url();
    world
        .restart_operator_with(&["--allowed-base-url", &url])
        .await;
    world.simulate("active", json!({"outcome": "never"})).await;
    world.state("active", "running").await;
    lost(&world, "doubted").await;
    recreate_workspace(&world, json!({"baseUrl": url})).await;
    world
        .condition("active", Type::Synced, "False", "WorkspaceChanged")
        .await;
    world
        .condition("doubted", Type::Stalled, "True", "WorkspaceChanged")
        .await;
    world.service.delete("faults").await;
    let calls = world.service.run_calls().await;
    holds_for_a_while(A_WHILE, async || {
        assert_eq!(elsewhere.run_calls().await, 0);
        assert_eq!(world.service.run_calls().await, calls);
    })
    .await;
    recreate_workspace(&world, json!({})).await;
    for name in ["active", "doubted"] {
        world.state(name, "running").await;
        world
            .condition(name, Type::Synced, "True", "Mirrored")
            .await;
    }
    // Once more, with the same spec: only the uid differs, and both Runs continue.
    recreate_workspace(&world, json!({})).await;
    for name in ["active", "doubted"] {
        let run_id = world.run(name).await.status.unwrap().run_id.unwrap();
        let end = json!({"state": "succeeded"});
        world
            .service
            .post(&format!("runs/{run_id}/state"), end)
            .await;
        world.phase(name, Phase::Succeeded).await;
    }
    world.one_run_each().await;
    assert_eq!(elsewhere.run_calls().await, 0);
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
    let run = world
        .condition("late", Type::Synced, "False", "IdentityChanged")
        .await;
    says(
        &told(&run, Type::Synced),
        &["ws-demo", "does not say", "workspace.identityPointers"],
    );
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
        let run = world
            .condition(name, Type::Synced, "False", "WorkspaceChanged")
            .await;
        says(
            &told(&run, Type::Synced),
            &[&old, "re-creating the Workspace"],
        );
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
