//! Runs that have ended: a process doesn't track them, and a start doesn't touch them, but what changes is followed.

use kube::api::{Patch, PatchParams};
use serde_json::json;

use run_operator::api::Phase;

use crate::support::{World, eventually};

const NAMES: [&str; 3] = ["one", "two", "three"];

/// Runs that ended long ago, as the next process finds them.
async fn old_runs() -> World {
    let mut world = World::new().await;
    for name in NAMES {
        world.create_run(name, json!({})).await;
    }
    for name in NAMES {
        world.phase(name, Phase::Succeeded).await;
        world.released(name).await;
        world.event(name, "Succeeded").await;
    }
    world.kill_operator();
    let long_ago = json!({"status": {"completionTime": "2026-01-01T00:00:00Z"}});
    for name in NAMES {
        let patch = Patch::Merge(&long_ago);
        let params = PatchParams::default();
        let patched = world.runs().patch_status(name, &params, &patch).await;
        patched.unwrap();
    }
    world
}

async fn remembers(world: &World, count: f64) {
    eventually("so many Runs are tracked", async || {
        let tracked = world
            .operator()
            .metric("run_operator_remembered_runs")
            .await;
        if tracked == count {
            Ok(())
        } else {
            Err(tracked)
        }
    })
    .await;
}

// Proves: B-ended
#[tokio::test]
async fn a_run_that_has_ended_is_tracked_no_more() {
    let world = World::new().await;
    world.simulate("active", json!({"outcome": "never"})).await;
    world.create_run("train", json!({})).await;
    world.phase("train", Phase::Succeeded).await;
    world.released("train").await;
    remembers(&world, 1.0).await;
    let runs = r#"run_operator_runs{phase="Succeeded"}"#;
    assert_eq!(world.operator().metric(runs).await, 1.0);
}

// Proves: B-ended
#[tokio::test]
async fn a_start_does_nothing_for_runs_that_have_ended() {
    let mut world = old_runs().await;
    let before = versions(&world).await;
    let calls = world.service.run_calls().await;
    world.start_operator().await;
    // A Run that comes later has its turn later.
    world.create_run("fresh", json!({})).await;
    world.phase("fresh", Phase::Succeeded).await;
    world.released("fresh").await;
    remembers(&world, 0.0).await;
    let published = "run_operator_events_dropped_total{cause=\"repeated\"}";
    assert_eq!(world.operator().metric(published).await, 0.0);
    assert_eq!(before, versions(&world).await);
    let of_fresh = world.service.runs().await;
    let of_fresh = of_fresh.last().unwrap();
    let fields = ["posts", "gets", "streams"].map(|field| of_fresh[field].as_u64().unwrap());
    let own = usize::try_from(fields.iter().sum::<u64>()).unwrap();
    assert_eq!(world.service.run_calls().await - calls, own);
}

async fn versions(world: &World) -> Vec<Option<String>> {
    let mut versions = Vec::new();
    for name in NAMES {
        versions.push(world.run(name).await.metadata.resource_version);
    }
    versions
}

// Proves: P-ttl
#[tokio::test]
async fn a_ttl_that_is_added_later_deletes_a_run_that_ended_long_ago() {
    let mut world = old_runs().await;
    world.start_operator().await;
    let patch = json!({"spec": {"ttlSecondsAfterFinished": 1}});
    world.patch_run("one", patch).await;
    world.gone("one").await;
    let kept = world.run("two").await;
    assert_eq!(kept.status.unwrap().phase, Some(Phase::Succeeded));
}

// Proves: P-ttl
#[tokio::test]
async fn a_ttl_that_passed_while_no_operator_ran_deletes_at_the_start() {
    let mut world = old_runs().await;
    let patch = json!({"spec": {"ttlSecondsAfterFinished": 1}});
    world.patch_run("one", patch).await;
    world.start_operator().await;
    world.gone("one").await;
    remembers(&world, 0.0).await;
}
