//! The last events of runs whose streams break shortly before the end.

use run_operator::api::{Phase, Run};
use serde_json::{Value, json};

use crate::support::{History, World, eventually, held, phase_of};

/// queued, provisioning and running, nine lines of a log, and the end.
const EVENTS: i64 = 13;

fn thirteen(name: &str) -> Value {
    json!({"runId": name, "queueTimeMs": 200, "provisionTimeMs": 200, "runTimeMs": 3000, "logEvents": 9})
}

fn streams() -> Value {
    json!({"operation": "streamEvents"})
}

/// Asserts of a released Run that all events are counted, and the last ten are shown.
fn shows_all(run: &Run) {
    let name = run.metadata.name.as_deref().unwrap_or_default();
    let status = run.status.as_ref().unwrap();
    assert_eq!(status.event_count, Some(EVENTS), "{name}");
    let ids: Vec<&str> = status
        .events
        .iter()
        .filter_map(|e| e.id.as_deref())
        .collect();
    let last: Vec<String> = (4..=EVENTS).map(|n| format!("{name}-{n:05}")).collect();
    assert_eq!(ids, last, "{name}");
    assert_eq!(
        status.last_event_id.as_deref(),
        last.last().map(String::as_str)
    );
}

/// Asserts that the versions after the end are few: the end, the last events, the release.
async fn few_writes_after_the_end(history: &History, name: &str) {
    // The watch may be behind.
    history.until(name, "is released", |run| !held(run)).await;
    let versions = history.of(name);
    let ended = versions
        .iter()
        .filter(|run| phase_of(run) == Some(Phase::Succeeded));
    let ended = ended.count();
    assert!((2..=3).contains(&ended), "{ended} versions from the end on");
}

/// Proves: P-last-events
#[tokio::test]
async fn streams_cut_after_every_four_events_lose_none_of_the_last() {
    let world = World::new().await;
    let history = world.history().await;
    let cut = json!({"type": "stream", "afterEvents": 4});
    world.service.lasting_fault(streams(), cut).await;
    let names: Vec<String> = (0..5).map(|n| format!("train-{n}")).collect();
    for name in &names {
        world.simulate(name, thirteen(name)).await;
    }
    for name in &names {
        world.phase(name, Phase::Succeeded).await;
        shows_all(&world.released(name).await);
        few_writes_after_the_end(&history, name).await;
    }
    history.holds().await;
    world.one_run_each().await;
}

/// A world whose service serves no stream, with a run that has ended and is not released yet.
async fn ended_without_events() -> World {
    let world = World::new().await;
    let away = json!({"type": "answer", "status": 503});
    world.service.lasting_fault(streams(), away).await;
    world.simulate("train", thirteen("train")).await;
    let run = world.phase("train", Phase::Succeeded).await;
    assert!(held(&run), "released before its last events came");
    assert_eq!(
        run.status.unwrap().event_count,
        None,
        "the end was written at once"
    );
    world
}

/// Proves: P-last-events
#[tokio::test]
async fn events_that_come_after_the_end_are_one_more_write() {
    let world = ended_without_events().await;
    let history = world.history().await;
    world.service.delete("faults").await;
    shows_all(&world.released("train").await);
    few_writes_after_the_end(&history, "train").await;
    history.holds().await;
}

/// Proves: P-last-events
#[tokio::test]
async fn killed_between_end_and_last_write_it_reads_the_last_events() {
    let mut world = ended_without_events().await;
    let history = world.history().await;
    world.kill_operator();
    assert!(held(&world.run("train").await));
    world.service.delete("faults").await;
    let reads = world.service.count("getRun").await;
    world.start_operator().await;
    shows_all(&world.released("train").await);
    assert_eq!(
        world.service.count("getRun").await,
        reads,
        "terminal: no call but the stream"
    );
    few_writes_after_the_end(&history, "train").await;
    history.holds().await;
}

/// Proves: P-last-events
#[tokio::test]
async fn a_run_whose_stream_is_refused_is_released_without_its_events() {
    let world = World::new().await;
    let refused =
        json!({"type": "answer", "status": 403, "code": "no_streams", "retryable": false});
    world.service.lasting_fault(streams(), refused).await;
    world.simulate("train", thirteen("train")).await;
    world.phase("train", Phase::Succeeded).await;
    let run = world.released("train").await;
    assert_eq!(run.status.unwrap().event_count, None);
    eventually("nothing is asked for a released Run", async || {
        let before = world.service.run_calls().await;
        tokio::task::yield_now().await;
        let after = world.service.run_calls().await;
        if before == after { Ok(()) } else { Err(after) }
    })
    .await;
}
