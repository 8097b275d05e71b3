//! Declaration of every metric: name, type, labels and description. The registration, the series at zero from the start
//! and `docs/metrics.md` are derived from it.
//!
//! # Guarantees
//! - No label's value is the name, the namespace or the uid of an object other than the operator's Lease, nor any text
//!   that a user or the service can choose: the number of series is bounded.

/// One metric.
#[derive(Debug)]
pub struct Metric {
    /// Name in the exposition; a counter's ends in `_total`.
    pub name: &'static str,
    /// Its type.
    pub kind: Kind,
    /// Its labels, in the order of their values.
    pub labels: &'static [Label],
    /// Description, without a full stop at the end.
    pub help: &'static str,
}

/// The type of a metric.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// Only increases, until the process ends.
    Counter,
    /// Increases and decreases.
    Gauge,
    /// Durations in seconds, with these upper bounds.
    Histogram(&'static [f64]),
}

/// A label.
#[derive(Clone, Copy, Debug)]
pub struct Label {
    /// Its name.
    pub name: &'static str,
    /// The values at zero from the start.
    pub known: &'static [&'static str],
    /// Description of further possible values; empty if there are none.
    pub others: &'static str,
}

/// Metrics of one section.
#[derive(Debug)]
pub struct Group {
    /// The section's heading.
    pub title: &'static str,
    /// Introduction of the section, in Markdown.
    pub about: &'static str,
    /// The metrics.
    pub metrics: &'static [&'static Metric],
}

/// Declares the metrics, and lists them by group.
macro_rules! catalogue {
    ($(group $title:literal, $about:expr; { $($id:ident: $kind:expr, $name:literal, [$($label:expr),*], $help:literal;)+ })+) => {
        $($(
            pub(crate) static $id: Metric =
                Metric { name: $name, kind: $kind, labels: &[$($label),*], help: $help };
        )+)+

        /// Every metric, by group.
        pub static GROUPS: &[Group] =
            &[$(Group { title: $title, about: $about, metrics: &[$(&$id),+] }),+];
    };
}

const fn label(name: &'static str, known: &'static [&'static str]) -> Label {
    Label {
        name,
        known,
        others: "",
    }
}

/// The controllers, one per kind.
pub const CONTROLLERS: &[&str] = &["run", "workspace", "clusterworkspace"];
/// The code of a call without an answer.
pub const NO_ANSWER: &str = "none";
/// The code of a request to the API server without an answer, as in client-go.
pub const NO_RESPONSE: &str = "<error>";
/// The label of a status that HTTP doesn't define.
pub const NO_STATUS: &str = "other";
/// The label of a reason that this version doesn't know.
pub const OTHER: &str = "Other";
/// The HTTP methods that the operator uses with the API server.
pub const METHODS: &[&str] = &["GET", "POST", "PUT", "PATCH", "DELETE"];
/// The phases; a Run without a status counts as Pending.
pub const PHASES: &[&str] = &[
    "Pending",
    "Active",
    "Cancelling",
    "Succeeded",
    "Failed",
    "Cancelled",
];
/// The statuses of a condition.
pub const READY: &[&str] = &["True", "False", "Unknown"];
/// The operations of the service, as in its `OpenAPI` document.
pub const OPERATIONS: &[&str] = &[
    "getVersion",
    "getCurrentWorkspace",
    "createRun",
    "getRun",
    "cancelRun",
    "streamRunEvents",
];
/// Reasons for which a Run waits for a person.
pub const STALLED: &[&str] = &[
    "WorkspaceNotFound",
    "RunInvalid",
    "NamespaceNotAllowed",
    "Forbidden",
    "ApprovalConflict",
    "VersionConflict",
    "IdempotencyConflict",
    "UnknownConflict",
    "Refused",
    "ServerError",
    "ContractViolation",
    "SubmissionUnknown",
    "Restored",
    "KeyInUse",
    "WorkspaceChanged",
    "IdentityChanged",
    "BodyChanged",
    "RunIdConflict",
    OTHER,
];
/// Reasons for which a Workspace is not Ready.
pub const NOT_READY: &[&str] = &[
    "Unauthorized",
    "Forbidden",
    "SecretNotFound",
    "SecretKeyNotFound",
    "SecretForbidden",
    "TokenMalformed",
    "TokenIsProviderKey",
    "CaInvalid",
    "BaseUrlNotAllowed",
    "WorkspaceMismatch",
    "VersionNotAccepted",
    "ServiceUnavailable",
    "ContractViolation",
    "WorkspaceInvalid",
    "WorkspaceDeleting",
    "Checking",
    OTHER,
];

/// Causes for which a Kubernetes Event is not published: its object's allowance is used up; 4096 wait already; 2048
/// wait and it was probably published before a restart; the API server refused it; its namespace is deleted or being
/// deleted; three attempts got no useful answer.
pub const DROPPED: &[&str] = &[
    "too_many",
    "queue_full",
    "repeated",
    "refused",
    "namespace_gone",
    "no_answer",
];

/// Reason of a reconcile that panicked.
pub const PANIC: &str = "panic";

/// Reasons for which a reconcile fails: the object can't be decoded; the API server refused a write, failed it, or did
/// not answer it in time; the intent can't be serialised; a list of Runs failed; a read was not answered; the process
/// can open no more files; the code panicked.
pub const REASONS: &[&str] = &[
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

const CONTROLLER: Label = label("controller", CONTROLLERS);
const QUEUE: Label = label("name", CONTROLLERS);
const RESULT: Label = label("result", &["success", "error", "requeue", "requeue_after"]);
const REASON: Label = label("reason", REASONS);
const OPERATION: Label = label("operation", OPERATIONS);
const HOST: Label = Label {
    name: "host",
    known: &[],
    others: "the API server's address",
};

/// As in controller-runtime.
const RECONCILE_BUCKETS: &[f64] = &[
    0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9,
    1.0, 1.25, 1.5, 1.75, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 15.0, 20.0,
    25.0, 30.0, 40.0, 50.0, 60.0,
];
/// As in client-go's workqueue.
const QUEUE_BUCKETS: &[f64] = &[
    1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0, 100.0, 1000.0,
];
/// As in client-go.
const REST_BUCKETS: &[f64] = &[
    0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0,
];
/// A create waits for the service up to the contract file's limit: usually 30 s.
const SERVICE_BUCKETS: &[f64] = &[
    0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0,
];

catalogue! {
    group "Runs and Workspaces",
    "Counted by a scan of the operator's caches. A rendering is reused for up to a second.";
    {
        RUNS: Kind::Gauge, "run_operator_runs", [label("phase", PHASES)],
            "Run objects by phase; one without a status counts as Pending";
        RUNS_STALLED: Kind::Gauge, "run_operator_runs_stalled", [label("reason", STALLED)],
            "Run objects that are not finished and Stalled, by the condition's reason; all but KeyInUse wait for a person";
        RUNS_IN_DOUBT: Kind::Gauge, "run_operator_runs_in_doubt", [],
            "Run objects that may have a run at the service whose id is not known yet: the intent is written, no runId is";
        OLDEST_DOUBT: Kind::Gauge, "run_operator_oldest_doubt_seconds", [],
            "Age of the oldest intent of such a Run; 0 if there is none";
        REMEMBERED: Kind::Gauge, "run_operator_remembered_runs", [],
            "Run objects that this process tracks in addition to its cache; those that have ended or were deleted are forgotten within seconds";
        WORKSPACES: Kind::Gauge, "run_operator_workspaces",
            [label("kind", &["Workspace", "ClusterWorkspace"]), label("ready", READY)],
            "Workspace objects of either kind by their Ready condition; one without it counts as Unknown";
        WORKSPACES_NOT_READY: Kind::Gauge, "run_operator_workspaces_not_ready", [label("reason", NOT_READY)],
            "Workspace objects of either kind that are not Ready, by the condition's reason";
        UNDECODABLE: Kind::Counter, "run_operator_undecodable_objects_total", [],
            "Attempts to reconcile an object that can't be decoded; nothing is done for it but to show that in its status";
        VANISHED: Kind::Counter, "run_operator_vanished_runs_total", [],
            "Run objects that were deleted without having been released; their runs are cancelled";
        CANCEL_UNCONFIRMED: Kind::Counter, "run_operator_cancel_unconfirmed_total", [],
            "Finalizers removed while the run was only seen cancelling";
    }
    group "Calls to the service",
    "A call that is repeated counts each time.";
    {
        REQUESTS: Kind::Counter, "run_operator_service_requests_total",
            [OPERATION, Label { name: "code", known: &["200", NO_ANSWER], others: "any HTTP status; `other`" }],
            "Calls to the service by operation and HTTP status; none is no answer";
        REQUEST_SECONDS: Kind::Histogram(SERVICE_BUCKETS), "run_operator_service_request_duration_seconds", [OPERATION],
            "Time from a call to its end; of an event stream, to its opening";
        IN_FLIGHT: Kind::Gauge, "run_operator_calls_in_flight", [],
            "Calls for Runs in flight, including the opening of event streams";
        WAITING: Kind::Gauge, "run_operator_calls_waiting", [],
            "Calls for Runs that wait in their Workspace's queue";
        PAUSES: Kind::Counter, "run_operator_workspace_pauses_total",
            [label("cause", &["too_many_requests", "no_answer"])],
            "Pauses of a Workspace's calls by cause: too_many_requests is 429, no_answer several calls in a row without one";
        TOKEN_CHANGES: Kind::Counter, "run_operator_token_changes_total", [],
            "Workspaces whose calls moved to another token, after it was verified";
    }
    group "Event streams",
    "One for each Run at the service, up to `--max-streams`; further Runs take turns for a stream, and are polled.";
    {
        OPEN_STREAMS: Kind::Gauge, "run_operator_open_streams", [],
            "Event streams whose connection is open";
        STREAM_LIMIT: Kind::Gauge, "run_operator_stream_limit", [],
            "Event streams that may be open: `--max-streams`, or fewer if the process's limit of open files is too low";
        NO_FILE: Kind::Counter, "run_operator_out_of_files_total", [],
            "Calls to the service that were not made because the process had reached its limit of open files";
        STREAM_RECONNECTS: Kind::Counter, "run_operator_stream_reconnects_total", [],
            "Event streams reopened after a break";
        STREAM_EVENTS: Kind::Counter, "run_operator_stream_events_total", [],
            "Events received from the service, repetitions not counted";
    }
    group "Reconciles",
    "Names and buckets are controller-runtime's, so that its dashboards fit. `requeue` is always zero: an object is always \
     requeued for a certain time. A panic is caught; in a reconcile it counts as an error and as a panic, in a \
     call as a panic. A Run is then not reconciled until it changes, a Workspace is tried again after a minute. A call \
     to the service is a task of its own and not part of a reconcile's time.";
    {
        RECONCILES: Kind::Counter, "controller_runtime_reconcile_total", [CONTROLLER, RESULT],
            "Reconciles by controller and result";
        RECONCILE_ERRORS: Kind::Counter, "controller_runtime_reconcile_errors_total", [CONTROLLER, REASON],
            "Reconciles that failed, by reason; controller-runtime's metric has no such label";
        RECONCILE_PANICS: Kind::Counter, "controller_runtime_reconcile_panics_total", [CONTROLLER],
            "Panics in a reconcile or in a call to the service; each is a bug of the operator";
        RECONCILE_SECONDS: Kind::Histogram(RECONCILE_BUCKETS), "controller_runtime_reconcile_time_seconds", [CONTROLLER],
            "Duration of a reconcile";
        ACTIVE_WORKERS: Kind::Gauge, "controller_runtime_active_workers", [CONTROLLER],
            "Reconciles in flight";
        MAX_WORKERS: Kind::Gauge, "controller_runtime_max_concurrent_reconciles", [CONTROLLER],
            "Maximum of reconciles in flight; 0 is no limit";
        CONFLICTS: Kind::Counter, "run_operator_write_conflicts_total", [CONTROLLER],
            "Reconciles that met a newer version of their object, or none, and are requeued; they count as requeue_after";
    }
    group "Work queues",
    "Names, buckets and meanings are client-go's: a queue contains an object once. There \
     is no `workqueue_retries_total`: an object that failed is scheduled for a certain time, like any other scheduled \
     object.";
    {
        QUEUE_DEPTH: Kind::Gauge, "workqueue_depth", [QUEUE, CONTROLLER],
            "Objects that wait for a reconcile, including those whose scheduled time has come";
        QUEUE_ADDS: Kind::Counter, "workqueue_adds_total", [QUEUE, CONTROLLER],
            "Objects put into the queue; one that waits already is not counted again";
        QUEUE_SECONDS: Kind::Histogram(QUEUE_BUCKETS), "workqueue_queue_duration_seconds", [QUEUE, CONTROLLER],
            "Time for which an object waited for its reconcile";
        WORK_SECONDS: Kind::Histogram(QUEUE_BUCKETS), "workqueue_work_duration_seconds", [QUEUE, CONTROLLER],
            "Duration of an object's reconcile";
        UNFINISHED: Kind::Gauge, "workqueue_unfinished_work_seconds", [QUEUE, CONTROLLER],
            "Total duration of the reconciles in flight so far";
        LONGEST: Kind::Gauge, "workqueue_longest_running_processor_seconds", [QUEUE, CONTROLLER],
            "Duration of the longest reconcile in flight so far";
    }
    group "Requests to the API server",
    "Names and buckets are client-go's. Each attempt counts, including those that the client repeats after a 429, 503 \
     or 504; a watch counts once, when it is opened.";
    {
        REST_REQUESTS: Kind::Counter, "rest_client_requests_total",
            [Label { name: "code", known: &["200", NO_RESPONSE], others: "any HTTP status; `other`" },
             Label { name: "method", known: METHODS, others: "" }, HOST],
            "Requests to the API server by HTTP status, method and host; <error> is no answer";
        REST_SECONDS: Kind::Histogram(REST_BUCKETS), "rest_client_request_duration_seconds",
            [Label { name: "verb", known: METHODS, others: "" }, HOST],
            "Time from a request to the head of its answer, or to its timeout, by method and host";
        IN_SYNC: Kind::Gauge, "run_operator_in_sync", [],
            "1 if the caches are in sync with the API server, as for /readyz; 0 if not, and then nothing is reconciled";
        EVENTS_DROPPED: Kind::Counter, "run_operator_events_dropped_total", [label("cause", DROPPED)],
            "Kubernetes Events not published, by cause; Events lost in a crash are not counted";
    }
    group "Leader election",
    "Only with `--leader-elect`. The name is component-base's. A standby counts no Runs and no Workspaces, so that the \
     sum over all operators is correct.";
    {
        LEADER: Kind::Gauge, "leader_election_master_status",
            [Label { name: "name", known: &[], others: "the Lease's name" }],
            "1 if this process leads, 0 if it is a standby";
    }
    group "The process",
    "Only on Linux, except for the first two.";
    {
        BUILD_INFO: Kind::Gauge, "run_operator_build_info",
            [Label { name: "version", known: &[env!("CARGO_PKG_VERSION")], others: "" }],
            "Always 1; the label is the operator's version";
        TASKS: Kind::Gauge, "run_operator_tasks", [],
            "Asynchronous tasks that have begun and not ended";
        CPU: Kind::Counter, "process_cpu_seconds_total", [],
            "Processor time used, user and system";
        RESIDENT: Kind::Gauge, "process_resident_memory_bytes", [],
            "Resident memory";
        VIRTUAL: Kind::Gauge, "process_virtual_memory_bytes", [],
            "Virtual memory";
        OPEN_FDS: Kind::Gauge, "process_open_fds", [],
            "Open file descriptors";
        MAX_FDS: Kind::Gauge, "process_max_fds", [],
            "File descriptors that may be open";
        START_TIME: Kind::Gauge, "process_start_time_seconds", [],
            "Start time of the process, in seconds since 1970";
    }
}
