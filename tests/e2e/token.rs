//! The token: rotated, expired, taken away, and checked in vain. That it is never shown is proved in `security/canary.rs`.

use kube::api::DeleteParams;
use serde_json::json;

use run_operator::api::{ConditionType as Type, Phase, conditions, names};

use crate::support::{
    STREAMS_MOVE, Setup, TOKEN, World, condition_of, eventually_after, holds_for_a_while, phase_of,
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

/// Requests that carry a token, but for the checks of the Workspace.
async fn run_calls(world: &World) -> usize {
    world.service.run_calls().await
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
        world.set_state(name, "succeeded").await;
        world.phase(name, Phase::Succeeded).await;
    }
    assert_eq!(world.unauthorized().await, 0);
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
        world.set_state(name, "processing").await;
    }
    world
        .workspace_ready("default", "False", "Unauthorized")
        .await;
    for name in names {
        let run = world.not_synced(name, "WorkspaceNotReady").await;
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
async fn a_rotation_needs_no_retry_and_an_old_retry_has_no_effect() {
    let world = World::with(Setup {
        bare: true,
        ..Setup::default()
    })
    .await;
    world.token("canary-of-nobody").await;
    world.create_workspace("default", json!({})).await;
    let created = world.create_run("train", json!({})).await;
    world.not_ready("train", "WorkspaceNotReady").await;
    let retry = json!({"metadata": {"annotations": {names::RETRY_ANNOTATION: "1"}}});
    world.patch_run("train", retry).await;
    world.token(TOKEN).await;
    world.heals("train").await;
    assert_eq!(world.posts_of(&created).await, 1);
    let run = world.run("train").await;
    let status = run.status.unwrap();
    assert!(conditions::is_true(&status.conditions, Type::Ready));
}

/// Proves: P-last-token
#[tokio::test]
async fn calls_stop_when_the_service_rejects_the_last_good_token() {
    let world = busy(&["train"]).await;
    let secrets = world.secrets();
    let params = DeleteParams::default();
    drop(secrets.delete("run-operator-token", &params).await.unwrap());
    world
        .workspace_ready("default", "False", "SecretNotFound")
        .await;
    world.service.delete(&format!("tokens/{TOKEN}")).await;
    world.set_state("train", "processing").await;
    world
        .workspace_ready("default", "False", "Unauthorized")
        .await;
    let run = world.not_synced("train", "WorkspaceNotReady").await;
    assert_eq!(phase_of(&run), Some(Phase::Active));
    world.service.post("tokens", json!({"token": SECOND})).await;
    world.token(SECOND).await;
    world.state("train", "processing").await;
}

/// Proves: P-one-failure, P-stream-session
#[tokio::test]
async fn checks_that_fail_again_and_again_close_no_stream() {
    let names = ["one", "two", "three", "four", "five", "six"];
    let world = busy(&names).await;
    world.open_streams(6).await;
    let streams = world.service.requests("streamEvents").await.len();
    let busy = json!({"type": "answer", "status": 503});
    let version = json!({"operation": "getVersion"});
    world.service.lasting_fault(version, busy).await;
    // A change of its Secret has the Workspace checked.
    let secret = json!({"token": TOKEN, "note": "another"});
    world.secret("run-operator-token", secret).await;
    for name in names {
        world.not_synced(name, "WorkspaceNotReady").await;
    }
    assert_eq!(world.service.get("stats").await["openStreams"], 6);
    let after = world.service.requests("streamEvents").await.len();
    assert_eq!(after, streams, "a stream was reopened");
}
