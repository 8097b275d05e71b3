//! Event streams that break in every way: no event is lost or counted twice, and the run's state is
//! mirrored all the same (rule 2).

use base64::Engine as _;
use serde_json::{Value, json};

use run_operator::api::{Phase, Run};

use crate::support::{Setup, World, eventually, held, impatient_contract, phase_of};

fn base64(bytes: &[u8]) -> String {
    base64::engine::general_purpose::STANDARD.encode(bytes)
}

/// The run of the service with this runID; null before it is made.
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
    let twice = events.windows(2).any(|two| two[0].id == two[1].id);
    assert!(!twice, "an event is shown twice: {events:?}");
    run
}

/// Proves: R2, P-stream-places, P-metrics
#[tokio::test]
async fn a_stream_that_breaks_is_resumed_after_its_last_event() {
    let world = World::with(Setup {
        operator: vec!["--contract", impatient_contract("streams-broken")],
        service: vec!["--heartbeat", "1s"],
        ..Setup::default()
    })
    .await;
    let long_line = base64(&[b'x'; 16_384]);
    let faults = [
        ("cut", json!({"afterEvents": 2, "inside": true})),
        ("ended", json!({"afterEvents": 2, "then": "end"})),
        ("gone-silent", json!({"afterEvents": 2, "then": "hang"})),
        (
            "endless-line",
            json!({"afterEvents": 2, "raw": [long_line], "repeat": 20}),
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
        assert_eq!(run.status.unwrap().state.as_deref(), Some("running"));
    }
    for (name, _) in &faults {
        let mut streams = world.service.requests("streamEvents").await;
        streams.retain(|stream| stream["runId"] == *name);
        assert!(streams.len() >= 3, "{name}: {} streams", streams.len());
        assert_eq!(streams[0]["lastEventId"], Value::Null, "{name}");
        for resumed in &streams[1..] {
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
    // Each of the four streams was broken twice, and has told its events.
    let reconnects = "run_operator_stream_reconnects_total";
    world.metric(reconnects, 8.0..).await;
    let told = "run_operator_stream_events_total";
    world.metric(told, 60.0..).await;
    world.one_run_each().await;
}

/// Nothing but the oversized events shows that the state has changed: a Run with an open stream is not polled.
/// Proves: X-sse
#[tokio::test]
async fn an_oversized_event_leads_to_a_read_by_get() {
    let world = World::with_flags(&["--poll-max", "1h"]).await;
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

/// The last event of a run comes after its end, which was read by a poll: it is one more write, and the release waits
/// for it.
/// Proves: P-last-events
#[tokio::test]
async fn events_that_come_after_the_end_are_one_more_write() {
    let world = World::new().await;
    let history = world.history().await;
    let streams = json!({"operation": "streamEvents"});
    let away = json!({"type": "answer", "status": 503});
    world.service.lasting_fault(streams, away).await;
    world
        .simulate("train", json!({"runId": "train", "logEvents": 9}))
        .await;
    let run = world.phase("train", Phase::Succeeded).await;
    assert!(held(&run), "released before its last events came");
    assert_eq!(run.status.unwrap().event_count, None);
    world.service.delete("faults").await;
    let run = world.released("train").await;
    let there = at_the_service(&world, "train").await;
    let status = run.status.unwrap();
    assert_eq!(json!(status.event_count), there["events"]);
    assert_eq!(json!(status.last_event_id), there["lastEventId"]);
    assert_eq!(status.events.len(), 10);
    // The end, the last events, the release. The watch may be behind.
    history
        .until("train", "is released", |run| !held(run))
        .await;
    let versions = history.of("train").into_iter();
    let ended = versions.filter(|run| phase_of(run) == Some(Phase::Succeeded));
    let ended = ended.count();
    assert!((2..=3).contains(&ended), "{ended} versions from the end on");
    history.holds().await;
}
