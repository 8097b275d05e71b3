//! The cost of a Run: the operator's requests from the API server's audit log, its calls from the service's ledger.

use serde_json::{Value, json};

use crate::support::{Audit, Plane, Setup, World, eventually};

/// The operator's requests for a resource until now, but its watches: verb and subresource.
fn requests(world: &World, resource: &str) -> Vec<String> {
    let mut requests = Audit::of(world).all_requests();
    requests.retain(|request| {
        request["objectRef"]["resource"] == resource && request["verb"] != "watch"
    });
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let named = |request: &Value| {
        let part = text(&request["objectRef"]["subresource"]);
        format!("{} {resource}/{part}", text(&request["verb"]))
    };
    requests.iter().map(named).collect()
}

/// Runs are read only when an event says that they have changed, and are held in each state until the test lets them go
/// on.
/// Proves: P-events, B-writes
#[tokio::test]
async fn a_runs_whole_life_stays_within_the_budget() {
    const STATES: [&str; 4] = ["queued", "provisioning", "running", "succeeded"];
    let world = World::with(Setup {
        plane: Plane::Alone,
        operator: vec!["--poll-min", "1h", "--poll-max", "1h"],
        ..Setup::default()
    })
    .await;
    world.event("default", "Ready").await;
    world.service.post("hold", json!({})).await;
    let before = ["runs", "events"].map(|resource| requests(&world, resource).len());
    world.simulate("train", json!({"runId": "train"})).await;
    world.asked("streamEvents", 1).await;
    world.state("train", STATES[0]).await;
    for state in &STATES[1..] {
        world.service.post("runs/train/advance", json!({})).await;
        world.state("train", state).await;
    }
    world.released("train").await;
    world.event("train", "Succeeded").await;
    let told = requests(&world, "events").split_off(before[1]);
    assert_eq!(told, ["create events/"; 2]);
    let mut writes = requests(&world, "runs").split_off(before[0]);
    writes.sort();
    // The intent and the release; the acceptance with the first state, and each change.
    let statuses = vec!["patch runs/status"; STATES.len()];
    assert_eq!(writes, [vec!["patch runs/"; 2], statuses].concat());
    let run = world.service.runs().await.remove(0);
    let calls = |field: &str| run[field].as_u64().unwrap();
    assert_eq!(["posts", "streams", "cancels"].map(calls), [1, 1, 0]);
    assert!(calls("gets") < STATES.len() as u64, "{run}");
}

/// Proves: B-writes
#[tokio::test]
async fn idle_runs_cost_no_write_however_often_they_are_polled() {
    let world = World::with(Setup {
        plane: Plane::Alone,
        ..Setup::default()
    })
    .await;
    let names: Vec<String> = (0..20).map(|n| format!("train-{n}")).collect();
    for name in &names {
        world.simulate(name, json!({"outcome": "never"})).await;
    }
    for name in &names {
        let mirrored = world.run_until(name, "is mirrored to its last event", |run| {
            let status = run.status.as_ref();
            let last = status.and_then(|status| status.events.last()?.data.as_deref());
            status.is_some_and(|status| status.state.as_deref() == Some("running"))
                && last.is_some_and(|data| data.contains("\"running\""))
        });
        mirrored.await;
    }
    let before = requests(&world, "runs");
    let polled = async || {
        let runs = world.service.runs().await;
        let gets = runs.iter().map(|run| run["gets"].as_u64().unwrap());
        gets.collect::<Vec<u64>>()
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
    assert_eq!(requests(&world, "runs"), before);
}
