//! `list`: what needs a person first.

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

/// Proves: K-why
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
    let out = runs(&world, "list -o json").await.ok();
    let list: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(list["kind"], "List");
    for (item, name) in list["items"].as_array().unwrap().iter().zip(names) {
        assert_eq!(item["kind"], "Run");
        assert_eq!(item["metadata"]["name"], name);
    }
    let label = json!({"metadata": {"labels": {"team": "vision"}}});
    world.patch_run("bad", label).await;
    let labelled = "list -o name -l team=vision";
    let out = runs(&world, labelled).await.ok();
    assert_eq!(out, "run.run-operator.dev/bad\n");
}

/// Proves: K-why
#[tokio::test]
async fn a_run_that_can_not_be_read_is_listed_too() {
    let world = World::unattended(Setup {
        plane: Plane::Loose,
        ..Setup::default()
    })
    .await;
    world.simulate("good", json!({})).await;
    odd_run(&world).await;
    let out = runs(&world, "list").await.ok();
    let rows = rows(&out);
    assert!(rows.iter().any(|row| row[0] == "good"), "{out}");
    let odd = ["odd", "RunInvalid"];
    assert!(rows.iter().any(|row| row.starts_with(&odd)), "{out}");
}
