//! The status of a `Run`: the observed state of its run.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

pub use super::conditions::LastError;
use super::conditions::words;
pub use super::limits::{MAX_EVENT_DATA, MAX_EVENTS};
use super::{Reason, RunDefaults, WorkspaceKind, WorkspaceRef, limits, schema};

/// Observed state of the run.
// Bounded: under 32 KiB whatever the service sends (`limits`).
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    schema::write_once("runID", "create a new Run for another run"),
    schema::write_once("workspace", "create a new Run for another Workspace")
], "default" = RunStatus::initial()))]
pub struct RunStatus {
    /// The generation of the spec that this status is based on; -1 before the first reconcile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = -1))]
    pub observed_generation: Option<i64>,
    /// The operator's summary. `Pending`: the service has not accepted the run yet. `Active`: the run is
    /// at the service. `Cancelling`: a cancellation was requested and the run is not seen to have
    /// ended. `Succeeded`, `Failed`, `Cancelled`: the run has ended in this way; `Failed` also if the
    /// service no longer knows it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Phase")]
    pub phase: Option<Phase>,
    /// The state as the service names it, verbatim.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = limits::MAX_STATE))]
    pub state: Option<String>,
    /// The service's identifier of the run. Written once.
    #[serde(rename = "runID", default, skip_serializing_if = "Option::is_none")]
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
    /// The Workspace that the run was submitted to. Written once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace: Option<ResolvedWorkspace>,
    /// The Workspace for a slot of which the Run waits; absent while it waits for none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queued_for: Option<WorkspaceRef>,
    /// The Workspace's `runDefaults` at the submission: in force where the spec has no value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_defaults: Option<RunDefaults>,
    /// Time at which the service accepted the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub submission_time: Option<Time>,
    /// Time at which the run was first seen running.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_time: Option<Time>,
    /// Time at which the run was seen to have ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completion_time: Option<Time>,
    /// The tool that would create this object again, as a new Run, and the label, annotation or field manager that shows
    /// it: with it `ttlSecondsAfterFinished` doesn't delete the object. To delete it, remove it from the tool's source.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = limits::MAX_KEEPER))]
    pub kept_by: Option<String>,
    /// Time at which the service last accepted a cancellation. Absent if the run ended before an answer to a
    /// cancellation arrived.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cancel_accepted_time: Option<Time>,
    /// Time at which `activeDeadlineSeconds` was seen to have passed: since then the run is being cancelled, whatever
    /// becomes of the deadline.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline_exceeded_time: Option<Time>,
    /// Time at which the run was last read; written only along with a change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_sync_time: Option<Time>,
    /// The value of the annotation `run-operator.dev/retry` that was last handled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = limits::MAX_RETRY))]
    pub handled_retry: Option<String>,
    /// The `X-Request-ID` of the latest relevant answer, for support.
    #[serde(rename = "requestID", default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = limits::MAX_REQUEST_ID))]
    pub request_id: Option<String>,
    /// Results of the run, such as metrics, as text. Their names, and where the service's answers have them, are in the
    /// operator's contract file.
    // Together 4 KiB, names included.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "schema::results")]
    pub results: BTreeMap<String, String>,
    /// The page of the run in the service's console: https, at an origin that the operator allows.
    #[serde(
        rename = "consoleURL",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(length(max = limits::MAX_CONSOLE_URL))]
    pub console_url: Option<String>,
    /// How far the run has come, as the service says it; written at most every 30 s unless something else changes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<Progress>,
    /// What went wrong, as the service says it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = limits::MAX_FAILURE))]
    pub failure: Option<String>,
    /// The service's last events, at most 10, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = limits::MAX_EVENTS), extend("x-kubernetes-list-type" = "atomic"))]
    pub events: Vec<EventRecord>,
    /// Number of events received in total.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub event_count: Option<i64>,
    /// The id of the last event received; the event stream resumes after it.
    #[serde(
        rename = "lastEventID",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(length(max = limits::MAX_EVENT_ID))]
    pub last_event_id: Option<String>,
    /// The latest error; absent if the last call succeeded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_error: Option<LastError>,
    /// The answer that ended the submission, if one did. A retry removes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refusal: Option<Refusal>,
    /// The conditions: Accepted (the service returned a runID), Synced (this status is up to date),
    /// Suspended (`suspend` holds the submission), Finished (the run has ended, in whatever way), Complete (it
    /// succeeded), Failed (it failed), Cancelled (it was cancelled), Ready (the requirement of GitOps health),
    /// Reconciling (the operator is working towards Ready), Stalled (a person has to act).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
}

impl RunStatus {
    /// The schema's default: the status of an object that no operator has written to, or whose status was removed.
    pub fn initial() -> Self {
        Self {
            observed_generation: Some(-1),
            phase: Some(Phase::Pending),
            ..Self::default()
        }
    }

    /// Whether the operator has written it: each of its writes sets both.
    pub fn is_observed(&self) -> bool {
        self.phase.is_some() && self.observed_generation.is_some_and(|seen| seen >= 0)
    }
}

words! {
    /// The operator's summary of a run.
    #[derive(Deserialize, Serialize, JsonSchema)]
    pub enum Phase {
        /// The service has not accepted the run yet.
        Pending,
        /// The run is at the service. A state that the contract file does not map is Active too.
        Active,
        /// A cancellation was requested and the run is not seen to have ended.
        Cancelling,
        /// The run succeeded.
        Succeeded,
        /// The run failed, or the service no longer knows it.
        Failed,
        /// The run was cancelled.
        Cancelled,
    }
}

impl Phase {
    /// Whether the run has ended. Terminal is absorbing.
    pub fn terminal(self) -> bool {
        match self {
            Self::Succeeded | Self::Failed | Self::Cancelled => true,
            Self::Pending | Self::Active | Self::Cancelling => false,
        }
    }

    /// The reason of an end in this phase that has no other.
    pub fn reason(self) -> Reason {
        match self {
            Self::Succeeded => Reason::Succeeded,
            Self::Cancelled => Reason::Cancelled,
            Self::Failed | Self::Pending | Self::Active | Self::Cancelling => Reason::Failed,
        }
    }
}

/// The Workspace that a Run is or was submitted to.
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
    #[serde(rename = "baseURL")]
    #[schemars(length(max = limits::MAX_BASE_URL))]
    pub base_url: String,
    /// The workspace of the service that the token acts for; absent if the service doesn't report it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = limits::MAX_IDENTITY))]
    pub identity: Option<String>,
}

impl ResolvedWorkspace {
    pub fn reference(&self) -> WorkspaceRef {
        WorkspaceRef {
            kind: Some(self.kind),
            name: self.name.clone(),
        }
    }
}

/// How far a run has come.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Progress {
    /// Per cent of the work that is done, rounded down.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 100))]
    pub percent: Option<i32>,
    /// The service's own words, such as `epoch 3 of 10`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = limits::MAX_PROGRESS_MESSAGE))]
    pub message: Option<String>,
    /// Time at which the operator read it first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_update_time: Option<Time>,
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
    /// Time at which the operator received it.
    pub time: Time,
    /// The first 512 bytes of its data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = limits::MAX_EVENT_DATA))]
    pub data: Option<String>,
}

/// The answer that ended a submission.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Refusal {
    /// One of the reasons of the conditions.
    #[serde(deserialize_with = "reason_of_refusal")]
    // A plain string: an older schema must not refuse a newer operator's reason.
    #[schemars(with = "String", length(max = limits::MAX_REASON))]
    pub reason: Reason,
    /// Whether it is proved that the service made no run for this object.
    pub not_created: bool,
    /// Number of the submission that it answers: a retry, or another process that takes over, starts the
    /// next one.
    // An intent of another epoch is not refused.
    #[schemars(range(min = 0))]
    pub epoch: i64,
}

/// Reads the reason of a refusal. One of a later version counts as any final answer: the Run waits for a person, and
/// nothing is sent. An error would leave the whole object undecodable.
fn reason_of_refusal<'de, D: Deserializer<'de>>(stored: D) -> Result<Reason, D::Error> {
    let name = String::deserialize(stored)?;
    Ok(Reason::named(&name).unwrap_or(Reason::Refused))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Proves: I-upgrade
    #[test]
    fn a_refusal_of_a_later_version_is_one_without_an_end() {
        let stored =
            r#"{"reason": "OfALaterVersion", "notCreated": true, "epoch": 1, "laterField": 1}"#;
        let refusal: Refusal = serde_json::from_str(stored).unwrap();
        assert_eq!(
            (refusal.reason, refusal.not_created),
            (Reason::Refused, true)
        );
        let stored = r#"{"reason": "CreateRefused", "notCreated": true, "epoch": 1}"#;
        let refusal: Refusal = serde_json::from_str(stored).unwrap();
        assert_eq!(refusal.reason, Reason::CreateRefused);
    }
}
