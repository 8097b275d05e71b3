//! The cost of a Run: Kubernetes writes from the API server's own counters, calls from the service's. The tests watch
//! instead of reading, so that every read and write counted is the operator's.

use std::collections::BTreeMap;

use kube::ResourceExt;
use run_operator::api::Phase;
use serde_json::{Value, json};

use crate::support::{Plane, Setup, World, eventually, phase_of};

/// Requests for the resource `runs` by verb and subresource.
type Counts = BTreeMap<(String, String), u64>;

const WRITES: [&str; 5] = ["POST", "PUT", "PATCH", "DELETE", "APPLY"];
const READS: [&str; 2] = ["GET", "LIST"];

fn label<'a>(series: &'a str, name: &str) -> &'a str {
    let rest = series
        .split_once(&format!("{name}=\""))
        .map_or("", |split| split.1);
    rest.split_once('"').map_or("", |split| split.0)
}

/// The requests for a resource until now, by the API server's own counters.
async fn counted(world: &World, group: &str, resource: &str) -> Counts {
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

const RUNS: (&str, &str) = ("run-operator.dev", "runs");

/// A world whose Runs are read only when an event says that they have changed, and are held in each state until the test
/// lets them go on.
async fn held() -> World {
    let world = World::with(Setup {
        plane: Plane::Alone,
        operator: vec!["--poll-min", "1h", "--poll-max", "1h"],
        ..Setup::default()
    })
    .await;
    world.event("default", "Ready").await;
    world.service.post("hold", json!({})).await;
    world
}

/// Proves: P-events-bounded, B-writes, B-events, B-calls
#[tokio::test]
async fn a_runs_whole_life_stays_within_the_budget() {
    const STATES: [&str; 4] = ["queued", "provisioning", "running", "succeeded"];
    let world = held().await;
    let history = world.history().await;
    let before = counted(&world, RUNS.0, RUNS.1).await;
    let told_before = counted(&world, "", "events").await;
    world.simulate("train", json!({"runId": "train"})).await;
    for state in STATES {
        if state == STATES[0] {
            world.asked("streamEvents", 1).await;
        } else {
            world.service.post("runs/train/advance", json!({})).await;
        }
        history
            .until("train", state, |run| {
                let status = run.status.as_ref();
                status.is_some_and(|status| status.state.as_deref() == Some(state))
            })
            .await;
    }
    history
        .until("train", "is released", |run| {
            phase_of(run) == Some(Phase::Succeeded) && run.finalizers().is_empty()
        })
        .await;
    let after = counted(&world, RUNS.0, RUNS.1).await;
    world.event("train", "Succeeded").await;
    let told = counted(&world, "", "events").await;
    let told = since(&told_before, &told, &WRITES);
    assert_eq!(told.values().sum::<u64>(), 2, "{told:?}");
    // The first state comes with the acceptance.
    let changes = STATES.len() as u64 - 1;
    let writes = since(&before, &after, &WRITES);
    let of = |verb: &str, part: &str| (verb.to_owned(), part.to_owned());
    let budget = [
        (of("PATCH", ""), 2),
        (of("PATCH", "status"), 1 + changes),
        // The test's own create.
        (of("POST", ""), 1),
    ];
    assert_eq!(writes, Counts::from(budget));
    assert_eq!(since(&before, &after, &READS), Counts::new());
    let run = world.service.runs().await.remove(0);
    let calls = |field: &str| run[field].as_u64().unwrap();
    assert_eq!(["posts", "streams", "cancels"].map(calls), [1, 1, 0]);
    assert!(calls("gets") <= changes, "{run}");
    history.holds().await;
}

/// Proves: B-idle
#[tokio::test]
async fn idle_runs_cost_no_write_however_often_they_are_polled() {
    let world = World::with(Setup {
        plane: Plane::Alone,
        ..Setup::default()
    })
    .await;
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
    let before = counted(&world, RUNS.0, RUNS.1).await;
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
    let after = counted(&world, RUNS.0, RUNS.1).await;
    assert_eq!(since(&before, &after, &WRITES), Counts::new());
    assert_eq!(since(&before, &after, &READS), Counts::new());
    history.holds().await;
}
