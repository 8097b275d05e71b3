//! Runs that have ended: a start doesn't touch them.

use serde_json::json;

use run_operator::api::Phase;

use crate::stale::stage;
use crate::support::{Fault, Hook, Series, World, eventually};

const NAMES: [&str; 3] = ["good", "bad", "cancelled"];
const RECONCILES: &str = "controller_runtime_reconcile_total";

/// Runs that have just ended, as the next process finds them.
async fn ended_runs() -> World {
    let mut world = World::new().await;
    world.create_run("good", json!({})).await;
    world.simulate("bad", json!({"outcome": "failed"})).await;
    world.create_run("cancelled", json!({"cancel": true})).await;
    for (name, end) in [
        ("good", "Succeeded"),
        ("bad", "Failed"),
        ("cancelled", "Cancelled"),
    ] {
        world.event(name, end).await;
        world.released(name).await;
    }
    world.kill_operator();
    world
}

/// The reconciles of Runs by this process.
async fn reconciles(world: &World) -> f64 {
    let of_runs = |one: &Series| one.labels["controller"] == "run";
    world.operator().sum(RECONCILES, of_runs).await
}

/// Proves: B-ended, P-terminal, P-metrics
#[tokio::test]
async fn a_start_does_nothing_for_runs_that_have_ended() {
    let mut world = ended_runs().await;
    let before = versions(&world).await;
    let calls = world.service.run_calls().await;
    world.start_operator().await;
    assert_eq!(reconciles(&world).await, 0.0);
    // A Run that comes later has its turn later.
    world.create_run("fresh", json!({})).await;
    world.phase("fresh", Phase::Succeeded).await;
    world.released("fresh").await;
    // Two Events of this Run, and one of the Workspace, which became Ready in the last minutes.
    let creates = |one: &Series| one.labels["method"] == "POST";
    let requests = "run_operator_api_requests_total";
    assert!(world.operator().sum(requests, creates).await <= 3.0);
    // `/metrics` may be a second old.
    eventually("the later Run is counted", async || {
        let count = reconciles(&world).await;
        if count > 0.0 { Ok(()) } else { Err(count) }
    })
    .await;
    world.metric_is("run_operator_remembered_runs", 0.0).await;
    let ends = "run_operator_runs_finished_total";
    let succeeded = format!(r#"{ends}{{outcome="Succeeded",reason="Succeeded"}}"#);
    world.metric_is(&succeeded, 1.0).await;
    assert_eq!(world.operator().sum(ends, |_| true).await, 1.0);
    assert_eq!(before, versions(&world).await);
    let of_fresh = world.service.runs().await;
    let of_fresh = of_fresh.last().unwrap();
    let fields = ["posts", "gets", "streams"].map(|field| of_fresh[field].as_u64().unwrap());
    let own = usize::try_from(fields.iter().sum::<u64>()).unwrap();
    assert_eq!(world.service.run_calls().await - calls, own);
}

/// The watch shows the ended Run without its finalizer while the answer to that write is still in flight.
/// Proves: B-ended
#[tokio::test]
async fn a_run_whose_last_write_got_no_answer_is_forgotten() {
    let (proxy, world) = stage().await;
    world.running("train").await;
    let (release, hook) = Hook::held();
    proxy.fault(1, Fault::LoseAnswer(hook), |asked| {
        asked.is("patch", "runs")
    });
    world.set_state("train", "succeeded").await;
    world.released("train").await;
    // When the watch has shown this Run, it has shown the first one.
    world.create_run("later", json!({})).await;
    world.phase("later", Phase::Succeeded).await;
    world.released("later").await;
    world.metric_is("run_operator_remembered_runs", 1.0).await;
    release();
    world.metric_is("run_operator_remembered_runs", 0.0).await;
}

async fn versions(world: &World) -> Vec<Option<String>> {
    let mut versions = Vec::new();
    for name in NAMES {
        versions.push(world.run(name).await.metadata.resource_version);
    }
    versions
}
