//! Many active Runs: what each of them weighs, and what they cost while nothing happens.

use std::time::{Duration, Instant};

use tokio::time::sleep;

use super::load::{self, HOURS, a_second};
use super::observer::Observer;
use super::stage::Stage;
use super::table::{Column, Figures, mib, of_a_core};
use crate::common::Outcome;

const NAMESPACE: &str = "active";
const PATIENCE: Duration = Duration::from_mins(10);
/// Time over which the idle operator is watched.
const IDLE: Duration = Duration::from_secs(30);
/// Time after which the operator has closed the connections that only the burst needed.
const CLOSED: Duration = Duration::from_secs(100);

/// Measures every size over HTTP/2; over HTTP/1.1, with a connection for each stream, the smallest.
pub(super) async fn measure(quick: bool) -> Outcome<Figures> {
    let (rest, cases): (_, &[_]) = if quick {
        (IDLE, &[(true, 500)])
    } else {
        (CLOSED, &[(false, 2000), (true, 2000), (true, 10_000)])
    };
    let mut columns = Vec::new();
    for &(http2, count) in cases {
        let over = if http2 { "HTTP/2 over TLS" } else { "HTTP/1.1" };
        let title = format!("{count} over {over}");
        columns.push(with(&title, http2, count, rest).await?);
        eprintln!("{title}: measured");
    }
    let title = "Active Runs, each with its event stream";
    Ok(Figures::new("active").columns(title, &columns))
}

/// Measures an operator without Runs, and one with many that run for an hour.
async fn with(title: &str, http2: bool, count: usize, rest: Duration) -> Outcome<Column> {
    let stage = Stage::set_over(http2, NAMESPACE).await?;
    let (operator, _) = stage.operator(&["--max-streams", "10000"]).await?;
    stage.workspace_ready(NAMESPACE).await?;
    let observer = Observer::start(stage.client.clone(), NAMESPACE);
    sleep(IDLE).await;
    let base = operator.usage()?;
    let clients = stage.clients().await?;
    let began = Instant::now();
    load::create_all(&clients, NAMESPACE, "run", count, HOURS).await?;
    observer.shown("running", count, PATIENCE).await?;
    let started = format!("{:.1}", a_second(count, began.elapsed()));
    // What was published, polled or followed for the last of them has ended by then.
    sleep(rest).await;
    let (full, requests) = (operator.usage()?, stage.requests().await?);
    sleep(IDLE).await;
    let rested = operator.usage()?;
    let idle = stage.requests().await?.since(&requests);
    let more = rested.resident.saturating_sub(base.resident);
    let share = of_a_core((rested - full).cpu, IDLE);
    Ok(Column::new(title)
        .cell("Runs a second until all were running", started)
        .cell("Memory without a Run", mib(base.resident))
        .cell("Memory with all of them", mib(rested.resident))
        .cell("Memory at its peak", mib(rested.peak))
        .cell("Bytes of memory for each", more / count as u64)
        .cell("Open files", rested.files)
        .cell("Share of a core while nothing happens", share)
        .cell("Requests in 30 s of that", idle.all()))
}
