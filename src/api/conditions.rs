//! What every status has: conditions with their types and reasons, the latest error, and times.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::limits;

/// An enum of words of the API, each a variant of the same name.
macro_rules! words {
    ($(#[$meta:meta])+ pub enum $name:ident { $($(#[$attribute:meta])* $word:ident,)+ }) => {
        $(#[$meta])+
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $name {
            $($(#[$attribute])* $word,)+
        }

        impl $name {
            pub const ALL: &'static [Self] = &[$(Self::$word,)+];

            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$word => stringify!($word),)+
                }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }
    };
}
pub(super) use words;

words! {
    /// The conditions of a Run, a Workspace and a RunSchedule.
    pub enum ConditionType {
        Accepted,
        /// The mirror of the run is up to date.
        Synced,
        /// `spec.suspend` holds the submission, as in a batch/v1 Job, or the schedule.
        Suspended,
        Finished,
        /// The run succeeded, as in a batch/v1 Job.
        Complete,
        /// The run failed, as in a batch/v1 Job.
        Failed,
        /// The run was cancelled, by this object or by somebody else.
        Cancelled,
        Ready,
        Reconciling,
        /// Nothing more happens until a person acts.
        Stalled,
        VersionVerified,
        Authenticated,
    }
}

words! {
    /// Reason of a condition: a closed list, so that people and alerts can rely on it. docs/reasons.md has them all.
    #[derive(Deserialize, Serialize)]
    pub enum Reason {
        Suspended,
        WorkspaceNotFound,
        WorkspaceNotReady,
        WorkspaceDeleting,
        WorkspaceSuspended,
        WorkspaceInvalid,
        /// Several ClusterWorkspaces are the default of the namespace.
        WorkspaceAmbiguous,
        RunInvalid,
        NamespaceNotAllowed,
        /// The Workspace's `allowedProviders` lack the Run's provider.
        ProviderNotAllowed,
        RegionNotAllowed,
        ImageNotAllowed,
        /// A call failed in a way that is retried with the same key.
        Retrying,
        /// The Workspace's calls are delayed: after a 429, by `spec.rateLimit`, or by the limit of calls in flight.
        RateLimited,
        /// `maxActiveRuns` or `maxActiveRunsPerNamespace` of the Workspace is reached.
        Queued,
        Submitted,
        /// The service refused exactly this create for good; the Run has ended.
        CreateRefused,
        /// The object leaves no room for the operator's record of a submission; the Run has ended.
        RunTooLarge,
        /// The API server refuses the operator's write of the object.
        WriteRefused,
        Forbidden,
        /// 409: an approval is missing (rule 9).
        ApprovalConflict,
        /// 409: the version of something differs (rule 9).
        VersionConflict,
        /// 409: the key was used for another request (rules 1 and 9).
        IdempotencyConflict,
        /// 409: the service still works on an earlier create with the key (rules 1 and 9).
        SubmissionInProgress,
        /// 409 with a code that is not in the contract file.
        UnknownConflict,
        /// Another final answer of the service.
        Refused,
        /// A 5xx with `retryable: false`.
        ServerError,
        /// A 2xx that can't be read by the contract.
        ContractViolation,
        /// It can no longer be determined whether a run exists.
        SubmissionUnknown,
        /// The intent on the object belongs to another uid: a restored backup or a copied manifest.
        Restored,
        KeyInUse,
        /// The Workspace has another base URL than the one that the Run is pinned to.
        WorkspaceChanged,
        /// The token acts for another workspace of the service than the one that the Run is pinned to.
        IdentityChanged,
        /// The spec yields another body than that of the intent.
        BodyChanged,
        /// The service returned another runID than the known one.
        RunIDConflict,
        Active,
        /// The contract file doesn't map the run's state, so that its end may not be noticed.
        StateNotMapped,
        Cancelling,
        CancelRefused,
        Succeeded,
        Failed,
        Cancelled,
        /// The run was cancelled, and not by this object.
        CancelledElsewhere,
        DeadlineExceeded,
        RunNotFound,
        Mirrored,
        /// The mirror is up to date, by polls: there is no place for the run's event stream.
        Polled,
        ServiceUnavailable,
        Unauthorized,
        SecretNotFound,
        SecretKeyNotFound,
        SecretForbidden,
        TokenMalformed,
        /// The token looks like the key of a model provider (rule 6).
        TokenIsProviderKey,
        CAInvalid,
        BaseURLNotAllowed,
        VersionAccepted,
        VersionNotAccepted,
        Identified,
        WorkspaceMismatch,
        Verified,
        Checking,
        /// The RunSchedule's next Run will be created.
        Scheduled,
        /// The RunSchedule's times or its time zone can't be read.
        ScheduleInvalid,
        /// The RunSchedule's RunTemplate doesn't exist.
        TemplateNotFound,
        /// The RunTemplate can't be expanded: a parameter is missing, unknown or of another type.
        TemplateInvalid,
        /// The API server refuses the Run that the template yields.
        TemplateRefused,
        /// Another object has the name of a tick's Run.
        NameTaken,
        /// The RunSchedule's last tick lies more than a day ahead of the operator's clock.
        ClockSkew,
    }
}

impl Reason {
    /// The reason with this name; `None` for one of another version.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|r| r.as_str() == name)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConditionUpdate {
    pub kind: ConditionType,
    /// `None` removes the condition: by Kubernetes' convention, absent means that it does not apply.
    pub status: Option<bool>,
    pub reason: Reason,
    /// One sentence that a person can act on. No times or counters: each change of one would cost a write.
    pub message: String,
}

/// Merges `update` into `conditions`. `lastTransitionTime` moves only when the status flips.
pub fn set(
    conditions: &mut Vec<Condition>,
    update: ConditionUpdate,
    generation: i64,
    now: Timestamp,
) {
    let kind = update.kind.as_str();
    let Some(status) = update.status else {
        conditions.retain(|c| c.type_ != kind);
        return;
    };
    let status = if status { "True" } else { "False" };
    let existing = conditions.iter_mut().find(|c| c.type_ == kind);
    let since = existing
        .as_ref()
        .filter(|c| c.status == status)
        .map_or_else(|| whole_seconds(now), |c| c.last_transition_time.clone());
    let condition = Condition {
        type_: kind.to_owned(),
        status: status.to_owned(),
        reason: update.reason.as_str().to_owned(),
        message: update.message,
        observed_generation: Some(generation),
        last_transition_time: since,
    };
    match existing {
        Some(existing) => *existing = condition,
        None => conditions.push(condition),
    }
}

pub fn find(conditions: &[Condition], kind: ConditionType) -> Option<&Condition> {
    conditions.iter().find(|c| c.type_ == kind.as_str())
}

pub fn is_true(conditions: &[Condition], kind: ConditionType) -> bool {
    find(conditions, kind).is_some_and(|c| c.status == "True")
}

/// The latest error of a call for this object.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LastError {
    /// The service's stable code for the error, or the operator's code for an error without one.
    // Rule 8.
    #[schemars(length(max = limits::MAX_CODE))]
    pub code: String,
    /// The HTTP status, if there was an answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 100, max = 999))]
    pub http_status: Option<i32>,
    /// The request's id, for support.
    #[serde(rename = "requestID", default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = limits::MAX_REQUEST_ID))]
    pub request_id: Option<String>,
    /// Whether the operator retries automatically.
    pub retryable: bool,
    /// Description of the error, for a person.
    #[schemars(length(max = limits::MAX_MESSAGE))]
    pub message: String,
    /// Time of the error.
    pub time: Time,
    /// Consecutive failed attempts.
    #[schemars(range(min = 0))]
    pub attempts: i64,
    /// Time of the next attempt; absent if none is planned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_attempt_time: Option<Time>,
}

/// A timestamp as the API server stores it: a written time equals the one that is read back.
pub fn whole_seconds(at: Timestamp) -> Time {
    Time(Timestamp::from_second(at.as_second()).unwrap_or(at))
}
