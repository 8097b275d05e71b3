//! Many Runs that have ended, at a start: what they weigh, and how long they keep a fresh one waiting.

use std::time::{Duration, Instant};

use serde_json::json;
use test_support::figures::Figures;
use tokio::time::sleep;

use super::error::BenchError;
use super::etcd::Etcd;
use super::load::{self, Pace, a_second};
use super::observer::Observer;
use super::stage::Stage;
use super::usage::{Usage, mib, percent};

const NAMESPACE: &str = "finished";
/// The Run that is copied. No other text of it is the same.
const FIRST: &str = "the-first-of-many";
/// The time at which the copies ended.
const LONG_AGO: &str = "2026-01-01T00:00:00Z";
const PATIENCE: Duration = Duration::from_mins(2);
/// Time over which the idle operator is watched.
const IDLE: Duration = Duration::from_secs(30);
const PACE: Pace = Pace {
    queued: Duration::from_millis(200),
    running: Duration::from_millis(300),
};

/// Measures an operator without Runs, and one with many.
pub(super) async fn measure(quick: bool) -> Result<(), BenchError> {
    let count = many(quick);
    let mut stage = Stage::set().await?;
    let Put { base, weight } = put(&mut stage, count).await?;
    let before = stage.requests().await?;
    let ready = stage.start_operator().await?;
    let fresh = fresh(&stage, "fresh").await?;
    let full = stage.measured()?.operator;
    sleep(IDLE).await;
    let rested = stage.measured()?.operator;
    let made = stage.requests().await?.since(&before);
    let scrape = stage.scrape().await?;
    let each = rested.resident.saturating_sub(base.resident) / u64::try_from(count).unwrap_or(1);
    Figures::new("finished")
        .row("Runs that have ended", count)
        .row("Bytes of each, as etcd has it", weight)
        .row("Memory with one Run", mib(base.resident))
        .row("Memory with all of them, after 30 s", mib(rested.resident))
        .row("Memory at its peak", mib(full.peak))
        .row("Bytes of memory for each", each)
        .row(
            "From the start until ready, in s",
            format!("{:.1}", ready.as_secs_f64()),
        )
        .row(
            "From ready until a fresh Run's POST, in ms",
            fresh.as_millis(),
        )
        .row(
            "Time on a core until then, in s",
            format!("{:.1}", full.cpu.as_secs_f64()),
        )
        .row(
            "Share of a core while nothing happens",
            percent(rested.cpu.saturating_sub(full.cpu), IDLE),
        )
        .row("Open files", rested.files)
        .row("A scrape of the metrics, in ms", scrape.as_millis())
        .row(
            "Ended Runs taken in a second",
            format!("{:.0}", a_second(count, ready)),
        )
        .table(
            "Requests of the start and the 30 s",
            &["", "in all"],
            made.rows(),
        )
        .record();
    Ok(())
}

/// The number of ended Runs.
pub(super) fn many(quick: bool) -> usize {
    if quick { 20_000 } else { 100_000 }
}

/// What was there before the many.
pub(super) struct Put {
    /// The operator's usage with one Run.
    pub(super) base: Usage,
    /// Bytes of each, as etcd has it.
    pub(super) weight: usize,
}

/// Lets one Run end, and puts so many copies of it into etcd. No operator runs afterwards.
pub(super) async fn put(stage: &mut Stage, count: usize) -> Result<Put, BenchError> {
    stage.namespace(NAMESPACE).await?;
    stage.start_operator().await?;
    let observer = Observer::start(stage.client.clone(), NAMESPACE);
    load::create(&stage.client, NAMESPACE, FIRST, PACE).await?;
    observer.released(1, PATIENCE).await?;
    let base = stage.measured()?.operator;
    stage.stop_operator().await?;
    drop(observer);
    let etcd = Etcd::new(stage.etcd_url()?);
    let mut ended = etcd.run(NAMESPACE, FIRST).await?;
    // The Events of what ended in the last five minutes are published again.
    for time in ["submissionTime", "completionTime"] {
        ended["status"][time] = json!(LONG_AGO);
    }
    let weight = ended.to_string().len();
    etcd.copy(&ended, count).await?;
    Ok(Put { base, weight })
}

/// Creates a Run; returns the time until the service has its POST.
pub(super) async fn fresh(stage: &Stage, name: &str) -> Result<Duration, BenchError> {
    let before = stage.service.runs().await?.len();
    let began = Instant::now();
    load::create(&stage.client, NAMESPACE, name, PACE).await?;
    while stage.service.runs().await?.len() == before {
        if began.elapsed() > PATIENCE {
            return Err(BenchError::Wait {
                what: "the fresh Run is submitted",
                after: PATIENCE,
                seen: stage.operator_log(),
            });
        }
        sleep(Duration::from_millis(5)).await;
    }
    Ok(began.elapsed())
}
