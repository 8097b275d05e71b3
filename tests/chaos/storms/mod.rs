//! Storms: everything at once, from a seed. People create, edit, cancel, delete and create again, while the
//! operators are killed, API server and etcd restarted, the service is down, tokens are rotated, clocks step.
//!
//! The seed is printed; `RUN_OPERATOR_SEED` sets it. It determines the actions, their targets and their
//! times, but not how the programs interleave.

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
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use fastrand::Rng;
use futures::future::join_all;
use serde_json::json;

use self::environment::Stage;
use self::fault_schedule::Weather;
use self::verdict::{Finding, Scene, doubled, leaks};
use self::workload::{Life, lives};
use crate::support::{History, Operator, eventually, holds_for_a_while};
use test_cluster::ControlPlane;
use test_support::figures::Figures;

/// Time until everything must have ended once the faults have. The longest pause of the operator's own is a
/// Workspace's backoff.
const CALM: Duration = Duration::from_mins(4);
/// Stories printed of one storm.
const STORIES: usize = 4;

/// The size of a storm.
struct Size {
    seeds: u64,
    runs: usize,
    /// Milliseconds of faults; Runs are created in the first two thirds.
    length: u64,
    /// Restarts of the API server, and as many of etcd.
    restarts: usize,
}

impl Size {
    fn asked_for() -> Self {
        if crate::full() {
            return Self {
                seeds: 6,
                runs: 200,
                length: 45_000,
                restarts: 3,
            };
        }
        Self {
            seeds: 1,
            runs: 60,
            length: 12_000,
            restarts: 1,
        }
    }
}

/// The seeds of this time: one that was given, or new ones.
fn seeds(count: u64) -> Vec<u64> {
    match std::env::var("RUN_OPERATOR_SEED") {
        Ok(given) => vec![given.parse().expect("RUN_OPERATOR_SEED is a number")],
        Err(_) => (0..count).map(|_| fastrand::u64(..1 << 32)).collect(),
    }
}

/// Proves: P-at-most-one, P-none-left, F-outage
#[tokio::test]
async fn storms_lose_no_run_and_double_none() {
    let _turn = crate::TURN.lock().await;
    let own = ControlPlane::start_with_audited_bodies().await.unwrap();
    let own: &'static ControlPlane = Box::leak(Box::new(own));
    let size = Size::asked_for();
    let mut total = Total::default();
    for seed in seeds(size.seeds) {
        eprintln!("storm: RUN_OPERATOR_SEED={seed}");
        storm(own, seed, &size, &mut total).await;
    }
    total.figures().record();
}

async fn storm(own: &'static ControlPlane, seed: u64, size: &Size, total: &mut Total) {
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
    total.add(&stage, &lives, &scene, left.len()).await;
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
        let scene = eventually("cluster and service are seen", async || {
            Scene::of(stage).await
        })
        .await;
        if let Some(twice) = doubled(&scene) {
            report(seed, stage, lives, history, &[twice]).await;
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
    let calls = calls(stage).await;
    holds_for_a_while(60, async || {}).await;
    assert_eq!(
        self::calls(stage).await,
        calls,
        "calls after the end, seed {seed}"
    );
    assert_eq!(leaks(stage).await, Vec::<String>::new(), "seed {seed}");
    let stats = stage.world.service.get("stats").await;
    assert_eq!(stats["authorizationOnVersion"], 0, "seed {seed}");
    history.holds().await;
    let scene = eventually("cluster and service are seen", async || {
        Scene::of(stage).await
    })
    .await;
    let findings = stage.findings(lives, &scene);
    if !findings.is_empty() {
        report(seed, stage, lives, history, &findings).await;
    }
    scene
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

/// The results of all storms together.
#[derive(Default)]
struct Total {
    seeds: u64,
    rows: Vec<(&'static str, u64)>,
    most_posts: usize,
}

impl Total {
    async fn add(&mut self, stage: &Stage, lives: &[Life], scene: &Scene, left: usize) {
        self.seeds += 1;
        let counts = &stage.counts;
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let at_the_service = calls(stage).await;
        let born = stage.born.lock().unwrap().len();
        let replayed = scene.posts.values().filter(|posts| posts.len() > 1).count();
        for (row, count) in [
            ("Runs", lives.len() as u64),
            ("Objects", born as u64),
            ("Kills of an operator", of(&counts.kills)),
            ("Operators stopped and continued", of(&counts.holds)),
            ("Second operators beside the first", of(&counts.seconds)),
            ("Operators that ended by themselves", of(&counts.exits)),
            ("Restarts of the API server", of(&counts.api_servers)),
            ("Restarts of etcd", of(&counts.etcds)),
            ("Resets of the watches", of(&counts.resets)),
            ("Outages and faults of the service", of(&counts.outages)),
            ("Answers that a fault changed", of(&counts.faulted)),
            ("Creates doubled on the wire", stage.to_service.doubled()),
            ("Rotations of the token", of(&counts.rotations)),
            (
                "Steps of the operators' wall clock",
                of(&counts.clock_steps),
            ),
            ("POSTs at the service", at_the_service["createRun"]),
            ("Keys with several POSTs", replayed as u64),
            ("Runs at the service", scene.runs.len() as u64),
            (
                "Storms with a finalizer from the creation on",
                u64::from(stage.held_from_birth),
            ),
            (
                "In the others, objects that the API server removed in spite of it",
                scene.overtaken.len() as u64,
            ),
            ("Runs of those that were left", left as u64),
        ] {
            match self.rows.iter_mut().find(|(known, _)| *known == row) {
                Some((_, sum)) => *sum += count,
                None => self.rows.push((row, count)),
            }
        }
        let most = scene.posts.values().map(Vec::len).max();
        self.most_posts = self.most_posts.max(most.unwrap_or_default());
    }

    fn figures(self) -> Figures {
        let figures = Figures::new("storms").row("Seeds", self.seeds);
        let figures = self
            .rows
            .into_iter()
            .fold(figures, |f, (row, n)| f.row(row, n));
        figures.row("Most POSTs of one key", self.most_posts)
    }
}
