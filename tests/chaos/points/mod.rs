//! Crash points: the operator is killed at every external effect, and every request and answer is lost,
//! doubled, delayed and cut. Whatever happens, a life ends as the one without a fault did.
//!
//! The points are not listed here: a life without a fault records those that it passes. They are compared
//! with the API server's audit log and the service's record.

mod differences;
mod effects;
mod outcome;
mod scenario;
mod supervisor;
mod table;
mod trial;

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::{FutureExt, StreamExt, stream};
use run_operator::points::Fault;

use differences::differences;
use outcome::{Outcome, observe};
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

/// Proves: P-at-most-one, P-none-left, P-events-once, F-outage
#[tokio::test(flavor = "multi_thread")]
async fn whatever_happens_at_a_point_a_life_ends_as_without_it() {
    let replay = std::env::var(REPLAY).ok();
    let scenarios: Vec<Scenario> = Scenario::ALL
        .into_iter()
        .filter(|scenario| match &replay {
            Some(case) => case.split(':').next() == Some(scenario.as_str()),
            None => crate::full() || matches!(scenario, Scenario::Succeeds | Scenario::Deleted),
        })
        .collect();
    let oracles: Vec<_> = at_once(scenarios.into_iter().map(live)).await;
    let mut cases = Vec::new();
    for oracle in oracles.into_iter().map(|oracle| Arc::new(oracle.unwrap())) {
        cases.extend(
            plan(&oracle)
                .into_iter()
                .map(|case| (case, Arc::clone(&oracle))),
        );
    }
    if let Some(replay) = &replay {
        cases.retain(|(case, _)| case.to_string().starts_with(replay));
        assert!(!cases.is_empty(), "{REPLAY}: no life of this name");
    }
    let lives = cases.into_iter().map(|(case, oracle)| async move {
        // A helper that panics ends only its own life; its message is above.
        let told = AssertUnwindSafe(relive(&case, &oracle))
            .catch_unwind()
            .await;
        let panicked = |_| Verdict::Differs(vec!["it panicked".to_owned()]);
        let verdict = told.unwrap_or_else(panicked);
        if let Verdict::Differs(told) = &verdict {
            eprintln!("{REPLAY}={case}\n  {}", told.join("\n  "));
        }
        (case, verdict)
    });
    let table = Table::of(at_once(lives).await);
    table.record();
    assert!(table.differing.is_empty(), "{}", table.told());
    if replay.is_none() {
        let untried = table.untried();
        assert!(untried.is_empty(), "no life came to {untried:?}");
    }
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
    let every = points.flat_map(|point| Fault::ALL.map(|fault| (point, fault)));
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
        .filter(|case| {
            all || matches!(case.fault, Fault::KillBefore | Fault::KillAfter)
                || FOUND.contains(&case.to_string().as_str())
        })
        .collect()
}

/// True if the effect can be repeated later: an event is no request, and a process that releases its Lease
/// ends.
fn later(point: &str) -> bool {
    !["stream.event ", "kube.lease.release "]
        .iter()
        .any(|last| point.starts_with(last))
}

/// A life without a fault, and whether every effect that others saw of it had its point.
async fn live(scenario: Scenario) -> Told<Oracle> {
    let mut trial = Trial::begin(scenario, None).await;
    scenario.play(&mut trial).await?;
    trial.stop().await?;
    let outcome = observe(&trial).await?;
    let points = trial.trace();
    if let Some(seen) = effects::seen(&trial).await {
        let mut passed = effects::coarse(effects::passed(&points));
        // A stream that is reopened while its run ends may be given up before anything was sent.
        let stream = "service.stream".to_owned();
        if passed.get(&stream) > seen.get(&stream) {
            let opened = seen.get(&stream).copied().unwrap_or_default();
            passed.insert(stream, opened);
        }
        assert_eq!(
            passed,
            seen,
            "points, and effects seen, of {}",
            scenario.as_str()
        );
    }
    Ok(Oracle {
        scenario,
        outcome,
        points,
        mark: trial.mark,
    })
}

/// The same life with a fault, and how its end differs.
async fn relive(case: &Case, oracle: &Oracle) -> Verdict {
    let mut trial = Trial::begin(case.scenario, Some(&case.fault_text())).await;
    let told = through(&mut trial, case, oracle).await;
    if std::env::var(REPLAY).is_ok_and(|replay| replay == case.to_string()) {
        let log = std::fs::read_to_string(trial.log()).unwrap_or_default();
        eprintln!(
            "{log}\nThe points, and the fault (!):\n{}",
            trial.trace().join("\n")
        );
    }
    match told {
        Ok(false) => Verdict::NotReached,
        Ok(true) => Verdict::Same,
        Err(told) => Verdict::Differs(told),
    }
}

/// Lives it to its end. Returns whether the fault happened at all.
async fn through(trial: &mut Trial, case: &Case, oracle: &Oracle) -> Result<bool, Vec<String>> {
    let one = |told: String| vec![told];
    let word = case.fault.as_str();
    case.scenario.play(trial).await.map_err(one)?;
    let look = async {
        loop {
            let seen = observe(trial).await.map_err(one)?;
            let differing = differences(case, &oracle.outcome, &seen);
            if differing.is_empty() {
                return Ok(());
            }
            tokio::time::sleep(POLL).await;
        }
    };
    // A difference that lasts is checked, and reported, below.
    if let Ok(Err(told)) = tokio::time::timeout(PATIENCE, look).await {
        return Err(told);
    }
    let line = format!("! {} {} {word}", case.point, case.number);
    let happened = trial.trace().contains(&line);
    if happened && matches!(case.fault, Fault::KillBefore | Fault::KillAfter) {
        trial.back().await.map_err(one)?;
    }
    if happened && case.fault == Fault::DoubleLate {
        let over = format!(". {} {}", case.point, case.number);
        trial
            .look("the double to be sent", async || {
                trial.trace().contains(&over).then_some(())
            })
            .await
            .map_err(one)?;
    }
    trial.stop().await.map_err(one)?;
    let seen = observe(trial).await.map_err(one)?;
    let differing = differences(case, &oracle.outcome, &seen);
    if differing.is_empty() {
        // What it does last happens now.
        Ok(trial.trace().contains(&line))
    } else {
        Err(differing)
    }
}
