//! Another operator acts after the leader has ended, with the usual durations. How long it waits is decided by
//! `src/controller/leader`, whose tests have a clock of their own.

use run_operator::api::Phase;
use serde_json::json;

use super::{each_is_one_run, elected, record, until_it_leads};
use crate::support::intent_of;

/// Proves: P-takeover
#[tokio::test]
async fn a_killed_leader_is_replaced_and_no_run_is_lost_or_doubled() {
    let mut world = elected().await;
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
    world.service.delete("faults").await;
    world.create_run("next", json!({})).await;
    until_it_leads(&other).await;
    names.push("next".to_owned());
    each_is_one_run(&world, &names).await;
    history.holds().await;
    assert_eq!(record(&world).await.lease_transitions, Some(1));
}

/// The lease is the leader's until its last call has ended and what it taught is written; then another's at once.
/// Proves: P-takeover
#[tokio::test]
async fn a_leader_gives_its_lease_back_after_its_last_call() {
    let mut world = elected().await;
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
    let next = record(&world).await.holder_identity;
    assert_ne!(next, holder, "the Lease was not released");
    let posted = world.run("posting").await;
    assert!(posted.status.as_ref().unwrap().run_id.is_some());
    until_it_leads(&other).await;
    // The next leader saw a run that was known: it has POSTed nothing and taken nothing over.
    world.create_run("next", json!({})).await;
    world.phase("next", Phase::Succeeded).await;
    assert_eq!(world.service.requests("createRun").await.len(), 2);
    let intent = intent_of(&world.run("posting").await).unwrap();
    assert_eq!((&intent["owner"], &intent["epoch"]), (&owner, &json!(1)));
}
