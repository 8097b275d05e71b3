//! What is counted. No object's name is ever a label.

use std::sync::atomic::AtomicI64;

use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue, text};
use prometheus_client::metrics::{counter::Counter, family::Family, gauge::Gauge};
use prometheus_client::registry::Registry;

use crate::api::Phase;
use crate::service::{Observer, Operation, Outcome};

/// Every metric, registered once.
pub struct Metrics {
    registry: Registry,
    reconciles: Family<ReconcileLabels, Counter>,
    requests: Family<RequestLabels, Counter>,
    runs: Family<PhaseLabels, Gauge>,
    pauses: Family<PauseLabels, Counter>,
    /// Event streams whose connection is open.
    pub open_streams: Gauge<i64, AtomicI64>,
    /// Calls for Runs that are under way, the opening of event streams included.
    pub calls_in_flight: Gauge<i64, AtomicI64>,
    /// Calls that wait at their Workspace's gate.
    pub calls_waiting: Gauge<i64, AtomicI64>,
    /// Event streams opened anew after a break.
    pub stream_reconnects: Counter,
    /// Events received from the service.
    pub stream_events: Counter,
    /// Objects that couldn't be decoded.
    pub undecodable: Counter,
    /// Objects that vanished without having been released.
    pub vanished: Counter,
    /// Kubernetes Events that were not published: too many, refused, or not answered.
    pub events_dropped: Counter,
    /// Finalizers taken off although the run was only seen to be cancelling.
    pub cancel_unconfirmed: Counter,
}

/// How a reconcile ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelValue)]
#[allow(
    non_camel_case_types,
    reason = "the label's values, as dashboards know them"
)]
pub enum ReconcileResult {
    /// Nothing more to do now.
    success,
    /// Looks again later.
    requeue_after,
    /// The object changed meanwhile.
    conflict,
    /// A Kubernetes call failed.
    error,
    /// The code panicked.
    panic,
}

/// Why the calls of a Workspace are paused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelValue)]
#[allow(
    non_camel_case_types,
    reason = "the label's values, as dashboards know them"
)]
pub enum PauseCause {
    /// The service answered 429.
    too_many_requests,
    /// Several calls in a row got no answer.
    no_answer,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct PauseLabels {
    cause: PauseCause,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ReconcileLabels {
    controller: &'static str,
    result: ReconcileResult,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    operation: &'static str,
    code: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct PhaseLabels {
    phase: &'static str,
}

const CONTROLLERS: [&str; 2] = ["run", "workspace"];
const RESULTS: [ReconcileResult; 5] = [
    ReconcileResult::success,
    ReconcileResult::requeue_after,
    ReconcileResult::conflict,
    ReconcileResult::error,
    ReconcileResult::panic,
];
/// The phases and their label; a Run without a status counts as Pending.
pub const PHASES: [(Phase, &str); 6] = [
    (Phase::Pending, "Pending"),
    (Phase::Active, "Active"),
    (Phase::Cancelling, "Cancelling"),
    (Phase::Succeeded, "Succeeded"),
    (Phase::Failed, "Failed"),
    (Phase::Cancelled, "Cancelled"),
];
/// The code of a call that got no answer.
const NO_ANSWER: &str = "none";

impl Metrics {
    /// Registers everything, and every label value that is known beforehand at zero, so that a rate over
    /// it is right from the first event on.
    pub fn new() -> Self {
        let mut registry = Registry::with_prefix("run_operator");
        let reconciles = Family::<ReconcileLabels, Counter>::default();
        let requests = Family::<RequestLabels, Counter>::default();
        let runs = Family::<PhaseLabels, Gauge>::default();
        registry.register(
            "reconciles",
            "Reconciles by controller and result",
            reconciles.clone(),
        );
        registry.register(
            "service_requests",
            "Calls to the service by operation and HTTP status; none is no answer",
            requests.clone(),
        );
        registry.register("runs", "Run objects by phase", runs.clone());
        let pauses = Family::<PauseLabels, Counter>::default();
        registry.register(
            "workspace_pauses",
            "Pauses of a Workspace's calls by cause",
            pauses.clone(),
        );
        let mut gauge = |name: &str, help: &str| {
            let gauge = Gauge::default();
            registry.register(name, help, gauge.clone());
            gauge
        };
        let open_streams = gauge("open_streams", "Event streams whose connection is open");
        let calls_in_flight = gauge(
            "calls_in_flight",
            "Calls for Runs that are under way, the opening of event streams included",
        );
        let calls_waiting = gauge(
            "calls_waiting",
            "Calls for Runs that wait for their Workspace's turn",
        );
        let mut counter = |name: &str, help: &str| {
            let counter = Counter::default();
            registry.register(name, help, counter.clone());
            counter
        };
        let metrics = Self {
            stream_reconnects: counter(
                "stream_reconnects",
                "Event streams opened anew after a break",
            ),
            stream_events: counter("stream_events", "Events received from the service"),
            undecodable: counter("undecodable_objects", "Objects that could not be decoded"),
            vanished: counter(
                "vanished_runs",
                "Run objects that vanished without having been released",
            ),
            events_dropped: counter(
                "events_dropped",
                "Kubernetes Events not published: too many, refused or not answered",
            ),
            cancel_unconfirmed: counter(
                "cancel_unconfirmed",
                "Finalizers taken off while the run was only seen to be cancelling",
            ),
            registry,
            reconciles,
            requests,
            runs,
            pauses,
            open_streams,
            calls_in_flight,
            calls_waiting,
        };
        metrics.initialise();
        metrics
    }

    fn initialise(&self) {
        for controller in CONTROLLERS {
            for result in RESULTS {
                let _ = self
                    .reconciles
                    .get_or_create(&ReconcileLabels { controller, result });
            }
        }
        for operation in Operation::ALL {
            for code in ["200", NO_ANSWER] {
                let labels = RequestLabels {
                    operation: operation.as_str(),
                    code: code.to_owned(),
                };
                let _ = self.requests.get_or_create(&labels);
            }
        }
        for cause in [PauseCause::too_many_requests, PauseCause::no_answer] {
            let _ = self.pauses.get_or_create(&PauseLabels { cause });
        }
        for (_, phase) in PHASES {
            let _ = self.runs.get_or_create(&PhaseLabels { phase });
        }
    }

    /// A reconcile of `controller` (`run` or `workspace`) ended.
    pub fn reconciled(&self, controller: &'static str, result: ReconcileResult) {
        self.reconciles
            .get_or_create(&ReconcileLabels { controller, result })
            .inc();
    }

    /// The calls of a Workspace are paused.
    pub fn paused(&self, cause: PauseCause) {
        self.pauses.get_or_create(&PauseLabels { cause }).inc();
    }

    /// The number of Runs in each phase.
    pub fn set_runs(&self, phase: &'static str, count: i64) {
        self.runs.get_or_create(&PhaseLabels { phase }).set(count);
    }

    /// The text that Prometheus scrapes.
    pub fn encode(&self) -> Result<String, std::fmt::Error> {
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
    fn on_answer(&self, operation: Operation, outcome: &Outcome<'_>) {
        let code = outcome
            .http_status
            .map_or_else(|| NO_ANSWER.to_owned(), |s| s.to_string());
        self.requests
            .get_or_create(&RequestLabels {
                operation: operation.as_str(),
                code,
            })
            .inc();
    }
}
