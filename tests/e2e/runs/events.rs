//! `events`: what the status keeps, and how many it no longer does.

use serde_json::{Value, json};

use run_operator::api::Phase;

use crate::support::World;

use super::{runs, start};

/// Proves: K-events
#[tokio::test]
async fn events_are_printed_with_the_number_of_those_not_kept() {
    let world = World::new().await;
    world.simulate("train", json!({"logEvents": 12})).await;
    let follow = start(&world, &["events", "train", "-f"], "");
    world.phase("train", Phase::Succeeded).await;
    let status = world.released("train").await.status.unwrap();
    let count = status.event_count.unwrap();
    assert!(count > 10, "{count}");
    let told = runs(&world, &["events", "train"]).await;
    assert_eq!(told.out.lines().count(), 10);
    let unkept = format!("({} earlier events are no longer kept)\n", count - 10);
    assert_eq!(told.err, unkept);
    let json = runs(&world, &["events", "train", "-o", "json"]).await.ok();
    let last: Value = serde_json::from_str(json.lines().last().unwrap()).unwrap();
    assert_eq!(last["id"], json!(status.last_event_id));
    let told = follow.end().await;
    assert_eq!(told.code, 0, "{told:?}");
    let printed = told
        .out
        .lines()
        .filter(|line| !line.contains("Succeeded"))
        .count();
    assert!(printed >= 10, "{told:?}");
}

/// Proves: K-events
#[tokio::test]
async fn a_run_without_events_says_so() {
    let mut world = World::new().await;
    world.kill_operator();
    world.simulate("train", json!({})).await;
    let said = runs(&world, &["events", "train"]).await.ended(0);
    assert_eq!(said, "No events of train yet.\n");
}
