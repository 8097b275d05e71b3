//! The metrics. No label's value names an object other than the operator's Lease, the namespaces whose Workspaces have
//! a limit, and with `--metrics-namespace-label` those of Runs, or can be chosen by a user or the service: the number of
//! series is bounded. A series whose labels are known beforehand starts at zero: a rate is correct from the first event
//! on.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;
use std::time::Duration;

use prometheus_client::encoding::text;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::{Family, MetricConstructor};
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;

use crate::api::{Phase, Reason, WorkspaceKind};
use crate::service::{Observer, Operation};

mod process;
mod rendered;
mod run_life;
mod slots;
#[cfg(test)]
mod tests;

pub use rendered::Rendered;

const CONTROLLERS: [&str; 4] = ["run", "workspace", "clusterworkspace", "runschedule"];
const NO_ANSWER: &str = "none";
/// The code of a status that HTTP doesn't define.
const NO_STATUS: &str = "other";
pub(crate) const OTHER: &str = "Other";
/// Classes of the HTTP status of a refusal.
const REFUSING: &str = "4xx";
const FAILING: &str = "5xx";
const WRITES: [&str; 5] = ["metadata", "spec", "status", "create", "delete"];
const METHODS: [&str; 5] = ["GET", "POST", "PUT", "PATCH", "DELETE"];
/// The statuses of a condition; any other word counts as Unknown.
pub(crate) const STATUSES: [&str; 3] = ["True", "False", "Unknown"];
/// Results of a reconcile. As in controller-runtime, where `requeue` is one without a time: there is none here.
const RESULTS: [&str; 4] = [SUCCESS, "error", "requeue", REQUEUE_AFTER];
pub(crate) const SUCCESS: &str = "success";
pub(crate) const REQUEUE_AFTER: &str = "requeue_after";
/// A reconcile that met a newer version of its object, or none: it counts as one that is requeued.
pub(crate) const CONFLICT: &str = "conflict";
pub(crate) const PANIC: &str = "panic";
pub(crate) const REASONS: [&str; 9] = [
    "undecodable",
    "write_refused",
    "write_failed",
    "write_timeout",
    "write_invalid",
    "list_failed",
    "no_answer",
    "no_file",
    PANIC,
];
/// Causes of a pause of a Workspace's calls: a 429, or several calls in a row without an answer.
pub(crate) const TOO_MANY_REQUESTS: &str = "too_many_requests";
pub(crate) const UNANSWERED: &str = "no_answer";
/// These, with [`UNANSWERED`], are the causes for which a Kubernetes Event is not published.
pub(crate) const QUEUE_FULL: &str = "queue_full";
pub(crate) const REFUSED: &str = "refused";
pub(crate) const NAMESPACE_GONE: &str = "namespace_gone";
/// What became of a tick of a RunSchedule.
const CREATED: &str = "created";
pub(crate) const SKIPPED: &str = "skipped";
pub(crate) const MISSED: &str = "missed";
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

/// From at once to an hour.
const LATE_BUCKETS: [f64; 9] = [0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 300.0, 3600.0];

/// From a minute to a week.
const DURATION_BUCKETS: [f64; 12] = [
    60.0, 300.0, 900.0, 1800.0, 3600.0, 7200.0, 14400.0, 28800.0, 86400.0, 172_800.0, 345_600.0,
    604_800.0,
];

/// From a second, the precision of the object's times, to a week.
const WAIT_BUCKETS: [f64; 11] = [
    1.0, 2.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3600.0, 14400.0, 86400.0, 604_800.0,
];

/// From one GET and one write to an API server that refuses the write for long.
const LAG_BUCKETS: [f64; 12] = [
    0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 15.0, 60.0, 300.0,
];

/// From at once to a week.
const QUEUE_BUCKETS: [f64; 10] = [
    0.1, 1.0, 10.0, 60.0, 300.0, 1800.0, 3600.0, 14400.0, 86400.0, 604_800.0,
];

type Labels<const N: usize> = [(&'static str, Cow<'static, str>); N];

type RunLabels = Vec<(&'static str, Cow<'static, str>)>;

type FixedLabels<const N: usize> = [(&'static str, &'static str); N];

fn labels<const N: usize>(known: FixedLabels<N>) -> Labels<N> {
    known.map(|(name, value)| (name, value.into()))
}

fn count<const N: usize>(family: &Family<Labels<N>, Counter>, of: FixedLabels<N>) {
    family.get_or_create(&labels(of)).inc();
}

fn set<const N: usize>(family: &Family<Labels<N>, Gauge>, of: FixedLabels<N>, value: i64) {
    family.get_or_create(&labels(of)).set(value);
}

fn begin<const N: usize, M, C>(family: &Family<Labels<N>, M, C>, of: FixedLabels<N>)
where
    M: Clone,
    C: MetricConstructor<M>,
{
    family.get_or_create_owned(&labels(of));
}

/// `OpenMetrics` adds `_total` to the name of a counter.
macro_rules! metrics {
    (
        counts { $($field:ident: $type:ty = $name:literal, $help:literal;)+ }
        times { $($times:ident: $labels:ty, $buckets:ident = $times_name:literal, $times_help:literal;)+ }
    ) => {
        pub struct Metrics {
            registry: Registry,
            /// Whether those of a Run's life have its namespace.
            namespace_label: bool,
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
                Self { registry, namespace_label: false, $($field,)+ $($times,)+ }
            }
        }
    };
}

metrics! {
    counts {
        runs: Family<Labels<1>, Gauge> = "run_operator_runs",
            "Run objects by phase; one without a status counts as Pending";
        runs_stalled: Family<Labels<1>, Gauge> = "run_operator_runs_stalled",
            "Run objects that are not finished and Stalled, by the condition's reason; all but KeyInUse wait for a person";
        runs_not_mapped: Gauge = "run_operator_runs_state_not_mapped",
            "Run objects that are not finished and whose run has a state that the contract file doesn't map";
        runs_in_doubt: Gauge = "run_operator_runs_in_doubt",
            "Run objects that may have a run at the service whose id is not known yet: the intent is written, no runID is";
        oldest_doubt: Gauge = "run_operator_oldest_doubt_seconds",
            "Age of the oldest intent of such a Run; 0 if there is none";
        runs_finished: Family<RunLabels, Counter> = "run_operator_runs_finished",
            "Run objects whose end this process wrote or saw written, by phase and the reason of Finished; each counts once";
        remembered: Gauge = "run_operator_remembered_runs",
            "Run objects that this process tracks in addition to its cache; those that have ended or were deleted are forgotten within seconds";
        workspaces: Family<Labels<2>, Gauge> = "run_operator_workspaces",
            "Workspace objects of either kind by their Ready condition; one without it counts as Unknown";
        workspaces_not_ready: Family<Labels<1>, Gauge> = "run_operator_workspaces_not_ready",
            "Workspace objects of either kind that are not Ready, by the condition's reason";
        active_runs: Family<Labels<2>, Gauge> = "run_operator_workspace_active_runs",
            "Run objects that have a slot of a Workspace that has a limit and is Ready; a ClusterWorkspace has no namespace";
        queued_runs: Family<Labels<2>, Gauge> = "run_operator_workspace_queued_runs",
            "Run objects that wait for a slot of such a Workspace";
        max_active_runs: Family<Labels<2>, Gauge> = "run_operator_workspace_max_active_runs",
            "Slots of the Workspaces with maxActiveRuns that are Ready";
        schedules: Family<Labels<1>, Gauge> = "run_operator_schedules",
            "RunSchedule objects by their Ready condition; one without it counts as Unknown";
        schedules_stalled: Family<Labels<1>, Gauge> = "run_operator_schedules_stalled",
            "RunSchedule objects that are Stalled and so create no Runs, by the condition's reason";
        ticks: Family<Labels<1>, Counter> = "run_operator_schedule_ticks",
            "Ticks of RunSchedules by result: created is each attempt's Run, skipped is by concurrencyPolicy, a suspension or a change, missed is too late";
        undecodable: Counter = "run_operator_undecodable_objects",
            "Attempts to reconcile an object that can't be decoded; nothing is done for it but to show that in its status";
        vanished: Counter = "run_operator_vanished_runs",
            "Run objects that were deleted without having been released; their runs are cancelled";
        cancel_unconfirmed: Counter = "run_operator_cancel_unconfirmed",
            "Finalizers removed while the run was only seen cancelling";

        requests: Family<Labels<2>, Counter> = "run_operator_service_requests",
            "Calls to the service by operation and HTTP status; none is no answer, other a status that HTTP doesn't define";
        calls_in_flight: Gauge = "run_operator_calls_in_flight",
            "Calls for Runs in flight, including the opening of event streams";
        calls_waiting: Gauge = "run_operator_calls_waiting",
            "Calls for Runs that wait in their Workspace's queue";
        pauses: Family<Labels<1>, Counter> = "run_operator_workspace_pauses",
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

        reconciles: Family<Labels<2>, Counter> = "controller_runtime_reconcile",
            "Reconciles by controller and result";
        reconcile_errors: Family<Labels<2>, Counter> = "controller_runtime_reconcile_errors",
            "Reconciles that failed, by reason; controller-runtime's metric has no such label";
        reconcile_panics: Family<Labels<1>, Counter> = "controller_runtime_reconcile_panics",
            "Panics in a reconcile or in a call to the service; each is a bug of the operator";
        active_workers: Family<Labels<1>, Gauge> = "controller_runtime_active_workers",
            "Reconciles in flight";
        max_workers: Family<Labels<1>, Gauge> = "controller_runtime_max_concurrent_reconciles",
            "Maximum of reconciles in flight; 0 is no limit";
        oldest_reconcile: Family<Labels<1>, Gauge> = "run_operator_oldest_reconcile_seconds",
            "Duration of the longest reconcile in flight so far; 0 if there is none";
        conflicts: Family<Labels<1>, Counter> = "run_operator_write_conflicts",
            "Reconciles that met a newer version of their object, or none, and are requeued; they count as requeue_after";

        refused_writes: Family<Labels<3>, Counter> = "run_operator_refused_writes",
            "Writes that the API server refused, by the part of the object and the class of the HTTP status; each attempt counts";
        api_requests: Family<Labels<2>, Counter> = "run_operator_api_requests",
            "Requests to the API server by method and HTTP status; none is no answer, other a status that HTTP doesn't define";
        in_sync: Gauge = "run_operator_in_sync",
            "1 if the caches are in sync with the API server, as for /readyz; 0 if not, and then nothing is reconciled";
        events_dropped: Family<Labels<1>, Counter> = "run_operator_events_dropped",
            "Kubernetes Events not published, by cause; Events lost in a crash are not counted";

        leader: Family<Labels<1>, Gauge> = "leader_election_master_status",
            "1 if this process leads, 0 if it is a standby";

        tasks: Gauge = "run_operator_tasks",
            "Asynchronous tasks that have begun and not ended";
    }
    times {
        run_seconds: RunLabels, DURATION_BUCKETS = "run_operator_run_duration_seconds",
            "Time from submissionTime to completionTime of Runs that ended; it includes waiting at the service";
        submission_wait: RunLabels, WAIT_BUCKETS = "run_operator_submission_wait_seconds",
            "Time from a Run's creation until the service accepted it; it includes suspend and the wait for a slot";
        end_lag: Labels<0>, LAG_BUCKETS = "run_operator_end_lag_seconds",
            "Time from when this process first heard of a run's end, by an event or an answer, until the status showed it";
        request_seconds: Labels<1>, SERVICE_BUCKETS = "run_operator_service_request_duration_seconds",
            "Time from a call to its end; of an event stream, to its opening";
        queue_seconds: Labels<2>, QUEUE_BUCKETS = "run_operator_queue_duration_seconds",
            "Time that a Run waited for a slot until it got one, as seen by this process; of those that waited";
        tick_lateness: Labels<0>, LATE_BUCKETS = "run_operator_schedule_lateness_seconds",
            "Time from a tick to the creation of its first Run";
        reconcile_seconds: Labels<1>, RECONCILE_BUCKETS = "controller_runtime_reconcile_time_seconds",
            "Duration of a reconcile";
    }
}

pub(crate) type Counts = HashMap<&'static str, usize>;

impl Metrics {
    pub fn new() -> Self {
        let mut metrics = Self::registered();
        let version = Info::new([("version", env!("CARGO_PKG_VERSION"))]);
        let help = "Always 1; the label is the operator's version";
        let registry = &mut metrics.registry;
        registry.register("run_operator_build", help, version);
        registry.register_collector(Box::new(process::Process));
        let none = Counts::new();
        metrics.set_runs(&none, &none);
        for &kind in WorkspaceKind::ALL {
            metrics.set_ready(kind, &none);
        }
        metrics.set_not_ready(&none);
        metrics.set_schedules(&none, &none);
        metrics.begin();
        metrics
    }

    pub(crate) fn set_runs(&self, phases: &Counts, stalled: &Counts) {
        for phase in Phase::ALL.iter().map(|phase| phase.as_str()) {
            set(&self.runs, [("phase", phase)], number(phases, phase));
        }
        set_reasons(&self.runs_stalled, stalled);
    }

    pub(crate) fn set_ready(&self, kind: WorkspaceKind, counts: &Counts) {
        for ready in STATUSES {
            let of = [("kind", kind.as_str()), ("ready", ready)];
            set(&self.workspaces, of, number(counts, ready));
        }
    }

    pub(crate) fn set_not_ready(&self, counts: &Counts) {
        set_reasons(&self.workspaces_not_ready, counts);
    }

    pub(crate) fn set_schedules(&self, ready: &Counts, stalled: &Counts) {
        for status in STATUSES {
            set(&self.schedules, [("ready", status)], number(ready, status));
        }
        set_reasons(&self.schedules_stalled, stalled);
    }

    fn begin(&self) {
        for code in ["200", NO_ANSWER].map(|code| ("code", code)) {
            for operation in Operation::ALL.map(|operation| ("operation", operation.as_str())) {
                begin(&self.requests, [operation, code]);
                begin(&self.request_seconds, [operation]);
            }
            for method in METHODS {
                begin(&self.api_requests, [("method", method), code]);
            }
        }
        for result in [CREATED, SKIPPED, MISSED] {
            begin(&self.ticks, [("result", result)]);
        }
        begin(&self.tick_lateness, []);
        begin(&self.end_lag, []);
        self.begin_lives(None);
        for cause in [TOO_MANY_REQUESTS, UNANSWERED] {
            begin(&self.pauses, [("cause", cause)]);
        }
        for cause in [QUEUE_FULL, REFUSED, NAMESPACE_GONE, UNANSWERED] {
            begin(&self.events_dropped, [("cause", cause)]);
        }
        for controller in CONTROLLERS.map(|name| ("controller", name)) {
            for result in RESULTS {
                begin(&self.reconciles, [controller, ("result", result)]);
            }
            for reason in REASONS {
                begin(&self.reconcile_errors, [controller, ("reason", reason)]);
            }
            begin(&self.reconcile_panics, [controller]);
            begin(&self.reconcile_seconds, [controller]);
            begin(&self.active_workers, [controller]);
            begin(&self.max_workers, [controller]);
            begin(&self.oldest_reconcile, [controller]);
            begin(&self.conflicts, [controller]);
            for write in WRITES.map(|write| ("write", write)) {
                for class in [REFUSING, FAILING].map(|class| ("class", class)) {
                    begin(&self.refused_writes, [controller, write, class]);
                }
            }
        }
    }

    /// `result`: [`SUCCESS`], [`REQUEUE_AFTER`], [`CONFLICT`], or the reason of an error.
    pub fn reconciled(&self, controller: &'static str, result: &'static str, took: Duration) {
        let controller = ("controller", controller);
        let label = match result {
            SUCCESS | REQUEUE_AFTER => result,
            CONFLICT => {
                count(&self.conflicts, [controller]);
                REQUEUE_AFTER
            }
            reason => {
                count(&self.reconcile_errors, [controller, ("reason", reason)]);
                if reason == PANIC {
                    self.panicked(controller.1);
                }
                "error"
            }
        };
        count(&self.reconciles, [controller, ("result", label)]);
        let seconds = self.reconcile_seconds.get_or_create(&labels([controller]));
        seconds.observe(took.as_secs_f64());
    }

    pub fn panicked(&self, controller: &'static str) {
        count(&self.reconcile_panics, [("controller", controller)]);
    }

    /// 0 means no limit.
    pub fn set_max_workers(&self, controller: &'static str, most: usize) {
        set(&self.max_workers, [("controller", controller)], gauge(most));
    }

    pub fn set_in_flight(&self, controller: &'static str, count: usize, longest: Duration) {
        let of = [("controller", controller)];
        set(&self.active_workers, of, gauge(count));
        let seconds = i64::try_from(longest.as_secs()).unwrap_or(i64::MAX);
        set(&self.oldest_reconcile, of, seconds);
    }

    pub fn api_request(&self, method: &str, status: Option<u16>) {
        let method = Cow::Owned(method.to_owned());
        let of = [("method", method), ("code", code(status))];
        self.api_requests.get_or_create(&of).inc();
    }

    /// `write`: a word of [`WRITES`].
    pub fn write_refused(&self, controller: String, write: &'static str, status: u16) {
        let class = if status < 500 { REFUSING } else { FAILING };
        let of = [
            ("controller", controller.into()),
            ("write", write.into()),
            ("class", class.into()),
        ];
        self.refused_writes.get_or_create(&of).inc();
    }

    /// `late`: since its tick, of the first attempt.
    pub fn created_run(&self, late: Option<Duration>) {
        self.tick(CREATED);
        if let Some(late) = late {
            let seconds = self.tick_lateness.get_or_create(&labels([]));
            seconds.observe(late.as_secs_f64());
        }
    }

    /// `result`: [`SKIPPED`] or [`MISSED`].
    pub fn tick(&self, result: &'static str) {
        count(&self.ticks, [("result", result)]);
    }

    pub fn paused(&self, cause: &'static str) {
        count(&self.pauses, [("cause", cause)]);
    }

    pub fn event_dropped(&self, cause: &'static str) {
        count(&self.events_dropped, [("cause", cause)]);
    }

    /// Without an election there is no such series.
    pub fn set_leader(&self, lease: &str, leads: bool) {
        let name = Cow::Owned(lease.to_owned());
        let leader = self.leader.get_or_create(&[("name", name)]);
        leader.set(i64::from(leads));
    }

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
        let operation = ("operation", operation.as_str().into());
        let of = [operation.clone(), ("code", code(http_status))];
        self.requests.get_or_create(&of).inc();
        let seconds = self.request_seconds.get_or_create(&[operation]);
        seconds.observe(took.as_secs_f64());
    }
}

/// Label of an answer's HTTP status. Statuses outside 100 to 599 share one label, which bounds the number of series.
fn code(status: Option<u16>) -> Cow<'static, str> {
    match status {
        Some(status @ 100..=599) => status.to_string().into(),
        Some(_) => NO_STATUS.into(),
        None => NO_ANSWER.into(),
    }
}

fn set_reasons(family: &Family<Labels<1>, Gauge>, counts: &Counts) {
    for reason in Reason::ALL.iter().map(|r| r.as_str()).chain([OTHER]) {
        set(family, [("reason", reason)], number(counts, reason));
    }
}

pub(crate) fn reason(text: &str) -> &'static str {
    Reason::named(text).map_or(OTHER, Reason::as_str)
}

fn number(counts: &Counts, of: &str) -> i64 {
    gauge(counts.get(of).copied().unwrap_or_default())
}

pub(crate) fn gauge(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
