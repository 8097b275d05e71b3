//! Many Runs that have ended, at a start: what they weigh, and how long they keep a fresh one waiting.

use std::time::{Duration, Instant};

use serde_json::json;
use tokio::time::sleep;

use super::load::{self, Pace};
use super::observer::Observer;
use super::stage::Stage;
use super::table::{Column, Figures, mib, of_a_core, seconds};
use super::usage::Usage;
use crate::common::{Outcome, until};
use crate::service::runs;

const NAMESPACE: &str = "finished";
/// The Run that is copied. No other text of it is the same.
const FIRST: &str = "the-first-of-many";
/// The time at which the copies ended.
const LONG_AGO: &str = "2026-01-01T00:00:00Z";
const PATIENCE: Duration = Duration::from_mins(2);
/// Time over which the idle operator is watched.
const IDLE: Duration = Duration::from_secs(30);
const PACE: Pace = Pace(200, 300);

/// Measures operators that find a fifth, and all of them.
pub(super) async fn measure(quick: bool) -> Outcome<Figures> {
    let most = many(quick);
    let counts: &[_] = if quick { &[most] } else { &[most / 5, most] };
    let mut columns = Vec::new();
    for &count in counts {
        columns.push(among(count).await?);
        eprintln!("{count}: measured");
    }
    let title = "A start among Runs that have ended";
    Ok(Figures::new("finished").columns(title, &columns))
}

/// Measures a start among so many Runs that have ended.
async fn among(count: usize) -> Outcome<Column> {
    let (stage, base, weight) = put(count).await?;
    let before = stage.requests().await?;
    let (operator, ready) = stage.operator(&[]).await?;
    let fresh = fresh(&stage, "fresh").await?;
    let full = operator.usage()?;
    sleep(IDLE).await;
    let rested = operator.usage()?;
    let requests = stage.requests().await?.since(&before);
    let scrape = operator.scrape().await?;
    let more = rested.resident.saturating_sub(base.resident);
    let idle = of_a_core((rested - full).cpu, IDLE);
    Ok(Column::new(count.to_string())
        .cell("Bytes of each, as etcd has it", weight)
        .cell("Memory with one Run", mib(base.resident))
        .cell("Memory after 30 s", mib(rested.resident))
        .cell("Memory at its peak", mib(full.peak))
        .cell("Bytes of memory for each", more / count as u64)
        .cell("From the start until ready, in s", seconds(ready))
        .cell(
            "From ready until a fresh Run's POST, in ms",
            fresh.as_millis(),
        )
        .cell("Time on a core until then, in s", seconds(full.cpu))
        .cell("Share of a core while nothing happens", idle)
        .cell("Open files", rested.files)
        .cell("A scrape of the metrics, in ms", scrape.as_millis())
        .rows(requests.rows()))
}

/// The largest number of ended Runs.
pub(super) fn many(quick: bool) -> usize {
    if quick { 20_000 } else { 100_000 }
}

/// Lets one Run end, and puts so many copies of it into etcd. No operator runs afterwards. Returns its usage with one
/// Run, too, and the bytes of each, as etcd has it.
pub(super) async fn put(count: usize) -> Outcome<(Stage, Usage, usize)> {
    let stage = Stage::set(NAMESPACE).await?;
    let (operator, _) = stage.operator(&[]).await?;
    let observer = Observer::start(stage.client.clone(), NAMESPACE);
    load::create(&stage.client, NAMESPACE, FIRST, PACE).await?;
    observer.released(1, PATIENCE).await?;
    let base = operator.usage()?;
    operator.stop().await?;
    drop(observer);
    let etcd = stage.etcd()?;
    let mut ended = etcd.run(NAMESPACE, FIRST).await?;
    // The Events of what ended in the last five minutes are published again.
    for time in ["submissionTime", "completionTime"] {
        ended["status"][time] = json!(LONG_AGO);
    }
    let weight = ended.to_string().len();
    etcd.copy(&ended, count).await?;
    // The API server must have taken them in from etcd: otherwise its answers wait for that.
    stage.at_rest().await?;
    Ok((stage, base, weight))
}

/// Creates a Run; returns the time until the service has its POST.
pub(super) async fn fresh(stage: &Stage, name: &str) -> Outcome<Duration> {
    let before = runs(&stage.service).await?.len();
    let began = Instant::now();
    load::create(&stage.client, NAMESPACE, name, PACE).await?;
    let seen = || "no request for it".to_owned();
    until("the fresh Run is submitted", PATIENCE, seen, async || {
        Ok(runs(&stage.service).await?.len() > before)
    })
    .await?;
    Ok(began.elapsed())
}
