//! Messages of the conditions. Each names the cause and, if a person must act, the remedy. None contains a time or a
//! counter: each change of one would cost a write.

use crate::api::{ConditionType, Intent, Phase, Reason, conditions, status::Refusal};

use super::{
    cancel_cause::CancelCause,
    conditions::{POLLED, Why},
    memory::Trouble,
    observation::Observation,
    response::{
        answer::{Failure, FailureKind},
        classify::{Call, Class},
    },
    truncate::cut,
};

mod obstacles;
mod phrases;

use obstacles::{beside, workspace_name};
pub(crate) use obstacles::{
    cancellation_waits, elsewhere, held_back, key_in_use, namespace_not_allowed, workspace_deleted,
    workspace_missing, workspace_not_ready,
};
use phrases::{MAX_QUOTE, ORPHAN, RETRY};

pub(crate) fn restored(f: &Observation<'_>) -> Why {
    let own_key = f.spec().idempotency_key.is_some();
    let fresh = match (f.status().run_id.is_some(), own_key) {
        (true, true) => {
            "A new Run with the same spec.idempotencyKey gets the same run; one with another key gets a new run."
                .to_owned()
        }
        (true, false) => run_again(f),
        (false, true) => format!(
            "To get its run by spec.idempotencyKey, or a new run if the service has forgotten the key, {RETRY}."
        ),
        (false, false) => format!("To submit it as a new run, {RETRY}."),
    };
    Why::new(
        Reason::Restored,
        format!(
            "This object carries the intent of another one (a restored backup or a copied manifest), so it is not submitted automatically. {fresh}"
        ),
    )
}

/// Instruction to run it again. The Run's own key would return the run that has ended.
fn run_again(f: &Observation<'_>) -> String {
    let key = match f.spec().idempotency_key {
        Some(_) => " with another spec.idempotencyKey",
        None => "",
    };
    format!("Create a new Run{key} to run it again.")
}

pub(crate) fn unreadable_intent() -> Why {
    Why::new(
        Reason::SubmissionUnknown,
        format!(
            "The annotation run-operator.dev/intent can't be read, so it is unknown whether a run exists. Restore the annotation, or look for the run at the service and {ORPHAN}."
        ),
    )
}

/// A runId without intent and Workspace: this operator did not write it.
pub(crate) fn nowhere(run_id: &str) -> Why {
    Why::new(
        Reason::SubmissionUnknown,
        format!(
            "The status names the run {}, but neither the status nor the annotation run-operator.dev/intent records where it was submitted, so no call is made. Look for the run at the service, and create a new Run; this one can be deleted.",
            cut(run_id, MAX_QUOTE)
        ),
    )
}

pub(crate) fn outcome_unknown(f: &Observation<'_>, intent: &Intent) -> Why {
    let next = if f.deleting() {
        ORPHAN.to_owned()
    } else {
        "create a new Run, and set spec.deletionPolicy: Orphan when you delete this one".to_owned()
    };
    Why::new(
        Reason::SubmissionUnknown,
        format!(
            "Whether the service made a run is unknown, and it may have forgotten the idempotency key {}, so nothing is submitted again. Look for the run at the service, then {next}.",
            cut(&intent.key, MAX_QUOTE)
        ),
    )
}

pub(crate) fn body_changed(f: &Observation<'_>) -> Why {
    Why::new(
        Reason::BodyChanged,
        format!(
            "The spec no longer yields the request that is recorded in the object's intent; nothing is sent. Create a new Run.{}",
            beside(f)
        ),
    )
}

pub(crate) fn run_id_conflict(f: &Observation<'_>, known: &str, other: &str) -> Why {
    Why::new(
        Reason::RunIdConflict,
        format!(
            "The service answered with the run {} for an object whose run is {}; nothing is cancelled. Ask the service's support which of the two is this object's.{}",
            cut(other, 128),
            cut(known, 128),
            beside(f)
        ),
    )
}

pub(crate) fn retrying(f: &Observation<'_>, trouble: &Trouble) -> Why {
    let suffix = if f.spec().suspended() {
        " spec.suspend is ignored, since the submission has begun."
    } else if f.spec().cancelled() {
        " It is cancelled as soon as the outcome is known."
    } else if f.deleting() {
        " The deletion continues as soon as the outcome is known, or at once with spec.deletionPolicy: Orphan."
    } else {
        ""
    };
    let what = what_happened(&trouble.failure);
    let works = match trouble.class {
        Class::InProgress => " It still works on an earlier request with this key.",
        _ => "",
    };
    Why::new(
        reason_to_retry(trouble),
        format!("{what}{works} The same request is sent again with the same key.{suffix}"),
    )
}

/// Reason for repeating a call that was not refused.
fn reason_to_retry(trouble: &Trouble) -> Reason {
    match (trouble.class, trouble.failure.http_status) {
        (Class::InProgress, _) => Reason::SubmissionInProgress,
        (Class::Retry, Some(429)) => Reason::RateLimited,
        _ => Reason::Retrying,
    }
}

/// Meaning of a final answer to a create, and its remedy.
pub(crate) fn refused(f: &Observation<'_>, refusal: &Refusal, trouble: &Trouble) -> Why {
    let what = what_happened(&trouble.failure);
    let todo = match refusal.reason {
        Reason::CreateRefused => "No run was made. Correct the spec in a new Run.".to_owned(),
        Reason::Forbidden => format!(
            "The token of the {} lacks the permission to create this run; grant it at the service, then {RETRY}.",
            workspace_name(f)
        ),
        Reason::ApprovalConflict => {
            format!("The run needs an approval at the service; when it is given, {RETRY}.")
        }
        Reason::VersionConflict => {
            format!("Something changed at the service meanwhile; check it, then {RETRY}.")
        }
        Reason::IdempotencyConflict => {
            "The key was used for another request; use another spec.idempotencyKey in a new Run."
                .to_owned()
        }
        Reason::ServerError => {
            format!("The service answered not to retry; ask its support, then {RETRY}.")
        }
        Reason::ContractViolation => {
            format!("Check the base URL and the contract file, then {RETRY}.")
        }
        _ => format!("When the cause is resolved, {RETRY}."),
    };
    Why::new(refusal.reason, format!("{what} {todo}"))
}

/// For a restart after which the status no longer holds the message.
pub(crate) fn refused_before(refusal: &Refusal) -> Why {
    let todo = match refusal.reason {
        Reason::CreateRefused => "Correct the spec in a new Run.".to_owned(),
        _ => format!("When the cause is resolved, {RETRY}."),
    };
    let message = format!("The service refused the run before. {todo}");
    Why::new(refusal.reason, message)
}

/// After a restart: the reason for staleness in the status.
pub(crate) fn stale_as_shown(f: &Observation<'_>) -> Option<Why> {
    stored(f, ConditionType::Synced, "False")
}

/// After a restart: the reason of Stalled in the status.
pub(crate) fn as_shown(f: &Observation<'_>) -> Option<Why> {
    stored(f, ConditionType::Stalled, "True")
}

/// Whether the status shows that the run is polled because there is no slot for its stream.
pub(crate) fn polled_as_shown(f: &Observation<'_>) -> bool {
    let synced = conditions::find(&f.status().conditions, ConditionType::Synced);
    synced.is_some_and(|c| c.status == "True" && c.message == POLLED)
}

fn stored(f: &Observation<'_>, kind: ConditionType, status: &str) -> Option<Why> {
    let condition =
        conditions::find(&f.status().conditions, kind).filter(|c| c.status == status)?;
    let reason = Reason::named(&condition.reason)?;
    Some(Why::new(reason, condition.message.clone()))
}

pub(crate) fn ended(
    f: &Observation<'_>,
    phase: Phase,
    cancel_cause: Option<CancelCause>,
    state: &str,
) -> (Phase, Why) {
    let state = cut(state, 64);
    let again = run_again(f);
    match (phase, cancel_cause) {
        (Phase::Succeeded, _) => (
            Phase::Succeeded,
            Why::new(Reason::Succeeded, format!("The run ended as {state}.")),
        ),
        (Phase::Cancelled, Some(CancelCause::Deadline)) => (
            Phase::Failed,
            Why::new(
                Reason::DeadlineExceeded,
                "The run took longer than spec.activeDeadlineSeconds and was cancelled.",
            ),
        ),
        (Phase::Cancelled, Some(CancelCause::Request | CancelCause::Deletion)) => (
            Phase::Cancelled,
            Why::new(Reason::Cancelled, "The run was cancelled as requested."),
        ),
        (Phase::Cancelled, None) => (
            Phase::Cancelled,
            Why::new(
                Reason::CancelledElsewhere,
                format!("The run was cancelled at the service, not by this object. {again}"),
            ),
        ),
        _ => (
            Phase::Failed,
            Why::new(Reason::Failed, format!("The run ended as {state}. {again}")),
        ),
    }
}

pub(crate) fn run_lost(f: &Observation<'_>) -> (Phase, Why) {
    (
        Phase::Failed,
        Why::new(
            Reason::RunNotFound,
            format!(
                "The service answered several times that this run doesn't exist. Nothing is submitted again. {} When this object is deleted, the service is asked once more; with spec.deletionPolicy: Orphan it is not.",
                run_again(f)
            ),
        ),
    )
}

pub(crate) fn at_the_service(
    f: &Observation<'_>,
    cancel_cause: Option<CancelCause>,
    cancelling: bool,
) -> Why {
    if cancel_cause.is_some()
        && let Some(trouble) = f.trouble(Call::Cancel)
    {
        let reason = match trouble.class {
            Class::Refused(_) => Reason::CancelRefused,
            _ => reason_to_retry(trouble),
        };
        return Why::new(
            reason,
            format!(
                "The cancellation is retried. {}",
                what_happened(&trouble.failure)
            ),
        );
    }
    match cancel_cause {
        Some(CancelCause::Deletion) => Why::new(
            Reason::Cancelling,
            "The object is being deleted; its run is being cancelled.",
        ),
        Some(CancelCause::Request) => Why::new(
            Reason::Cancelling,
            "Cancelling the run as requested by spec.cancel.",
        ),
        Some(CancelCause::Deadline) => Why::new(
            Reason::DeadlineExceeded,
            "spec.activeDeadlineSeconds has passed; the run is being cancelled.",
        ),
        None if cancelling => Why::new(
            Reason::Cancelling,
            "The run is being cancelled at the service.",
        ),
        None => Why::new(Reason::Active, "The run is at the service."),
    }
}

pub(crate) fn stale(trouble: &Trouble) -> Why {
    let reason = match trouble.class {
        Class::Retry if trouble.failure.http_status == Some(429) => Reason::RateLimited,
        Class::Retry | Class::InProgress => Reason::ServiceUnavailable,
        Class::Unauthorized => Reason::Unauthorized,
        Class::Violation => Reason::ContractViolation,
        Class::Refused(reason) | Class::Final(reason) => reason,
    };
    Why::new(
        reason,
        format!(
            "The run can't be read; the read is retried. {}",
            what_happened(&trouble.failure)
        ),
    )
}

/// One sentence about a failed call, with its request id.
pub(crate) fn what_happened(failure: &Failure) -> String {
    let detail = cut(&failure.message, MAX_QUOTE);
    let status = failure
        .http_status
        .map(|s| s.to_string())
        .unwrap_or_default();
    let mut sentence = match (failure.kind, &failure.code) {
        (FailureKind::Transport, _) => format!("The service gave no answer: {detail}"),
        (FailureKind::NoFile, _) => {
            "The request was not sent: the operator has reached its limit of open files; raise the limit or lower --max-streams."
                .to_owned()
        }
        (FailureKind::NotSent, _) => format!("The request was not sent: {detail}"),
        (FailureKind::Unreadable, _) => format!("The service's answer can't be read: {detail}"),
        (_, Some(code)) => format!("The service answered {status} {}: {detail}", cut(code, 128)),
        (_, None) => format!("The service answered {status} without a problem body: {detail}"),
    };
    if !sentence.ends_with('.') {
        sentence.push('.');
    }
    if let Some(id) = &failure.request_id {
        sentence.push_str(" Request id ");
        sentence.push_str(cut(id, 128));
        sentence.push('.');
    }
    sentence
}
