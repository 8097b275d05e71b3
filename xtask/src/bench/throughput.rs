//! Runs as fast as the API server takes them: the operator beside the limit.

use std::time::{Duration, Instant};

use super::figures::{Figures, Plot, PlotKind};

use super::columns::{self, Column};
use super::error::BenchError;
use super::lifecycle::Lifecycle;
use super::limit::{self, Limit};
use super::load::{self, Pace, WARM_UP};
use super::observer::Observer;
use super::stage::{Measured, Requests, Stage};
use super::usage::{mib, millis, millis_each, percent, rounded};

const NAMESPACE: &str = "throughput";
/// Time for all Runs to end.
const PATIENCE: Duration = Duration::from_mins(10);
/// Events of a Run: its submission and its end. The Workspace's are few.
const EVENTS: usize = 2;
/// Long enough for every state to be shown: a Run whose states follow sooner than they can be written costs fewer
/// writes.
const PACE: Pace = Pace {
    queued: Duration::from_secs(2),
    running: Duration::from_secs(2),
};

/// Somebody who took the Runs through their lives.
struct Measures {
    who: &'static str,
    lifecycles_a_second: f64,
    used: Measured,
    /// None of a loader: they are in the recorded life.
    requests: Requests,
}

/// Measures loaders that make the writes alone, and with the Events, and the operator between them: a machine is not
/// equally fast all the time.
pub(super) async fn measure(quick: bool) -> Result<Figures, BenchError> {
    let count = if quick { 200 } else { 1500 };
    let life = Lifecycle::record().await?;
    let loader = async |who, events| {
        let limit = limit::measure(&life, NAMESPACE, count, events).await?;
        Ok::<_, BenchError>(said(Measures::of_loader(who, &limit)))
    };
    let all = [
        loader("loader, without Events", false).await?,
        loader("loader, with Events", true).await?,
        said(operator(count).await?),
        loader("loader again, with Events", true).await?,
        loader("loader again, without Events", false).await?,
    ];
    Ok(figures(count, life.count(), &all))
}

fn said(measured: Measures) -> Measures {
    eprintln!(
        "{}: {:.1} lives a second",
        measured.who, measured.lifecycles_a_second
    );
    measured
}

fn figures(count: usize, (writes, events): (usize, usize), all: &[Measures; 5]) -> Figures {
    let [before, before_too, operator, after_too, after] = all;
    let share = |limits: [&Measures; 2]| {
        let mean = f64::midpoint(limits[0].lifecycles_a_second, limits[1].lifecycles_a_second);
        format!("{:.0} %", 100.0 * operator.lifecycles_a_second / mean)
    };
    let columns: Vec<_> = all.iter().map(|one| one.column(count)).collect();
    let labels: Vec<_> = all.iter().map(|one| one.who.to_owned()).collect();
    let of = |value: &dyn Fn(&Measures) -> f64| all.iter().map(|one| rounded(value(one))).collect();
    let cpu = |part: fn(&Measured) -> Duration| of(&|one| millis(part(&one.used), count));
    let lives = Plot {
        title: "Lives of Runs a second".to_owned(),
        kind: PlotKind::Bars,
        labels: labels.clone(),
        series: vec![("lives".to_owned(), of(&|one| one.lifecycles_a_second))],
    };
    let time = Plot {
        title: "Time on a core for a Run (ms)".to_owned(),
        kind: PlotKind::Bars,
        labels,
        series: vec![
            ("operator".to_owned(), cpu(|used| used.operator.cpu)),
            ("API server".to_owned(), cpu(|used| used.apiserver.cpu)),
            ("etcd".to_owned(), cpu(|used| used.etcd.cpu)),
        ],
    };
    let figures = Figures::new("throughput")
        .row("Runs", count)
        .row("Writes of a Run in the recorded life", writes)
        .row("Events in the recorded life", events)
        .row(
            "The operator's share of the loaders without Events",
            share([before, after]),
        )
        .row(
            "The operator's share of the loaders with Events",
            share([before_too, after_too]),
        )
        .row(
            "The operator's time as a share of the API server's and etcd's",
            percent(operator.used.operator_share()),
        )
        .row(
            "The operator's memory at the end",
            mib(operator.used.operator.resident),
        );
    let title = "For each Run; the operator's requests by the API server's audit log and the service's count";
    columns::table(figures, title, &columns)
        .plot(lives)
        .plot(time)
}

impl Measures {
    fn of_loader(who: &'static str, limit: &Limit) -> Self {
        Self {
            who,
            lifecycles_a_second: limit.lifecycles_a_second,
            used: limit.used,
            requests: Requests::default(),
        }
    }

    fn column(&self, count: usize) -> Column {
        let each = |cpu: Duration| millis_each(cpu, count);
        Column::new(self.who)
            .cell("Lives a second", format!("{:.1}", self.lifecycles_a_second))
            .cell(
                "Operator's time on a core, in ms",
                each(self.used.operator.cpu),
            )
            .cell("API server's, in ms", each(self.used.apiserver.cpu))
            .cell("etcd's, in ms", each(self.used.etcd.cpu))
            .cell("The service's, in ms", each(self.used.service.cpu))
            .requests_for_each(&self.requests, count)
    }
}

/// Lets the operator take so many Runs through their lives.
async fn operator(count: usize) -> Result<Measures, BenchError> {
    let mut stage = Stage::set().await?;
    stage.namespace(NAMESPACE).await?;
    stage.start_operator().await?;
    stage.workspace_ready(NAMESPACE).await?;
    let observer = Observer::start(stage.client.clone(), NAMESPACE);
    let clients = stage.clients().await?;
    stage.at_rest().await?;
    load::create_all(&clients, NAMESPACE, "warm-up", WARM_UP, PACE).await?;
    observer.released(WARM_UP, PATIENCE).await?;
    stage.events(NAMESPACE, WARM_UP * EVENTS).await?;
    let (before, requests) = (stage.measured()?, stage.requests().await?);
    let began = Instant::now();
    load::create_all(&clients, NAMESPACE, "run", count, PACE).await?;
    observer.released(WARM_UP + count, PATIENCE).await?;
    // This includes the last Run's own time at the service, so the operator's share is a lower bound.
    let took = began.elapsed();
    stage.events(NAMESPACE, (WARM_UP + count) * EVENTS).await?;
    Ok(Measures {
        who: "operator",
        lifecycles_a_second: load::a_second(count, took),
        used: stage.measured()? - before,
        requests: stage.requests().await?.since(&requests),
    })
}
