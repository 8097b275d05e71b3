//! The metrics, each declared once. No object's name is ever a label, but that of the operator's own Lease.

use std::collections::HashMap;
use std::fmt;
use std::hash::Hash;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use bytes::Bytes;
use prometheus_client::encoding::text;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;

use crate::api::{Phase, Reason, WorkspaceKind};
use crate::service::{Observer, Operation};
use crate::util::lock;

pub(crate) mod labels;
mod process;
#[cfg(test)]
mod tests;

use labels::{
    ByAnswer, ByCause, ByController, ByError, ByLease, ByMethod, ByOperation, ByPhase, ByReady,
    ByReason, ByResult, CONTROLLERS, METHODS, NO_ANSWER, NO_STATUS, OTHER, PANIC, REASONS, RESULTS,
    STATUSES,
};

/// Time for which a rendering is reused.
const KEPT: Duration = Duration::from_secs(1);
/// As in controller-runtime.
const RECONCILE_BUCKETS: [f64; 40] = [
    0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9,
    1.0, 1.25, 1.5, 1.75, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 15.0, 20.0,
    25.0, 30.0, 40.0, 50.0, 60.0,
];
/// A create waits for the service up to the contract file's limit: usually 30 s.
const SERVICE_BUCKETS: [f64; 13] = [
    0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0,
];

/// Declares the metrics: field, type, name and help. `OpenMetrics` adds `_total` to the name of a counter.
macro_rules! metrics {
    (
        counts { $($field:ident: $type:ty = $name:literal, $help:literal;)+ }
        times { $($times:ident: $labels:ty, $buckets:ident = $times_name:literal, $times_help:literal;)+ }
    ) => {
        /// Every metric, registered once.
        pub struct Metrics {
            registry: Registry,
            $(pub(crate) $field: $type,)+
            $($times: Family<$labels, Histogram>,)+
        }

        impl Metrics {
            fn registered() -> Self {
                let mut registry = Registry::default();
                $(
                    let $field = <$type>::default();
                    registry.register($name, $help, $field.clone());
                )+
                $(
                    let times: fn() -> Histogram = || Histogram::new($buckets);
                    let $times = Family::new_with_constructor(times);
                    registry.register($times_name, $times_help, $times.clone());
                )+
                Self { registry, $($field,)+ $($times,)+ }
            }
        }
    };
}

metrics! {
    counts {
        runs: Family<ByPhase, Gauge> = "run_operator_runs",
            "Run objects by phase; one without a status counts as Pending";
        runs_stalled: Family<ByReason, Gauge> = "run_operator_runs_stalled",
            "Run objects that are not finished and Stalled, by the condition's reason; all but KeyInUse wait for a person";
        runs_in_doubt: Gauge = "run_operator_runs_in_doubt",
            "Run objects that may have a run at the service whose id is not known yet: the intent is written, no runId is";
        oldest_doubt: Gauge = "run_operator_oldest_doubt_seconds",
            "Age of the oldest intent of such a Run; 0 if there is none";
        remembered: Gauge = "run_operator_remembered_runs",
            "Run objects that this process tracks in addition to its cache; those that have ended or were deleted are forgotten within seconds";
        workspaces: Family<ByReady, Gauge> = "run_operator_workspaces",
            "Workspace objects of either kind by their Ready condition; one without it counts as Unknown";
        workspaces_not_ready: Family<ByReason, Gauge> = "run_operator_workspaces_not_ready",
            "Workspace objects of either kind that are not Ready, by the condition's reason";
        undecodable: Counter = "run_operator_undecodable_objects",
            "Attempts to reconcile an object that can't be decoded; nothing is done for it but to show that in its status";
        vanished: Counter = "run_operator_vanished_runs",
            "Run objects that were deleted without having been released; their runs are cancelled";
        cancel_unconfirmed: Counter = "run_operator_cancel_unconfirmed",
            "Finalizers removed while the run was only seen cancelling";

        requests: Family<ByAnswer, Counter> = "run_operator_service_requests",
            "Calls to the service by operation and HTTP status; none is no answer, other a status that HTTP doesn't define";
        calls_in_flight: Gauge = "run_operator_calls_in_flight",
            "Calls for Runs in flight, including the opening of event streams";
        calls_waiting: Gauge = "run_operator_calls_waiting",
            "Calls for Runs that wait in their Workspace's queue";
        pauses: Family<ByCause, Counter> = "run_operator_workspace_pauses",
            "Pauses of a Workspace's calls by cause: too_many_requests is 429, no_answer several calls in a row without one";
        token_changes: Counter = "run_operator_token_changes",
            "Workspaces whose calls moved to another token, after it was verified";

        open_streams: Gauge = "run_operator_open_streams",
            "Event streams whose connection is open";
        stream_limit: Gauge = "run_operator_stream_limit",
            "Event streams that may be open: `--max-streams`, or fewer if the process's limit of open files is too low";
        no_file: Counter = "run_operator_out_of_files",
            "Calls to the service that were not made because the process had reached its limit of open files";
        stream_reconnects: Counter = "run_operator_stream_reconnects",
            "Event streams reopened after a break";
        stream_events: Counter = "run_operator_stream_events",
            "Events received from the service, repetitions not counted";

        reconciles: Family<ByResult, Counter> = "controller_runtime_reconcile",
            "Reconciles by controller and result";
        reconcile_errors: Family<ByError, Counter> = "controller_runtime_reconcile_errors",
            "Reconciles that failed, by reason; controller-runtime's metric has no such label";
        reconcile_panics: Family<ByController, Counter> = "controller_runtime_reconcile_panics",
            "Panics in a reconcile or in a call to the service; each is a bug of the operator";
        active_workers: Family<ByController, Gauge> = "controller_runtime_active_workers",
            "Reconciles in flight";
        max_workers: Family<ByController, Gauge> = "controller_runtime_max_concurrent_reconciles",
            "Maximum of reconciles in flight; 0 is no limit";
        oldest_reconcile: Family<ByController, Gauge> = "run_operator_oldest_reconcile_seconds",
            "Duration of the longest reconcile in flight so far; 0 if there is none";
        conflicts: Family<ByController, Counter> = "run_operator_write_conflicts",
            "Reconciles that met a newer version of their object, or none, and are requeued; they count as requeue_after";

        api_requests: Family<ByMethod, Counter> = "run_operator_api_requests",
            "Requests to the API server by method and HTTP status; none is no answer, other a status that HTTP doesn't define";
        in_sync: Gauge = "run_operator_in_sync",
            "1 if the caches are in sync with the API server, as for /readyz; 0 if not, and then nothing is reconciled";
        events_dropped: Family<ByCause, Counter> = "run_operator_events_dropped",
            "Kubernetes Events not published, by cause; Events lost in a crash are not counted";

        leader: Family<ByLease, Gauge> = "leader_election_master_status",
            "1 if this process leads, 0 if it is a standby";

        tasks: Gauge = "run_operator_tasks",
            "Asynchronous tasks that have begun and not ended";
    }
    times {
        request_seconds: ByOperation, SERVICE_BUCKETS = "run_operator_service_request_duration_seconds",
            "Time from a call to its end; of an event stream, to its opening";
        reconcile_seconds: ByController, RECONCILE_BUCKETS = "controller_runtime_reconcile_time_seconds",
            "Duration of a reconcile";
    }
}

/// Numbers of objects.
pub(crate) type Counts<T> = HashMap<T, usize>;

/// Result of a reconcile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReconcileResult {
    /// Nothing to do now.
    Success,
    /// Requeued.
    RequeueAfter,
    /// The object changed meanwhile; requeued.
    Conflict,
    /// It failed, for this reason of `labels::REASONS`.
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

impl PauseCause {
    const ALL: [Self; 2] = [Self::TooManyRequests, Self::NoAnswer];

    fn as_str(self) -> &'static str {
        match self {
            Self::TooManyRequests => "too_many_requests",
            Self::NoAnswer => "no_answer",
        }
    }
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
    const ALL: [Self; 4] = [
        Self::QueueFull,
        Self::Refused,
        Self::NamespaceGone,
        Self::NoAnswer,
    ];

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
    /// Registers all metrics, with every series whose labels are known beforehand at zero, so that a rate is correct
    /// from the first event on.
    pub fn new() -> Self {
        let mut metrics = Self::registered();
        let version = Info::new([("version", env!("CARGO_PKG_VERSION"))]);
        let help = "Always 1; the label is the operator's version";
        let registry = &mut metrics.registry;
        registry.register("run_operator_build", help, version);
        registry.register_collector(Box::new(process::Process));
        metrics.set_phases(&Counts::new());
        set_reasons(&metrics.runs_stalled, &Counts::new());
        set_reasons(&metrics.workspaces_not_ready, &Counts::new());
        for kind in [WorkspaceKind::Workspace, WorkspaceKind::ClusterWorkspace] {
            metrics.set_ready(kind, &Counts::new());
        }
        metrics.begin_requests();
        metrics.begin_reconciles();
        metrics
    }

    /// Sets the number of Runs in each phase.
    pub(crate) fn set_phases(&self, counts: &Counts<Phase>) {
        for &phase in Phase::ALL {
            let of = ByPhase {
                phase: phase.as_str(),
            };
            self.runs.get_or_create(&of).set(number(counts, &phase));
        }
    }

    /// Sets the number of Workspaces of one kind by the status of their Ready condition.
    pub(crate) fn set_ready(&self, kind: WorkspaceKind, counts: &Counts<&'static str>) {
        let kind = kind.as_str();
        for ready in STATUSES {
            let of = ByReady { kind, ready };
            self.workspaces
                .get_or_create(&of)
                .set(number(counts, &ready));
        }
    }

    fn begin_requests(&self) {
        for code in ["200", NO_ANSWER] {
            for operation in Operation::ALL.map(Operation::as_str) {
                let code = code.to_owned();
                self.requests
                    .get_or_create_owned(&ByAnswer { operation, code });
                self.request_seconds
                    .get_or_create_owned(&ByOperation { operation });
            }
            for method in METHODS {
                let (method, code) = (method.to_owned(), code.to_owned());
                self.api_requests
                    .get_or_create_owned(&ByMethod { method, code });
            }
        }
        for cause in PauseCause::ALL.map(PauseCause::as_str) {
            self.pauses.get_or_create_owned(&ByCause { cause });
        }
        for cause in DropCause::ALL.map(DropCause::as_str) {
            self.events_dropped.get_or_create_owned(&ByCause { cause });
        }
    }

    fn begin_reconciles(&self) {
        for controller in CONTROLLERS {
            for result in RESULTS {
                self.reconciles
                    .get_or_create_owned(&ByResult { controller, result });
            }
            for reason in REASONS {
                self.reconcile_errors
                    .get_or_create_owned(&ByError { controller, reason });
            }
            let of = ByController { controller };
            self.reconcile_panics.get_or_create_owned(&of);
            self.reconcile_seconds.get_or_create_owned(&of);
            self.active_workers.get_or_create_owned(&of);
            self.max_workers.get_or_create_owned(&of);
            self.oldest_reconcile.get_or_create_owned(&of);
            self.conflicts.get_or_create_owned(&of);
        }
    }

    /// Counts the end of a reconcile of `controller`.
    pub fn reconciled(&self, controller: &'static str, result: ReconcileResult, took: Duration) {
        let label = match result {
            ReconcileResult::Success => "success",
            ReconcileResult::RequeueAfter | ReconcileResult::Conflict => "requeue_after",
            ReconcileResult::Error(_) => "error",
        };
        let by_result = ByResult {
            controller,
            result: label,
        };
        self.reconciles.get_or_create(&by_result).inc();
        self.reconcile_seconds
            .get_or_create(&ByController { controller })
            .observe(took.as_secs_f64());
        self.failed(controller, result);
    }

    /// Counts what failed in a reconcile of `controller`, whoever began it.
    pub fn failed(&self, controller: &'static str, result: ReconcileResult) {
        match result {
            ReconcileResult::Success | ReconcileResult::RequeueAfter => {}
            ReconcileResult::Conflict => {
                let of = ByController { controller };
                self.conflicts.get_or_create(&of).inc();
            }
            ReconcileResult::Error(reason) => {
                let by_error = ByError { controller, reason };
                self.reconcile_errors.get_or_create(&by_error).inc();
                if reason == PANIC {
                    self.panicked(controller);
                }
            }
        }
    }

    /// Counts a panic in a reconcile or call of `controller`.
    pub fn panicked(&self, controller: &'static str) {
        let of = ByController { controller };
        self.reconcile_panics.get_or_create(&of).inc();
    }

    /// Sets the limit on concurrent reconciles of `controller`; 0 means no limit.
    pub fn set_max_workers(&self, controller: &'static str, most: usize) {
        let of = ByController { controller };
        self.max_workers.get_or_create(&of).set(gauge(most));
    }

    /// Sets the number of reconciles of `controller` in flight, and the duration of the longest of them so far.
    pub fn set_in_flight(&self, controller: &'static str, count: usize, longest: Duration) {
        let of = ByController { controller };
        self.active_workers.get_or_create(&of).set(gauge(count));
        let seconds = i64::try_from(longest.as_secs()).unwrap_or(i64::MAX);
        self.oldest_reconcile.get_or_create(&of).set(seconds);
    }

    /// Counts a request to the API server, and the status of the answer if there was one.
    pub fn api_request(&self, method: &str, status: Option<u16>) {
        let (method, code) = (method.to_owned(), code(status));
        let request = ByMethod { method, code };
        self.api_requests.get_or_create(&request).inc();
    }

    /// Counts a pause of a Workspace's calls.
    pub fn paused(&self, cause: PauseCause) {
        let cause = cause.as_str();
        self.pauses.get_or_create(&ByCause { cause }).inc();
    }

    /// Counts a Kubernetes Event that was not published.
    pub fn event_dropped(&self, cause: DropCause) {
        let cause = cause.as_str();
        self.events_dropped.get_or_create(&ByCause { cause }).inc();
    }

    /// Sets whether this process leads, by the Lease of this name. Without an election there is no such series.
    pub fn set_leader(&self, lease: &str, leads: bool) {
        let name = lease.to_owned();
        let leader = self.leader.get_or_create(&ByLease { name });
        leader.set(i64::from(leads));
    }

    /// The text that Prometheus scrapes, as `OpenMetrics`.
    pub fn encode(&self) -> Result<String, fmt::Error> {
        let mut text = String::new();
        text::encode(&mut text, &self.registry)?;
        Ok(text)
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl Observer for Metrics {
    fn ended(&self, operation: Operation, http_status: Option<u16>, took: Duration) {
        let (operation, code) = (operation.as_str(), code(http_status));
        let answer = ByAnswer { operation, code };
        self.requests.get_or_create(&answer).inc();
        self.request_seconds
            .get_or_create(&ByOperation { operation })
            .observe(took.as_secs_f64());
    }
}

/// Label of an answer's HTTP status. Statuses outside 100 to 599 share one label, which bounds the number of series.
fn code(status: Option<u16>) -> String {
    match status {
        Some(status @ 100..=599) => status.to_string(),
        Some(_) => NO_STATUS.to_owned(),
        None => NO_ANSWER.to_owned(),
    }
}

/// Sets a number for each reason of a condition. `None`: reasons that this version doesn't know.
pub(crate) fn set_reasons(family: &Family<ByReason, Gauge>, counts: &Counts<Option<Reason>>) {
    for reason in Reason::ALL.iter().copied().map(Some).chain([None]) {
        let of = ByReason {
            reason: reason.map_or(OTHER, Reason::as_str),
        };
        family.get_or_create(&of).set(number(counts, &reason));
    }
}

fn number<T: Eq + Hash>(counts: &Counts<T>, of: &T) -> i64 {
    gauge(counts.get(of).copied().unwrap_or_default())
}

/// Value of a gauge that counts.
pub(crate) fn gauge(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// The last rendering. Scrapes within a second get the same text, so that a hundred scrapes a second cost one rendering.
#[derive(Default)]
pub struct Rendered(Mutex<Option<(Instant, Bytes)>>);

impl Rendered {
    /// The rendering of the last second, or a new one by `render`, at most one at a time.
    pub fn text(
        &self,
        now: Instant,
        render: impl FnOnce() -> Result<String, fmt::Error>,
    ) -> Result<Bytes, fmt::Error> {
        let mut kept = lock(&self.0);
        if let Some((at, text)) = &*kept
            && now.saturating_duration_since(*at) < KEPT
        {
            return Ok(text.clone());
        }
        let text = Bytes::from(render()?);
        *kept = Some((now, text.clone()));
        Ok(text)
    }
}
