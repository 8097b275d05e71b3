//! The labels of the metrics, and the values for which a series exists from the start, at zero.
//!
//! # Guarantees
//! - No label's value is the name, the namespace or the uid of an object other than the operator's Lease, nor any text
//!   that a user or the service can choose: the number of series is bounded.

use prometheus_client::encoding::EncodeLabelSet;

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(crate) struct ByPhase {
    pub phase: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(crate) struct ByReason {
    pub reason: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(crate) struct ByCause {
    pub cause: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(crate) struct ByReady {
    pub kind: &'static str,
    pub ready: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(crate) struct ByOperation {
    pub operation: &'static str,
}

/// Requests to the service.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(crate) struct ByAnswer {
    pub operation: &'static str,
    pub code: String,
}

/// Requests to the API server.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(crate) struct ByMethod {
    pub method: String,
    pub code: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(crate) struct ByController {
    pub controller: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(crate) struct ByResult {
    pub controller: &'static str,
    pub result: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(crate) struct ByError {
    pub controller: &'static str,
    pub reason: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(crate) struct ByLease {
    pub name: String,
}

/// The controllers, one per kind.
pub(crate) const CONTROLLERS: [&str; 3] = ["run", "workspace", "clusterworkspace"];
/// The code of a request without an answer.
pub(crate) const NO_ANSWER: &str = "none";
/// The code of a status that HTTP doesn't define.
pub(crate) const NO_STATUS: &str = "other";
/// The label of a condition's reason that this version doesn't know.
pub(crate) const OTHER: &str = "Other";
/// The HTTP methods that the operator uses with the API server.
pub(crate) const METHODS: [&str; 5] = ["GET", "POST", "PUT", "PATCH", "DELETE"];
/// The statuses of a condition; any other word counts as Unknown.
pub(crate) const STATUSES: [&str; 3] = ["True", "False", "Unknown"];
/// Results of a reconcile. As in controller-runtime, where `requeue` is one without a time: there is none here.
pub(crate) const RESULTS: [&str; 4] = ["success", "error", "requeue", "requeue_after"];
/// Reason of a reconcile that panicked.
pub(crate) const PANIC: &str = "panic";
/// Reasons for which a reconcile fails: the object can't be decoded; the API server refused a write, failed it, or did
/// not answer it in time; the intent can't be serialised; a list of Runs failed; a read was not answered; the process
/// can open no more files; the code panicked.
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
