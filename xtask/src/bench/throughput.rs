//! Runs as fast as the API server takes them: the operator beside the limit.

use std::time::{Duration, Instant};

use test_support::figures::Figures;

use super::error::BenchError;
use super::lifecycle::Lifecycle;
use super::limit;
use super::load::{self, Pace};
use super::observer::Observer;
use super::stage::{Measured, Stage};
use super::usage::{mib, millis_each};

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

/// Measures the limit without Events, the limit with them, and the operator.
pub(super) async fn measure(quick: bool) -> Result<(), BenchError> {
    let count = if quick { 500 } else { 1500 };
    let life = Lifecycle::record().await?;
    let (runs, events) = life.count();
    let bare = limit::measure(&life, NAMESPACE, count, false).await?;
    let whole = limit::measure(&life, NAMESPACE, count, true).await?;
    let (reached, used, counted) = operator(count).await?;
    let share = |limit: f64| format!("{:.0} %", 100.0 * reached / limit);
    Figures::new("throughput")
        .row("Runs", count)
        .row("Writes of a Run in one recorded life", runs)
        .row("Events in one recorded life", events)
        .row(
            "Lives a second: a loader that makes these writes",
            format!("{:.1}", bare.lifecycles_a_second),
        )
        .row(
            "Lives a second: a loader that makes the Events too",
            format!("{:.1}", whole.lifecycles_a_second),
        )
        .row("Lives a second: the operator", format!("{reached:.1}"))
        .row(
            "The operator's share of the first loader's",
            share(bare.lifecycles_a_second),
        )
        .row(
            "The operator's share of the second loader's",
            share(whole.lifecycles_a_second),
        )
        .table(
            "Requests for a Run, by the API server's audit log and the service's count",
            &["", "for each Run"],
            counted,
        )
        .table(
            "Time on a core for a Run, in ms",
            &["", "operator", "API server", "etcd", "service"],
            vec![
                row("loader, without Events", bare.used, count),
                row("loader, with Events", whole.used, count),
                row("operator", used, count),
            ],
        )
        .row(
            "The operator's memory at the end",
            mib(used.operator.resident),
        )
        .record();
    Ok(())
}

/// Lets the operator take so many Runs through their lives. Returns lives a second, what was used, and the requests
/// for each Run.
async fn operator(count: usize) -> Result<(f64, Measured, Vec<Vec<String>>), BenchError> {
    let mut stage = Stage::set().await?;
    stage.namespace(NAMESPACE).await?;
    stage.start_operator().await?;
    stage.workspace_ready(NAMESPACE).await?;
    let observer = Observer::start(stage.client.clone(), NAMESPACE);
    let clients = stage.clients().await?;
    let (before, requests) = (stage.measured()?, stage.requests().await?);
    let began = Instant::now();
    load::create_all(&clients, NAMESPACE, count, PACE).await?;
    observer.released(count, PATIENCE).await?;
    // The last Run's own time is no work of anybody.
    let took = began.elapsed().saturating_sub(PACE.whole());
    stage.events(NAMESPACE, count * EVENTS).await?;
    let used = stage.measured()? - before;
    let made = stage.requests().await?.since(&requests);
    Ok((load::a_second(count, took), used, made.for_each(count)))
}

fn row(who: &str, used: Measured, count: usize) -> Vec<String> {
    let each = |cpu: Duration| millis_each(cpu, count);
    vec![
        who.to_owned(),
        each(used.operator.cpu),
        each(used.apiserver.cpu),
        each(used.etcd.cpu),
        each(used.service.cpu),
    ]
}
