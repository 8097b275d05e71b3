//! Ten Runs a second: how soon the service has them, and how soon the status shows what the service says.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use run_operator::clock::wall;
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval};

use super::load::{self, HOURS, Pace, WARM_UP};
use super::observer::{Life, Observer};
use super::stage::Stage;
use super::table::{Column, Figures, millis_each, spread};
use crate::common::{Error, Outcome};
use crate::service::{ServiceRun, runs};

const NAMESPACE: &str = "latency";
const PATIENCE: Duration = Duration::from_mins(5);
/// Interval of the creates.
const EVERY: Duration = Duration::from_millis(100);
const PACE: Pace = Pace(3000, 3000);

/// The namespace of Runs that are active all the time.
const BESIDE: &str = "beside";

/// Measures it with events that name the state, with such that don't, and with many active Runs beside.
pub(super) async fn measure(quick: bool) -> Outcome<Figures> {
    let (count, beside) = if quick { (100, 0) } else { (600, 1000) };
    let cases = [
        ("events name the state", true, 0),
        ("events don't", false, 0),
        ("beside active Runs", true, beside),
    ];
    let cases = if quick { &cases[..2] } else { &cases };
    let mut columns = Vec::new();
    for &(title, named, beside) in cases {
        columns.push(case(title, named, beside, count).await?);
        eprintln!("{title}: measured");
    }
    Ok(Figures::new("latency")
        .row("Runs, ten a second", count)
        .row("Active Runs beside them, in the last case", beside)
        .columns("Times in ms, and what each Run costs", &columns))
}

/// `named`: whether the service's events name the run's state. `beside`: active Runs.
async fn case(title: &str, named: bool, beside: usize, count: usize) -> Outcome<Column> {
    let stage = Stage::set(NAMESPACE).await?;
    // A place for the stream of each Run, also with those beside.
    let mut args = vec!["--max-streams", "2000"];
    let contract = stage.contract_without_states()?;
    if !named {
        args.extend(["--contract", &contract]);
    }
    let (operator, _) = stage.operator(&args).await?;
    stage.workspace_ready(NAMESPACE).await?;
    if beside > 0 {
        stage.namespace(BESIDE).await?;
        stage.workspace_ready(BESIDE).await?;
        let active = Observer::start(stage.client.clone(), BESIDE);
        load::create_all(&stage.clients().await?, BESIDE, "run", beside, HOURS).await?;
        active.shown("running", beside, PATIENCE).await?;
    }
    let observer = Observer::start(stage.client.clone(), NAMESPACE);
    stage.at_rest().await?;
    load::create_all(&stage.clients().await?, NAMESPACE, "warm-up", WARM_UP, PACE).await?;
    observer.released(WARM_UP, PATIENCE).await?;
    let (before, requests) = (operator.usage()?, stage.requests().await?);
    let applied = apply(&stage, count).await?;
    observer.released(WARM_UP + count, PATIENCE).await?;
    let used = operator.usage()? - before;
    let requests = stage.requests().await?.since(&requests);
    let runs = runs(&stage.service).await?;
    let runs = runs.iter();
    let of = runs.filter_map(|run| Some((run, applied.get(&run.idempotency_key)?)));
    let submitted = of.clone().map(|(run, applied)| {
        // Cut to milliseconds.
        let after = run.created_at.duration_since(applied.at);
        Duration::try_from(after).unwrap_or_default()
    });
    let shown = observer.lives(|lives| {
        let shown = of
            .clone()
            .filter_map(|(run, _)| Some(shown(run, lives.get(&run.idempotency_key)?)));
        shown.flatten().collect()
    });
    let answered = applied.values().map(|applied| applied.answered);
    let answered_in = "From the apply to the API server's answer";
    let shown_in = "From a change at the service to the status";
    let cpu = millis_each(used.cpu, count);
    Ok(Column::new(title)
        .rows(spread(answered_in, answered.collect()))
        .rows(spread("From the apply to the POST", submitted.collect()))
        .rows(spread(shown_in, shown))
        .cell("Operator's time on a core for a Run", cpu)
        .rows(requests.for_each(count)))
}

/// A request of a user.
struct Applied {
    at: Timestamp,
    /// The time until the API server's answer.
    answered: Duration,
}

/// Creates Runs at a fixed pace; returns the requests, by uid.
async fn apply(stage: &Stage, count: usize) -> Outcome<HashMap<String, Applied>> {
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
            Ok::<_, Error>((run.metadata.uid, Applied { at, answered }))
        });
    }
    creates.join_all().await.into_iter().collect()
}

/// For each state that a run entered after its first, the time until the status showed it.
fn shown(run: &ServiceRun, life: &Life) -> Vec<Duration> {
    let entered = run.entered.iter().skip(1);
    let shown = entered.filter_map(|entered| {
        let seen = life.states.get(&entered.state)?;
        Duration::try_from(seen.duration_since(entered.at)).ok()
    });
    shown.collect()
}
