//! What is counted. The [`catalogue`] declares it; no object's name is ever a label.

use std::sync::Arc;
use std::time::Duration;

use prometheus_client::encoding::text;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use crate::service::{Observer, Operation, Outcome};

mod backlog;
pub mod catalogue;
mod exposition;
mod family;
mod kubernetes;
mod process;
mod queue;
mod rendered;
#[cfg(test)]
mod tests;

pub use backlog::Backlog;
use catalogue::{CONTROLLERS, NO_ANSWER, NO_STATUS};
pub use exposition::Format;
use family::{Family, single};
pub use kubernetes::CountRequests;
pub use rendered::Rendered;

/// Every metric, registered once.
pub struct Metrics {
    registry: Registry,
    reconciles: Family<Counter>,
    reconcile_errors: Family<Counter>,
    reconcile_panics: Family<Counter>,
    reconcile_seconds: Family<Histogram>,
    max_workers: Family<Gauge>,
    conflicts: Family<Counter>,
    backlogs: Vec<(&'static str, Arc<Backlog>)>,
    requests: Family<Counter>,
    request_seconds: Family<Histogram>,
    kubernetes: kubernetes::Families,
    process: process::Process,
    leader: Family<Gauge>,
    runs: Family<Gauge>,
    runs_stalled: Family<Gauge>,
    workspaces: Family<Gauge>,
    workspaces_not_ready: Family<Gauge>,
    pauses: Family<Counter>,
    /// Runs that may have a run whose id is not known yet.
    pub runs_in_doubt: Gauge,
    /// The age of the oldest intent among them, in seconds.
    pub oldest_doubt: Gauge,
    /// Runs that this process remembers.
    pub remembered: Gauge,
    tasks: Gauge,
    /// Event streams whose connection is open.
    pub open_streams: Gauge,
    /// Event streams that may be open.
    pub stream_limit: Gauge,
    /// Calls that failed for lack of files.
    pub no_file: Counter,
    /// Calls for Runs that are under way, the opening of event streams included.
    pub calls_in_flight: Gauge,
    /// Calls that wait at their Workspace's gate.
    pub calls_waiting: Gauge,
    /// Event streams opened anew after a break.
    pub stream_reconnects: Counter,
    /// Events received from the service.
    pub stream_events: Counter,
    /// Objects that couldn't be decoded.
    pub undecodable: Counter,
    /// Objects that vanished without having been released.
    pub vanished: Counter,
    /// Finalizers taken off although the run was only seen to be cancelling.
    pub cancel_unconfirmed: Counter,
    /// Workspaces that went over to another token.
    pub token_changes: Counter,
    /// Whether the caches are in sync: 1 or 0.
    pub in_sync: Gauge,
    events_dropped: Family<Counter>,
}

/// How a reconcile ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(
    non_camel_case_types,
    reason = "the label's values, as dashboards know them"
)]
pub enum ReconcileResult {
    /// Nothing more to do now.
    success,
    /// Looks again later.
    requeue_after,
    /// The object changed meanwhile; looks again.
    conflict,
    /// A Kubernetes call failed, or the object can't be decoded.
    error,
    /// The code panicked.
    panic,
}

/// Why the calls of a Workspace are paused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PauseCause {
    /// The service answered 429.
    TooManyRequests,
    /// Several calls in a row got no answer.
    NoAnswer,
}

/// Why a Kubernetes Event was not published.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DropCause {
    /// Its object had used up its allowance.
    TooMany,
    /// Too many waited to be sent.
    QueueFull,
    /// Half as many waited, and it was published before, most likely.
    Repeated,
    /// The API server refused it.
    Refused,
    /// Its namespace is gone, or is being deleted.
    NamespaceGone,
    /// The API server gave no answer, or none that helps, to any of the tries.
    NoAnswer,
}

impl DropCause {
    fn as_str(self) -> &'static str {
        match self {
            Self::TooMany => "too_many",
            Self::QueueFull => "queue_full",
            Self::Repeated => "repeated",
            Self::Refused => "refused",
            Self::NamespaceGone => "namespace_gone",
            Self::NoAnswer => "no_answer",
        }
    }
}

impl Metrics {
    /// Registers everything, and every label value that is known beforehand at zero.
    pub fn new() -> Self {
        let mut of = Registry::default();
        let of = &mut of;
        let queues = backlog::Families::new(of);
        let backlog = |name: &&'static str| (*name, Arc::new(Backlog::new(&queues, name)));
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
            backlogs: CONTROLLERS.iter().map(backlog).collect(),
            kubernetes: kubernetes::Families::new(of),
            in_sync: single(of, &catalogue::IN_SYNC),
            events_dropped: Family::new(of, &catalogue::EVENTS_DROPPED),
            leader: Family::new(of, &catalogue::LEADER),
            tasks: single(of, &catalogue::TASKS),
            process: process::Process::new(of),
            registry: std::mem::take(of),
        }
    }

    /// A reconcile of `controller` ended so.
    pub fn reconciled(&self, controller: &'static str, result: ReconcileResult, took: Duration) {
        let label = match result {
            ReconcileResult::success => "success",
            ReconcileResult::requeue_after | ReconcileResult::conflict => "requeue_after",
            ReconcileResult::error | ReconcileResult::panic => "error",
        };
        self.reconciles.of(&[controller, label]).inc();
        self.reconcile_seconds
            .of(&[controller])
            .observe(took.as_secs_f64());
        match result {
            ReconcileResult::success | ReconcileResult::requeue_after => {}
            ReconcileResult::conflict => {
                self.conflicts.of(&[controller]).inc();
            }
            ReconcileResult::error => {
                self.reconcile_errors.of(&[controller]).inc();
            }
            ReconcileResult::panic => {
                self.reconcile_errors.of(&[controller]).inc();
                self.panicked(controller);
            }
        }
    }

    /// A call for an object of `controller` panicked.
    pub fn panicked(&self, controller: &'static str) {
        self.reconcile_panics.of(&[controller]).inc();
    }

    /// How many reconciles of `controller` may be under way; 0 is no bound.
    pub fn set_max_workers(&self, controller: &'static str, most: usize) {
        self.max_workers.of(&[controller]).set(gauge(most));
    }

    /// What waits for the reconciles of `controller`.
    pub fn backlog(&self, controller: &'static str) -> Option<Arc<Backlog>> {
        let mut all = self.backlogs.iter();
        let found = all.find(|(name, _)| *name == controller);
        found.map(|(_, backlog)| Arc::clone(backlog))
    }

    /// The calls of a Workspace are paused.
    pub fn paused(&self, cause: PauseCause) {
        let cause = match cause {
            PauseCause::TooManyRequests => "too_many_requests",
            PauseCause::NoAnswer => "no_answer",
        };
        self.pauses.of(&[cause]).inc();
    }

    /// So many Kubernetes Events were not published.
    pub fn events_dropped(&self, cause: DropCause, count: u64) {
        self.events_dropped.of(&[cause.as_str()]).inc_by(count);
    }

    /// Whether this process leads, by the Lease of this name. Without an election there is no such series.
    pub fn set_leader(&self, lease: &str, leads: bool) {
        self.leader.of(&[lease]).set(i64::from(leads));
    }

    /// The number of Runs in a phase.
    pub fn set_runs(&self, phase: &str, count: usize) {
        self.runs.of(&[phase]).set(gauge(count));
    }

    /// The number of Runs that wait for a person for this reason.
    pub fn set_stalled(&self, reason: &str, count: usize) {
        self.runs_stalled.of(&[reason]).set(gauge(count));
    }

    /// The number of Workspaces of a kind with this Ready condition.
    pub fn set_workspaces(&self, kind: &str, ready: &str, count: usize) {
        self.workspaces.of(&[kind, ready]).set(gauge(count));
    }

    /// The number of Workspaces that are not Ready for this reason.
    pub fn set_not_ready(&self, reason: &str, count: usize) {
        self.workspaces_not_ready.of(&[reason]).set(gauge(count));
    }

    /// The number of asynchronous tasks that have begun and not ended.
    pub fn set_tasks(&self, count: usize) {
        self.tasks.set(gauge(count));
    }

    /// The text that Prometheus scrapes.
    pub fn encode(&self, format: Format) -> Result<String, std::fmt::Error> {
        for (_, backlog) in &self.backlogs {
            backlog.measure();
        }
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

/// The label of an HTTP status: a server that makes them up makes no more than 500 series.
fn code(status: u16) -> String {
    match status {
        100..=599 => status.to_string(),
        _ => NO_STATUS.to_owned(),
    }
}

fn gauge(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
