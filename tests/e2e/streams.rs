//! Event streams that break in every way: no event is lost or counted twice, and the run's state is
//! mirrored all the same (rule 2).

use base64::Engine as _;
use serde_json::{Value, json};

use run_operator::api::{ConditionType as Type, Phase, Run};

use crate::faults::impatient;
use crate::support::{Setup, World, condition_of, eventually, holds_for_a_while};

fn base64(bytes: &[u8]) -> String {
    base64::engine::general_purpose::STANDARD.encode(bytes)
}

/// The run of the service with this runId; null before it is made.
async fn at_the_service(world: &World, run_id: &str) -> Value {
    let runs = world.service.runs().await;
    let run = runs.into_iter().find(|run| run["runId"] == run_id);
    run.unwrap_or_default()
}

/// Waits until the status shows every event of the service, so many at least, each counted once.
async fn every_event_is_counted_once(world: &World, name: &str, at_least: i64) -> Run {
    let what = format!("every event of {name} is counted");
    let run = eventually(&what, async || {
        let run = world.run(name).await;
        let status = run.status.clone().unwrap_or_default();
        let there = at_the_service(world, name).await;
        let count = status.event_count.unwrap_or_default();
        let Some(all) = there["events"].as_i64() else {
            return Err("no run yet".to_owned());
        };
        assert!(count <= all, "{name}: {count} of {all} events were counted");
        if count >= at_least
            && count == all
            && status.last_event_id.as_deref() == there["lastEventId"].as_str()
        {
            Ok(run)
        } else {
            Err(format!("{count} of {all}, last {:?}", status.last_event_id))
        }
    })
    .await;
    let events = &run.status.as_ref().unwrap().events;
    let mut ids: Vec<_> = events.iter().map(|event| event.id.clone()).collect();
    ids.dedup();
    assert_eq!(
        ids.len(),
        events.len(),
        "an event is shown twice: {events:?}"
    );
    run
}

/// Proves: R2, X-sse-idle
#[tokio::test]
async fn a_stream_that_breaks_is_resumed_after_its_last_event() {
    let world = impatient("streams-broken").await;
    let long_line = base64(&[b'x'; 16_384]);
    let long_data = base64(format!("data: {}\n", "x".repeat(60_000)).as_bytes());
    let faults = [
        ("cut", json!({"afterEvents": 2})),
        (
            "cut-in-an-event",
            json!({"afterEvents": 2, "inside": "event"}),
        ),
        (
            "cut-in-a-character",
            json!({"afterEvents": 1, "inside": "character"}),
        ),
        ("ended", json!({"afterEvents": 2, "then": "end"})),
        ("gone-silent", json!({"afterEvents": 2, "then": "hang"})),
        (
            "endless-line",
            json!({"afterEvents": 2, "raw": [long_line], "repeat": 20}),
        ),
        (
            "endless-event",
            json!({"afterEvents": 2, "raw": [long_data], "repeat": 6}),
        ),
        (
            "byte-order-mark",
            json!({"raw": [base64(b"\xef\xbb\xbf")], "then": "continue"}),
        ),
        (
            "no-utf-8",
            json!({"afterEvents": 2, "raw": [base64(b": \xff\xfe\x80\n")], "then": "cut"}),
        ),
    ];
    for (name, script) in &faults {
        let mut action = script.clone();
        action["type"] = json!("stream");
        let met = json!({"match": {"operation": "streamEvents", "runId": name}, "action": action, "times": 2});
        world.service.post("faults", met).await;
        let states = json!(["queued", "größer", {"state": "running", "forMs": 2000}]);
        let simulate = json!({"runId": name, "states": states, "logEvents": 12});
        world.simulate(name, simulate).await;
    }
    for (name, _) in &faults {
        let run = every_event_is_counted_once(&world, name, 15).await;
        assert_eq!(
            run.status.as_ref().unwrap().state.as_deref(),
            Some("running"),
            "{name}"
        );
    }
    for (name, _) in faults.iter().filter(|(name, _)| *name != "byte-order-mark") {
        let streams = world.service.requests("streamEvents").await;
        let of_this: Vec<_> = streams.iter().filter(|s| s["runId"] == *name).collect();
        assert!(of_this.len() >= 3, "{name}: {} streams", of_this.len());
        assert_eq!(of_this[0]["lastEventId"], Value::Null, "{name}");
        for resumed in &of_this[1..] {
            assert!(resumed["lastEventId"].is_string(), "{name}: {resumed}");
        }
    }
    // Nothing that comes again later is counted again.
    world.service.delete("streams").await;
    for (name, _) in &faults {
        every_event_is_counted_once(&world, name, 15).await;
    }
    let log = world.operator_log();
    assert!(log.contains("larger than the contract file allows"));
    world.one_run_each().await;
}

/// Proves: P-metrics
#[tokio::test]
async fn streams_that_are_cut_again_and_again_lose_nothing_and_resume() {
    let world = World::new().await;
    let simulate = json!({"runId": "train", "states": [{"state": "running", "forMs": 4000}], "logEvents": 200});
    world.simulate("train", simulate).await;
    world.state("train", "running").await;
    for cut in 1..=5 {
        eventually("the stream is open", async || {
            let stats = world.service.get("stats").await;
            if stats["openStreams"] == 1 {
                Ok(())
            } else {
                Err(stats)
            }
        })
        .await;
        world.service.delete("streams").await;
        world.asked("streamEvents", cut + 1).await;
    }
    let run = every_event_is_counted_once(&world, "train", 201).await;
    assert_eq!(run.status.unwrap().state.as_deref(), Some("running"));
    let streams = world.service.requests("streamEvents").await;
    let mut after: Vec<u64> = Vec::new();
    for resumed in &streams[1..] {
        let id = resumed["lastEventId"]
            .as_str()
            .unwrap_or_else(|| panic!("{resumed}"));
        let digits: String = id.chars().filter(char::is_ascii_digit).collect();
        after.push(digits.parse().unwrap());
    }
    assert!(after.is_sorted(), "the cursor went back: {after:?}");
    for (metric, least) in [
        ("run_operator_stream_reconnects_total", 5.0),
        ("run_operator_stream_events_total", 201.0),
    ] {
        let counted = world.operator().metric(metric).await;
        assert!(counted >= least, "{metric} {counted}");
    }
}

/// Proves: P-events-bounded, P-events-coalesce
#[tokio::test]
async fn a_flood_of_events_costs_few_writes_and_few_reads() {
    let world = World::with(Setup {
        operator: vec!["--service-events"],
        ..Setup::default()
    })
    .await;
    let history = world.history().await;
    // Long enough that a write for each read would show.
    let simulate = json!({"runId": "train", "runTimeMs": 12_000, "logEvents": 1000});
    world.simulate("train", simulate).await;
    let run = world.phase("train", Phase::Succeeded).await;
    world.released("train").await;
    let count = run.status.unwrap().event_count.unwrap();
    assert!(count >= 1000, "{count} events");
    history.holds().await;
    // Every write makes a version: the test's own, intent, five states, the events between, the release.
    let versions = history.of("train").len();
    assert!(versions <= 12, "{versions} versions for {count} events");
    let told = world.events("train", "ServiceEvent").await.len();
    assert!((1..=5).contains(&told), "{told} Events for {count} events");
    let reads = world.service.count("getRun").await;
    assert!(reads <= 22, "{reads} reads for {count} events");
}

/// Proves: P-poll
#[tokio::test]
async fn beyond_the_bound_on_streams_runs_are_polled() {
    let world = World::with(Setup {
        operator: vec!["--max-streams", "1"],
        ..Setup::default()
    })
    .await;
    let names = ["one", "two", "three", "four"];
    for name in names {
        world
            .simulate(name, json!({"runId": name, "outcome": "never"}))
            .await;
    }
    for name in names {
        world.state(name, "running").await;
    }
    holds_for_a_while(20, async || {
        assert!(
            world.service.get("stats").await["openStreams"]
                .as_u64()
                .unwrap()
                <= 1
        );
    })
    .await;
    assert!((world.operator().metric("run_operator_open_streams").await - 1.0).abs() < 0.1);
    for name in names {
        let quiet = json!({"state": "processing", "event": false});
        world
            .service
            .post(&format!("runs/{name}/state"), quiet)
            .await;
    }
    for name in names {
        let run = world.state(name, "processing").await;
        assert_eq!(condition_of(&run, Type::Synced).unwrap().status, "True");
    }
    world.one_run_each().await;
    // The stream that becomes free is somebody else's.
    let streams = world.service.requests("streamEvents").await;
    let first = streams[0]["runId"].as_str().unwrap().to_owned();
    world.delete_run(&first).await;
    world.gone(&first).await;
    eventually("another Run has the stream", async || {
        let streams = world.service.requests("streamEvents").await;
        if streams.iter().any(|s| s["runId"] != first.as_str()) {
            Ok(())
        } else {
            Err("none")
        }
    })
    .await;
}

/// Nothing but the oversized events shows that the state has changed: a Run with an open stream is not polled.
/// Proves: X-sse-caps
#[tokio::test]
async fn an_oversized_event_leads_to_a_read_by_get() {
    let world = World::with(Setup {
        operator: vec!["--poll-max", "1h"],
        ..Setup::default()
    })
    .await;
    let oversized = base64(format!("data: {}\n\n", "x".repeat(70_000)).as_bytes());
    let action = json!({
        "type": "stream", "afterEvents": 2, "raw": [oversized], "repeat": 60, "gapMs": 1000, "then": "continue",
    });
    let fault = json!({"match": {"operation": "streamEvents"}, "action": action});
    world.service.post("faults", fault).await;
    let simulate = json!({"runId": "train", "outcome": "never"});
    world.simulate("train", simulate).await;
    world.state("train", "running").await;
    let quiet = json!({"state": "processing", "event": false});
    world.service.post("runs/train/state", quiet).await;
    world.state("train", "processing").await;
    let streams = world.service.requests("streamEvents").await;
    assert_eq!(streams.len(), 1, "the stream continues");
}

#[tokio::test]
async fn events_without_id_or_state_are_counted_and_lead_to_a_read() {
    let world = World::new().await;
    world
        .simulate("train", json!({"runId": "train", "outcome": "never"}))
        .await;
    world.state("train", "running").await;
    every_event_is_counted_once(&world, "train", 3).await;
    let quiet = json!({"state": "odd", "event": false});
    world.service.post("runs/train/state", quiet).await;
    let nameless = json!({"type": "note", "data": "no state here", "withoutId": true});
    world.service.post("runs/train/events", nameless).await;
    let run = world.state("train", "odd").await;
    assert_eq!(run.status.unwrap().phase, Some(Phase::Active));
    let note = world.event("train", "UnmappedState").await;
    assert!(
        note.contains("\"odd\"") && note.contains("contract file"),
        "{note}"
    );
}
