//! Many active Runs: what each of them weighs, and what they cost while nothing happens.

use std::time::{Duration, Instant};

use test_support::figures::Figures;
use tokio::time::sleep;

use super::error::BenchError;
use super::load::{self, Pace, a_second};
use super::observer::Observer;
use super::stage::{Stage, Transport};
use super::usage::{mib, percent};

const NAMESPACE: &str = "active";
const PATIENCE: Duration = Duration::from_mins(10);
/// Time over which the idle operator is watched.
const IDLE: Duration = Duration::from_secs(30);
const PACE: Pace = Pace {
    queued: Duration::from_millis(200),
    running: Duration::from_hours(2),
};

/// Measures every size over HTTP/2; over HTTP/1.1, with a connection for each stream, the smallest.
pub(super) async fn measure(quick: bool) -> Result<(), BenchError> {
    let cases: &[(&'static str, Transport, usize)] = if quick {
        &[
            ("active.http1", Transport::Http1, 500),
            ("active.http2", Transport::Http2, 500),
        ]
    } else {
        &[
            ("active.http1", Transport::Http1, 2000),
            ("active.http2", Transport::Http2, 2000),
            ("active.http2.many", Transport::Http2, 10_000),
        ]
    };
    for (part, transport, count) in cases {
        one(part, *transport, *count).await?;
    }
    Ok(())
}

/// Measures an operator without Runs, and one with many that run for an hour.
async fn one(part: &'static str, transport: Transport, count: usize) -> Result<(), BenchError> {
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
    load::create_all(&clients, NAMESPACE, count, PACE).await?;
    observer.shown("running", count, PATIENCE).await?;
    let took = began.elapsed();
    // What was published, polled or followed for the last of them has ended by then.
    sleep(IDLE).await;
    let (full, requests) = (stage.measured()?.operator, stage.requests().await?);
    sleep(IDLE).await;
    let rested = stage.measured()?.operator;
    let made = stage.requests().await?.since(&requests);
    let runs = u64::try_from(count).unwrap_or(1);
    let each = rested.resident.saturating_sub(base.resident) / runs;
    Figures::new(part)
        .row(
            format!(
                "Active Runs, each with its event stream, {}",
                transport.name()
            ),
            count,
        )
        .row(
            "Runs a second until all were running",
            format!("{:.1}", a_second(count, took)),
        )
        .row("Memory without a Run", mib(base.resident))
        .row("Memory with all of them", mib(rested.resident))
        .row("Memory at its peak", mib(rested.peak))
        .row("Bytes of memory for each", each)
        .row("Open files", rested.files)
        .row(
            "Share of a core while nothing happens",
            percent(rested.cpu.saturating_sub(full.cpu), IDLE),
        )
        .table(
            "Requests in 30 s while nothing happens",
            &["", "in all"],
            made.rows(),
        )
        .record();
    Ok(())
}
