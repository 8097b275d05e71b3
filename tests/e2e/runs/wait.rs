//! `wait`: each of its ends, by its exit code.

use kube::api::{DeleteParams, Patch, PatchParams};
use rstest::rstest;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use run_operator::api::Phase;

use crate::stale::Proxy;
use crate::support::{World, eventually};

use super::{Running, plugin, refuse_creates, running, runs, start, started};

/// The watches of the Run `train` alone that were begun until now, by the API server's audit log.
fn watches(world: &World) -> usize {
    let log = std::fs::read_to_string(world.control_plane.audit_log().unwrap()).unwrap();
    let watches = log.lines().filter(|line| {
        line.contains("metadata.name%3Dtrain")
            && line.contains(&world.namespace)
            && line.contains(r#""verb":"watch""#)
            && line.contains(r#""stage":"ResponseStarted""#)
    });
    watches.count()
}

/// Starts a wait for the Run `train`, and waits until its watch has begun.
async fn waiting(world: &World, args: &[&str]) -> Running {
    let before = watches(world);
    let command = start(world, args, "");
    eventually("the command watches", async || {
        let begun = watches(world);
        if begun > before { Ok(()) } else { Err(begun) }
    })
    .await;
    command
}

/// Starts a wait for the Run `train` through a proxy, and waits until its watch is answered.
async fn waiting_through(proxy: &Proxy, world: &World) -> Running {
    let command = started(plugin(world, proxy.kubeconfig(), &["wait", "train"]), "");
    eventually("the command watches", async || {
        let begun = proxy.asked(|asked| asked.is("watch", "runs") && asked.status == Some(200));
        if begun.is_empty() {
            Err("no watch")
        } else {
            Ok(())
        }
    })
    .await;
    command
}

/// Proves: K-wait, K-interrupt
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
    let again = format!("kubectl runs wait train --namespace {}", world.namespace);
    assert!(said.contains(&again), "{said}");
    assert_eq!(world.run("train").await.spec.cancel, None);
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

/// Proves: K-wait
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
    refuse_creates(&world).await;
    world.simulate("refused", json!({})).await;
    runs(&world, &["wait", "bad", "refused"]).await.ended(3);
}

/// Proves: K-wait
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

/// Proves: K-uid, K-wait
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

/// Proves: K-uid
#[tokio::test]
async fn a_deletion_that_a_wait_missed_is_seen_by_the_uid() {
    let world = World::new().await;
    running(&world, "train").await;
    let proxy = Proxy::start(world.control_plane).await;
    let wait = waiting_through(&proxy, &world).await;
    proxy.withhold("runs", "train");
    let orphan = json!({"spec": {"deletionPolicy": "Orphan"}});
    world.patch_run("train", orphan).await;
    world.delete_run("train").await;
    world.gone("train").await;
    // By the name alone the wait would end with it, as it has succeeded.
    world.simulate("train", json!({})).await;
    world.phase("train", Phase::Succeeded).await;
    proxy.relist("runs");
    let said = wait.end().await.ended(4);
    assert!(said.contains("it was deleted, last seen Active"), "{said}");
}

/// Proves: K-interrupt
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
    assert_eq!(world.run("train").await.spec.cancel, None);
}

/// Proves: K-wait
#[tokio::test]
async fn a_wait_for_a_run_that_is_not_there_is_an_error_as_of_kubectl() {
    let world = World::new().await;
    let said = runs(&world, &["wait", "train"]).await.ended(2);
    let expected = "Error from server (NotFound): runs.run-operator.dev \"train\" not found\n";
    assert_eq!(said, expected);
}

/// Proves: K-poll
#[tokio::test]
async fn a_wait_polls_nothing() {
    let world = World::new().await;
    running(&world, "train").await;
    let proxy = Proxy::start(world.control_plane).await;
    let wait = waiting_through(&proxy, &world).await;
    for step in 0..20 {
        let value = json!({"metadata": {"labels": {"step": step.to_string()}}});
        world.patch_run("train", value).await;
    }
    runs(&world, &["cancel", "train"]).await.ok();
    wait.end().await.ended(1);
    let asked = proxy.asked(|_| true);
    let asked: Vec<_> = asked
        .iter()
        .map(|asked| (asked.verb, asked.resource.as_str(), asked.name.as_deref()))
        .collect();
    let once = ["get", "list", "watch"].map(|verb| (verb, "runs", Some("train")));
    assert_eq!(asked, once);
}
