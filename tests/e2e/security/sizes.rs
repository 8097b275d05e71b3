//! Texts and answers without end: what the operator holds of them in a status.

use serde_json::json;

use crate::support::{World, condition_of};
use run_operator::api::ConditionType as Type;

/// Proves: X-memory
#[tokio::test]
async fn texts_and_answers_without_measure_leave_a_small_status() {
    let world = World::new().await;
    world.running("train").await;
    let huge = json!({"type": "hugeBody", "bytes": 10 << 20});
    let read = json!({"operation": "getRun"});
    world.service.lasting_fault(read, huge).await;
    let four_kib = "\u{e9}".repeat(2048);
    world.set_state("train", &four_kib).await;
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
