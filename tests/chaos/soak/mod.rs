//! A soak: Runs created and deleted in waves under one operator, with a long outage of the service and one of
//! the API server among them. What it holds must not grow with what has been.

mod environment;
mod outage;
mod sample;

use std::time::Duration;

use self::environment::{Pond, There};
use self::outage::UNDER_WAY;
use self::sample::{COLUMNS, Counted, Sample};
use test_cluster::{ControlPlane, Options};
use test_support::figures::Figures;

/// The size of a soak.
struct Size {
    waves: u64,
    runs: u64,
    /// Seconds that each outage takes, and the Runs that there are in it.
    outage: u64,
    outage_runs: u64,
    /// The bytes of memory that a past Run may have added, from the second third of the waves to the last. In the first
    /// third the allocator reaches the amount that it keeps, which isn't always the same: among few Runs that counts.
    bytes_a_run: i64,
}

impl Size {
    fn asked_for() -> Self {
        if crate::full() {
            return Self {
                waves: 20,
                runs: 500,
                outage: 120,
                outage_runs: 200,
                bytes_a_run: 512,
            };
        }
        Self {
            waves: 6,
            runs: 90,
            outage: 6,
            outage_runs: 60,
            bytes_a_run: 4096,
        }
    }
}

// Proves: F-outage, B-steady
#[tokio::test]
async fn operator_resources_do_not_grow_with_past_runs() {
    let _turn = crate::TURN.lock().await;
    let own = ControlPlane::start(Options::default()).await.unwrap();
    let own: &'static ControlPlane = Box::leak(Box::new(own));
    let size = Size::asked_for();
    let pond = Pond::dug(own).await;
    let first = pond.quiet().await;
    let mut rows = vec![first.row("none", 0)];
    let mut samples = Vec::new();
    let mut created = 0;
    let mut outages = Vec::new();
    for wave in 1..=size.waves {
        let sample = one_wave(&pond, wave, size.runs).await;
        created += size.runs;
        pond.one_run_each(created).await;
        rows.push(sample.row(&wave.to_string(), created));
        samples.push(sample);
        // In the middle, so that what an outage leaves behind would show in the waves after it.
        if wave == size.waves / 2 {
            outages.push(outage::of_the_service(&pond, size.outage, size.outage_runs).await);
            outages.push(outage::of_the_api_server(&pond, size.outage, size.outage_runs).await);
            created += outages.iter().map(|outage| outage.runs).sum::<u64>();
            pond.one_run_each(created).await;
        }
    }
    let rest = pond.rests(&first).await;
    rows.push(rest.row("idle", created));
    let bytes = bytes_a_run(&samples, size.runs);
    figures(&pond, created, rows, bytes, &outages).await;
    assert!(
        bytes <= size.bytes_a_run,
        "each Run has added {bytes} bytes: {samples:#?}"
    );
    for sample in &samples {
        held_for_the_next(&first, sample, size.runs.max(size.outage_runs));
    }
    let threads = |part: &[Sample]| part.iter().map(|sample| sample.threads).max();
    assert!(
        threads(last(&samples)) <= threads(&samples[..3]),
        "threads stay: {samples:#?}"
    );
}

/// Between waves there are connections that are kept for the next request, until their time is over: at most one for
/// each call and each stream that there was at once, however many Runs there were.
fn held_for_the_next(first: &Sample, sample: &Sample, runs_at_once: u64) {
    let more = UNDER_WAY + runs_at_once;
    assert!(
        sample.files <= first.files + more && sample.tasks <= first.tasks + more,
        "more than {more} files or tasks were added to {first:?}: {sample:?}"
    );
}

/// The last third of the waves.
fn last(samples: &[Sample]) -> &[Sample] {
    &samples[samples.len() - samples.len() / 3..]
}

/// The third before it.
fn second(samples: &[Sample]) -> &[Sample] {
    let third = samples.len() / 3;
    &samples[samples.len() - 2 * third..][..third]
}

/// Creates Runs, deletes half of them while they run and half after their end, and measures what is left.
async fn one_wave(pond: &Pond, wave: u64, runs: u64) -> Sample {
    pond.create(&format!("wave-{wave}"), runs).await;
    let active = runs / 2;
    let there = There {
        active,
        succeeded: runs - active,
    };
    pond.shows(there, Duration::ZERO).await;
    let sample = pond.delete_all().await;
    eprintln!("soak: after wave {wave}: {sample:?}");
    sample
}

/// Growth of the largest memory in the last third of the waves over that in the second, in bytes for each Run of a
/// third.
fn bytes_a_run(samples: &[Sample], runs: u64) -> i64 {
    let most = |part: &[Sample]| {
        let most = part.iter().map(|sample| sample.memory).max();
        i64::try_from(most.unwrap()).unwrap()
    };
    let between = i64::try_from(samples.len() / 3).unwrap() * i64::try_from(runs).unwrap();
    (most(last(samples)) - most(second(samples))) * 1024 / between
}

async fn figures(
    pond: &Pond,
    created: u64,
    rows: Vec<Vec<String>>,
    bytes: i64,
    outages: &[outage::Outage],
) {
    let counted = Counted::of(&pond.operator).await;
    let calls = counted.sum("run_operator_service_requests_total", &[]);
    let requests = counted.sum("rest_client_requests_total", &[]);
    let each = |sum: u64| {
        let tenths = sum * 10 / created;
        format!("{}.{}", tenths / 10, tenths % 10)
    };
    let mut figures = Figures::new("soak")
        .row("Runs created and deleted", created)
        .row(
            "Runs at the service",
            pond.world.service.get("stats").await["runsCreated"].clone(),
        )
        .row(
            "Bytes that each Run added to memory, from the second third of the waves to the last",
            bytes,
        )
        .row("Calls to the service for each Run", each(calls))
        .row("Requests to the API server for each Run", each(requests));
    for outage in outages {
        let what = outage.what;
        figures = figures
            .row(format!("{what} away, seconds"), outage.seconds)
            .row(format!("{what} away, Runs meanwhile"), outage.runs)
            .row(format!("{what} away, calls in vain"), outage.in_vain)
            .row(
                format!("{what} away, calls in vain at most"),
                outage.at_most,
            )
            .row(
                format!("{what} back, seconds until all was taken up"),
                format!("{:.1}", outage.taken_up.as_secs_f64()),
            );
    }
    figures
        .table("What the operator holds after each wave", &COLUMNS, rows)
        .record();
}
