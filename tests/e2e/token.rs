//! The token: rotated, expired, taken away. That it is never shown is proved in `security/canary.rs`.

use serde_json::json;

use run_operator::api::{ConditionType as Type, Phase, conditions, names};

use crate::support::{
    STREAMS_MOVE, Setup, TOKEN, World, condition_of, eventually, eventually_after,
    holds_for_a_while, says,
};

const SECOND: &str = "canary-of-the-rotation-5b1e";
/// Number of checks in about three seconds.
const A_WHILE: u32 = 120;

/// A world with so many Runs that continue until the test ends them; their runIds are their names.
async fn busy(names: &[&str]) -> World {
    let world = World::new().await;
    for name in names {
        world
            .simulate(name, json!({"runId": name, "outcome": "never"}))
            .await;
    }
    for name in names {
        world.state(name, "running").await;
    }
    world
}

async fn set_state(world: &World, run: &str, state: &str) {
    let state = json!({"state": state});
    world
        .service
        .post(&format!("runs/{run}/state"), state)
        .await;
}

/// Requests that carry a token, but for the checks of the Workspace.
async fn run_calls(world: &World) -> usize {
    world.service.run_calls().await
}

/// Proves: P-rotation
#[tokio::test]
async fn a_rotated_token_is_used_without_a_restart_or_a_refused_call() {
    let world = busy(&["one", "two"]).await;
    let history = world.history().await;
    world.service.post("tokens", json!({"token": SECOND})).await;
    let asked = world.service.requests("getWorkspace").await.len();
    world.token(SECOND).await;
    world.asked("getWorkspace", asked + 1).await;
    let check = world.service.requests("getWorkspace").await.pop().unwrap();
    eventually("calls are made with the new token", async || {
        let calls = world.service.requests("getRun").await;
        if calls.last().unwrap()["token"] == check["token"] {
            Ok(())
        } else {
            Err("the old one")
        }
    })
    .await;
    world.service.delete(&format!("tokens/{TOKEN}")).await;
    for name in ["one", "two"] {
        set_state(&world, name, "succeeded").await;
        world.phase(name, Phase::Succeeded).await;
    }
    assert_eq!(world.unauthorized().await, 0);
    world.one_run_each().await;
    history.holds().await;
}

/// Proves: P-stream-session
#[tokio::test]
async fn open_streams_move_to_a_new_token_without_a_read_or_a_write() {
    let world = World::with(Setup {
        operator: vec!["--poll-max", "1h"],
        ..Setup::default()
    })
    .await;
    let names: Vec<String> = (0..8).map(|n| format!("train-{n}")).collect();
    for name in &names {
        let simulate = json!({"runId": name, "outcome": "never"});
        world.simulate(name, simulate).await;
    }
    let mut versions = Vec::new();
    for name in &names {
        let run = world
            .run_until(name, "is mirrored to its last event", |run| {
                let status = run.status.as_ref();
                status.is_some_and(|s| {
                    s.state.as_deref() == Some("running") && s.event_count == Some(3)
                })
            })
            .await;
        versions.push(run.metadata.resource_version);
    }
    let reads = world.service.count("getRun").await;
    world.service.post("tokens", json!({"token": SECOND})).await;
    world.token(SECOND).await;
    let first = world.service.requests("createRun").await[0]["token"].clone();
    let mut open_with_the_old = 0;
    eventually_after(
        STREAMS_MOVE,
        "every stream is opened with the new token",
        async || {
            let streams = world.service.requests("streamEvents").await;
            let new = streams.iter().filter(|s| s["token"] != first).count();
            if (1..names.len()).contains(&new) {
                open_with_the_old += 1;
            }
            if new == names.len() { Ok(()) } else { Err(new) }
        },
    )
    .await;
    assert!(open_with_the_old > 3, "all went over at the same moment");
    assert_eq!(world.service.count("getRun").await, reads, "no read");
    for (name, version) in names.iter().zip(versions) {
        let run = world.run(name).await;
        assert_eq!(run.metadata.resource_version, version, "{name} was written");
    }
    world.service.delete(&format!("tokens/{TOKEN}")).await;
    for name in &names {
        set_state(&world, name, "succeeded").await;
        world.phase(name, Phase::Succeeded).await;
    }
    assert_eq!(world.unauthorized().await, 0);
}

/// Proves: P-rotation
#[tokio::test]
async fn a_token_revoked_before_its_replacement_fails_no_run() {
    let names = ["one", "two", "three"];
    let world = busy(&names).await;
    let history = world.history().await;
    world.service.delete(&format!("tokens/{TOKEN}")).await;
    set_state(&world, "one", "processing").await;
    world
        .workspace_ready("default", "False", "Unauthorized")
        .await;
    let late = world.create_run("late", json!({})).await;
    world
        .condition("late", Type::Ready, "False", "WorkspaceNotReady")
        .await;
    world.service.post("tokens", json!({"token": SECOND})).await;
    world.token(SECOND).await;
    world.phase("late", Phase::Succeeded).await;
    world.state("one", "processing").await;
    for name in names {
        set_state(&world, name, "succeeded").await;
        world.phase(name, Phase::Succeeded).await;
    }
    let refused = world.unauthorized().await;
    assert!((1..=10).contains(&refused), "{refused} calls were refused");
    assert_eq!(world.posts_of(&late).await, 1);
    for name in names.iter().chain(&["late"]) {
        for run in history.of(name) {
            assert_ne!(
                run.status.as_ref().and_then(|s| s.phase),
                Some(Phase::Failed)
            );
            assert_eq!(condition_of(&run, Type::Stalled), None);
        }
    }
    world.one_run_each().await;
    history.holds().await;
}

/// Proves: P-workspace-holds, P-one-probe, F-401
#[tokio::test]
async fn an_expired_token_is_probed_by_one_task_while_every_run_waits() {
    let names = ["one", "two", "three", "four", "five", "six"];
    let world = busy(&names).await;
    let expiry = json!({"expiresAfterMs": 0});
    world
        .service
        .patch(&format!("tokens/{TOKEN}"), expiry)
        .await;
    for name in names {
        set_state(&world, name, "processing").await;
    }
    let told = world.workspace_condition("default", Type::Ready, "False", "Unauthorized");
    says(
        &told.await,
        &[
            "401 unauthenticated",
            "Request id",
            "Put a valid token into the Secret run-operator-token in namespace",
        ],
    );
    for name in names {
        let run = world
            .condition(name, Type::Synced, "False", "WorkspaceNotReady")
            .await;
        let told = condition_of(&run, Type::Synced).unwrap().message;
        says(
            &told,
            &["Workspace default", "Unauthorized", "Put a valid token"],
        );
        let status = run.status.unwrap();
        assert_eq!(status.phase, Some(Phase::Active));
        assert_eq!(
            status.state.as_deref(),
            Some("running"),
            "the last mirrored state is kept"
        );
    }
    let refused = world.unauthorized().await;
    assert!(refused <= 20, "{refused} calls were refused");
    let calls = run_calls(&world).await;
    holds_for_a_while(A_WHILE, async || {
        assert_eq!(run_calls(&world).await, calls, "a Run makes calls");
        assert!(
            world.unauthorized().await <= refused + 5,
            "the token is sent in circles"
        );
    })
    .await;
    let again = json!({});
    world.service.patch(&format!("tokens/{TOKEN}"), again).await;
    for name in names {
        let run = world.state(name, "processing").await;
        assert_eq!(condition_of(&run, Type::Synced).unwrap().status, "True");
    }
    world.one_run_each().await;
}

/// Proves: P-pinned
#[tokio::test]
async fn a_token_of_another_workspace_is_never_used_for_existing_runs() {
    let world = busy(&["train"]).await;
    let other = json!({"token": SECOND, "workspace": "ws-other"});
    world.service.post("tokens", other).await;
    let calls = run_calls(&world).await;
    world.token(SECOND).await;
    let run = world
        .run_until("train", "says that it is elsewhere", |run| {
            condition_of(run, Type::Synced).is_some_and(|c| c.status == "False")
        })
        .await;
    assert_eq!(
        condition_of(&run, Type::Synced).unwrap().reason,
        "IdentityChanged"
    );
    holds_for_a_while(A_WHILE, async || {
        let seconds: Vec<_> = world.service.requests("getRun").await;
        let last = seconds.last().unwrap();
        let first = &world.service.requests("createRun").await[0];
        assert_eq!(last["token"], first["token"], "the wrong token is used");
    })
    .await;
    assert!(run_calls(&world).await <= calls + 2);
    world.token(TOKEN).await;
    world
        .condition("train", Type::Synced, "True", "Mirrored")
        .await;
    set_state(&world, "train", "succeeded").await;
    world.heals("train").await;
}

/// Proves: P-pinned
#[tokio::test]
async fn a_rotation_needs_no_retry_and_an_old_retry_has_no_effect() {
    let world = World::with(Setup {
        bare: true,
        ..Setup::default()
    })
    .await;
    world.token("canary-of-nobody").await;
    world.create_workspace("default", json!({})).await;
    let created = world.create_run("train", json!({})).await;
    world
        .condition("train", Type::Ready, "False", "WorkspaceNotReady")
        .await;
    let retry = json!({"metadata": {"annotations": {names::RETRY_ANNOTATION: "1"}}});
    world.patch_run("train", retry).await;
    world.token(TOKEN).await;
    world.heals("train").await;
    assert_eq!(world.posts_of(&created).await, 1);
    let run = world.run("train").await;
    let status = run.status.unwrap();
    assert!(conditions::is_true(&status.conditions, Type::Ready));
}
