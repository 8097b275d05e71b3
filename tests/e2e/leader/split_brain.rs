//! Two operators that both act as the leader: a stopped process that resumes, or no election at all. The
//! intent, not the Lease, keeps them from making two runs.

use jiff::Timestamp;
use kube::ResourceExt;
use kube::api::ListParams;
use serde_json::json;

use super::{each_is_one_run, elected, lost, record, until_it_leads};
use crate::support::{Operator, World, intent_of};

/// Number of times that a leader is stopped and resumed.
fn rounds() -> usize {
    match std::env::var("RUN_OPERATOR_PROVE").as_deref() {
        Ok("full") => 10,
        _ => 2,
    }
}

/// Runs applied in each round.
const RUNS: usize = 40;

/// Makes each create take a while, so that some are in flight whenever an operator is stopped.
async fn slow_creates(world: &World) {
    let create = json!({"operation": "createRun"});
    let delay = json!({"type": "delay", "forMs": 300, "execute": true});
    world.service.lasting_fault(create, delay).await;
}

/// Applies the Runs of one round, half of them before what happens in the middle.
async fn apply(world: &World, round: usize, half: usize) -> Vec<String> {
    let numbers = (half * RUNS / 2)..((half + 1) * RUNS / 2);
    let mut names = Vec::new();
    for n in numbers {
        let name = format!("train-{round}-{n}");
        let run_time = 20 * (n % 10);
        world.simulate(&name, json!({"runTimeMs": run_time})).await;
        names.push(name);
    }
    names
}

/// Proves: P-owner-posts, P-takeover
#[tokio::test]
async fn a_leader_resumed_after_a_takeover_stands_by_and_duplicates_no_run() {
    let mut world = elected().await;
    let history = world.history().await;
    slow_creates(&world).await;
    let mut leader = world.operator.take().unwrap();
    let mut other = world.another_operator().await;
    let mut names = Vec::new();
    let threads = std::thread::available_parallelism().unwrap().get();
    let rounds = rounds();
    for round in 0..rounds {
        let before = world.service.requests("createRun").await.len();
        names.extend(apply(&world, round, 0).await);
        // Amid the creates.
        world.asked("createRun", before + RUNS / 4).await;
        leader.hold();
        names.extend(apply(&world, round, 1).await);
        until_it_leads(&other).await;
        let resumed = run_operator::clock::wall();
        leader.go_on();
        lost(&leader, round / 2 + 1).await;
        assert!(!begun_after(&leader, Timestamp::UNIX_EPOCH).is_empty());
        // Each thread may have been stopped between its look at the term and the line that it logs.
        let late = begun_after(&leader, resumed);
        assert!(late.len() <= threads, "begun after the term: {late:#?}");
        std::mem::swap(&mut leader, &mut other);
    }
    each_is_one_run(&world, &names).await;
    history.holds().await;
    let transitions = record(&world).await.lease_transitions;
    assert!(transitions >= i32::try_from(rounds).ok(), "{transitions:?}");
}

/// The log lines of calls and writes that an operator has begun since then. Their own time counts, not when they
/// are written: a stopped thread may be waiting for its turn to write one.
fn begun_after(operator: &Operator, then: Timestamp) -> Vec<String> {
    let later = |line: &&str| {
        let time = line.split(' ').next().and_then(|time| time.parse().ok());
        line.contains(" acting ") && time.is_none_or(|time: Timestamp| time > then)
    };
    let log = operator.log();
    log.lines().filter(later).map(str::to_owned).collect()
}

/// Proves: P-at-most-one, P-owner-posts, P-guarded-writes, F-outage
#[tokio::test]
async fn two_operators_without_election_duplicate_no_run_when_paused() {
    let mut world = World::new().await;
    let history = world.history().await;
    slow_creates(&world).await;
    let both = [
        world.operator.take().unwrap(),
        world.another_operator().await,
    ];
    let mut names = Vec::new();
    let mut owners = std::collections::BTreeSet::new();
    for round in 0..rounds() {
        let before = world.service.requests("createRun").await.len();
        names.extend(apply(&world, round, 0).await);
        world.asked("createRun", before + RUNS / 4).await;
        both[round % 2].hold();
        names.extend(apply(&world, round, 1).await);
        let last = names.last().unwrap();
        // By the one that is left, which takes over what the other has begun.
        world
            .run_until(last, "is accepted", |run| {
                run.status.as_ref().is_some_and(|s| s.run_id.is_some())
            })
            .await;
        both[round % 2].go_on();
    }
    each_is_one_run(&world, &names).await;
    history.holds().await;
    for run in world.runs().list(&ListParams::default()).await.unwrap() {
        let intent = intent_of(&run).unwrap();
        assert_eq!(intent["uid"].as_str(), run.uid().as_deref());
        owners.insert(intent["owner"].to_string());
    }
    assert_eq!(owners.len(), 2, "both were active");
}
