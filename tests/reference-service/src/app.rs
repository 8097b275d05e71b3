//! State shared by all requests: one lock, a clock, and the notification that wakes timers and streams.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use fastrand::Rng;
use serde_json::{Value, json};
use tokio::sync::{Notify, watch};

use crate::access::Access;
use crate::faults::FaultBook;
use crate::ledger::Ledger;
use crate::plan::{Millis, Pacing};
use crate::record::Record;
use crate::table::Table;

/// The workspace of every token that names none.
pub(crate) const WORKSPACE: &str = "ws-demo";
/// Longest sleep of the timer, in milliseconds.
const MAX_SLEEP: Millis = 60_000;

#[derive(Debug, Clone)]
pub(crate) struct Settings {
    pub(crate) api_version: String,
    pub(crate) tokens: Vec<String>,
    pub(crate) pacing: Pacing,
    /// Requests that may be open on one connection of HTTP/2.
    pub(crate) http2_streams: u32,
    pub(crate) heartbeat: Duration,
    /// File of all requests, for tests that check them.
    pub(crate) record: Option<Record>,
}

#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) table: Table,
    pub(crate) access: Access,
    pub(crate) faults: FaultBook,
    pub(crate) ledger: Ledger,
    /// Answer to `GET /version`.
    pub(crate) version: Value,
    /// For request ids and generated tokens.
    pub(crate) random: Rng,
    wakers: HashMap<String, watch::Sender<()>>,
}

#[derive(Debug, Default)]
pub(crate) struct Gauges {
    pub(crate) open_streams: AtomicU64,
    pub(crate) open_connections: AtomicU64,
    /// Requests of the API that have no answer yet; an open stream has one.
    pub(crate) in_flight: AtomicU64,
    /// The most of them at the same time, since the last reset.
    pub(crate) max_in_flight: AtomicU64,
}

impl Gauges {
    /// Counts a request until the guard is dropped.
    pub(crate) fn request(&self) -> OpenGuard<'_> {
        let guard = OpenGuard::new(&self.in_flight);
        let now = self.in_flight.load(Ordering::Relaxed);
        self.max_in_flight.fetch_max(now, Ordering::Relaxed);
        guard
    }
}

/// Counts one thing as open until it is dropped.
#[derive(Debug)]
pub(crate) struct OpenGuard<'a>(&'a AtomicU64);

impl<'a> OpenGuard<'a> {
    pub(crate) fn new(gauge: &'a AtomicU64) -> Self {
        gauge.fetch_add(1, Ordering::Relaxed);
        Self(gauge)
    }
}

impl Drop for OpenGuard<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[derive(Debug)]
pub(crate) struct App {
    pub(crate) settings: Settings,
    pub(crate) gauges: Gauges,
    inner: Mutex<Inner>,
    started: Instant,
    started_at: Millis,
    timer_bell: Notify,
    stream_cutter: watch::Sender<u64>,
}

impl App {
    #[allow(
        clippy::disallowed_methods,
        reason = "a program of its own, which shares nothing with the operator"
    )]
    pub(crate) fn new(settings: Settings) -> Arc<Self> {
        let started_at = u64::try_from(jiff::Timestamp::now().as_millisecond()).unwrap_or_default();
        let mut access = Access::default();
        for token in &settings.tokens {
            access.add_token(token, WORKSPACE, None);
        }
        let inner = Inner {
            table: Table::new(settings.pacing, Rng::new()),
            access,
            faults: FaultBook::default(),
            ledger: Ledger::default(),
            version: json!({"version": settings.api_version, "service": "reference-service"}),
            random: Rng::new(),
            wakers: HashMap::new(),
        };
        Arc::new(Self {
            settings,
            gauges: Gauges::default(),
            inner: Mutex::new(inner),
            started: Instant::now(),
            started_at,
            timer_bell: Notify::new(),
            stream_cutter: watch::Sender::new(0),
        })
    }

    /// Unix time in milliseconds that never steps back.
    pub(crate) fn now(&self) -> Millis {
        let elapsed = u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.started_at.saturating_add(elapsed)
    }

    /// Looks at or changes the state as it is now: what is due has happened, and who waits for a
    /// change is woken.
    pub(crate) fn with<T>(&self, work: impl FnOnce(&mut Inner, Millis) -> T) -> T {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let now = self.now();
        inner.table.advance(now);
        let due = inner.table.next_due();
        let result = work(&mut inner, now);
        inner.wake_streams();
        if inner.table.next_due() != due {
            self.timer_bell.notify_one();
        }
        result
    }

    /// Advances runs as their plans are due. Never returns.
    pub(crate) async fn run_timers(&self) {
        loop {
            let sleep = self.with(|inner, now| {
                inner
                    .table
                    .next_due()
                    .map_or(MAX_SLEEP, |due| due.saturating_sub(now).min(MAX_SLEEP))
            });
            tokio::select! {
                () = tokio::time::sleep(Duration::from_millis(sleep)) => {}
                () = self.timer_bell.notified() => {}
            }
        }
    }

    /// Tells of every change of one run.
    pub(crate) fn watch_run(&self, run_id: &str) -> watch::Receiver<()> {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let waker = inner.wakers.entry(run_id.to_owned());
        waker.or_default().subscribe()
    }

    /// Tells of [`App::cut_streams`].
    pub(crate) fn watch_cutter(&self) -> watch::Receiver<u64> {
        self.stream_cutter.subscribe()
    }

    /// Cuts every stream that is open now; returns how many there are.
    pub(crate) fn cut_streams(&self) -> u64 {
        self.stream_cutter.send_modify(|count| *count += 1);
        self.gauges.open_streams.load(Ordering::Relaxed)
    }
}

impl Inner {
    fn wake_streams(&mut self) {
        for run_id in self.table.take_changed() {
            if let Some(waker) = self.wakers.get(&run_id)
                && waker.send(()).is_err()
            {
                // No stream listens any more.
                self.wakers.remove(&run_id);
            }
        }
    }

    pub(crate) fn request_id(&mut self) -> String {
        format!("req_{:016x}", self.random.u64(..))
    }
}
