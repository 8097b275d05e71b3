//! The status of a `Run`: what the operator knows of its run.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::run::WorkspaceKind;

/// Events kept in the status; the service keeps the rest.
pub const MAX_EVENTS: usize = 10;
/// Bytes of an event's data that the status keeps.
pub const MAX_EVENT_DATA: usize = 512;

/// What is known of the run. Bounded: under 32 KiB whatever the service sends.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunStatus {
    /// The generation of the spec that this status speaks of; -1 before the first look.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// The operator's summary: Pending, Active, Cancelling, Succeeded, Failed or Cancelled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<Phase>,
    /// The state as the service names it, verbatim.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// The service's identifier of the run. Written once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<String>,
    /// The idempotency key that the run was submitted with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotency_key: Option<String>,
    /// The provider in force.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// The region in force.
    #[serde(default, skip_serializing_if = "Option::is_none")]
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
    /// When the service accepted the cancellation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cancel_accepted_time: Option<Time>,
    /// When the service was last read; written along with a change, never alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_sync_time: Option<Time>,
    /// The value of the annotation `run-operator.dev/retry` that was last acted on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handled_retry: Option<String>,
    /// The `X-Request-ID` of the latest answer that mattered, for support.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
    /// The service's last events, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<EventRecord>,
    /// How many events were received in all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event_count: Option<i64>,
    /// Where the event stream resumes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_event_id: Option<String>,
    /// The latest error; absent when the last call went well.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_error: Option<LastError>,
    /// The answer that ended the submission, if one did. A retry withdraws it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refusal: Option<Refusal>,
    /// What holds for the Run: Accepted, Synced, Finished, Complete, Failed, Ready, Reconciling,
    /// Stalled.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
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
    /// Workspace or ClusterWorkspace.
    pub kind: WorkspaceKind,
    /// Its name.
    pub name: String,
    /// Its uid.
    pub uid: String,
    /// The effective base URL, version segment included.
    pub base_url: String,
    /// Who the service says that the token acts for; absent when the contract file names no pointer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity: Option<String>,
}

/// One event of the service.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub struct EventRecord {
    /// The service's id of the event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The event's type as the service names it.
    #[serde(rename = "type")]
    pub kind: String,
    /// When the operator received it.
    pub time: Time,
    /// The first 512 bytes of its data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<String>,
}

/// The latest error of a call for this object.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LastError {
    /// The service's stable code (rule 8), or the operator's word for an error without one.
    pub code: String,
    /// The HTTP status, where there was an answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub http_status: Option<i32>,
    /// The request's id, for support.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
    /// Whether the operator tries again by itself.
    pub retryable: bool,
    /// What went wrong, for a person.
    pub message: String,
    /// When it happened.
    pub time: Time,
    /// Consecutive failed attempts.
    pub attempts: i64,
    /// When the next attempt is due; absent when none is planned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_attempt: Option<Time>,
}

/// The answer that ended a submission.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Refusal {
    /// Why, one of the condition reasons.
    pub reason: super::Reason,
    /// Whether it is proved that the service made no run for this object.
    pub not_created: bool,
    /// The epoch of the intent that it answers; an intent of another epoch is not refused.
    pub epoch: i64,
}

/// A timestamp as the API server stores it: whole seconds, so that what is written compares equal to
/// what is read back.
pub fn whole_seconds(at: Timestamp) -> Time {
    Time(Timestamp::from_second(at.as_second()).unwrap_or(at))
}
