//! Crash points: the operator is killed at every external effect, and every request and answer is lost,
//! doubled, delayed and cut. Whatever happens, a life ends as the one without a fault did.
//!
//! # Flow
//! A proxy at each of the operator's two wires names what passes ([`names`]). The points are not listed here: a life
//! without a fault finds those that it passes. The life is lived again with each fault at each of them ([`plan`]), and
//! its end is compared with the first one's ([`differences`]).
//!
//! # Guarantees
//! - Killing is SIGKILL, by the test that owns the process, while the proxy holds the request or its answer.
//! - A lost request was not passed on; one whose answer is lost or cut was carried out; a doubled one was carried out
//!   twice.
//! - No effect has another way: the operator knows only the proxies' addresses, and has no credentials of the API
//!   server.

mod differences;
mod names;
mod outcome;
mod plan;
mod scenario;
mod supervisor;
mod table;
mod trial;

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use clap::ValueEnum;
use futures::{FutureExt, StreamExt, stream};

use differences::differences;
use outcome::{Outcome, observe};
use plan::Fault;
use scenario::Scenario;
use table::{Case, Table, Verdict};
use trial::{PATIENCE, Told, Trial};

/// Only the lives of the plan whose names begin so: `deleted:kube.run.status:3:kill-before` is one of them.
const REPLAY: &str = "RUN_OPERATOR_REPLAY";
/// Lives that once ended otherwise, and what was wrong: a write of a Workspace that got no answer was made again
/// after a minute only, in which no Run was submitted, or the Workspace had no status.
const FOUND: [&str; 2] = [
    "succeeds:kube.workspace.finalizer:1:lose-request",
    "succeeds:kube.workspace.status:1:lose-request",
];
/// Concurrent trials for each core: they wait most of the time.
const A_CORE: usize = 4;
const POLL: Duration = Duration::from_millis(100);

/// A life without a fault.
struct Oracle {
    scenario: Scenario,
    outcome: Outcome,
    /// Name and number of every point, in order.
    points: Vec<String>,
    /// Number of points before the scenario's own part: up to there it is the same as one that succeeds.
    mark: usize,
}

/// Proves: P-at-most-one, P-none-left, P-events, F-outage
#[tokio::test(flavor = "multi_thread")]
async fn whatever_happens_at_a_point_a_life_ends_as_without_it() {
    let _turn = crate::TURN.lock().await;
    let replay = std::env::var(REPLAY).ok();
    let scenarios = Scenario::value_variants().iter().copied();
    let scenarios = scenarios.filter(|scenario| match &replay {
        Some(case) => case.split(':').next() == Some(word(scenario).as_str()),
        None => crate::full() || matches!(scenario, Scenario::Succeeds | Scenario::Deleted),
    });
    let oracles: Vec<_> = at_once(scenarios.map(live)).await;
    let mut cases = Vec::new();
    for oracle in oracles.into_iter().map(|oracle| Arc::new(oracle.unwrap())) {
        let lives = plan(&oracle).into_iter();
        cases.extend(lives.map(|case| (case, Arc::clone(&oracle))));
    }
    if let Some(replay) = &replay {
        cases.retain(|(case, _)| case.to_string().starts_with(replay));
        assert!(!cases.is_empty(), "{REPLAY}: no life of this name");
    }
    let lives = cases.into_iter().map(|(case, oracle)| async move {
        // A helper that panics ends only its own life; its message is above.
        let told = AssertUnwindSafe(relive(&case, &oracle)).catch_unwind();
        let panicked = |_| Err(vec!["it panicked".to_owned()]);
        let verdict = told.await.unwrap_or_else(panicked);
        (case, verdict)
    });
    let table = Table(at_once(lives).await);
    table.print();
    let differing = table.differing();
    assert!(differing.is_empty(), "{}", differing.join("\n"));
    if replay.is_none() {
        let untried = table.untried();
        assert!(untried.is_empty(), "no life came to {untried:?}");
    }
}

/// The word for a scenario or a fault.
fn word(value: &impl ValueEnum) -> String {
    let value = value.to_possible_value().unwrap();
    value.get_name().to_owned()
}

/// Runs so many at once that the cores are busy and the trials' waits overlap.
async fn at_once<T>(all: impl Iterator<Item = impl Future<Output = T>>) -> Vec<T> {
    let cores = std::thread::available_parallelism().map_or(2, usize::from);
    stream::iter(all)
        .buffer_unordered(A_CORE * cores)
        .collect()
        .await
}

/// The trials of a life: every fault at every point from where it differs from another life; in the bounded
/// run, the two kills, and cases that once failed.
fn plan(oracle: &Oracle) -> Vec<Case> {
    let all = std::env::var_os(REPLAY).is_some() || crate::full();
    let points = oracle.points.iter().skip(oracle.mark);
    let points = points.filter(|point| oracle.scenario.tries(point));
    let faults = Fault::value_variants().iter().copied();
    let every = points.flat_map(|point| faults.clone().map(move |fault| (point, fault)));
    every
        .filter(|(point, fault)| *fault != Fault::DoubleLate || later(point))
        .map(|(point, fault)| {
            let (name, number) = point.split_once(' ').unwrap_or_default();
            Case {
                scenario: oracle.scenario,
                point: name.to_owned(),
                number: number.parse().unwrap(),
                fault,
            }
        })
        .filter(|case| all || case.fault.kills() || FOUND.contains(&case.to_string().as_str()))
        .collect()
}

/// True if the effect can be repeated later: an event is no request, and a process that releases its Lease
/// ends.
fn later(point: &str) -> bool {
    !["stream.event ", "kube.lease.release "]
        .iter()
        .any(|last| point.starts_with(last))
}

/// A life without a fault.
async fn live(scenario: Scenario) -> Told<Oracle> {
    let mut trial = Trial::begin(scenario, None).await;
    scenario.play(&mut trial).await?;
    trial.stop().await?;
    let outcome = observe(&trial).await?;
    Ok(Oracle {
        scenario,
        outcome,
        points: trial.plan.points(),
        mark: trial.mark,
    })
}

/// The same life with a fault, and how its end differs.
async fn relive(case: &Case, oracle: &Oracle) -> Verdict {
    let mut trial = Trial::begin(case.scenario, Some(case)).await;
    let told = through(&mut trial, case, oracle).await;
    if std::env::var(REPLAY).is_ok_and(|replay| replay == case.to_string()) {
        let log = trial.world.operator_log();
        eprintln!("{log}\nThe points:\n{}", trial.plan.story().join("\n"));
    }
    told
}

/// The differences between the end of a life, as it is now, and the one without the fault.
async fn differing(
    trial: &Trial,
    case: &Case,
    oracle: &Oracle,
) -> Result<Vec<String>, Vec<String>> {
    let seen = observe(trial).await.map_err(|told| vec![told])?;
    Ok(differences(case, &oracle.outcome, &seen))
}

/// Lives it to its end. Returns whether the fault happened at all.
async fn through(trial: &mut Trial, case: &Case, oracle: &Oracle) -> Verdict {
    let one = |told: String| vec![told];
    case.scenario.play(trial).await.map_err(one)?;
    let look = async {
        while !differing(trial, case, oracle).await?.is_empty() {
            tokio::time::sleep(POLL).await;
        }
        Ok(())
    };
    // A difference that lasts is checked, and reported, below.
    if let Ok(Err(told)) = tokio::time::timeout(PATIENCE, look).await {
        return Err(told);
    }
    if trial.plan.happened() && case.fault.kills() {
        trial.back().await.map_err(one)?;
    }
    if trial.plan.happened() && case.fault == Fault::DoubleLate {
        trial.repeated().await.map_err(one)?;
    }
    trial.stop().await.map_err(one)?;
    let differing = differing(trial, case, oracle).await?;
    if differing.is_empty() {
        // What it does last happens now.
        Ok(trial.plan.happened())
    } else {
        Err(differing)
    }
}
