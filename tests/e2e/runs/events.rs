//! `events`: what the status keeps, and how many it no longer does.

use serde_json::{Value, json};

use crate::support::World;

use super::{SUCCEEDED, desk, left, runs};

/// Writes the last ten of so many events into the status of the Run `train`.
async fn events(world: &World, count: usize) {
    let event = |n: usize| {
        let time = "2026-01-01T00:00:00Z";
        json!({"id": format!("e-{n}"), "type": "run.log", "data": n.to_string(), "time": time})
    };
    let kept: Vec<Value> = (count - 10..count).map(event).collect();
    let status =
        json!({"events": kept, "eventCount": count, "lastEventID": format!("e-{}", count - 1)});
    world.patch_status("train", status).await;
}

/// Proves: K-why
#[tokio::test]
async fn events_are_printed_with_the_number_of_those_not_kept() {
    let world = desk().await;
    left(&world, "train", SUCCEEDED, "Succeeded").await;
    let none = runs(&world, "events train").await;
    assert_eq!((none.code, none.out.as_str()), (0, ""));
    assert_eq!(none.err, "No events of train yet.\n");
    events(&world, 15).await;
    let told = runs(&world, "events train").await;
    assert_eq!(told.out.lines().count(), 10);
    assert_eq!(told.err, "(5 earlier events are no longer kept)\n");
    let last = "2026-01-01T00:00:00Z  run.log  14";
    assert_eq!(told.out.lines().last(), Some(last));
    let follow = runs(&world, "events train -f").await.ok();
    assert_eq!(follow.lines().count(), 11, "{follow}");
    assert!(follow.ends_with("train Succeeded\n"), "{follow}");
}
