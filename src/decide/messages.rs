//! Messages of the conditions. Each names the cause and, if a person must act, the remedy. None contains a time or a
//! counter: each change of one would cost a write.

use crate::api::{
    ConditionType, Intent, Phase, Reason, WorkspaceKind,
    conditions::find,
    status::{Refusal, ResolvedWorkspace},
};

use super::{
    conditions::Why,
    facts::Facts,
    failure::{Call, CallFailures, Class},
    inputs::{CallDelay, Session},
    truncate::{MAX_ERROR, MAX_QUOTE, cut},
};

/// Cause of a run's cancellation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CancelCause {
    /// The object is being deleted.
    Deletion,
    /// `spec.cancel`.
    Request,
    /// `spec.activeDeadlineSeconds` has passed.
    Deadline,
}

/// Instruction for a retry.
const RETRY: &str = "set the annotation run-operator.dev/retry to a new value";
/// Instruction to delete the object without its run.
const ORPHAN: &str = "set spec.deletionPolicy: Orphan to let the object be deleted";

fn workspace_name(facts: &Facts<'_>) -> String {
    let reference = facts.spec().workspace_ref();
    let namespace = facts.run.metadata.namespace.as_deref().unwrap_or_default();
    match reference.kind() {
        WorkspaceKind::Workspace => {
            format!("Workspace {} in namespace {namespace}", reference.name)
        }
        WorkspaceKind::ClusterWorkspace => format!("ClusterWorkspace {}", reference.name),
    }
}

/// Advice in addition to an obstacle: `suspend` comes too late, or the way to delete an object that the obstacle
/// blocks.
fn beside(facts: &Facts<'_>) -> String {
    if facts.deleting() {
        " To delete this object without waiting, set spec.deletionPolicy: Orphan.".to_owned()
    } else if facts.spec().suspended()
        && facts.own_intent().is_some()
        && facts.status().run_id.is_none()
    {
        " spec.suspend is ignored, since the submission has begun.".to_owned()
    } else {
        String::new()
    }
}

pub(crate) fn workspace_missing(facts: &Facts<'_>) -> Why {
    let workspace = workspace_name(facts);
    let beside = beside(facts);
    let message = format!("Waiting for the {workspace}, which doesn't exist; create it.{beside}");
    Why::new(Reason::WorkspaceNotFound, message)
}

/// Contains no detail of the Workspace: a namespace that may not use it must not see any.
pub(crate) fn namespace_not_allowed(facts: &Facts<'_>) -> Why {
    let namespace = facts.run.metadata.namespace.as_deref().unwrap_or_default();
    let next = if facts.not_created() {
        "Nothing is submitted. Label the namespace to match, or create a new Run with another Workspace.".to_owned()
    } else {
        format!(
            "Whether the service made a run is unknown, and the service is not called for this namespace. Allow the namespace again, or {ORPHAN}."
        )
    };
    let workspace = workspace_name(facts);
    let message = format!(
        "The namespace {namespace} may not use the {workspace}: spec.namespaceSelector there doesn't match the namespace's labels. {next}"
    );
    Why::new(Reason::NamespaceNotAllowed, message)
}

pub(crate) fn workspace_deleted(facts: &Facts<'_>) -> Why {
    let workspace = workspace_name(facts);
    let message = format!(
        "Whether the service made a run is unknown, and the {workspace} no longer exists, so the service can't be asked. Create the Workspace again, or {ORPHAN}."
    );
    Why::new(Reason::WorkspaceNotFound, message)
}

pub(crate) fn workspace_not_ready(facts: &Facts<'_>, reason: Reason, message: &str) -> Why {
    let workspace = workspace_name(facts);
    let beside = beside(facts);
    let message = format!(
        "Waiting for the {workspace} to be Ready ({reason}): {}{beside}",
        cut(message, MAX_ERROR)
    );
    Why::new(Reason::WorkspaceNotReady, message)
}

pub(crate) fn held_back(facts: &Facts<'_>, delay: CallDelay) -> Why {
    let workspace = workspace_name(facts);
    let what = match delay {
        CallDelay::Paused { .. } => format!(
            "The service answered 429 (too many requests) to the {workspace}, so all its calls are paused."
        ),
        CallDelay::Queued => format!(
            "The calls of the {workspace} have reached a limit, its spec.rateLimit or the operator's own, and other calls are ahead in the queue."
        ),
    };
    let beside = beside(facts);
    let message = format!("{what} This Run is queued and resumes automatically.{beside}");
    Why::new(Reason::RateLimited, message)
}

pub(crate) fn key_in_use(facts: &Facts<'_>, holder: &str) -> Why {
    let message = format!(
        "The Run {holder} of this namespace holds the idempotency key {}; this Run is submitted when that one has ended or is deleted.",
        cut(
            facts.spec().idempotency_key.as_deref().unwrap_or_default(),
            MAX_QUOTE
        )
    );
    Why::new(Reason::KeyInUse, message)
}

/// The session is of another place than the one that the Run is pinned to.
pub(crate) fn elsewhere(
    facts: &Facts<'_>,
    reason: Reason,
    pinned: &ResolvedWorkspace,
    session: &Session,
) -> Why {
    let now = &session.resolved;
    let workspace = workspace_name(facts);
    let what = if reason == Reason::IdentityChanged {
        other_identity(pinned, now, &workspace)
    } else {
        format!(
            "This Run is pinned to {}, by the {} {}, but the {workspace} now has the base URL {}, so nothing is sent there. Restore the former base URL: in the operator's --base-url, or by re-creating the Workspace with it.",
            cut(&pinned.base_url, 128),
            pinned.kind,
            cut(&pinned.name, 64),
            cut(&now.base_url, 128),
        )
    };
    let otherwise = if !facts.deleting() && facts.run_id().is_none() && facts.not_created() {
        format!(" No run was made yet; to submit it at the new base URL or identity, {RETRY}.")
    } else {
        beside(facts)
    };
    Why::new(reason, format!("{what}{otherwise}"))
}

fn other_identity(pinned: &ResolvedWorkspace, now: &ResolvedWorkspace, workspace: &str) -> String {
    let then = cut(pinned.identity.as_deref().unwrap_or_default(), 128);
    let Some(now) = now.identity.as_deref() else {
        return format!(
            "This Run is pinned to the service's workspace {then}, but the service does not say for which one the token of the {workspace} acts, so nothing is sent with it. Correct workspace.identityPointers in the contract file."
        );
    };
    format!(
        "This Run is pinned to the service's workspace {then}, but the token of the {workspace} acts for {}, so nothing is sent with it. Put a token of {then} into the Secret again.",
        cut(now, 128)
    )
}

/// A cancellation that can't be sent now.
pub(crate) fn cancellation_waits(obstacle: &Why) -> Why {
    let message = format!("The run is not cancelled yet. {}", obstacle.message);
    Why::new(obstacle.reason, message)
}

pub(crate) fn restored(facts: &Facts<'_>) -> Why {
    let own_key = facts.spec().idempotency_key.is_some();
    let fresh = match (facts.status().run_id.is_some(), own_key) {
        (true, true) => {
            "A new Run with the same spec.idempotencyKey gets the same run; one with another key gets a new run."
                .to_owned()
        }
        (true, false) => run_again(facts),
        (false, true) => format!(
            "To get its run by spec.idempotencyKey, or a new run if the service has forgotten the key, {RETRY}."
        ),
        (false, false) => format!("To submit it as a new run, {RETRY}."),
    };
    let message = format!(
        "This object carries the intent of another one (a restored backup or a copied manifest), so it is not submitted automatically. {fresh}"
    );
    Why::new(Reason::Restored, message)
}

/// Instruction to run it again. The Run's own key would return the run that has ended.
fn run_again(facts: &Facts<'_>) -> String {
    let key = match facts.spec().idempotency_key {
        Some(_) => " with another spec.idempotencyKey",
        None => "",
    };
    format!("Create a new Run{key} to run it again.")
}

pub(crate) fn unreadable_intent() -> Why {
    let message = format!(
        "The annotation run-operator.dev/intent can't be read, so it is unknown whether a run exists. Restore the annotation, or look for the run at the service and {ORPHAN}."
    );
    Why::new(Reason::SubmissionUnknown, message)
}

/// A runId without intent and Workspace: this operator did not write it.
pub(crate) fn place_unknown(run_id: &str) -> Why {
    let message = format!(
        "The status names the run {}, but neither the status nor the annotation run-operator.dev/intent records where it was submitted, so no call is made. Look for the run at the service, and create a new Run; this one can be deleted.",
        cut(run_id, MAX_QUOTE)
    );
    Why::new(Reason::SubmissionUnknown, message)
}

pub(crate) fn outcome_unknown(facts: &Facts<'_>, intent: &Intent) -> Why {
    let next = if facts.deleting() {
        ORPHAN.to_owned()
    } else {
        "create a new Run, and set spec.deletionPolicy: Orphan when you delete this one".to_owned()
    };
    let message = format!(
        "Whether the service made a run is unknown, and it may have forgotten the idempotency key {}, so nothing is submitted again. Look for the run at the service, then {next}.",
        cut(&intent.key, MAX_QUOTE)
    );
    Why::new(Reason::SubmissionUnknown, message)
}

pub(crate) fn body_changed(facts: &Facts<'_>) -> Why {
    let beside = beside(facts);
    let message = format!(
        "The spec no longer yields the request that is recorded in the object's intent; nothing is sent. Create a new Run.{beside}"
    );
    Why::new(Reason::BodyChanged, message)
}

pub(crate) fn run_id_conflict(facts: &Facts<'_>, known: &str, other: &str) -> Why {
    let beside = beside(facts);
    let message = format!(
        "The service answered with the run {} for an object whose run is {}; nothing is cancelled. Ask the service's support which of the two is this object's.{beside}",
        cut(other, 128),
        cut(known, 128)
    );
    Why::new(Reason::RunIdConflict, message)
}

pub(crate) fn retrying(facts: &Facts<'_>, failed: &CallFailures) -> Why {
    let suffix = if facts.spec().suspended() {
        " spec.suspend is ignored, since the submission has begun."
    } else if facts.spec().cancelled() {
        " It is cancelled as soon as the outcome is known."
    } else if facts.deleting() {
        " The deletion continues as soon as the outcome is known, or at once with spec.deletionPolicy: Orphan."
    } else {
        ""
    };
    let what = failed.last.failure.sentence();
    let works = match failed.last.class {
        Class::InProgress => " It still works on an earlier request with this key.",
        _ => "",
    };
    let message =
        format!("{what}{works} The same request is sent again with the same key.{suffix}");
    Why::new(failed.last.reason(), message)
}

/// Meaning of a final answer to a create, and its remedy.
pub(crate) fn refused(facts: &Facts<'_>, refusal: &Refusal, failed: &CallFailures) -> Why {
    let what = failed.last.failure.sentence();
    let todo = match refusal.reason {
        Reason::CreateRefused => "No run was made. Correct the spec in a new Run.".to_owned(),
        Reason::Forbidden => format!(
            "The token of the {} lacks the permission to create this run; grant it at the service, then {RETRY}.",
            workspace_name(facts)
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

/// Why the status shows this, as in Synced=False or Stalled=True: repeated after a restart.
pub(crate) fn as_shown(facts: &Facts<'_>, kind: ConditionType, status: &str) -> Option<Why> {
    let condition = find(&facts.status().conditions, kind).filter(|c| c.status == status)?;
    let reason = Reason::named(&condition.reason)?;
    Some(Why::new(reason, condition.message.clone()))
}

pub(crate) fn ended(
    facts: &Facts<'_>,
    phase: Phase,
    cancel_cause: Option<CancelCause>,
    state: &str,
) -> (Phase, Why) {
    let state = cut(state, 64);
    let again = run_again(facts);
    let (phase, reason, message) = match (phase, cancel_cause) {
        (Phase::Succeeded, _) => (
            phase,
            Reason::Succeeded,
            format!("The run ended as {state}."),
        ),
        (Phase::Cancelled, Some(CancelCause::Deadline)) => (
            Phase::Failed,
            Reason::DeadlineExceeded,
            "The run took longer than spec.activeDeadlineSeconds and was cancelled.".to_owned(),
        ),
        (Phase::Cancelled, Some(CancelCause::Request | CancelCause::Deletion)) => (
            phase,
            Reason::Cancelled,
            "The run was cancelled as requested.".to_owned(),
        ),
        (Phase::Cancelled, None) => (
            phase,
            Reason::CancelledElsewhere,
            format!("The run was cancelled at the service, not by this object. {again}"),
        ),
        _ => (
            Phase::Failed,
            Reason::Failed,
            format!("The run ended as {state}. {again}"),
        ),
    };
    (phase, Why::new(reason, message))
}

pub(crate) fn run_lost(facts: &Facts<'_>) -> (Phase, Why) {
    (
        Phase::Failed,
        Why::new(
            Reason::RunNotFound,
            format!(
                "The service answered several times that this run doesn't exist. Nothing is submitted again. {} When this object is deleted, the service is asked once more; with spec.deletionPolicy: Orphan it is not.",
                run_again(facts)
            ),
        ),
    )
}

pub(crate) fn at_the_service(
    facts: &Facts<'_>,
    cancel_cause: Option<CancelCause>,
    cancelling: bool,
) -> Why {
    if cancel_cause.is_some()
        && let Some(failed) = facts.failures_of(Call::Cancel)
    {
        return Why::new(
            failed.last.reason(),
            format!(
                "The cancellation is retried. {}",
                failed.last.failure.sentence()
            ),
        );
    }
    let (reason, message) = match cancel_cause {
        Some(CancelCause::Deletion) => (
            Reason::Cancelling,
            "The object is being deleted; its run is being cancelled.",
        ),
        Some(CancelCause::Request) => (
            Reason::Cancelling,
            "Cancelling the run as requested by spec.cancel.",
        ),
        Some(CancelCause::Deadline) => (
            Reason::DeadlineExceeded,
            "spec.activeDeadlineSeconds has passed; the run is being cancelled.",
        ),
        None if cancelling => (
            Reason::Cancelling,
            "The run is being cancelled at the service.",
        ),
        None => (Reason::Active, "The run is at the service."),
    };
    Why::new(reason, message)
}

pub(crate) fn stale(failed: &CallFailures) -> Why {
    let message = format!(
        "The run can't be read; the read is retried. {}",
        failed.last.failure.sentence()
    );
    Why::new(failed.last.reason(), message)
}
