//! Streams and answers without end: what the operator holds of them in memory and in a status.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::support::{World, condition_of, eventually};
use run_operator::api::ConditionType as Type;
use test_support::proc::number;

const MIB: usize = 1 << 20;
/// A piece that the service sends at once.
const PIECE: usize = 256 << 10;
/// Memory that the operator may take up beyond what it had, however much is sent: buffers of each stream, the
/// allocator's own room, and what other work does meanwhile.
const GROWTH_KIB: usize = 64 << 10;

/// A figure of a process, as `/proc` has it.
fn figure(pid: u32, file: &str, name: &str) -> usize {
    number(pid, file, name).unwrap().try_into().unwrap()
}

/// Resident memory of the operator in KiB: `VmRSS` now, `VmHWM` at the most.
fn memory(world: &World, name: &str) -> usize {
    figure(world.operator().pid(), "status", name)
}

/// Bytes that the service has written until now.
fn written(world: &World) -> usize {
    figure(world.service.pid(), "io", "wchar")
}

/// The highest resident memory is counted from now on.
fn count_from_now_on(world: &World) {
    let path = format!("/proc/{}/clear_refs", world.operator().pid());
    std::fs::write(path, "5").unwrap();
}

/// A stream of `bytes` that are one piece again and again, and then ends as it should.
fn flood(piece: &str, bytes: usize) -> Value {
    let whole = piece.repeat(PIECE / piece.len());
    let repeat = bytes.div_ceil(whole.len());
    json!({
        "type": "stream", "raw": [STANDARD.encode(&whole)], "repeat": repeat, "then": "end",
    })
}

/// Proves: X-memory
#[tokio::test]
async fn a_gibibyte_of_stream_takes_no_more_memory_than_a_little() {
    let world = World::new().await;
    let data = format!("data: {}\n", "x".repeat(60_000));
    let largest = format!("{}\n", data.repeat(4));
    let floods = [
        ("one-line", flood("x", 768 * MIB)),
        (
            "comments",
            flood(&format!(": {}\n", "x".repeat(100)), 128 * MIB),
        ),
        ("too-large", flood(&data, 96 * MIB)),
        ("largest", flood(&largest, 16 * MIB)),
        (
            "small",
            flood(&format!("data: {}\n\n", "x".repeat(1000)), 8 * MIB),
        ),
        ("ids-alone", flood("id: 7\n\n", 8 * MIB)),
    ];
    for (name, _) in &floods {
        world
            .simulate(name, json!({"runId": name, "outcome": "never"}))
            .await;
    }
    for (name, _) in &floods {
        world.state(name, "running").await;
    }
    for (name, action) in &floods {
        let fits = json!({"operation": "streamEvents", "runId": name});
        world.service.fault(fits, action.clone()).await;
    }
    let opened = world.service.requests("streamEvents").await.len();
    let (before, sent) = (memory(&world, "VmRSS"), written(&world));
    count_from_now_on(&world);
    world.service.delete("streams").await;
    // Each is opened again when all of it was sent, and not before: the service waits for its reader.
    for (name, _) in &floods {
        eventually(&format!("all of {name} was sent"), async || {
            let streams = world.service.requests("streamEvents").await;
            let later = streams.iter().skip(opened);
            match later.filter(|s| s["runId"] == *name).count() {
                0 | 1 => Err("not yet"),
                _ => Ok(()),
            }
        })
        .await;
    }
    let peak = memory(&world, "VmHWM");
    let sent = written(&world) - sent;
    println!("{sent} bytes were sent");
    println!("resident memory: {before} KiB before, {peak} KiB at the most");
    assert!(sent >= 1 << 30, "only {sent} bytes were sent");
    assert!(
        peak < before + GROWTH_KIB,
        "{before} KiB grew to {peak} KiB"
    );
    // And the Runs live on.
    for (name, _) in &floods {
        let state = json!({"state": "succeeded"});
        world
            .service
            .post(&format!("runs/{name}/state"), state)
            .await;
        let run = world.state(name, "succeeded").await;
        assert!(serde_json::to_string(&run.status).unwrap().len() < 32 << 10);
    }
}

/// Proves: X-memory
#[tokio::test]
async fn texts_and_answers_without_measure_leave_a_small_status() {
    let world = World::new().await;
    let simulate = json!({"runId": "train", "outcome": "never"});
    world.simulate("train", simulate).await;
    world.state("train", "running").await;
    let huge = json!({"type": "hugeBody", "bytes": 10 * MIB});
    let read = json!({"operation": "getRun"});
    world.service.lasting_fault(read, huge).await;
    let four_kib = "\u{e9}".repeat(2048);
    let state = json!({"state": four_kib});
    world.service.post("runs/train/state", state).await;
    let run = world
        .run_until("train", "says that the answer is too large", |run| {
            condition_of(run, Type::Synced).is_some_and(|c| c.message.contains("larger than"))
        })
        .await;
    assert_eq!(run.status.unwrap().state.as_deref(), Some("running"));
    world.service.delete("faults").await;
    for n in 0..12 {
        let event = json!({"type": four_kib, "data": {"n": n, "pad": four_kib}});
        world.service.post("runs/train/events", event).await;
    }
    let run = world
        .run_until("train", "shows the long state, cut", |run| {
            let status = run.status.as_ref().unwrap();
            status
                .state
                .as_deref()
                .is_some_and(|state| state.starts_with('\u{e9}'))
                && status
                    .events
                    .iter()
                    .filter(|e| e.kind.starts_with('\u{e9}'))
                    .count()
                    == 10
        })
        .await;
    let status = run.status.unwrap();
    assert!(status.state.as_ref().unwrap().len() <= 256);
    assert!(serde_json::to_string(&status).unwrap().len() < 32 << 10);
    let note = world.event("train", "UnmappedState").await;
    assert!(note.len() <= 1024, "{} bytes", note.len());
}
