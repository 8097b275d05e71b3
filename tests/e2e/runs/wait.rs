//! `wait`: each of its ends, by its exit code.

use rstest::rstest;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use crate::stale::Proxy;
use crate::support::{World, eventually};

use super::{
    ACTIVE, CANCELLED, FAILED, REFUSED, Running, SUCCEEDED, desk, each_says, left, runs, shows,
    started,
};

/// Starts a wait for the Run `train`, which is active, through a proxy; its watch is answered.
async fn waiting(words: &str) -> (World, Proxy, Running) {
    let world = desk().await;
    left(&world, "train", ACTIVE, "Active").await;
    let proxy = Proxy::start(world.control_plane).await;
    let command = started(&world, proxy.kubeconfig(), words, "");
    eventually("the command watches", async || {
        let begun = proxy.asked(|asked| asked.is("watch", "runs") && asked.status == Some(200));
        if begun.is_empty() {
            Err("no watch")
        } else {
            Ok(())
        }
    })
    .await;
    (world, proxy, command)
}

/// The command that goes on with the wait for `train`.
fn again(world: &World) -> String {
    format!("kubectl runop wait train --namespace {}", world.namespace)
}

/// Proves: K-wait
#[tokio::test]
async fn a_wait_ends_as_its_goal_says_and_of_several_with_the_worst() {
    let world = desk().await;
    left(&world, "good", SUCCEEDED, "Succeeded").await;
    left(&world, "bad", FAILED, "Failed").await;
    left(&world, "refused", REFUSED, "Forbidden").await;
    left(&world, "train", ACTIVE, "Active").await;
    let timeout = "wait train --timeout 100ms";
    let commands = [
        ("wait good", 0, "run.run-operator.dev/good Succeeded\n"),
        ("wait run.run-operator.dev/bad", 1, "bad Failed\n"),
        ("wait bad", 1, "bad: Failed: "),
        ("wait good bad", 1, "good Succeeded\n"),
        ("wait good bad --for finished", 0, "bad Failed\n"),
        (
            "wait bad --for=finished -o json",
            0,
            "\"phase\": \"Failed\"",
        ),
        ("wait refused", 3, "refused Stalled\n"),
        ("wait bad refused", 3, "refused: Forbidden: "),
        ("wait train --for accepted", 0, "train Active\n"),
        (
            timeout,
            124,
            "timed out waiting for run.run-operator.dev/train",
        ),
        (timeout, 124, "train was not cancelled"),
        (timeout, 124, &again(&world)),
        ("wait none", 2, "runs.run-operator.dev \"none\" not found\n"),
    ];
    each_says(&world, &commands).await;
    assert_eq!(world.run("train").await.spec.cancel, None);
}

/// Proves: K-wait
#[rstest]
#[case::that_its_watch_shows(false)]
#[case::that_its_watch_missed(true)]
#[tokio::test]
async fn a_deletion_ends_a_wait_whatever_is_created_by_that_name(#[case] missed: bool) {
    let (world, proxy, wait) = waiting("wait train").await;
    if missed {
        proxy.withhold("runs", "train");
    }
    world.delete_run("train").await;
    world.gone("train").await;
    // By the name alone the wait would end with it.
    left(&world, "train", SUCCEEDED, "Succeeded").await;
    if missed {
        proxy.relist("runs");
    }
    let said = wait.end().await.ended(4);
    assert!(said.contains("it was deleted, last seen Active"), "{said}");
}

/// Proves: K-wait
#[tokio::test]
async fn a_run_that_is_being_deleted_ends_a_wait_whenever_it_begins() {
    let (world, _proxy, wait) = waiting("wait train --for finished").await;
    let held = |finalizers| json!({"metadata": {"finalizers": finalizers}});
    world
        .patch_run("train", held(json!(["example.com/held"])))
        .await;
    world.delete_run("train").await;
    wait.end().await.ended(4);
    // The deletion cancels the run: that is no end of its own.
    shows(&world, "train", CANCELLED, "Cancelled").await;
    runs(&world, "wait train --for finished").await.ended(4);
    world.patch_run("train", held(json!(null))).await;
}

/// Proves: K-wait
#[rstest]
#[case(Signal::INT)]
#[case(Signal::TERM)]
#[tokio::test]
async fn an_interrupt_cancels_nothing_and_says_how_to_go_on(#[case] signal: Signal) {
    let (world, _proxy, wait) = waiting("wait train").await;
    kill_process(Pid::from_child(&wait.0), signal).unwrap();
    let said = wait.end().await.ended(130);
    assert!(said.contains("train was not cancelled"), "{said}");
    assert!(said.contains(&again(&world)), "{said}");
    assert_eq!(world.run("train").await.spec.cancel, None);
}

/// Proves: K-wait
#[tokio::test]
async fn a_wait_polls_nothing() {
    let (world, proxy, wait) = waiting("wait train --for finished").await;
    for step in 0..20 {
        let value = json!({"metadata": {"labels": {"step": step.to_string()}}});
        world.patch_run("train", value).await;
    }
    shows(&world, "train", CANCELLED, "Cancelled").await;
    let out = wait.end().await.ok();
    assert_eq!(out, "run.run-operator.dev/train Cancelled\n");
    let asked = proxy.asked(|_| true);
    let asked: Vec<_> = asked
        .iter()
        .map(|asked| (asked.verb, asked.resource.as_str(), asked.name.as_deref()))
        .collect();
    let once = ["get", "list", "watch"].map(|verb| (verb, "runs", Some("train")));
    assert_eq!(asked, once);
}
