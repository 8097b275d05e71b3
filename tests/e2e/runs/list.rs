//! `list`: what needs a person first, in kubectl's forms.

use kube::ResourceExt;
use kube::api::{ObjectMeta, PostParams};
use serde_json::{Value, json};

use run_operator::api::{ConditionType as Type, Phase};

use crate::support::{Setup, World, eventually, own_control_plane};
use crate::undecodable::odd_run;

use super::{refuse_creates, running, runs};

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
    let world = World::new().await;
    refuse_creates(&world).await;
    world.simulate("refused", json!({})).await;
    world
        .condition("refused", Type::Stalled, "True", "Forbidden")
        .await;
    world.service.delete("faults").await;
    // By age alone it would be the last.
    until_others_are_younger(&world, "refused").await;
    world.simulate("good", json!({})).await;
    world.phase("good", Phase::Succeeded).await;
    world.simulate("bad", json!({"outcome": "failed"})).await;
    world.phase("bad", Phase::Failed).await;
    running(&world, "active").await;
    world.create_run("held", json!({"suspend": true})).await;
    world
        .condition("held", Type::Ready, "False", "Suspended")
        .await;
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
    let id = world.run("good").await.status.unwrap().run_id.unwrap();
    assert!(out.lines().last().unwrap().contains(&id), "{out}");
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
        control_plane: Some(own_control_plane().await),
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

/// Proves: K-list
#[tokio::test]
async fn a_list_is_by_label_and_of_one_namespace_or_all() {
    let world = World::new().await;
    running(&world, "train").await;
    let label = json!({"metadata": {"labels": {"team": "vision"}}});
    world.patch_run("train", label).await;
    let out = runs(&world, &["list", "-l", "team=vision", "-o", "name"])
        .await
        .ok();
    assert_eq!(out, "run.run-operator.dev/train\n");
    let told = runs(&world, &["list", "-l", "team=audio"]).await;
    assert!(told.out.is_empty());
    let nothing = format!("No resources found in {} namespace.\n", world.namespace);
    assert_eq!(told.err, nothing);
    let out = runs(&world, &["list", "-A"]).await.ok();
    let own = |line: &&str| {
        line.split_whitespace()
            .take(2)
            .eq([world.namespace.as_str(), "train"])
    };
    assert!(out.lines().any(|line| own(&line)), "{out}");
}
