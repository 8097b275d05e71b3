//! Many Runs that have ended, at a start: what they weigh, and how long they keep a fresh one waiting.

use std::time::{Duration, Instant};

use super::figures::{Figures, Plot, PlotKind};
use serde_json::json;
use tokio::time::sleep;

use super::columns::{self, Column};
use super::error::BenchError;
use super::etcd::Etcd;
use super::load::{self, Pace};
use super::observer::Observer;
use super::stage::{Requests, Stage};
use super::usage::{Usage, in_mib, mib, of_a_core};
use super::wait::until;

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

/// What was measured of one size.
struct Measures {
    count: usize,
    put: Put,
    ready: Duration,
    fresh: Duration,
    /// Once the fresh Run was submitted, and some seconds later.
    full: Usage,
    rested: Usage,
    scrape: Duration,
    /// From the start on.
    requests: Requests,
}

/// Measures operators that find a fifth, and all of them.
pub(super) async fn measure(quick: bool) -> Result<Figures, BenchError> {
    let (most, mut all) = (many(quick), Vec::new());
    let counts: &[_] = if quick { &[most] } else { &[most / 5, most] };
    for &count in counts {
        let measured = one(count).await?;
        eprintln!("{count}: {} B each", measured.bytes_each());
        all.push(measured);
    }
    let labels = std::iter::once("one Run".to_owned());
    let base = all.first().map_or(0, |one| one.put.base.resident);
    let of = |memory: fn(&Measures) -> u64| {
        let bases = std::iter::once(base);
        bases.chain(all.iter().map(memory)).map(in_mib).collect()
    };
    let plot = Plot {
        title: "Resident memory with Runs that have ended (MiB)".to_owned(),
        kind: PlotKind::Bars,
        labels: labels
            .chain(all.iter().map(|one| one.count.to_string()))
            .collect(),
        series: vec![
            ("after 30 s".to_owned(), of(|one| one.rested.resident)),
            ("at its peak".to_owned(), of(|one| one.full.peak)),
        ],
    };
    let columns: Vec<_> = all.iter().map(Measures::column).collect();
    let title = "A start among Runs that have ended";
    Ok(columns::table(Figures::new("finished"), title, &columns).plot(plot))
}

impl Measures {
    fn bytes_each(&self) -> u64 {
        let more = self.rested.resident.saturating_sub(self.put.base.resident);
        more / u64::try_from(self.count).unwrap_or(1)
    }

    fn column(&self) -> Column {
        let idle = self.rested.cpu.saturating_sub(self.full.cpu);
        let seconds = |time: Duration| format!("{:.1}", time.as_secs_f64());
        Column::new(self.count.to_string())
            .cell("Bytes of each, as etcd has it", self.put.weight)
            .cell("Memory with one Run", mib(self.put.base.resident))
            .cell("Memory after 30 s", mib(self.rested.resident))
            .cell("Memory at its peak", mib(self.full.peak))
            .cell("Bytes of memory for each", self.bytes_each())
            .cell("From the start until ready, in s", seconds(self.ready))
            .cell(
                "From ready until a fresh Run's POST, in ms",
                self.fresh.as_millis(),
            )
            .cell("Time on a core until then, in s", seconds(self.full.cpu))
            .cell(
                "Share of a core while nothing happens",
                of_a_core(idle, IDLE),
            )
            .cell("Open files", self.rested.files)
            .cell("A scrape of the metrics, in ms", self.scrape.as_millis())
            .requests(&self.requests)
    }
}

/// Measures a start among so many Runs that have ended.
async fn one(count: usize) -> Result<Measures, BenchError> {
    let mut stage = Stage::set().await?;
    let put = put(&mut stage, count).await?;
    let before = stage.requests().await?;
    let ready = stage.start_operator().await?;
    let fresh = fresh(&stage, "fresh").await?;
    let full = stage.measured()?.operator;
    sleep(IDLE).await;
    let rested = stage.measured()?.operator;
    let requests = stage.requests().await?.since(&before);
    let scrape = stage.scrape().await?;
    Ok(Measures {
        count,
        put,
        ready,
        fresh,
        full,
        rested,
        scrape,
        requests,
    })
}

/// The largest number of ended Runs.
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
    // The API server must have taken them in from etcd: otherwise its answers wait for that.
    stage.at_rest().await?;
    Ok(Put { base, weight })
}

/// Creates a Run; returns the time until the service has its POST.
pub(super) async fn fresh(stage: &Stage, name: &str) -> Result<Duration, BenchError> {
    let before = stage.service.runs().await?.len();
    let began = Instant::now();
    load::create(&stage.client, NAMESPACE, name, PACE).await?;
    let what = "the fresh Run is submitted";
    let seen = || stage.operator_log();
    until(what, PATIENCE, seen, async || {
        let runs = stage.service.runs().await?.len();
        Ok((runs > before).then_some(began.elapsed()))
    })
    .await
}
