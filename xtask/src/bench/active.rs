//! Many active Runs: what each of them weighs, and what they cost while nothing happens.

use std::time::{Duration, Instant};

use super::figures::{Figures, Plot, PlotKind};
use tokio::time::sleep;

use super::columns::{self, Column};
use super::error::BenchError;
use super::load::{self, Pace, a_second};
use super::observer::Observer;
use super::stage::{Requests, Stage, Transport};
use super::usage::{Usage, in_mib, mib, of_a_core};

const NAMESPACE: &str = "active";
const PATIENCE: Duration = Duration::from_mins(10);
/// Time over which the idle operator is watched.
const IDLE: Duration = Duration::from_secs(30);
/// Time after which the operator has closed the connections that only the burst needed.
const CLOSED: Duration = Duration::from_secs(100);
const PACE: Pace = Pace {
    queued: Duration::from_millis(200),
    running: Duration::from_hours(2),
};

/// What is measured.
#[derive(Clone, Copy)]
struct Case {
    transport: Transport,
    count: usize,
}

/// What was measured.
struct Measures {
    case: Case,
    /// From the first create until all were running.
    took: Duration,
    base: Usage,
    /// When all were running, and some seconds later.
    full: Usage,
    rested: Usage,
    /// Between the two.
    idle: Requests,
}

/// Measures every size over HTTP/2; over HTTP/1.1, with a connection for each stream, the smallest.
pub(super) async fn measure(quick: bool) -> Result<Figures, BenchError> {
    let (rest, cases): (_, &[_]) = if quick {
        (IDLE, &[(Transport::Http2, 500)])
    } else {
        let cases = &[
            (Transport::Http1, 2000),
            (Transport::Http2, 2000),
            (Transport::Http2, 10_000),
        ];
        (CLOSED, cases)
    };
    let mut all = Vec::new();
    for &(transport, count) in cases {
        let measured = one(Case { transport, count }, rest).await?;
        eprintln!(
            "{}: {} B each",
            measured.case.title(),
            measured.bytes_each()
        );
        all.push(measured);
    }
    let of = |memory: fn(&Measures) -> u64| all.iter().map(|one| in_mib(memory(one))).collect();
    let plot = Plot {
        title: "Resident memory with active Runs (MiB)".to_owned(),
        kind: PlotKind::Bars,
        labels: all.iter().map(|one| one.case.title()).collect(),
        series: vec![
            ("without a Run".to_owned(), of(|one| one.base.resident)),
            ("with all of them".to_owned(), of(|one| one.rested.resident)),
            ("at its peak".to_owned(), of(|one| one.rested.peak)),
        ],
    };
    let columns: Vec<_> = all.iter().map(Measures::column).collect();
    let title = "Active Runs, each with its event stream";
    Ok(columns::table(Figures::new("active"), title, &columns).plot(plot))
}

impl Case {
    fn title(self) -> String {
        format!("{} over {}", self.count, self.transport.name())
    }
}

impl Measures {
    fn bytes_each(&self) -> u64 {
        let runs = u64::try_from(self.case.count).unwrap_or(1);
        self.rested.resident.saturating_sub(self.base.resident) / runs
    }

    fn column(&self) -> Column {
        let idle = self.rested.cpu.saturating_sub(self.full.cpu);
        let started = format!("{:.1}", a_second(self.case.count, self.took));
        Column::new(self.case.title())
            .cell("Runs a second until all were running", started)
            .cell("Memory without a Run", mib(self.base.resident))
            .cell("Memory with all of them", mib(self.rested.resident))
            .cell("Memory at its peak", mib(self.rested.peak))
            .cell("Bytes of memory for each", self.bytes_each())
            .cell("Open files", self.rested.files)
            .cell(
                "Share of a core while nothing happens",
                of_a_core(idle, IDLE),
            )
            .cell("Requests in 30 s of that", self.idle.all())
    }
}

/// Measures an operator without Runs, and one with many that run for an hour.
async fn one(case: Case, rest: Duration) -> Result<Measures, BenchError> {
    let Case { transport, count } = case;
    let mut stage = Stage::set_over(transport).await?;
    stage.namespace(NAMESPACE).await?;
    stage
        .start_operator_with(&["--max-streams", "10000"])
        .await?;
    stage.workspace_ready(NAMESPACE).await?;
    let observer = Observer::start(stage.client.clone(), NAMESPACE);
    sleep(IDLE).await;
    let base = stage.measured()?.operator;
    let clients = stage.clients().await?;
    let began = Instant::now();
    load::create_all(&clients, NAMESPACE, "run", count, PACE).await?;
    observer.shown("running", count, PATIENCE).await?;
    let took = began.elapsed();
    // What was published, polled or followed for the last of them has ended by then.
    sleep(rest).await;
    let (full, requests) = (stage.measured()?.operator, stage.requests().await?);
    sleep(IDLE).await;
    let rested = stage.measured()?.operator;
    let idle = stage.requests().await?.since(&requests);
    Ok(Measures {
        case,
        took,
        base,
        full,
        rested,
        idle,
    })
}
