//! Limits of active Runs, and Runs of another controller: what the service sees of them, and what the wait costs. Order,
//! doubt and crashes are tried in `src/decide/queue/tests.rs`, `tests/policy` and `tests/model`.

use std::cmp::Reverse;

use kube::ResourceExt;
use serde_json::{Value, json};

use run_operator::api::{Phase, Run, names};

use crate::support::{Setup, World, active_at_creates, eventually, intent_of};
use crate::tenancy::{self, Tenant};

/// A world whose Workspace lets so many Runs be active at the same time.
async fn limited(max: u32) -> World {
    let mut world = World::unattended(Setup::default()).await;
    let limit = json!({"maxActiveRuns": max});
    world.patch_workspace("default", limit).await;
    world.start_operator().await;
    world.workspace_ready("default", "True", "Verified").await;
    world
}

/// A run that has this id, and that only the test ends.
fn never(run_id: &str) -> Value {
    json!({"runId": run_id, "outcome": "never"})
}

/// Creates a Run of this priority. Its runID is its name.
async fn create(world: &World, name: &str, priority: i32) -> Run {
    let workload = json!({"image": "ghcr.io/acme/train:1.4", "simulate": never(name)});
    let spec = json!({"workload": workload, "priority": priority});
    world.create_run(name, spec).await
}

/// The same, and it waits for a slot.
async fn create_queued(world: &World, name: &str, priority: i32) -> Run {
    let created = create(world, name, priority).await;
    world.not_ready(name, "Queued").await;
    created
}

/// The names of these Runs in the order in which they are to be submitted.
fn in_order(mut runs: Vec<Run>) -> Vec<String> {
    runs.sort_by_key(|run| {
        let created = run.creation_timestamp().map(|time| time.0);
        (Reverse(run.spec.priority()), created, run.uid())
    });
    runs.iter().map(Run::name_any).collect()
}

/// Waits until the service has made so many runs; their ids, in the order of their creates.
async fn made(world: &World, count: usize) -> Vec<String> {
    eventually(&format!("{count} runs are made"), async || {
        let runs = world.service.runs().await;
        let id = |run: &Value| run["runId"].as_str().unwrap().to_owned();
        let ids: Vec<String> = runs.iter().map(id).collect();
        if ids.len() >= count {
            Ok(ids)
        } else {
            Err(format!("{ids:?}"))
        }
    })
    .await
}

/// Ends the runs in the order of their creates, of which so many have `ended`, each when the one before has made room for
/// another, until there are `count`. Their ids, when all Runs show their ends.
async fn end_each(world: &World, mut ended: usize, count: usize) -> Vec<String> {
    let mut ids = made(world, ended + 1).await;
    while let Some(id) = ids.get(ended) {
        world.set_state(id, "succeeded").await;
        ended += 1;
        let next = count.min(ids.len() + 1);
        ids = made(world, next).await;
    }
    for id in &ids {
        world.phase(id, Phase::Succeeded).await;
    }
    ids
}

/// How many runs were active at each create.
async fn active(world: &World) -> Vec<usize> {
    active_at_creates(&world.service.runs().await)
}

/// Waits until the operator counts so many Runs that have a slot and that wait for one, and knows this limit.
async fn slots(world: &World, wanted: [f64; 3]) {
    eventually(&format!("the slots are {wanted:?}"), async || {
        let shown = world.operator().slots().await;
        if shown == wanted {
            Ok(())
        } else {
            Err(format!("{shown:?}"))
        }
    })
    .await;
}

#[tokio::test]
async fn no_more_than_the_limit_are_active_and_the_rest_wait_by_priority_at_one_write_each() {
    let world = limited(2).await;
    let history = world.history().await;
    for name in ["first-0", "first-1"] {
        create(&world, name, 0).await;
        world.state(name, "running").await;
    }
    let mut waiting = Vec::new();
    for (name, priority) in [("low", -1), ("plain", 0), ("high", 5), ("late", 5)] {
        waiting.push(create_queued(&world, name, priority).await);
    }
    slots(&world, [2.0, 4.0, 2.0]).await;
    let order = in_order(waiting);
    let made = end_each(&world, 0, 6).await;
    assert_eq!(made[2..], order);
    assert_eq!(active(&world).await, [1, 2, 2, 2, 2, 2]);
    slots(&world, [0.0, 0.0, 2.0]).await;
    world.one_run_each().await;
    history.holds().await;
    for name in &order {
        let versions = history.of(name);
        let unsubmitted = versions.iter().take_while(|run| intent_of(run).is_none());
        // As it was created, and as it waits.
        assert_eq!(unsubmitted.count(), 2, "{name}: {versions:#?}");
    }
}

#[tokio::test]
async fn a_changed_limit_acts_at_once_and_suspension_and_deletion_leave_the_queue() {
    let world = limited(0).await;
    let limit = async |max: u32| {
        let limit = json!({"maxActiveRuns": max});
        world.patch_workspace("default", limit).await;
    };
    let mut waiting = Vec::new();
    for (name, priority) in [("suspended", 9), ("deleted", 9), ("one", 0), ("two", 0)] {
        waiting.push(create_queued(&world, name, priority).await);
    }
    let suspend = json!({"spec": {"suspend": true}});
    world.patch_run("suspended", suspend).await;
    world.not_ready("suspended", "Suspended").await;
    world.delete_run("deleted").await;
    world.gone("deleted").await;
    slots(&world, [0.0, 2.0, 0.0]).await;
    let order = in_order(waiting.split_off(2));
    limit(1).await;
    assert_eq!(made(&world, 1).await, order[..1]);
    limit(2).await;
    assert_eq!(made(&world, 2).await, order);

    // Both go on, and only when both have ended is there room for another.
    limit(1).await;
    slots(&world, [2.0, 0.0, 1.0]).await;
    create_queued(&world, "three", 0).await;
    for name in &order {
        world.set_state(name, "succeeded").await;
        world.phase(name, Phase::Succeeded).await;
    }
    made(&world, 3).await;
    let resume = json!({"spec": {"suspend": false}});
    world.patch_run("suspended", resume).await;
    world.not_ready("suspended", "Queued").await;
    let made = end_each(&world, 2, 4).await;
    assert_eq!(made[2..], ["three", "suspended"]);
    assert_eq!(active(&world).await, [1, 2, 1, 1]);
    let stats = world.service.get("stats").await;
    assert_eq!(stats["cancels"], 0, "{stats}");
}

/// Proves: P-tenancy
#[tokio::test]
async fn namespaces_share_the_slots_of_a_cluster_workspace() {
    let world = tenancy::world().await;
    let limits = async |all: u32, of_each: u32| {
        let spec = json!({
            "namespaceSelector": {}, "maxActiveRuns": all, "maxActiveRunsPerNamespace": of_each,
        });
        world.apply("", "ClusterWorkspace", "shared", spec).await;
    };
    limits(3, 1).await;
    tenancy::shared_ready(&world, "Verified").await;
    let big = Tenant::new(&world, "big", json!({})).await;
    let small = Tenant::new(&world, "small", json!({})).await;
    big.simulate("big-0", never("big-0")).await;
    big.state("big-0", "running").await;
    for name in ["big-1", "big-2"] {
        big.simulate(name, never(name)).await;
        big.not_ready(name, "Queued").await;
    }
    small.simulate("small-0", never("small-0")).await;
    small.state("small-0", "running").await;
    small.simulate("small-1", never("small-1")).await;
    small.not_ready("small-1", "Queued").await;
    limits(2, 2).await;
    slots(&world, [2.0, 3.0, 2.0]).await;
    // The youngest of those that wait: its namespace has the fewest.
    world.set_state("small-0", "succeeded").await;
    made(&world, 3).await;
    // For one more of the other namespace.
    limits(9, 2).await;
    let ids = made(&world, 4).await;
    assert_eq!(ids[..3], ["big-0", "small-0", "small-1"]);
    assert!(ids[3].starts_with("big-"), "{ids:?}");
    slots(&world, [3.0, 1.0, 9.0]).await;
    assert_eq!(active(&world).await, [1, 2, 2, 3]);
}

/// Proves: P-workspace-finalizer
#[tokio::test]
async fn a_run_of_another_controller_is_not_touched_and_holds_nothing() {
    let mut world = World::unattended(Setup::default()).await;
    let theirs = json!({"managedBy": "example.com/queue"});
    world.create_run("listed", theirs.clone()).await;
    // With one of ours a run might have been made.
    let intent = json!({"annotations": {names::INTENT_ANNOTATION: "{"}});
    let intent = json!({"metadata": intent});
    let listed = world.patch_run("listed", intent).await;
    world.start_operator().await;
    let watched = world.create_run("watched", theirs).await;
    // The watch shows this one after the others.
    let ours = json!({"managedBy": names::MANAGED_BY});
    world.create_run("ours", ours).await;
    world.phase("ours", Phase::Succeeded).await;
    world.released("ours").await;
    world.delete_workspace("default").await;
    world.workspace_gone("default").await;
    for before in [listed, watched] {
        let name = before.name_any();
        let after = world.run(&name).await;
        assert_eq!(after.resource_version(), before.resource_version());
        assert!(world.about(&name).await.is_empty(), "an Event of {name}");
        world.delete_run(&name).await;
        let left = world.runs().get_opt(&name).await.unwrap();
        assert!(left.is_none(), "{left:#?}");
    }
    assert_eq!(world.service.requests("createRun").await.len(), 1);
}

/// A slot becomes free, and a Run that goes before the others is created, while no operator looks.
#[tokio::test]
async fn a_restart_with_a_full_queue_keeps_limit_and_order() {
    let mut world = limited(1).await;
    create(&world, "first", 0).await;
    world.state("first", "running").await;
    let mut waiting = Vec::new();
    for (name, priority) in [("low", -3), ("plain", 0), ("high", 3)] {
        waiting.push(create_queued(&world, name, priority).await);
    }
    world.kill_operator();
    waiting.push(create(&world, "highest", 9).await);
    world.set_state("first", "succeeded").await;
    world.start_operator().await;
    let made = end_each(&world, 1, 5).await;
    assert_eq!(made[1..], in_order(waiting));
    assert_eq!(active(&world).await, [1; 5]);
    world.one_run_each().await;
}
