//! Ten Runs a second: how soon the service has them, and how soon the status shows what the service says.

use std::collections::HashMap;
use std::time::Duration;

use jiff::Timestamp;
use run_operator::clock::wall;
use test_support::figures::Figures;
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval};

use super::error::BenchError;
use super::load::{self, Pace};
use super::observer::{Life, Observer};
use super::stage::Stage;
use super::usage::millis_each;
use crate::service::ServiceRun;

const NAMESPACE: &str = "latency";
const PATIENCE: Duration = Duration::from_mins(5);
/// Interval of the creates.
const EVERY: Duration = Duration::from_millis(100);
const PACE: Pace = Pace {
    queued: Duration::from_secs(3),
    running: Duration::from_secs(3),
};

/// The namespace of Runs that are active all the time.
const BESIDE: &str = "beside";
const HOURS: Pace = Pace {
    queued: Duration::from_millis(200),
    running: Duration::from_hours(2),
};

/// What is measured.
struct Case {
    part: &'static str,
    /// Whether the service's events name the run's state.
    named: bool,
    /// Active Runs beside.
    beside: usize,
}

/// Measures it with events that name the state, with such that don't, and with many active Runs beside.
pub(super) async fn measure(quick: bool) -> Result<(), BenchError> {
    let case = |part, named, beside| Case {
        part,
        named,
        beside,
    };
    let mut cases = vec![
        case("latency.named", true, 0),
        case("latency.unnamed", false, 0),
    ];
    if !quick {
        cases.push(case("latency.beside", true, 1000));
    }
    for case in &cases {
        one(case, if quick { 200 } else { 600 }).await?;
    }
    Ok(())
}

async fn one(case: &Case, count: usize) -> Result<(), BenchError> {
    let mut stage = Stage::set().await?;
    stage.namespace(NAMESPACE).await?;
    if case.named {
        stage.start_operator().await?;
    } else {
        let contract = stage.contract_without_states()?;
        stage
            .start_operator_with(&["--contract", &contract])
            .await?;
    }
    stage.workspace_ready(NAMESPACE).await?;
    if case.beside > 0 {
        stage.namespace(BESIDE).await?;
        stage.workspace_ready(BESIDE).await?;
        let active = Observer::start(stage.client.clone(), BESIDE);
        load::create_all(&stage.clients().await?, BESIDE, case.beside, HOURS).await?;
        active.shown("running", case.beside, PATIENCE).await?;
    }
    let observer = Observer::start(stage.client.clone(), NAMESPACE);
    let (before, requests) = (stage.measured()?, stage.requests().await?);
    let applied = apply(&stage, count).await?;
    observer.released(count, PATIENCE).await?;
    let used = stage.measured()? - before;
    let made = stage.requests().await?.since(&requests);
    let runs = stage.service.runs().await?;
    let submitted = runs.iter().filter_map(|run| {
        let applied = applied.get(&run.idempotency_key)?;
        between(*applied, &run.created_at)
    });
    let shown = observer.lives(|lives| shown(&runs, lives));
    Figures::new(case.part)
        .row("Runs, ten a second", count)
        .row(
            "The service's events name the state",
            if case.named { "yes" } else { "no" },
        )
        .row("Active Runs beside them", case.beside)
        .row(
            "Operator: time on a core for a Run, in ms",
            millis_each(used.operator.cpu, count),
        )
        .table(
            "Times in ms",
            &["from", "to", "number", "p50", "p99", "longest"],
            vec![
                spread("the apply", "the POST at the service", submitted.collect()),
                spread("a change at the service", "the status", shown),
            ],
        )
        .table(
            "Requests for a Run",
            &["", "for each Run"],
            made.for_each(count),
        )
        .record();
    Ok(())
}

/// Creates Runs at a fixed pace; returns the time of each request, by uid.
async fn apply(stage: &Stage, count: usize) -> Result<HashMap<String, Timestamp>, BenchError> {
    let clients = stage.clients().await?;
    let mut ticks = interval(EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
    let mut creates = JoinSet::new();
    for number in 0..count {
        ticks.tick().await;
        let client = clients[number % clients.len()].clone();
        creates.spawn(async move {
            let at = wall();
            let run = load::create(&client, NAMESPACE, &load::name(number), PACE).await?;
            Ok::<_, BenchError>((run.metadata.uid, at))
        });
    }
    creates.join_all().await.into_iter().collect()
}

/// For each state that a run entered after its first, the time until the status showed it.
fn shown(runs: &[ServiceRun], lives: &HashMap<String, Life>) -> Vec<Duration> {
    let of_run = |run: &ServiceRun| -> Vec<Duration> {
        let Some(life) = lives.get(&run.idempotency_key) else {
            return Vec::new();
        };
        let entered = run.entered.iter().skip(1);
        entered
            .filter_map(|entered| {
                let seen = life.states.get(&entered.state)?;
                let at: Timestamp = entered.at.parse().ok()?;
                Duration::try_from(seen.duration_since(at)).ok()
            })
            .collect()
    };
    runs.iter().flat_map(of_run).collect()
}

/// The time from one moment to a later one that is cut to milliseconds.
fn between(from: Timestamp, to: &str) -> Option<Duration> {
    let to: Timestamp = to.parse().ok()?;
    Some(Duration::try_from(to.duration_since(from)).unwrap_or_default())
}

/// A row of the table.
fn spread(from: &str, to: &str, mut all: Vec<Duration>) -> Vec<String> {
    all.sort_unstable();
    let at = |hundredths: usize| {
        let place = (all.len() * hundredths / 100).min(all.len().saturating_sub(1));
        all.get(place)
            .map_or_else(|| "-".to_owned(), |took| took.as_millis().to_string())
    };
    vec![
        from.to_owned(),
        to.to_owned(),
        all.len().to_string(),
        at(50),
        at(99),
        at(100),
    ]
}
