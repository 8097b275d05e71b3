//! The status of a `Run`: what the operator knows of its run.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use super::limits::{MAX_EVENT_DATA, MAX_EVENTS};
use super::workspace_ref::WorkspaceKind;
use super::{limits, schema};

/// What is known of the run.
// Bounded: under 32 KiB whatever the service sends (`limits`).
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    schema::write_once("runId", "create a new Run for another run"),
    schema::write_once("workspace", "create a new Run for another Workspace")
]))]
pub struct RunStatus {
    /// The generation of the spec that this status speaks of; -1 before the first look.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = -1))]
    pub observed_generation: Option<i64>,
    /// The operator's summary. `Pending`: the service has not accepted the run yet. `Active`: the run is
    /// at the service. `Cancelling`: a cancellation was asked for and the run is not seen to have
    /// ended. `Succeeded`, `Failed`, `Cancelled`: the run has ended so; `Failed` also when the service
    /// does not know it any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Phase")]
    pub phase: Option<Phase>,
    /// The state as the service names it, verbatim.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = limits::MAX_STATE))]
    pub state: Option<String>,
    /// The service's identifier of the run. Written once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = limits::MAX_RUN_ID))]
    pub run_id: Option<String>,
    /// The idempotency key that the run was submitted with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = limits::MAX_SENT_KEY))]
    pub idempotency_key: Option<String>,
    /// The provider in force.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = limits::MAX_PLACE))]
    pub provider: Option<String>,
    /// The region in force.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = limits::MAX_PLACE))]
    pub region: Option<String>,
    /// Where the run was submitted. Written once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace: Option<ResolvedWorkspace>,
    /// When the service accepted the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub submission_time: Option<Time>,
    /// When the run was first seen to be running.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_time: Option<Time>,
    /// When the run was seen to have ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completion_time: Option<Time>,
    /// When the service last accepted a cancellation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cancel_accepted_time: Option<Time>,
    /// When the service was last read; written along with a change, never alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_sync_time: Option<Time>,
    /// The value of the annotation `run-operator.dev/retry` that was last acted on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = limits::MAX_RETRY))]
    pub handled_retry: Option<String>,
    /// The `X-Request-ID` of the latest answer that mattered, for support.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = limits::MAX_REQUEST_ID))]
    pub request_id: Option<String>,
    /// The service's last events, at most 10, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = limits::MAX_EVENTS), extend("x-kubernetes-list-type" = "atomic"))]
    pub events: Vec<EventRecord>,
    /// How many events were received in all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub event_count: Option<i64>,
    /// The id of the last event received: where the event stream resumes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = limits::MAX_EVENT_ID))]
    pub last_event_id: Option<String>,
    /// The latest error; absent when the last call went well.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_error: Option<LastError>,
    /// The answer that ended the submission, if one did. A retry withdraws it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refusal: Option<Refusal>,
    /// What holds: Accepted (the service gave a runId), Synced (this status is fresh), Finished (the run
    /// has ended, in whatever way), Complete (it succeeded), Failed (it failed), Ready (what GitOps
    /// health waits for), Reconciling (the operator is working towards Ready), Stalled (it can do
    /// nothing more by itself).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
}

/// The operator's summary of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize, Serialize, JsonSchema)]
pub enum Phase {
    /// The service has not accepted the run yet.
    Pending,
    /// The run is at the service. A state that the contract file does not map is Active too.
    Active,
    /// A cancellation was asked for and the run is not seen to have ended.
    Cancelling,
    /// The run succeeded.
    Succeeded,
    /// The run failed, or the service does not know it any more.
    Failed,
    /// The run was cancelled.
    Cancelled,
}

impl Phase {
    /// Whether the run has ended. Terminal is absorbing.
    pub fn terminal(self) -> bool {
        match self {
            Self::Succeeded | Self::Failed | Self::Cancelled => true,
            Self::Pending | Self::Active | Self::Cancelling => false,
        }
    }
}

/// Where a Run is or was submitted.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResolvedWorkspace {
    /// The kind of the Workspace: `Workspace` or `ClusterWorkspace`.
    pub kind: WorkspaceKind,
    /// Its name.
    #[schemars(length(max = limits::MAX_NAME))]
    pub name: String,
    /// Its uid.
    #[schemars(length(max = limits::MAX_UID))]
    pub uid: String,
    /// The base URL in force, version segment included.
    #[schemars(length(max = limits::MAX_BASE_URL))]
    pub base_url: String,
    /// Who the service says that the token acts for; absent when it does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = limits::MAX_IDENTITY))]
    pub identity: Option<String>,
}

/// One event of the service.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub struct EventRecord {
    /// The service's id of the event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = limits::MAX_EVENT_ID))]
    pub id: Option<String>,
    /// The event's type as the service names it.
    #[serde(rename = "type")]
    #[schemars(length(max = limits::MAX_EVENT_TYPE))]
    pub kind: String,
    /// When the operator received it.
    pub time: Time,
    /// The first 512 bytes of its data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = limits::MAX_EVENT_DATA))]
    pub data: Option<String>,
}

/// The latest error of a call for this object.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LastError {
    /// The service's stable code for the error, or the operator's word for an error without one.
    // Rule 8.
    #[schemars(length(max = limits::MAX_CODE))]
    pub code: String,
    /// The HTTP status, where there was an answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 100, max = 999))]
    pub http_status: Option<i32>,
    /// The request's id, for support.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = limits::MAX_REQUEST_ID))]
    pub request_id: Option<String>,
    /// Whether the operator tries again by itself.
    pub retryable: bool,
    /// What went wrong, for a person.
    #[schemars(length(max = limits::MAX_MESSAGE))]
    pub message: String,
    /// When it happened.
    pub time: Time,
    /// Consecutive failed attempts.
    #[schemars(range(min = 0))]
    pub attempts: i64,
    /// When the next attempt is due; absent when none is planned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_attempt: Option<Time>,
}

/// The answer that ended a submission.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Refusal {
    /// Why, one of the reasons of the conditions.
    pub reason: super::Reason,
    /// Whether it is proved that the service made no run for this object.
    pub not_created: bool,
    /// Which attempt at a submission it answers: a retry, or another process that takes over, starts
    /// the next one.
    // An intent of another epoch is not refused.
    #[schemars(range(min = 0))]
    pub epoch: i64,
}
