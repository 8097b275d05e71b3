//! Every version that a life has had is shown to an operator as the present: to one that restarts or to one
//! that runs, and the present then comes by events or by a list.

use std::collections::BTreeSet;

use kube::ResourceExt;
use run_operator::api::{Phase, Run};
use serde_json::{Value, json};

use super::{Proxy, eventually_lists, lists, running, stage, writes};
use crate::support::{World, holds_for_a_while};

/// Number of checks in which the effects of the old view would begin.
const LOOKS: u32 = 16;

/// The service's runs, without the number of their reads.
async fn ledger(world: &World) -> Vec<Value> {
    let runs = world.service.runs().await.into_iter();
    let told = ["idempotencyKey", "state", "posts", "runId"];
    runs.map(|run| told.map(|field| run[field].clone()).into())
        .collect()
}

/// Every version of a life that ends well, one that is cancelled by its deletion, and one that continues
/// under the same name.
async fn lives(world: &World, round: usize) -> (Vec<u64>, Vec<Run>) {
    let history = world.history().await;
    let (good, again) = (format!("good-{round}"), format!("again-{round}"));
    let run = json!({"logEvents": 1, "runTimeMs": 300});
    world.simulate(&good, run).await;
    world.phase(&good, Phase::Succeeded).await;
    let ended = world.released(&good).await;
    running(world, &again).await;
    world.delete_run(&again).await;
    world.gone(&again).await;
    let standing = running(world, &again).await;
    let this = standing.resource_version();
    history
        .until(&again, "is seen", |run| run.resource_version() == this)
        .await;
    let all = [good, again].map(|name| history.of(&name)).concat();
    let versions: BTreeSet<u64> = all
        .iter()
        .filter_map(|run| run.resource_version()?.parse().ok())
        .collect();
    (versions.into_iter().collect(), vec![ended, standing])
}

/// Whether the operator restarts, and whether the present comes by a list.
const WAYS: [(bool, bool); 4] = [(true, false), (false, true), (true, true), (false, false)];

/// Writes while the view was old.
async fn play(
    proxy: &Proxy,
    world: &mut World,
    at: u64,
    (restart, by_list): (bool, bool),
) -> usize {
    let tried = writes(proxy);
    // A new process in any case: one that was made to list again and again takes ever longer to do so.
    world.kill_operator();
    if restart {
        proxy.show("runs", at);
    }
    // It watches once it has listed, and only a watch can deliver the end of the past.
    let before = proxy.count("watch", "runs");
    world.start_operator().await;
    proxy.until("watch", "runs", before + 1).await;
    world.workspace_ready("default", "True", "Verified").await;
    if !restart {
        let before = lists(proxy);
        proxy.relist("runs");
        proxy.show("runs", at);
        eventually_lists(proxy, before + 1).await;
    }
    holds_for_a_while(LOOKS, async || {}).await;
    if by_list {
        proxy.relist("runs");
    } else {
        proxy.thaw("runs");
    }
    let run = world.create_run("probe", json!({})).await;
    world.phase("probe", Phase::Succeeded).await;
    world.released("probe").await;
    assert_eq!(world.posts_of(&run).await, 1);
    world.delete_run("probe").await;
    world.gone("probe").await;
    writes(proxy) - tried
}

/// Proves: F-stale
#[tokio::test]
async fn no_stale_version_leads_to_a_duplicate_an_undo_or_a_cancel() {
    let (proxy, mut world) = stage().await;
    let full = std::env::var("RUN_OPERATOR_PROVE").is_ok_and(|value| value == "full");
    let (mut played, mut most_writes) = (0_usize, 0);
    // Each round has lives of its own: the API server drops versions after five minutes.
    for round in 0..if full { WAYS.len() } else { 1 } {
        let (versions, standing) = lives(&world, round).await;
        // The bounded part takes every other one, in the four ways by turns.
        let step = if full { 1 } else { 2 };
        for (n, at) in versions.iter().copied().step_by(step).enumerate() {
            let way = WAYS[if full { round } else { n % WAYS.len() }];
            played += 1;
            let before = ledger(&world).await;
            let writes = play(&proxy, &mut world, at, way).await;
            let told = format!("version {at}, restart and by list: {way:?}");
            assert_eq!(ledger(&world).await[..before.len()], before, "{told}");
            for run in &standing {
                let now = world.run(&run.name_any()).await;
                assert_eq!(now.resource_version(), run.resource_version(), "{told}");
            }
            most_writes = most_writes.max(writes);
        }
        let again = format!("again-{round}");
        world.delete_run(&again).await;
        world.gone(&again).await;
    }
    // Bounded: the probe's own four writes, and a few tries for each of three objects.
    assert!(most_writes <= 24, "{most_writes} writes");
    let runs = world.service.runs().await;
    let live = runs.iter().filter(|run| run["state"] == "running").count();
    assert_eq!(live, 0, "left behind: {runs:?}");
    eprintln!("stale: {played} versions shown as the present; at most {most_writes} writes each");
}
