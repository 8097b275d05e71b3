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
    /// Waves before the outages, and as many after them.
    waves: u64,
    runs: u64,
    /// Seconds that each outage takes, and the Runs that there are in it.
    outage: u64,
    outage_runs: u64,
    /// The bytes of memory that a past Run may leave in use, counted from one time of rest to another: between waves the
    /// connections that are kept for the next request count too, and the Events that wait. At rest a connection more and
    /// pages that are not full were seen to make 0.5 MiB of difference; both sizes allow four times as much.
    bytes_a_run: i64,
}

impl Size {
    fn asked_for() -> Self {
        if crate::full() {
            return Self {
                waves: 10,
                runs: 500,
                outage: 120,
                outage_runs: 200,
                bytes_a_run: 512,
            };
        }
        Self {
            waves: 3,
            runs: 90,
            outage: 6,
            outage_runs: 60,
            bytes_a_run: 8192,
        }
    }
}

/// Proves: F-outage, B-steady
#[tokio::test]
async fn operator_resources_do_not_grow_with_past_runs() {
    let _turn = crate::TURN.lock().await;
    let own = ControlPlane::start(Options::default()).await.unwrap();
    let own: &'static ControlPlane = Box::leak(Box::new(own));
    let size = Size::asked_for();
    let pond = Pond::dug(own).await;
    let first = pond.quiet().await;
    let mut soak = Soak {
        pond: &pond,
        size: &size,
        created: 0,
        rows: vec![first.row("none", 0)],
        samples: Vec::new(),
    };
    soak.half().await;
    // In the middle, so that what an outage leaves behind would show in the waves after it.
    let outages = [
        outage::of_the_service(&pond, size.outage, size.outage_runs).await,
        outage::of_the_api_server(&pond, size.outage, size.outage_runs).await,
    ];
    soak.created += outages.iter().map(|outage| outage.runs).sum::<u64>();
    pond.one_run_each(soak.created).await;
    let middle = soak.rests(&first).await;
    soak.half().await;
    let end = soak.rests(&first).await;
    let bytes = bytes_a_run(&middle, &end, size.waves * size.runs);
    let Soak {
        created,
        rows,
        samples,
        ..
    } = soak;
    figures(&pond, created, rows, bytes, &outages).await;
    assert!(
        bytes <= size.bytes_a_run,
        "each Run has added {bytes} bytes: {middle:?}, {end:?}"
    );
    for sample in &samples {
        held_for_the_next(&first, sample, size.runs.max(size.outage_runs));
    }
    let threads = |part: &[Sample]| part.iter().map(|sample| sample.threads).max();
    let (before, after) = samples.split_at(samples.len() / 2);
    assert!(
        threads(after) <= threads(before),
        "threads stay: {samples:#?}"
    );
}

/// A soak in progress.
struct Soak<'a> {
    pond: &'a Pond,
    size: &'a Size,
    /// Runs until now.
    created: u64,
    rows: Vec<Vec<String>>,
    /// One after each wave.
    samples: Vec<Sample>,
}

impl Soak<'_> {
    /// Half of the waves.
    async fn half(&mut self) {
        for _ in 0..self.size.waves {
            let wave = self.samples.len() + 1;
            let sample = one_wave(self.pond, wave, self.size.runs).await;
            self.created += self.size.runs;
            self.pond.one_run_each(self.created).await;
            self.rows.push(sample.row(&wave.to_string(), self.created));
            self.samples.push(sample);
        }
    }

    /// Waits until nothing is open that wasn't before the first Run.
    async fn rests(&mut self, before: &Sample) -> Sample {
        let sample = self.pond.rests(before).await;
        self.rows.push(sample.row("rest", self.created));
        eprintln!("soak: at rest: {sample:?}");
        sample
    }
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

/// Creates Runs, deletes half of them while they run and half after their end, and measures what is left.
async fn one_wave(pond: &Pond, wave: usize, runs: u64) -> Sample {
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

/// Growth of memory from one sample to another, in bytes for each Run between them.
fn bytes_a_run(from: &Sample, to: &Sample, runs: u64) -> i64 {
    let memory = |sample: &Sample| i64::try_from(sample.memory).unwrap();
    (memory(to) - memory(from)) * 1024 / i64::try_from(runs).unwrap()
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
            "Bytes of memory that each Run of the second half left in use",
            bytes,
        )
        .row("Calls to the service for each Run", each(calls))
        .row("Requests to the API server for each Run", each(requests));
    for outage in outages {
        let what = outage.what;
        figures = figures
            .row(format!("{what} away, seconds"), outage.seconds)
            .row(format!("{what} away, Runs meanwhile"), outage.runs)
            .row(format!("{what} away, failed calls"), outage.failed_calls)
            .row(format!("{what} away, failed calls at most"), outage.at_most)
            .row(
                format!("{what} back, seconds until all was taken up"),
                format!("{:.1}", outage.taken_up.as_secs_f64()),
            );
    }
    figures
        .table("What the operator holds after each wave", &COLUMNS, rows)
        .record();
}
