//! Time until another operator acts, with the usual durations; measured from the signal to the answer to the
//! POST of a Run that was applied just after it.

use std::time::Instant;

use serde_json::json;

use super::{USUAL, each_is_one_run, elected, record, until_it_leads};
use crate::support::{World, intent_of};
use test_support::figures::Figures;

/// Submits one more Run, and returns the seconds until the service has accepted it. They are a figure: how long the
/// others wait is decided by `src/controller/leader`, whose tests have a clock of their own.
async fn measured(world: &World, since: Instant) -> f64 {
    world.create_run("next", json!({})).await;
    world
        .run_until("next", "is accepted", |run| {
            let status = run.status.as_ref();
            status.is_some_and(|status| status.run_id.is_some())
        })
        .await;
    (since.elapsed().as_secs_f64() * 10.0).round() / 10.0
}

/// Proves: P-takeover
#[tokio::test]
async fn a_killed_leader_is_replaced_and_no_run_is_lost_or_doubled() {
    let mut world = elected(USUAL).await;
    until_it_leads(world.operator()).await;
    let other = world.another_operator().await;
    let history = world.history().await;
    // For half of them the leader ends without having got the answer to the create.
    let hang = json!({"type": "hang", "forMs": 60000, "execute": true});
    let mut names: Vec<String> = (0..10).map(|n| format!("train-{n}")).collect();
    for (n, name) in names.iter().enumerate() {
        if n == 5 {
            let create = json!({"operation": "createRun"});
            world.service.lasting_fault(create, hang.clone()).await;
        }
        world.simulate(name, json!({"runTimeMs": 100})).await;
        if n == 4 {
            world.asked("createRun", 5).await;
        }
    }
    world.asked("createRun", 10).await;
    world.kill_operator();
    let killed = Instant::now();
    world.service.delete("faults").await;
    let seconds = measured(&world, killed).await;
    until_it_leads(&other).await;
    names.push("next".to_owned());
    each_is_one_run(&world, &names).await;
    history.holds().await;
    assert_eq!(record(&world).await.lease_transitions, Some(1));
    Figures::new("leader.crash")
        .row("Seconds from kill -9 of the leader until a Run applied just then was submitted by the next", seconds)
        .row("Runs under way, each one run", names.len())
        .record();
}

/// Proves: P-takeover
#[tokio::test]
async fn a_leader_ended_by_sigterm_is_replaced_at_once() {
    let mut world = elected(USUAL).await;
    until_it_leads(world.operator()).await;
    let other = world.another_operator().await;
    world.create_run("train", json!({})).await;
    world.released("train").await;
    let holder = record(&world).await.holder_identity;
    let mut leader = world.operator.take().unwrap();
    let asked_to_end = Instant::now();
    let ended = async {
        let code = leader.terminate().await;
        (code, record(&world).await.holder_identity)
    };
    let ((code, next), seconds) = tokio::join!(ended, measured(&world, asked_to_end));
    assert_eq!(code, Some(0));
    assert_ne!(next, holder, "the Lease was not released");
    until_it_leads(&other).await;
    let names = ["train", "next"].map(str::to_owned);
    each_is_one_run(&world, &names).await;
    Figures::new("leader.stop")
        .row("Seconds from SIGTERM of the leader until a Run applied just then was submitted by the next", seconds)
        .record();
}

/// The lease is the leader's until its last call has ended and what it taught is written.
/// Proves: P-takeover
#[tokio::test]
async fn a_leader_gives_its_lease_back_after_its_last_call() {
    let mut world = elected(USUAL).await;
    until_it_leads(world.operator()).await;
    let other = world.another_operator().await;
    let slow = json!({"type": "delay", "forMs": 3000, "execute": true});
    let create = json!({"operation": "createRun"});
    world.service.fault(create, slow).await;
    world.simulate("posting", json!({"outcome": "never"})).await;
    world.asked("createRun", 1).await;
    let owner = intent_of(&world.run("posting").await).unwrap()["owner"].clone();
    let holder = record(&world).await.holder_identity;
    assert_eq!(holder.as_deref(), owner.as_str());
    let mut leader = world.operator.take().unwrap();
    assert_eq!(leader.terminate().await, Some(0));
    let posted = world.run("posting").await;
    assert!(posted.status.as_ref().unwrap().run_id.is_some());
    until_it_leads(&other).await;
    // The next leader saw a run that was known: it has POSTed nothing and taken nothing over.
    let run = &world.service.runs().await[0];
    assert_eq!(run["posts"], 1);
    let intent = intent_of(&world.run("posting").await).unwrap();
    assert_eq!((&intent["owner"], &intent["epoch"]), (&owner, &json!(1)));
}
