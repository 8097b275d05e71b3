//! The conditions' messages: the cause and, if a person must act, the remedy. No times or counters: they cost writes.

use crate::api::{
    ConditionType, Intent, Phase, Reason, WorkspaceKind,
    conditions::find,
    limits::MAX_OBJECT,
    names::IS_DEFAULT_ANNOTATION,
    status::{Refusal, ResolvedWorkspace},
    workspace::RunLimits,
};

use super::{
    choice::Choice,
    conditions::Why,
    facts::Facts,
    failure::{Call, CallFailures, Class},
    inputs::{CallDelay, Session},
    memory::RefusedWrite,
    rules::Breach,
    truncate::{MAX_ERROR, MAX_QUOTE, cut},
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CancelCause {
    Deletion,
    /// `spec.cancel`.
    Request,
    /// `activeDeadlineSeconds` have passed.
    Deadline,
}

const SUSPENDED_TOO_LATE: &str = " spec.suspend is ignored, since the submission has begun.";
const KEY_USED: &str =
    "The key was used for another request; use another spec.idempotencyKey in a new Run.";
const RETRY: &str = "set the annotation run-operator.dev/retry to a new value";
/// Bytes of a list of names.
const MAX_LIST: usize = 256;
const ORPHAN: &str = "set spec.deletionPolicy: Orphan to let the object be deleted";

fn workspace_name(facts: &Facts<'_>) -> String {
    let Choice::One(reference) = facts.choice else {
        return "Workspace".to_owned();
    };
    let (name, namespace) = (&reference.name, facts.namespace());
    match reference.kind() {
        WorkspaceKind::Workspace => format!("Workspace {name} in namespace {namespace}"),
        WorkspaceKind::ClusterWorkspace => format!("ClusterWorkspace {name}"),
    }
}

fn beside(facts: &Facts<'_>) -> &'static str {
    let begun = facts.own_intent().is_some() && facts.status().run_id.is_none();
    if facts.deleting() {
        " To delete this object without waiting, set spec.deletionPolicy: Orphan."
    } else if begun && facts.spec().suspended() {
        SUSPENDED_TOO_LATE
    } else {
        ""
    }
}

pub(crate) fn workspace_missing(facts: &Facts<'_>) -> Why {
    let workspace = workspace_name(facts);
    if *facts.choice == Choice::None {
        let namespace = facts.namespace();
        let message = format!(
            "Waiting for a Workspace. Create the Workspace default in namespace {namespace}, or annotate a ClusterWorkspace whose spec.namespaceSelector allows the namespace: {IS_DEFAULT_ANNOTATION}: \"true\"."
        );
        return Why::new(Reason::WorkspaceNotFound, message);
    }
    let beside = beside(facts);
    let message = format!("Waiting for the {workspace}, which doesn't exist; create it.{beside}");
    Why::new(Reason::WorkspaceNotFound, message)
}

pub(crate) fn workspace_ambiguous(facts: &Facts<'_>, names: &[String]) -> Why {
    let (namespace, names) = (facts.namespace(), listed(names));
    let message = format!(
        "Several ClusterWorkspaces are the default of the namespace {namespace}: {names}. Nothing is submitted. Leave the annotation {IS_DEFAULT_ANNOTATION} on one of them, create the Workspace default in the namespace, or create a new Run with spec.workspaceRef."
    );
    Why::new(Reason::WorkspaceAmbiguous, message)
}

pub(crate) fn not_allowed(facts: &Facts<'_>, breach: &Breach<'_>) -> Why {
    let workspace = workspace_name(facts);
    let (what, field, allowed) = (breach.what, breach.field, listed(breach.allowed));
    let value = cut(&breach.value, MAX_QUOTE);
    let with = match breach.reason {
        Reason::ImageNotAllowed => "one that begins with",
        _ => "one of",
    };
    let message = format!(
        "The {workspace} doesn't allow the {what} {value}, by its spec.{field}. Nothing is submitted. Create a new Run with {with}: {allowed}. Or have the list changed."
    );
    Why::new(breach.reason, message)
}

/// As many as a message has room for.
fn listed(names: &[String]) -> String {
    let mut text = String::new();
    for (n, name) in names.iter().enumerate() {
        if n > 0 && text.len() + name.len() > MAX_LIST {
            return format!("{text} and {} others", names.len() - n);
        }
        let comma = if n > 0 { ", " } else { "" };
        text = format!("{text}{comma}{}", cut(name, MAX_LIST));
    }
    text
}

/// Contains no detail of the Workspace: a namespace that may not use it must not see any.
pub(crate) fn namespace_not_allowed(facts: &Facts<'_>) -> Why {
    let namespace = facts.namespace();
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
    let why = cut(message, MAX_ERROR);
    let message = format!("Waiting for the {workspace} to be Ready ({reason}): {why}{beside}");
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

/// The limit is that of the time when the wait for this Workspace began: a change of it costs no write.
pub(crate) fn queued(facts: &Facts<'_>, limits: RunLimits) -> Why {
    let here = match (&facts.status().queued_for, facts.choice) {
        (Some(shown), Choice::One(chosen)) => shown == chosen,
        _ => false,
    };
    let shown = as_shown(facts, ConditionType::Reconciling, "True").filter(|_| here);
    if let Some(shown) = shown.filter(|why| why.reason == Reason::Queued) {
        return shown;
    }
    let workspace = workspace_name(facts);
    let limit = match (limits.all, limits.per_namespace) {
        (Some(0), _) => "spec.maxActiveRuns there is 0".to_owned(),
        (all, each) => {
            let all = all.map(|max| format!("{max} in all (spec.maxActiveRuns)"));
            let each =
                each.map(|max| format!("{max} of a namespace (spec.maxActiveRunsPerNamespace)"));
            let both: Vec<_> = all.into_iter().chain(each).collect();
            format!("as many are active as it allows: {}", both.join(", "))
        }
    };
    let message = format!(
        "Waiting for other Runs of the {workspace} to end: {limit}. This Run is submitted automatically, in the order of priority and age."
    );
    Why::new(Reason::Queued, message)
}

pub(crate) fn key_in_use(facts: &Facts<'_>, holder: &str) -> Why {
    let key = facts.spec().idempotency_key.as_deref();
    let key = cut(key.unwrap_or_default(), MAX_QUOTE);
    let message = format!(
        "The Run {holder} of this namespace holds the idempotency key {key}; this Run is submitted when that one has ended or is deleted."
    );
    Why::new(Reason::KeyInUse, message)
}

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
        let (kind, name) = (pinned.kind, cut(&pinned.name, 64));
        let (then, now) = (cut(&pinned.base_url, 128), cut(&now.base_url, 128));
        format!(
            "This Run is pinned to {then}, by the {kind} {name}, but the {workspace} now has the base URL {now}, so nothing is sent there. Restore the former base URL: in the operator's --base-url, or by re-creating the Workspace with it."
        )
    };
    let otherwise = if !facts.deleting() && facts.run_id().is_none() && facts.not_created() {
        format!(" No run was made yet; to submit it at the new base URL or identity, {RETRY}.")
    } else {
        beside(facts).to_owned()
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

/// A runID without intent and Workspace: this operator did not write it.
pub(crate) fn place_unknown(run_id: &str) -> Why {
    let message = format!(
        "The status names the run {}, but neither the status nor the annotation run-operator.dev/intent records where it was submitted, so no call is made. Look for the run at the service, and create a new Run; this one can be deleted.",
        cut(run_id, MAX_QUOTE)
    );
    Why::new(Reason::SubmissionUnknown, message)
}

pub(crate) fn outcome_unknown(facts: &Facts<'_>, intent: &Intent) -> Why {
    let next = if facts.deleting() {
        ORPHAN
    } else {
        "create a new Run, and set spec.deletionPolicy: Orphan when you delete this one"
    };
    let key = cut(&intent.key, MAX_QUOTE);
    let message = format!(
        "Whether the service made a run is unknown, and it may have forgotten the idempotency key {key}, so nothing is submitted again. Look for the run at the service, then {next}."
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
    let (other, known) = (cut(other, 128), cut(known, 128));
    let message = format!(
        "The service answered with the run {other} for an object whose run is {known}; nothing is cancelled. Ask the service's support which of the two is this object's.{beside}"
    );
    Why::new(Reason::RunIDConflict, message)
}

pub(crate) fn retrying(facts: &Facts<'_>, failed: &CallFailures) -> Why {
    let suffix = if facts.spec().suspended() {
        SUSPENDED_TOO_LATE
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

pub(crate) fn refused(facts: &Facts<'_>, refusal: &Refusal, failed: &CallFailures) -> Why {
    let what = failed.last.failure.sentence();
    let why = |todo: &str| Why::new(refusal.reason, format!("{what} {todo}"));
    let first: &str = match refusal.reason {
        Reason::CreateRefused => return why("No run was made. Correct the spec in a new Run."),
        Reason::IdempotencyConflict => return why(KEY_USED),
        Reason::Forbidden => &format!(
            "The token of the {} lacks the permission to create this run; grant it at the service, then",
            workspace_name(facts)
        ),
        Reason::ApprovalConflict => "The run needs an approval at the service; when it is given,",
        Reason::VersionConflict => "Something changed at the service meanwhile; check it, then",
        Reason::ServerError => "The service answered not to retry; ask its support, then",
        Reason::ContractViolation => "Check the base URL and the contract file, then",
        _ => "When the cause is resolved,",
    };
    why(&format!("{first} {RETRY}."))
}

/// After a restart, if the status no longer holds the message.
pub(crate) fn refused_before(refusal: &Refusal) -> Why {
    let todo = match refusal.reason {
        Reason::CreateRefused => "Correct the spec in a new Run.".to_owned(),
        _ => format!("When the cause is resolved, {RETRY}."),
    };
    let message = format!("The service refused the run before. {todo}");
    Why::new(refusal.reason, message)
}

/// Why the status shows this, as in Synced=False: repeated after a restart.
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
    let ended_as = format!("The run ended as {}.", cut(state, 64));
    let again = run_again(facts);
    match (phase, cancel_cause) {
        (Phase::Succeeded, _) => (phase, Why::new(Reason::Succeeded, ended_as)),
        (Phase::Cancelled, Some(CancelCause::Deadline)) => {
            let message = "The run took longer than its activeDeadlineSeconds and was cancelled.";
            (Phase::Failed, Why::new(Reason::DeadlineExceeded, message))
        }
        (Phase::Cancelled, Some(CancelCause::Request | CancelCause::Deletion)) => {
            let message = "The run was cancelled as requested.";
            (phase, Why::new(Reason::Cancelled, message))
        }
        (Phase::Cancelled, None) => {
            let message =
                format!("The run was cancelled at the service, not by this object. {again}");
            (phase, Why::new(Reason::CancelledElsewhere, message))
        }
        _ => {
            let message = format!("{ended_as} {again}");
            (Phase::Failed, Why::new(Reason::Failed, message))
        }
    }
}

pub(crate) fn run_lost(facts: &Facts<'_>) -> (Phase, Why) {
    let again = run_again(facts);
    let message = format!(
        "The service answered several times that this run doesn't exist. Nothing is submitted again. {again} When this object is deleted, the service is asked once more; with spec.deletionPolicy: Orphan it is not."
    );
    (Phase::Failed, Why::new(Reason::RunNotFound, message))
}

pub(crate) fn at_the_service(
    facts: &Facts<'_>,
    cancel_cause: Option<CancelCause>,
    cancelling: bool,
) -> Why {
    if cancel_cause.is_some()
        && let Some(failed) = facts.failures_of(Call::Cancel)
    {
        let what = failed.last.failure.sentence();
        let message = format!("The cancellation is retried. {what}");
        return Why::new(failed.last.reason(), message);
    }
    let message = match cancel_cause {
        Some(CancelCause::Deletion) => "The object is being deleted; its run is being cancelled.",
        Some(CancelCause::Request) => "Cancelling the run as requested by spec.cancel.",
        Some(CancelCause::Deadline) => {
            "The run's activeDeadlineSeconds have passed; it is being cancelled."
        }
        None if cancelling => "The run is being cancelled at the service.",
        None => "The run is at the service.",
    };
    let reason = match cancel_cause {
        Some(CancelCause::Deadline) => Reason::DeadlineExceeded,
        _ if cancelling => Reason::Cancelling,
        _ => Reason::Active,
    };
    Why::new(reason, message)
}

/// `beside`: a sentence on what happens meanwhile.
pub(crate) fn write_refused(refused: &RefusedWrite, beside: &str) -> Why {
    let sentence = cut(&refused.sentence, MAX_ERROR);
    let message = format!(
        "{beside} The API server refuses the operator's write of this object's metadata, which is tried again: {sentence}"
    );
    Why::new(Reason::WriteRefused, message)
}

pub(crate) fn state_not_mapped(state: &str, beside: &str) -> Why {
    let state = cut(state, MAX_QUOTE);
    let message = format!(
        "{beside} The contract file doesn't map its state {state}: if that is an end, it is not noticed. Add the state to the contract file and restart the operator."
    );
    Why::new(Reason::StateNotMapped, message)
}

pub(crate) fn run_too_large(facts: &Facts<'_>) -> Why {
    let (size, most) = (facts.spec().object_bytes.div_ceil(1024), MAX_OBJECT / 1024);
    let message = format!(
        "The object has {size} KiB, its metadata included; more than {most} KiB leave no room to record a submission. No run was made. Create a new Run with a smaller workload."
    );
    Why::new(Reason::RunTooLarge, message)
}

pub(crate) fn stale(failed: &CallFailures) -> Why {
    let what = failed.last.failure.sentence();
    let message = format!("The run can't be read; the read is retried. {what}");
    Why::new(failed.last.reason(), message)
}
