//! More Runs than places for streams: places are shared by namespace, and a Run without one is polled and shows it
//! once. And the connections of streams.

use std::collections::HashMap;

use serde_json::{Value, json};

use run_operator::api::{ConditionType as Type, Phase, Run};

use crate::support::{History, Setup, TOKEN, World, condition_of, eventually, phase_of};

/// The number of times that each run's stream was opened.
async fn streams(world: &World) -> HashMap<String, u64> {
    let runs = world.service.runs().await;
    let of = |run: &Value| {
        let name = run["runId"].as_str().unwrap().to_owned();
        (name, run["streams"].as_u64().unwrap())
    };
    runs.iter().map(of).collect()
}

/// The number of reads of each run.
async fn reads(world: &World) -> HashMap<String, u64> {
    let mut reads = HashMap::new();
    for read in world.service.requests("getRun").await {
        *reads
            .entry(read["runId"].as_str().unwrap().to_owned())
            .or_default() += 1;
    }
    reads
}

async fn simulate(world: &World, namespace: &str, name: &str) {
    let simulate = json!({"runId": name, "outcome": "never"});
    let spec = json!({"workload": {"image": "i", "simulate": simulate}});
    world.apply(namespace, "Run", name, spec).await;
}

/// The reason of Synced: `Polled`, if the Run is polled for lack of a place.
fn synced(run: &Run) -> Option<String> {
    condition_of(run, Type::Synced).map(|c| c.reason)
}

/// Waits until each of these runs has had a stream.
async fn have_streams(world: &World, names: &[&str]) {
    eventually("each of the runs had a stream", async || {
        let now = streams(world).await;
        let opened = names.iter().all(|n| now.get(*n) >= Some(&1));
        opened.then_some(()).ok_or(format!("{now:?}"))
    })
    .await;
}

/// Places, and Runs of one namespace.
const PLACES: u32 = 4;
const WANTING: usize = 12;

/// Proves: P-stream-places
#[tokio::test]
async fn places_are_shared_by_namespace_and_who_has_none_is_polled() {
    let limit: &'static str = PLACES.to_string().leak();
    let other: &'static str = format!("t-{}", uuid::Uuid::new_v4().simple()).leak();
    let mut world = World::unattended(Setup {
        operator: vec!["--max-streams", limit, "--namespace", other],
        ..Setup::default()
    })
    .await;
    world.create_namespace(other, json!({})).await;
    let token = json!({"token": TOKEN});
    world.secret_in(other, "run-operator-token", token).await;
    world.apply(other, "Workspace", "default", json!({})).await;
    world.start_operator().await;
    let history = world.history().await;
    let many: Vec<String> = (0..WANTING).map(|n| format!("many-{n}")).collect();
    for name in &many {
        simulate(&world, &world.namespace, name).await;
    }
    for name in &many {
        world.state(name, "running").await;
    }
    for name in ["few-0", "few-1"] {
        simulate(&world, other, name).await;
    }
    have_streams(&world, &["few-0", "few-1"]).await;
    let now = streams(&world).await;
    let of_the_many = many.iter().map(|name| now[name]).sum::<u64>();
    assert!(
        of_the_many <= WANTING as u64,
        "it did not wait for a turn of all"
    );
    for name in &many {
        // With a stream, or polled.
        world
            .run_until(name, "is mirrored", |run| {
                condition_of(run, Type::Synced).is_some_and(|c| c.status == "True")
            })
            .await;
    }
    // Those that have none are read again, whatever the others do.
    let now = streams(&world).await;
    let without = many.iter().filter(|name| now[*name] == 0);
    let without: Vec<&String> = without.collect();
    assert!(without.len() >= WANTING - PLACES as usize, "{now:?}");
    let before = reads(&world).await;
    eventually("each of the others was read", async || {
        let now = reads(&world).await;
        let unread = without
            .iter()
            .filter(|name| now.get(**name) == before.get(**name));
        let unread = unread.count();
        if unread == 0 { Ok(()) } else { Err(unread) }
    })
    .await;
    let stats = world.service.get("stats").await;
    let open = stats["openStreams"].as_u64().unwrap();
    assert!(open <= u64::from(PLACES), "{stats}");
    let limit = world.operator().metric("run_operator_stream_limit");
    assert_eq!(limit.await, f64::from(PLACES));
    let mut polled = 0;
    for name in &many {
        let mut said: Vec<_> = history.of(name).iter().filter_map(synced).collect();
        said.dedup();
        let times = said.iter().filter(|reason| *reason == "Polled").count();
        assert!(times <= 1, "{name} said it {times} times");
        polled += times;
    }
    assert!(
        (WANTING - PLACES as usize..=WANTING).contains(&polled),
        "{polled} say that they are polled"
    );
    // A place that becomes free goes to one that waits.
    for name in many.iter().filter(|name| !without.contains(name)) {
        end(&world, &history, name).await;
    }
    eventually("others have a stream", async || {
        let now = streams(&world).await;
        let opened = without.iter().filter(|name| now[**name] >= 1).count();
        if opened >= 2 { Ok(()) } else { Err(opened) }
    })
    .await;
    history.holds().await;
    assert_eq!(world.service.runs().await.len(), WANTING + 2);
}

/// Ends a run, and waits until the history has its end.
async fn end(world: &World, history: &History, name: &str) {
    world.set_state(name, "succeeded").await;
    let ended = |run: &Run| phase_of(run) == Some(Phase::Succeeded);
    history.until(name, "has ended", ended).await;
}

/// Each Run waits until a poll has shown that it is running and one more has ended. On a machine that is busy this may
/// take two seconds: one that did not is enough.
/// Proves: P-stream-places
#[tokio::test]
async fn a_short_wait_for_a_place_is_not_shown() {
    let world = World::with_flags(&["--max-streams", "1"]).await;
    let history = world.history().await;
    for n in 0..10 {
        let [holder, waits] = ["holder", "waits"].map(|name| format!("{name}-{n}"));
        simulate(&world, &world.namespace, &holder).await;
        have_streams(&world, &[&holder]).await;
        simulate(&world, &world.namespace, &waits).await;
        world.state(&waits, "running").await;
        assert_eq!(streams(&world).await[&waits], 0, "it waits for a place");
        end(&world, &history, &holder).await;
        have_streams(&world, &[&waits]).await;
        end(&world, &history, &waits).await;
        let said = history.of(&waits);
        let said = said.iter().filter_map(synced);
        if said.filter(|reason| reason == "Polled").count() == 0 {
            return;
        }
    }
    panic!("each wait was shown");
}

/// Proves: P-files
#[tokio::test]
async fn with_h2c_the_streams_of_many_runs_share_a_connection() {
    const RUNS: u64 = 20;
    let world = World::with_flags(&["--h2c"]).await;
    let names: Vec<String> = (0..RUNS).map(|n| format!("train-{n}")).collect();
    for name in &names {
        simulate(&world, &world.namespace, name).await;
    }
    world.open_streams(RUNS).await;
    // Those of the calls, of the checks and of this test are few.
    let stats = world.service.get("stats").await;
    let connections = stats["openConnections"].as_u64().unwrap();
    assert!(connections < RUNS, "{stats}");
}

/// Proves: P-stream-places
#[tokio::test]
async fn a_service_without_streams_is_asked_for_one_in_each_state() {
    let world = World::new().await;
    let streams = json!({"operation": "streamEvents"});
    let none = json!({"type": "answer", "status": 204});
    world.service.lasting_fault(streams, none).await;
    world.running("train").await;
    let reads = usize::try_from(world.service.count("getRun").await).unwrap();
    world.asked("getRun", reads + 5).await;
    world.set_state("train", "succeeded").await;
    world.released("train").await;
    let opened = world.service.requests("streamEvents").await.len();
    // Queued, running and ended.
    assert!((1..=3).contains(&opened), "{opened} streams were asked for");
}

/// Proves: P-stream-places
#[tokio::test]
async fn reconnects_of_a_stream_that_only_replays_back_off() {
    use base64::Engine as _;
    let world = World::new().await;
    let event = "id: always-the-same\nevent: note\ndata: {\"state\":\"running\"}\n\n";
    let raw = base64::engine::general_purpose::STANDARD.encode(event);
    let action = json!({"type": "stream", "raw": [raw], "then": "end"});
    let streams = json!({"operation": "streamEvents"});
    world.service.lasting_fault(streams, action).await;
    world.running("train").await;
    // Polls are three seconds apart after some time.
    let reads = usize::try_from(world.service.count("getRun").await).unwrap();
    world.asked("getRun", reads + 8).await;
    let opened = world.service.requests("streamEvents").await.len();
    assert!(opened <= 8, "{opened} streams for one event");
    assert_eq!(
        world.run("train").await.status.unwrap().event_count,
        Some(1)
    );
}
