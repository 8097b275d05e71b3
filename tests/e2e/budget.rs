//! The cost of a Run: Kubernetes writes from the API server's own counters, calls from the service's. Each
//! test has a control plane to itself, and watches instead of reading, so that every read and write counted
//! is the operator's.

use std::collections::BTreeMap;

use run_operator::api::Phase;
use serde_json::{Value, json};

use crate::support::{Setup, World, eventually, held, own_control_plane, phase_of};

/// Requests for the resource `runs` by verb and subresource.
type Counts = BTreeMap<(String, String), u64>;

const WRITES: [&str; 5] = ["POST", "PUT", "PATCH", "DELETE", "APPLY"];
const READS: [&str; 2] = ["GET", "LIST"];

async fn world_of_its_own() -> World {
    let own = own_control_plane().await;
    World::with(Setup {
        control_plane: Some(own),
        ..Setup::default()
    })
    .await
}

fn label<'a>(series: &'a str, name: &str) -> &'a str {
    let rest = series
        .split_once(&format!("{name}=\""))
        .map_or("", |split| split.1);
    rest.split_once('"').map_or("", |split| split.0)
}

async fn counted(world: &World) -> Counts {
    requests(world, "run-operator.dev", "runs").await
}

async fn requests(world: &World, group: &str, resource: &str) -> Counts {
    let text = world.control_plane.metrics().await.unwrap();
    let mut counts = Counts::new();
    let of_runs = |line: &&str| {
        line.starts_with("apiserver_request_total{")
            && label(line, "group") == group
            && label(line, "resource") == resource
    };
    for line in text.lines().filter(of_runs) {
        let (series, value) = line.rsplit_once(' ').unwrap();
        let key = (
            label(series, "verb").to_owned(),
            label(series, "subresource").to_owned(),
        );
        *counts.entry(key).or_default() += value.parse::<u64>().unwrap();
    }
    counts
}

/// The counts since `before`, for these verbs.
fn since(before: &Counts, after: &Counts, verbs: &[&str]) -> Counts {
    let grown = after.iter().map(|(key, count)| {
        let earlier = before.get(key).copied().unwrap_or_default();
        (key.clone(), count - earlier)
    });
    grown
        .filter(|((verb, _), count)| verbs.contains(&verb.as_str()) && *count > 0)
        .collect()
}

fn of(counts: &Counts, verb: &str, subresource: &str) -> u64 {
    counts
        .get(&(verb.to_owned(), subresource.to_owned()))
        .copied()
        .unwrap_or_default()
}

/// Proves: P-events-bounded, B-writes, B-events, B-calls
#[tokio::test]
async fn a_runs_whole_life_stays_within_the_budget() {
    let world = world_of_its_own().await;
    let history = world.history().await;
    world.event("default", "Ready").await;
    let before = counted(&world).await;
    let told_before = requests(&world, "", "events").await;
    // Longer than the second that lies between two reads of a run, shorter than a poll interval.
    let pace = json!({"queueTimeMs": 2000, "provisionTimeMs": 2000, "runTimeMs": 2000});
    world.simulate("train", pace).await;
    history
        .until("train", "has ended and is released", |run| {
            phase_of(run) == Some(Phase::Succeeded) && !held(run)
        })
        .await;
    let after = counted(&world).await;
    world.event("train", "Succeeded").await;
    let told = requests(&world, "", "events").await;
    let told = since(&told_before, &told, &WRITES);
    let versions = history.of("train");
    let mut states: Vec<String> = versions
        .iter()
        .filter_map(|run| run.status.as_ref()?.state.clone())
        .collect();
    states.dedup();
    assert_eq!(states, ["queued", "provisioning", "running", "succeeded"]);
    // The first state comes with the acceptance.
    let changes = states.len() as u64 - 1;
    let writes = since(&before, &after, &WRITES);
    let reads = since(&before, &after, &READS);
    let run = world.service.runs().await.remove(0);
    let calls = |field: &str| run[field].as_u64().unwrap();
    println!("one Run through {changes} state changes      budget  measured");
    println!(
        "  finalizer (PATCH runs)               2  {:>8}",
        of(&writes, "PATCH", "")
    );
    println!(
        "  status (PATCH runs/status)     1+n = {}  {:>8}",
        1 + changes,
        of(&writes, "PATCH", "status")
    );
    println!(
        "  reads beyond the watch               0  {:>8}",
        reads.values().sum::<u64>()
    );
    println!(
        "  POST /runs                           1  {:>8}",
        calls("posts")
    );
    println!(
        "  streams                              1  {:>8}",
        calls("streams")
    );
    println!(
        "  GET /runs/{{runId}}              <= n = {changes}  {:>8}",
        calls("gets")
    );
    println!(
        "  Events (POST events)                 2  {:>8}",
        of(&told, "POST", "")
    );
    assert_eq!(told.values().sum::<u64>(), 2, "{told:?}");
    assert_eq!(of(&writes, "PATCH", ""), 2, "{writes:?}");
    assert_eq!(of(&writes, "PATCH", "status"), 1 + changes, "{writes:?}");
    assert_eq!(of(&writes, "POST", ""), 1, "the test's own create");
    assert_eq!(
        writes.values().sum::<u64>(),
        2 + 1 + changes + 1,
        "{writes:?}"
    );
    assert!(reads.is_empty(), "{reads:?}");
    assert_eq!(calls("posts"), 1);
    assert_eq!(calls("streams"), 1);
    assert_eq!(calls("cancels"), 0);
    assert!(
        calls("gets") <= changes,
        "{} GETs for {changes} changes",
        calls("gets")
    );
    history.holds().await;
}

#[tokio::test]
async fn a_deletion_costs_a_status_for_each_change_and_one_release() {
    let world = world_of_its_own().await;
    let history = world.history().await;
    world.simulate("train", json!({"outcome": "never"})).await;
    history
        .until("train", "is running", |run| {
            run.status.as_ref().and_then(|s| s.state.as_deref()) == Some("running")
        })
        .await;
    let before = counted(&world).await;
    world.delete_run("train").await;
    history.gone("train").await;
    let after = counted(&world).await;
    let writes = since(&before, &after, &WRITES);
    println!("a deletion: {writes:?}");
    assert_eq!(of(&writes, "DELETE", ""), 1, "the test's own");
    assert_eq!(of(&writes, "PUT", ""), 1, "{writes:?}");
    // Cancelling; the cancel accepted; cancelling at the service, which is looked at at once; cancelled.
    assert!(of(&writes, "PATCH", "status") <= 4, "{writes:?}");
    assert!(since(&before, &after, &READS).is_empty());
}

/// Proves: B-idle
#[tokio::test]
async fn idle_runs_cost_no_write_however_often_they_are_polled() {
    let world = world_of_its_own().await;
    let history = world.history().await;
    let names: Vec<String> = (0..20).map(|n| format!("train-{n}")).collect();
    for name in &names {
        world.simulate(name, json!({"outcome": "never"})).await;
    }
    for name in &names {
        history
            .until(name, "is mirrored to its last event", |run| {
                let status = run.status.as_ref();
                status.is_some_and(|s| {
                    let last = s.events.last().and_then(|event| event.data.as_deref());
                    s.state.as_deref() == Some("running")
                        && last.is_some_and(|data| data.contains("\"running\""))
                })
            })
            .await;
    }
    let before = counted(&world).await;
    let polled = async || {
        let gets = |run: Value| run["gets"].as_u64().unwrap();
        world
            .service
            .runs()
            .await
            .into_iter()
            .map(gets)
            .collect::<Vec<u64>>()
    };
    let first = polled().await;
    assert_eq!(first.len(), names.len());
    eventually("every run is polled three times more", async || {
        let now = polled().await;
        let enough = first.iter().zip(&now).all(|(first, now)| now - first >= 3);
        if enough {
            Ok(())
        } else {
            Err(format!("{now:?} after {first:?}"))
        }
    })
    .await;
    let after = counted(&world).await;
    assert_eq!(since(&before, &after, &WRITES), Counts::new());
    assert_eq!(since(&before, &after, &READS), Counts::new());
    history.holds().await;
}
