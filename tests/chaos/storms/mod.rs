//! Storms: everything at once, from a seed. People create, edit, cancel, delete and create again, while the
//! operators are killed, API server and etcd restarted, the service is down, tokens are rotated, clocks step.
//!
//! The seed determines the actions, their targets and their times, but not how the programs interleave. It is one of
//! [`SEEDS`]; a number in `RUN_OPERATOR_SEED` is another, and `random` some that are printed.

mod environment;
mod fault_injection;
mod fault_schedule;
mod finalizer_race;
mod timeline;
mod users;
mod verdict;
mod verdict_tests;
mod workload;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use fastrand::Rng;
use futures::future::join_all;
use serde_json::json;

use self::environment::Stage;
use self::fault_schedule::Weather;
use self::verdict::{Finding, Scene, doubled, leaks};
use self::workload::{Life, lives};
use crate::support::{
    History, Operator, audited_control_plane, eventually, eventually_after, holds_for_a_while,
};
use test_cluster::ControlPlane;

/// The seeds of every change. In the first storm Runs have their finalizer from their creation on, a new process finds
/// what is left, and the Workspace has a limit; in the second none of it.
const SEEDS: [u64; 2] = [2, 3];
/// Time until everything must have ended once the faults have. The longest pause of the operator's own is a
/// Workspace's backoff.
const CALM: Duration = Duration::from_mins(4);
/// Runs that may be active at the same time where the seed is even: about a third of those that would be.
const SLOTS: u32 = 8;
/// Stories printed of one storm.
const STORIES: usize = 4;

/// The size of a storm.
struct Size {
    seeds: usize,
    runs: usize,
    /// Milliseconds of faults; Runs are created in the first two thirds.
    length: u64,
    /// Restarts of the API server, and as many of etcd.
    restarts: usize,
}

const USUAL: Size = Size {
    seeds: SEEDS.len(),
    runs: 60,
    length: 12_000,
    restarts: 1,
};
const FULL: Size = Size {
    seeds: 6,
    runs: 200,
    length: 45_000,
    restarts: 3,
};

/// The seeds of this time: one that was given, the usual ones, or new ones.
fn seeds(count: usize) -> Vec<u64> {
    let given = std::env::var("RUN_OPERATOR_SEED").ok();
    match given.as_deref() {
        None if !crate::full() => SEEDS.into(),
        None | Some("random") => (0..count).map(|_| fastrand::u64(..1 << 32)).collect(),
        Some(number) => vec![number.parse().expect("RUN_OPERATOR_SEED")],
    }
}

/// Proves: P-at-most-one, P-none-left, F-outage
#[tokio::test]
async fn storms_lose_no_run_and_double_none() {
    let _turn = crate::TURN.lock().await;
    let own = audited_control_plane().await;
    let size = if crate::full() { FULL } else { USUAL };
    for seed in seeds(size.seeds) {
        eprintln!("storm: RUN_OPERATOR_SEED={seed}");
        storm(own, seed, &size).await;
    }
}

async fn storm(own: &'static ControlPlane, seed: u64, size: &Size) {
    let mut random = Rng::with_seed(seed);
    let lives = lives(size.runs, size.length * 2 / 3, &mut random);
    let weather = Weather::of(size.length, size.restarts, &mut random);
    // True: the process that saw all of it continues; false: a new process finds what is left.
    let survives = random.bool();
    let held_from_birth = random.bool();

    let mut stage = Stage::set(own).await;
    if held_from_birth {
        stage.hold_from_birth().await;
    }
    if seed.is_multiple_of(2) {
        stage.limit(SLOTS).await;
    }
    let history = stage.world.history().await;
    let began = tokio::time::Instant::now();
    let people = lives.iter().enumerate();
    let people = people.map(|(index, life)| stage.live(index, life, began));
    let over = AtomicBool::new(false);
    let all_else = async {
        tokio::join!(
            stage.quake(&weather.quakes),
            stage.fail(&weather.outages),
            stage.rotate_all(&weather.rotations),
            stage.step_clocks(&weather.clocks),
            join_all(people),
        );
        over.store(true, Ordering::Relaxed);
    };
    let (mut operator, ()) = tokio::join!(stage.strike(&weather.blows, &over), all_else);
    stage.world.service.delete("faults").await;
    if !survives {
        operator.kill();
        operator = stage.launch(0);
    }
    for life in lives.iter().filter(|life| life.kind.retried()) {
        let again = json!({"metadata": {"annotations": {"run-operator.dev/retry": "calm"}}});
        stage.change(&life.name, &again).await;
    }
    let scene = calm(seed, &stage, &lives, &history, operator).await;
    // Excused, and printed all the same: the story shows why the run was not cancelled.
    let born = stage.born.lock().unwrap().clone();
    let left = scene.left_by_the_api_server(&born);
    for about in &left {
        eprintln!("{}", timeline::story(&stage, &lives, &history, about).await);
    }
    let most = scene.posts.values().map(Vec::len).max().unwrap_or_default();
    let (objects, doubled) = (born.len(), stage.to_service.repeated());
    let (removed, left) = (scene.overtaken.len(), left.len());
    eprintln!(
        "storm: seed {seed}: {objects} objects of {} Runs, finalizer from birth: {held_from_birth}, \
        same process at the end: {survives}; active at the same time: {} of {:?}; {:?}; creates doubled: {doubled}; \
        POSTs: {}, of one key at most {most}; runs: {}; \
        objects removed in spite of their finalizer: {removed}, and runs left by that: {left}",
        lives.len(),
        stage.most_active(&lives, &scene),
        stage.max_active,
        stage.counts.lock().unwrap(),
        scene.posts.values().map(Vec::len).sum::<usize>(),
        scene.runs.len(),
    );
}

/// Waits until everything is as it must be, and stays so.
async fn calm(
    seed: u64,
    stage: &Stage,
    lives: &[Life],
    history: &History,
    operator: Operator,
) -> Scene {
    let mut operator = Some(operator);
    let deadline = Instant::now() + CALM;
    loop {
        stage.revive(0, &mut operator);
        let scene = seen(stage).await;
        let lasting = doubled(&scene).or_else(|| stage.exceeded(lives, &scene));
        if let Some(lasting) = lasting {
            report(seed, stage, lives, history, &[lasting]).await;
        }
        let findings = stage.findings(lives, &scene);
        if findings.is_empty() {
            break;
        }
        if Instant::now() >= deadline {
            report(seed, stage, lives, history, &findings).await;
        }
        tokio::time::sleep(Duration::from_millis(250)).await;
    }
    if let (Some(max), Some(operator)) = (stage.max_active, &operator) {
        let what = "every slot is free, and no Run waits for one";
        eventually_after(CALM, what, async || {
            let slots = operator.slots().await;
            if slots == [0.0, 0.0, f64::from(max)] {
                Ok(())
            } else {
                Err(format!("seed {seed}: {slots:?}"))
            }
        })
        .await;
    }
    let calls = calls(stage).await;
    holds_for_a_while(60, async || {}).await;
    let now = self::calls(stage).await;
    assert_eq!(now, calls, "calls after the end, seed {seed}");
    assert_eq!(leaks(stage).await, [""; 0], "seed {seed}");
    assert!(stage.showed_its_clock(), "a clock that stood, seed {seed}");
    let stats = stage.world.service.get("stats").await;
    assert_eq!(stats["authorizationOnVersion"], 0, "seed {seed}");
    history.holds().await;
    let scene = seen(stage).await;
    let findings = stage.findings(lives, &scene);
    if !findings.is_empty() {
        report(seed, stage, lives, history, &findings).await;
    }
    scene
}

async fn seen(stage: &Stage) -> Scene {
    let what = "cluster and service are seen";
    eventually(what, async || Scene::of(stage).await).await
}

/// The calls for Runs until now, by operation.
async fn calls(stage: &Stage) -> BTreeMap<&'static str, u64> {
    let mut calls = BTreeMap::new();
    for operation in ["createRun", "getRun", "cancelRun", "streamEvents"] {
        calls.insert(operation, stage.world.service.count(operation).await);
    }
    calls
}

/// Ends the test with the seed and the stories of what is wrong.
async fn report(
    seed: u64,
    stage: &Stage,
    lives: &[Life],
    history: &History,
    findings: &[Finding],
) -> ! {
    let mut text = String::new();
    for finding in findings.iter().take(STORIES) {
        text += &timeline::story(stage, lives, history, finding).await;
    }
    let all: Vec<&str> = findings.iter().map(|f| f.what.as_str()).collect();
    panic!(
        "RUN_OPERATOR_SEED={seed}: {} violations\n{}\n{text}",
        all.len(),
        all.join("\n")
    );
}
