//! Ten Runs a second: how soon the service has them, and how soon the status shows what the service says.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use super::figures::{Figures, Plot, PlotKind};
use jiff::Timestamp;
use run_operator::clock::wall;
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval};

use super::columns::{self, Column};
use super::error::BenchError;
use super::load::{self, Pace, WARM_UP};
use super::observer::{Life, Observer};
use super::spread::{PERCENTILES, Spread, name};
use super::stage::{Requests, Stage};
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
    title: &'static str,
    /// Whether the service's events name the run's state.
    named: bool,
    /// Active Runs beside.
    beside: usize,
}

/// What was measured.
struct Measures {
    title: &'static str,
    count: usize,
    operator: Duration,
    answered: Spread,
    submitted: Spread,
    shown: Spread,
    requests: Requests,
}

/// Measures it with events that name the state, with such that don't, and with many active Runs beside.
pub(super) async fn measure(quick: bool) -> Result<Figures, BenchError> {
    let (count, beside) = if quick { (100, 0) } else { (600, 1000) };
    let cases = [
        Case {
            title: "events name the state",
            named: true,
            beside: 0,
        },
        Case {
            title: "events don't",
            named: false,
            beside: 0,
        },
        Case {
            title: "beside active Runs",
            named: true,
            beside,
        },
    ];
    let mut all = Vec::new();
    let cases = if quick { &cases[..2] } else { &cases };
    for case in cases {
        let measured = one(case, count).await?;
        let (submitted, shown) = (&measured.submitted, &measured.shown);
        eprintln!("{}: {submitted}, {shown}", measured.title);
        all.push(measured);
    }
    let columns: Vec<_> = all.iter().map(Measures::column).collect();
    let plot = |what: &str, spread: fn(&Measures) -> &Spread| Plot {
        title: format!("{what}, by percentile (ms)"),
        kind: PlotKind::Lines,
        labels: PERCENTILES.map(name).to_vec(),
        series: all
            .iter()
            .map(|one| (one.title.to_owned(), spread(one).plotted()))
            .collect(),
    };
    let figures = Figures::new("latency")
        .row("Runs, ten a second", count)
        .row("Active Runs beside them, in the last case", beside);
    let figures = columns::table(figures, "Times in ms, and what each Run costs", &columns)
        .plot(plot("From the apply to the POST", |one| &one.submitted))
        .plot(plot("From a change at the service to the status", |one| {
            &one.shown
        }));
    Ok(figures)
}

impl Measures {
    fn column(&self) -> Column {
        let column = Column::new(self.title);
        let column = self
            .answered
            .cells(column, "From the apply to the API server's answer");
        let column = self.submitted.cells(column, "From the apply to the POST");
        let operator = millis_each(self.operator, self.count);
        self.shown
            .cells(column, "From a change at the service to the status")
            .cell("Operator's time on a core for a Run", operator)
            .requests_for_each(&self.requests, self.count)
    }
}

async fn one(case: &Case, count: usize) -> Result<Measures, BenchError> {
    let mut stage = Stage::set().await?;
    stage.namespace(NAMESPACE).await?;
    // A place for the stream of each Run, also with those beside.
    let mut args = vec!["--max-streams", "2000"];
    let contract = (!case.named).then(|| stage.contract_without_states());
    let contract = contract.transpose()?;
    if let Some(contract) = &contract {
        args.extend(["--contract", contract]);
    }
    stage.start_operator_with(&args).await?;
    stage.workspace_ready(NAMESPACE).await?;
    if case.beside > 0 {
        stage.namespace(BESIDE).await?;
        stage.workspace_ready(BESIDE).await?;
        let active = Observer::start(stage.client.clone(), BESIDE);
        load::create_all(&stage.clients().await?, BESIDE, "run", case.beside, HOURS).await?;
        active.shown("running", case.beside, PATIENCE).await?;
    }
    let observer = Observer::start(stage.client.clone(), NAMESPACE);
    stage.at_rest().await?;
    load::create_all(&stage.clients().await?, NAMESPACE, "warm-up", WARM_UP, PACE).await?;
    observer.released(WARM_UP, PATIENCE).await?;
    let (before, requests) = (stage.measured()?, stage.requests().await?);
    let applied = apply(&stage, count).await?;
    observer.released(WARM_UP + count, PATIENCE).await?;
    let used = stage.measured()? - before;
    let requests = stage.requests().await?.since(&requests);
    let runs = stage.service.runs().await?;
    let submitted = runs.iter().filter_map(|run| {
        let applied = applied.get(&run.idempotency_key)?;
        between(applied.at, &run.created_at)
    });
    let shown = observer.lives(|lives| {
        let counts = |run: &&ServiceRun| applied.contains_key(&run.idempotency_key);
        shown(runs.iter().filter(counts), lives)
    });
    Ok(Measures {
        title: case.title,
        count,
        operator: used.operator.cpu,
        answered: Spread::of(applied.values().map(|applied| applied.answered).collect()),
        submitted: Spread::of(submitted.collect()),
        shown: Spread::of(shown),
        requests,
    })
}

/// A request of a user.
struct Applied {
    at: Timestamp,
    /// The time until the API server's answer.
    answered: Duration,
}

/// Creates Runs at a fixed pace; returns the requests, by uid.
async fn apply(stage: &Stage, count: usize) -> Result<HashMap<String, Applied>, BenchError> {
    let clients = stage.clients().await?;
    let mut ticks = interval(EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
    let mut creates = JoinSet::new();
    for number in 0..count {
        ticks.tick().await;
        let client = clients[number % clients.len()].clone();
        creates.spawn(async move {
            let (at, began) = (wall(), Instant::now());
            let run = load::create(&client, NAMESPACE, &load::name("run", number), PACE).await?;
            let answered = began.elapsed();
            Ok::<_, BenchError>((run.metadata.uid, Applied { at, answered }))
        });
    }
    creates.join_all().await.into_iter().collect()
}

/// For each state that a run entered after its first, the time until the status showed it.
fn shown<'a>(
    runs: impl Iterator<Item = &'a ServiceRun>,
    lives: &HashMap<String, Life>,
) -> Vec<Duration> {
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
    runs.flat_map(of_run).collect()
}

/// The time from one moment to a later one that is cut to milliseconds.
fn between(from: Timestamp, to: &str) -> Option<Duration> {
    let to: Timestamp = to.parse().ok()?;
    Some(Duration::try_from(to.duration_since(from)).unwrap_or_default())
}
