//! The token: rotated, expired, taken away, and checked in vain. That it is never shown is proved in `security/canary.rs`.

use serde_json::json;

use run_operator::api::Phase;

use crate::support::{
    SECRET, STREAMS_MOVE, TOKEN, World, eventually_after, holds_for_a_while, phase_of,
};

const SECOND: &str = "canary-of-the-rotation-5b1e";
/// Number of checks in about three seconds.
const A_WHILE: u32 = 120;
const NAMES: [&str; 6] = ["one", "two", "three", "four", "five", "six"];

/// Makes Runs that continue until the test ends them; their runIDs are their names.
async fn make_busy(world: &World) {
    for name in NAMES {
        world.running(name).await;
    }
}

/// Proves: P-rotation
#[tokio::test]
async fn open_streams_move_to_a_new_token_without_a_read_or_a_write() {
    let world = World::with_flags(&["--poll-max", "1h"]).await;
    make_busy(&world).await;
    let mut versions = Vec::new();
    for name in NAMES {
        let run = world
            .run_until(name, "is mirrored to its last event", |run| {
                run.status.as_ref().unwrap().event_count == Some(3)
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
            if (1..NAMES.len()).contains(&new) {
                open_with_the_old += 1;
            }
            if new == NAMES.len() { Ok(()) } else { Err(new) }
        },
    )
    .await;
    assert!(open_with_the_old > 3, "all went over at the same moment");
    assert_eq!(world.service.count("getRun").await, reads, "no read");
    for (name, version) in NAMES.into_iter().zip(versions) {
        let run = world.run(name).await;
        assert_eq!(run.metadata.resource_version, version, "{name} was written");
    }
    world.service.delete(&format!("tokens/{TOKEN}")).await;
    for name in NAMES {
        world.set_state(name, "succeeded").await;
        world.phase(name, Phase::Succeeded).await;
    }
    assert_eq!(world.unauthorized().await, 0);
}

/// Proves: P-workspace-check, F-401
#[tokio::test]
async fn an_expired_token_is_probed_by_one_task_while_every_run_waits() {
    let world = World::new().await;
    make_busy(&world).await;
    let token = format!("tokens/{TOKEN}");
    let expiry = json!({"expiresAfterMs": 0});
    world.service.patch(&token, expiry).await;
    for name in NAMES {
        world.set_state(name, "processing").await;
    }
    world
        .workspace_ready("default", "False", "Unauthorized")
        .await;
    for name in NAMES {
        let run = world.not_synced(name, "WorkspaceNotReady").await;
        assert_eq!(phase_of(&run), Some(Phase::Active));
        // The last mirrored state is kept.
        assert_eq!(run.status.unwrap().state.as_deref(), Some("running"));
    }
    let refused = world.unauthorized().await;
    assert!(refused <= 20, "{refused} calls were refused");
    let calls = world.service.run_calls().await;
    holds_for_a_while(A_WHILE, async || {
        let now = world.service.run_calls().await;
        assert_eq!(now, calls, "a Run makes calls");
        let now = world.unauthorized().await;
        assert!(now <= refused + 5, "the token is sent in circles");
    })
    .await;
    world.service.patch(&token, json!({})).await;
    for name in NAMES {
        world.state(name, "processing").await;
        world.mirrored(name).await;
    }
    world.one_run_each().await;
}

/// Proves: P-last-token
#[tokio::test]
async fn calls_stop_when_the_service_rejects_the_last_good_token() {
    let world = World::new().await;
    world.running("train").await;
    let delete = ["delete", "secret", SECRET];
    world.kubectl(&delete, "").await.unwrap();
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

/// Proves: P-one-failure, P-rotation
#[tokio::test]
async fn checks_that_fail_again_and_again_close_no_stream() {
    let world = World::new().await;
    make_busy(&world).await;
    world.open_streams(6).await;
    let streams = world.service.requests("streamEvents").await.len();
    let busy = json!({"type": "answer", "status": 503});
    let version = json!({"operation": "getVersion"});
    world.service.lasting_fault(version, busy).await;
    // A change of its Secret has the Workspace checked.
    let secret = json!({"token": TOKEN, "note": "another"});
    world.secret(SECRET, secret).await;
    for name in NAMES {
        world.not_synced(name, "WorkspaceNotReady").await;
    }
    assert_eq!(world.service.get("stats").await["openStreams"], 6);
    let after = world.service.requests("streamEvents").await.len();
    assert_eq!(after, streams, "a stream was reopened");
}
