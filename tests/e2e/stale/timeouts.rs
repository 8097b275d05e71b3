//! An API server that accepts and never answers, stops in the middle of an answer, or leaves a watch open and
//! silent.

use run_operator::api::Phase;
use serde_json::json;

use super::{Fault, cancels, ledger, lists, running, stage_with};
use crate::support::{Hook, Operator, Setup, holds_for_a_while};

/// Silence is noticed after the watch's time and 5 s.
fn short() -> Setup {
    Setup {
        operator: vec!["--watch-timeout", "1s"],
        ..Setup::default()
    }
}

/// As over a connection that a router between the two has forgotten.
/// Proves: F-outage
#[tokio::test]
async fn silent_watches_are_restarted_at_their_last_version() {
    let (proxy, world) = stage_with(short()).await;
    let run = running(&world, "train").await;
    for resource in ["runs", "workspaces", "secrets"] {
        proxy.mute(resource);
    }
    world.delete_run("train").await;
    let late = world.create_run("late", json!({})).await;
    world.gone("train").await;
    world.phase("late", Phase::Succeeded).await;
    assert_eq!(cancels(&world, &run).await, 1);
    assert_eq!(lists(&proxy), 1, "what was missed is told, not listed");
    ledger(&world, &[(&run, "cancelled"), (&late, "succeeded")]).await;
}

/// One of each kind of request hangs; everything else continues meanwhile. The proxy speaks only HTTP/1.1.
/// Proves: F-outage, P-events
#[tokio::test]
async fn requests_that_hang_are_given_up_and_made_again() {
    let (proxy, world) = stage_with(short()).await;
    let old = running(&world, "old").await;
    let names = ["intent", "status", "half", "lost"];
    let hanging = [
        ("runs", Fault::Hang),
        ("runs/status", Fault::Hang),
        ("runs/status", Fault::Half),
        ("runs/status", Fault::LoseAnswer(Hook::none())),
    ];
    for (name, (resource, fault)) in names.into_iter().zip(hanging) {
        proxy.fault(1, fault, move |asked| {
            asked.is("patch", resource) && asked.name.as_deref() == Some(name)
        });
    }
    // No reconcile waits for an Event.
    proxy.lasting(Fault::Hang, |asked| asked.is("create", "events"));
    let mut runs = Vec::new();
    for name in names {
        runs.push(world.create_run(name, json!({})).await);
    }
    // They are seen before the watch is silenced.
    proxy.until("patch", "runs/status", 3).await;
    proxy.fault(1, Fault::Hang, |asked| asked.is("list", "workspaces"));
    proxy.fault(1, Fault::Half, |asked| {
        asked.fills() && asked.resource == "runs"
    });
    proxy.fault(1, Fault::Hang, |asked| asked.is("watch", "secrets"));
    // A proxy on the way sends a `Retry-After` of a day.
    let tomorrow = Fault::Answer(429, Some("86400"));
    proxy.fault(1, tomorrow, |asked| asked.is("watch", "workspaces"));
    for resource in ["runs", "workspaces", "secrets"] {
        proxy.relist(resource);
    }
    world.delete_run("old").await;
    for name in names {
        world.phase(name, Phase::Succeeded).await;
        world.released(name).await;
    }
    world.gone("old").await;
    world.create_workspace("second", json!({})).await;
    world.workspace_ready("second", "True", "Verified").await;
    assert!(proxy.count("create", "events") > 0);
    let mut ended = vec![(&old, "cancelled")];
    ended.extend(runs.iter().map(|run| (run, "succeeded")));
    ledger(&world, &ended).await;
    for run in &runs {
        assert_eq!(world.posts_of(run).await, 1);
    }
}

/// A process that has listed only a part of what it needs must not get traffic, or count as available.
/// Proves: P-health
#[tokio::test]
async fn it_is_not_ready_before_its_caches_are_filled() {
    let (proxy, mut world) = stage_with(short()).await;
    world.kill_operator();
    proxy.lasting(Fault::Hang, |asked| asked.resource == "runs");
    let lists = proxy.count("list", "runs");
    let operator = Operator::launch(&world.recipe);
    proxy.until("list", "runs", lists + 1).await;
    holds_for_a_while(20, async || {
        assert_eq!(operator.fetch("readyz").await.unwrap().0, 503);
    })
    .await;
    assert_eq!(operator.fetch("healthz").await.unwrap().0, 200);
    proxy.clear();
    operator.ready().await;
}
