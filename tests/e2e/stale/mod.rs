//! The operator's view of the cluster may be old, have holes, or be absent. A proxy between it and the real
//! API server causes that; each test ends with the service's ledger and the object.

mod apiserver_errors;
mod intermediate;
mod leader;
mod matrix;
mod stale_state;
mod timeouts;
mod unobserved;
mod write_conflicts;

use std::collections::BTreeMap;

use kube::ResourceExt;
use kube::api::{Patch, PatchParams};
use run_operator::api::Run;
use serde_json::{Value, json};

pub(crate) use crate::support::Proxy;
use crate::support::{Asked, Fault, Setup, World, eventually};
use test_cluster::ControlPlane;

/// A world whose operator sees the API server through a proxy. Taken apart from right to left.
pub(crate) async fn stage() -> (Proxy, World) {
    stage_with(Setup::default()).await
}

async fn stage_with(setup: Setup) -> (Proxy, World) {
    let proxy = Proxy::start(ControlPlane::shared().await).await;
    let through = Some(proxy.kubeconfig().to_owned());
    let world = World::with(Setup { through, ..setup }).await;
    // It is ready as soon as it has listed.
    proxy.until("watch", "runs", 1).await;
    (proxy, world)
}

/// A Run that only a cancellation ends, seen running.
async fn running(world: &World, name: &str) -> Run {
    world.simulate(name, json!({"outcome": "never"})).await;
    world.state(name, "running").await
}

/// Removes the object by force, finalizers and all, and waits until it no longer exists.
async fn force_away(world: &World, name: &str) {
    world.delete_run(name).await;
    let strip = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    // One without a finalizer no longer exists.
    let _ = world
        .runs()
        .patch(name, &PatchParams::default(), &strip)
        .await;
    world.gone(name).await;
}

/// Waits until the service's ledger is exactly this: one run for each uid, in this state.
async fn ledger(world: &World, wanted: &[(&Run, &str)]) {
    let wanted: BTreeMap<String, String> = wanted
        .iter()
        .map(|(run, state)| (run.uid().unwrap(), (*state).to_owned()))
        .collect();
    eventually("the service's ledger is right", async || {
        let runs = world.service.runs().await;
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let found: BTreeMap<String, String> = runs
            .iter()
            .map(|run| (text(&run["idempotencyKey"]), text(&run["state"])))
            .collect();
        assert_eq!(found.len(), runs.len(), "two runs for one key: {runs:?}");
        if found == wanted {
            Ok(())
        } else {
            Err(format!("{found:?} and not {wanted:?}"))
        }
    })
    .await;
}

/// The number of cancels of this object's run.
async fn cancels(world: &World, of: &Run) -> u64 {
    let runs = world.service.runs().await;
    let run = runs
        .iter()
        .find(|run| run["idempotencyKey"].as_str() == of.metadata.uid.as_deref());
    run.map_or(0, |run| run["cancels"].as_u64().unwrap())
}

/// Waits until the operator has tried so many writes of Runs.
async fn eventually_writes(proxy: &Proxy, times: usize) {
    eventually("a write of a Run", async || {
        let count = writes(proxy);
        if count >= times { Ok(()) } else { Err(count) }
    })
    .await;
}

/// The writes of Runs until now, refused or not.
fn writes(proxy: &Proxy) -> usize {
    let of = |verb, resource| proxy.count(verb, resource);
    of("patch", "runs/status") + of("patch", "runs") + of("update", "runs")
}

/// The lists of all Runs until now.
fn lists(proxy: &Proxy) -> usize {
    let fills = proxy.asked(|asked| asked.resource == "runs" && asked.fills());
    fills.len()
}

/// Waits until the operator has listed the Runs so many times.
async fn eventually_lists(proxy: &Proxy, times: usize) {
    eventually("a list of Runs", async || {
        let count = lists(proxy);
        if count >= times { Ok(()) } else { Err(count) }
    })
    .await;
}
