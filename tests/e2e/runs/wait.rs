//! `wait`: each of its ends, by its exit code.

use kube::api::{DeleteParams, Patch, PatchParams};
use rstest::rstest;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use run_operator::api::{ConditionType as Type, Phase};

use crate::support::{World, eventually};

use super::{Running, refuse_creates, running, runs, start};

/// Waits until a waiting command has read its Run: it has said so on standard error, whose lines it goes on with.
async fn is_waiting(world: &World, agent: &str, before: usize) {
    eventually("the command watches", async || {
        let log = std::fs::read_to_string(world.control_plane.audit_log().unwrap()).unwrap();
        let watches = log.lines().filter(|line| {
            line.contains(agent)
                && line.contains(&world.namespace)
                && line.contains(r#""verb":"watch""#)
        });
        let watches = watches.count();
        if watches > before {
            Ok(())
        } else {
            Err(watches)
        }
    })
    .await;
}

async fn waiting(world: &World, args: &[&str]) -> Running {
    let command = start(world, args, "");
    is_waiting(world, "metadata.name%3Dtrain", 0).await;
    command
}

// Proves: K-wait
#[tokio::test]
async fn a_wait_ends_as_its_goal_says() {
    let world = World::new().await;
    running(&world, "train").await;
    let out = runs(&world, &["wait", "train", "--for", "accepted"])
        .await
        .ok();
    assert_eq!(out, "run.run-operator.dev/train Active\n");
    let said = runs(&world, &["wait", "train", "--timeout", "100ms"])
        .await
        .ended(124);
    assert!(
        said.contains("timed out waiting for run.run-operator.dev/train"),
        "{said}"
    );
    assert!(said.contains("train was not cancelled"), "{said}");
    let wait = waiting(&world, &["wait", "train", "--for", "finished"]).await;
    runs(&world, &["cancel", "train"]).await.ok();
    let out = wait.end().await.ok();
    assert_eq!(out, "run.run-operator.dev/train Cancelled\n");
    let said = runs(&world, &["wait", "run.run-operator.dev/train"])
        .await
        .ended(1);
    assert!(said.contains("train Cancelled"), "{said}");
    let out = runs(&world, &["wait", "train", "--for=finished", "-o", "json"])
        .await
        .ok();
    let run: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(run["status"]["phase"], "Cancelled");
}

// Proves: K-wait
#[tokio::test]
async fn a_wait_for_several_ends_with_the_worst() {
    let world = World::new().await;
    world.simulate("good", json!({})).await;
    world.simulate("bad", json!({"outcome": "failed"})).await;
    let out = runs(&world, &["wait", "good", "bad"]).await.ended(1);
    for line in ["good Succeeded\n", "bad Failed\n"] {
        assert!(out.contains(line), "{out}");
    }
    assert_eq!(
        runs(&world, &["wait", "good", "bad", "--for", "finished"])
            .await
            .code,
        0
    );
}

// Proves: K-wait
#[tokio::test]
async fn a_run_that_needs_a_person_ends_a_wait() {
    let world = World::new().await;
    refuse_creates(&world).await;
    world.simulate("train", json!({})).await;
    let said = runs(&world, &["wait", "train"]).await.ended(3);
    assert!(
        said.contains("run.run-operator.dev/train Stalled\n"),
        "{said}"
    );
    assert!(said.contains("train: Forbidden: "), "{said}");
    // What is retried is awaited again.
    world.service.delete("faults").await;
    runs(&world, &["retry", "train"]).await.ok();
    runs(&world, &["wait", "train"]).await.ok();
}

// Proves: K-uid
#[tokio::test]
async fn a_run_that_is_created_again_is_another_one() {
    let world = World::new().await;
    running(&world, "train").await;
    let wait = waiting(&world, &["wait", "train"]).await;
    let api = world.runs();
    let orphan = Patch::Merge(json!({"spec": {"deletionPolicy": "Orphan"}}));
    api.patch("train", &PatchParams::default(), &orphan)
        .await
        .unwrap();
    api.delete("train", &DeleteParams::default()).await.unwrap();
    world.gone("train").await;
    world.simulate("train", json!({})).await;
    let said = wait.end().await.ended(4);
    assert!(said.contains("it was deleted, last seen Active"), "{said}");
    world.phase("train", Phase::Succeeded).await;
}

// Proves: K-interrupt
#[rstest]
#[case(Signal::INT)]
#[case(Signal::TERM)]
#[tokio::test]
async fn an_interrupt_cancels_nothing_and_says_how_to_go_on(#[case] signal: Signal) {
    let world = World::new().await;
    running(&world, "train").await;
    let wait = waiting(&world, &["wait", "train"]).await;
    kill_process(Pid::from_child(&wait.0), signal).unwrap();
    let said = wait.end().await.ended(130);
    assert!(said.contains("train was not cancelled"), "{said}");
    let again = format!("kubectl runs wait train --namespace {}", world.namespace);
    assert!(said.contains(&again), "{said}");
    assert_eq!(world.service.runs().await[0]["cancels"], 0);
}

// Proves: K-wait
#[tokio::test]
async fn a_wait_for_a_run_that_is_not_there_is_an_error_as_of_kubectl() {
    let world = World::new().await;
    let said = runs(&world, &["wait", "train"]).await.ended(2);
    let expected = "Error from server (NotFound): runs.run-operator.dev \"train\" not found\n";
    assert_eq!(said, expected);
}

// Proves: K-poll
#[tokio::test]
async fn a_wait_polls_nothing() {
    let world = World::new().await;
    running(&world, "train").await;
    let wait = waiting(&world, &["wait", "train"]).await;
    for step in 0..20 {
        let value = json!({"metadata": {"labels": {"step": step.to_string()}}});
        world.patch_run("train", value).await;
    }
    runs(&world, &["cancel", "train"]).await.ok();
    wait.end().await.ended(1);
    world
        .condition("train", Type::Finished, "True", "Cancelled")
        .await;
    let log = std::fs::read_to_string(world.control_plane.audit_log().unwrap()).unwrap();
    let mut reads = log.lines().filter(|line| {
        line.contains(&world.namespace)
            && line.contains("metadata.name%3Dtrain")
            && line.contains("ResponseComplete")
    });
    // One list, and one watch behind it: or a second if the API server ended the first.
    assert!(reads.by_ref().count() <= 4);
}
