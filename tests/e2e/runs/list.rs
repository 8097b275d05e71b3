//! `list`: what needs a person first, in kubectl's forms.

use std::time::Duration;

use serde_json::{Value, json};

use crate::support::{Plane, Setup, World};
use crate::undecodable::odd_run;

use super::{ACTIVE, FAILED, HELD, REFUSED, SUCCEEDED, desk, left, runs};

/// The rows of a table, by their columns.
fn rows(table: &str) -> Vec<Vec<&str>> {
    let rows = table.lines().map(|line| line.split_whitespace().collect());
    rows.collect()
}

/// Proves: K-list
#[tokio::test]
async fn what_needs_a_person_is_listed_first() {
    let world = desk().await;
    left(&world, "refused", REFUSED, "Forbidden").await;
    // By age alone it would be the last. The API server's timestamps are whole seconds.
    tokio::time::sleep(Duration::from_secs(1)).await;
    left(&world, "good", SUCCEEDED, "Succeeded").await;
    left(&world, "bad", FAILED, "Failed").await;
    left(&world, "active", ACTIVE, "Active").await;
    left(&world, "held", HELD, "Suspended").await;
    let out = runs(&world, "list").await.ok();
    let rows = rows(&out);
    let heads = ["NAME", "PHASE", "STATE", "REASON", "AGE", "DURATION"];
    assert_eq!(rows[0], heads);
    let names: Vec<&str> = rows[1..].iter().map(|row| row[0]).collect();
    assert_eq!(names, ["refused", "held", "active", "bad", "good"]);
    assert_eq!(rows[1][1..3], ["Pending", "Forbidden"], "{out}");
    assert_eq!(rows[3][1..4], ["Active", "running", "Active"], "{out}");
    let out = runs(&world, "list -o wide --no-headers").await.ok();
    let of_good = out.lines().last().unwrap();
    assert!(of_good.contains("run-of-good"), "{out}");
    let failed = "list -o json --field-selector status.phase=Failed";
    let out = runs(&world, failed).await.ok();
    let list: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(list["items"][0]["metadata"]["name"], "bad");
    assert_eq!(list["items"].as_array().unwrap().len(), 1);
    let out = runs(&world, "list -o yaml").await.ok();
    assert!(out.starts_with("apiVersion: v1\n"), "{out}");
}

/// Proves: K-list
#[tokio::test]
async fn a_run_that_can_not_be_read_is_listed_too() {
    let world = World::unattended(Setup {
        plane: Plane::Loose,
        ..Setup::default()
    })
    .await;
    world.simulate("good", json!({})).await;
    odd_run(&world).await;
    let out = runs(&world, "list --no-headers").await.ok();
    let rows = rows(&out);
    assert!(rows.iter().any(|row| row[0] == "good"), "{out}");
    let odd = ["odd", "RunInvalid"];
    assert!(rows.iter().any(|row| row.starts_with(&odd)), "{out}");
}
