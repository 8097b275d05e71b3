//! The metrics, as the [`catalogue`] declares them; no object's name is ever a label,
//! but that of the operator's own Lease.

use std::time::Duration;

use prometheus_client::encoding::text;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use crate::service::{Observer, Operation, Outcome};

pub mod catalogue;
mod exposition;
mod family;

mod process;
mod rendered;
#[cfg(test)]
mod tests;
mod workqueue;

use catalogue::{NO_ANSWER, NO_STATUS};
pub use exposition::Format;
pub(crate) use family::gauge;
use family::{Family, single};
pub use rendered::Rendered;
#[cfg(test)]
pub(crate) use workqueue::queue_metrics;
pub use workqueue::{QueueMetrics, QueueTotals};

/// Every metric, registered once.
pub struct Metrics {
    registry: Registry,
    reconciles: Family<Counter>,
    reconcile_errors: Family<Counter>,
    reconcile_panics: Family<Counter>,
    reconcile_seconds: Family<Histogram>,
    max_workers: Family<Gauge>,
    conflicts: Family<Counter>,
    queues: workqueue::Families,
    requests: Family<Counter>,
    request_seconds: Family<Histogram>,
    /// Requests to the API server by code, method and host.
    pub(crate) rest_requests: Family<Counter>,
    /// Their durations by method and host.
    pub(crate) rest_seconds: Family<Histogram>,
    process: process::Process,
    leader: Family<Gauge>,
    /// Runs by phase.
    pub(crate) runs: Family<Gauge>,
    /// Runs that wait for a person, by reason.
    pub(crate) runs_stalled: Family<Gauge>,
    /// Workspaces by kind and Ready condition.
    pub(crate) workspaces: Family<Gauge>,
    /// Workspaces that are not Ready, by reason.
    pub(crate) workspaces_not_ready: Family<Gauge>,
    pauses: Family<Counter>,
    /// Runs in doubt: they may have a run whose `runId` is not known yet.
    pub runs_in_doubt: Gauge,
    /// Age of the oldest intent among them, in seconds.
    pub oldest_doubt: Gauge,
    /// Runs that this process tracks.
    pub remembered: Gauge,
    tasks: Gauge,
    /// Event streams whose connection is open.
    pub open_streams: Gauge,
    /// Limit on open event streams.
    pub stream_limit: Gauge,
    /// Calls that failed for lack of files.
    pub no_file: Counter,
    /// Calls for Runs in flight, including the opening of event streams.
    pub calls_in_flight: Gauge,
    /// Calls that wait at their Workspace's gate.
    pub calls_waiting: Gauge,
    /// Event streams reopened after a break.
    pub stream_reconnects: Counter,
    /// Events received from the service.
    pub stream_events: Counter,
    /// Objects that couldn't be decoded.
    pub undecodable: Counter,
    /// Objects that were deleted without having been released.
    pub vanished: Counter,
    /// Finalizers removed although the run was only seen to be cancelling.
    pub cancel_unconfirmed: Counter,
    /// Workspaces that moved to another token.
    pub token_changes: Counter,
    /// Whether the caches are in sync: 1 or 0.
    pub in_sync: Gauge,
    events_dropped: Family<Counter>,
}

/// Result of a reconcile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReconcileResult {
    /// Nothing to do now.
    Success,
    /// Requeued.
    RequeueAfter,
    /// The object changed meanwhile; requeued.
    Conflict,
    /// It failed, for this reason; one of [`catalogue::REASONS`].
    Error(&'static str),
}

/// Cause of a pause of a Workspace's calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PauseCause {
    /// The service answered 429.
    TooManyRequests,
    /// Several calls in a row got no answer.
    NoAnswer,
}

/// Cause for which a Kubernetes Event was not published.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DropCause {
    /// The queue was full.
    QueueFull,
    /// The API server refused it.
    Refused,
    /// Its namespace is deleted, or being deleted.
    NamespaceGone,
    /// The API server gave no answer to any attempt, or only temporary errors.
    NoAnswer,
}

impl DropCause {
    fn as_str(self) -> &'static str {
        match self {
            Self::QueueFull => "queue_full",
            Self::Refused => "refused",
            Self::NamespaceGone => "namespace_gone",
            Self::NoAnswer => "no_answer",
        }
    }
}

impl Metrics {
    /// Registers all metrics, with every label value known beforehand at zero.
    pub fn new() -> Self {
        let mut of = Registry::default();
        let of = &mut of;
        let queues = workqueue::Families::new(of);
        let build: Family<Gauge> = Family::new(of, &catalogue::BUILD_INFO);
        build.of(&[env!("CARGO_PKG_VERSION")]).set(1);
        Self {
            runs: Family::new(of, &catalogue::RUNS),
            runs_stalled: Family::new(of, &catalogue::RUNS_STALLED),
            runs_in_doubt: single(of, &catalogue::RUNS_IN_DOUBT),
            oldest_doubt: single(of, &catalogue::OLDEST_DOUBT),
            remembered: single(of, &catalogue::REMEMBERED),
            workspaces: Family::new(of, &catalogue::WORKSPACES),
            workspaces_not_ready: Family::new(of, &catalogue::WORKSPACES_NOT_READY),
            undecodable: single(of, &catalogue::UNDECODABLE),
            vanished: single(of, &catalogue::VANISHED),
            cancel_unconfirmed: single(of, &catalogue::CANCEL_UNCONFIRMED),
            requests: Family::new(of, &catalogue::REQUESTS),
            request_seconds: Family::new(of, &catalogue::REQUEST_SECONDS),
            calls_in_flight: single(of, &catalogue::IN_FLIGHT),
            calls_waiting: single(of, &catalogue::WAITING),
            pauses: Family::new(of, &catalogue::PAUSES),
            token_changes: single(of, &catalogue::TOKEN_CHANGES),
            open_streams: single(of, &catalogue::OPEN_STREAMS),
            stream_limit: single(of, &catalogue::STREAM_LIMIT),
            no_file: single(of, &catalogue::NO_FILE),
            stream_reconnects: single(of, &catalogue::STREAM_RECONNECTS),
            stream_events: single(of, &catalogue::STREAM_EVENTS),
            reconciles: Family::new(of, &catalogue::RECONCILES),
            reconcile_errors: Family::new(of, &catalogue::RECONCILE_ERRORS),
            reconcile_panics: Family::new(of, &catalogue::RECONCILE_PANICS),
            reconcile_seconds: Family::new(of, &catalogue::RECONCILE_SECONDS),
            max_workers: Family::new(of, &catalogue::MAX_WORKERS),
            conflicts: Family::new(of, &catalogue::CONFLICTS),
            queues,
            rest_requests: Family::new(of, &catalogue::REST_REQUESTS),
            rest_seconds: Family::new(of, &catalogue::REST_SECONDS),
            in_sync: single(of, &catalogue::IN_SYNC),
            events_dropped: Family::new(of, &catalogue::EVENTS_DROPPED),
            leader: Family::new(of, &catalogue::LEADER),
            tasks: single(of, &catalogue::TASKS),
            process: process::Process::new(of),
            registry: std::mem::take(of),
        }
    }

    /// Counts the end of a reconcile of `controller`.
    pub fn reconciled(&self, controller: &'static str, result: ReconcileResult, took: Duration) {
        let label = match result {
            ReconcileResult::Success => "success",
            ReconcileResult::RequeueAfter | ReconcileResult::Conflict => "requeue_after",
            ReconcileResult::Error(_) => "error",
        };
        self.reconciles.of(&[controller, label]).inc();
        self.reconcile_seconds
            .of(&[controller])
            .observe(took.as_secs_f64());
        self.failed(controller, result);
    }

    /// Counts what failed in a reconcile of `controller`, whoever began it.
    pub fn failed(&self, controller: &'static str, result: ReconcileResult) {
        match result {
            ReconcileResult::Success | ReconcileResult::RequeueAfter => {}
            ReconcileResult::Conflict => {
                self.conflicts.of(&[controller]).inc();
            }
            ReconcileResult::Error(reason) => {
                self.reconcile_errors.of(&[controller, reason]).inc();
                if reason == catalogue::PANIC {
                    self.panicked(controller);
                }
            }
        }
    }

    /// Counts a panic in a reconcile or call of `controller`.
    pub fn panicked(&self, controller: &'static str) {
        self.reconcile_panics.of(&[controller]).inc();
    }

    /// Sets the limit on concurrent reconciles of `controller`; 0 means no limit.
    pub fn set_max_workers(&self, controller: &'static str, most: usize) {
        self.max_workers.of(&[controller]).set(gauge(most));
    }

    /// The metrics that the queues of `controller` count in.
    pub fn queue(&self, controller: &str) -> QueueMetrics {
        self.queues.of(controller)
    }

    /// Sets what the queues of `controller` hold now.
    pub fn set_queue(&self, controller: &str, totals: QueueTotals) {
        self.queues.set(controller, totals);
    }

    /// Counts a pause of a Workspace's calls.
    pub fn paused(&self, cause: PauseCause) {
        let cause = match cause {
            PauseCause::TooManyRequests => "too_many_requests",
            PauseCause::NoAnswer => "no_answer",
        };
        self.pauses.of(&[cause]).inc();
    }

    /// Counts Kubernetes Events that were not published.
    pub fn events_dropped(&self, cause: DropCause, count: u64) {
        self.events_dropped.of(&[cause.as_str()]).inc_by(count);
    }

    /// Sets whether this process leads, by the Lease of this name. Without an election there is no such series.
    pub fn set_leader(&self, lease: &str, leads: bool) {
        self.leader.of(&[lease]).set(i64::from(leads));
    }

    /// Sets the number of asynchronous tasks that have begun and not ended.
    pub fn set_tasks(&self, count: usize) {
        self.tasks.set(gauge(count));
    }

    /// The text that Prometheus scrapes.
    pub fn encode(&self, format: Format) -> Result<String, std::fmt::Error> {
        self.process.measure();
        let mut text = String::new();
        text::encode(&mut text, &self.registry)?;
        Ok(format.of(text))
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl Observer for Metrics {
    fn on_answer(&self, operation: Operation, outcome: &Outcome<'_>) {
        let operation = operation.as_str();
        let code = outcome
            .http_status
            .map_or_else(|| NO_ANSWER.to_owned(), code);
        self.requests.of(&[operation, &code]).inc();
        let took = outcome.elapsed.as_secs_f64();
        self.request_seconds.of(&[operation]).observe(took);
    }
}

/// Label of an HTTP status. Statuses outside 100 to 599 share one label, which bounds the number of series.
pub(crate) fn code(status: u16) -> String {
    match status {
        100..=599 => status.to_string(),
        _ => NO_STATUS.to_owned(),
    }
}
