//! `list`: what needs a person first, in kubectl's forms.

use kube::ResourceExt;
use kube::api::{ObjectMeta, PostParams};
use serde_json::{Value, json};

use crate::support::{Plane, Setup, World, eventually};
use crate::undecodable::odd_run;

use super::{ACTIVE, FAILED, REFUSED, SUCCEEDED, desk, left, runs};

/// Waits until what is created is younger than this Run: the API server's timestamps are whole seconds.
async fn until_others_are_younger(world: &World, name: &str) {
    let mut tried = world.run(name).await;
    let created = tried.creation_timestamp();
    tried.metadata = ObjectMeta {
        name: Some("tried".to_owned()),
        ..ObjectMeta::default()
    };
    let dry_run = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    eventually("the API server's clock shows a later second", async || {
        let now = world.runs().create(&dry_run, &tried).await.unwrap();
        if now.creation_timestamp() > created {
            Ok(())
        } else {
            Err("the same second")
        }
    })
    .await;
}

/// Proves: K-list
#[tokio::test]
async fn what_needs_a_person_is_listed_first() {
    let world = desk().await;
    left(&world, "refused", REFUSED, "Forbidden").await;
    // By age alone it would be the last.
    until_others_are_younger(&world, "refused").await;
    left(&world, "good", SUCCEEDED, "Succeeded").await;
    left(&world, "bad", FAILED, "Failed").await;
    left(&world, "active", ACTIVE, "Active").await;
    let held = "Pending: !Accepted !Finished !Ready";
    left(&world, "held", held, "Suspended").await;
    let out = runs(&world, &["list"]).await.ok();
    let rows: Vec<Vec<&str>> = out
        .lines()
        .map(|line| line.split_whitespace().collect())
        .collect();
    assert_eq!(
        rows[0],
        ["NAME", "PHASE", "STATE", "REASON", "AGE", "DURATION"]
    );
    let names: Vec<&str> = rows[1..].iter().map(|row| row[0]).collect();
    assert_eq!(names, ["refused", "held", "active", "bad", "good"]);
    assert_eq!(rows[1][1..3], ["Pending", "Forbidden"], "{out}");
    assert_eq!(rows[3][1..4], ["Active", "running", "Active"], "{out}");
    let out = runs(&world, &["list", "-o", "wide", "--no-headers"])
        .await
        .ok();
    let of_good = out.lines().last().unwrap();
    assert!(of_good.contains("run-of-good"), "{out}");
    let out = runs(
        &world,
        &[
            "list",
            "-o",
            "json",
            "--field-selector",
            "status.phase=Failed",
        ],
    )
    .await
    .ok();
    let list: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(list["items"][0]["metadata"]["name"], "bad");
    assert_eq!(list["items"].as_array().unwrap().len(), 1);
    let out = runs(&world, &["list", "-o", "yaml"]).await.ok();
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
    let out = runs(&world, &["list", "--no-headers"]).await.ok();
    let rows: Vec<Vec<&str>> = out
        .lines()
        .map(|line| line.split_whitespace().collect())
        .collect();
    assert!(rows.iter().any(|row| row[0] == "good"), "{out}");
    let odd = ["odd", "RunInvalid"];
    assert!(rows.iter().any(|row| row.starts_with(&odd)), "{out}");
}
