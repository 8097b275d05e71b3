//! Obstacles between a Run and its calls: its Workspace, its pinned place, the queue.

use crate::api::{Reason, WorkspaceKind, status::ResolvedWorkspace};
use crate::decide::{
    CallDelay, Session,
    conditions::Why,
    observation::Observation,
    truncate::{MAX_ERROR, MAX_QUOTE, cut},
};

/// Instruction for a retry.
pub(crate) const RETRY: &str = "set the annotation run-operator.dev/retry to a new value";
/// Instruction to delete the object without its run.
pub(crate) const ORPHAN: &str = "set spec.deletionPolicy: Orphan to let the object be deleted";

pub(crate) fn workspace_name(f: &Observation<'_>) -> String {
    let reference = f.spec().workspace_ref();
    let namespace = f.o.run.metadata.namespace.as_deref().unwrap_or_default();
    match reference.kind() {
        WorkspaceKind::Workspace => {
            format!("Workspace {} in namespace {namespace}", reference.name)
        }
        WorkspaceKind::ClusterWorkspace => format!("ClusterWorkspace {}", reference.name),
    }
}

/// Advice in addition to an obstacle: `suspend` comes too late, or the way to delete an object that the obstacle
/// blocks.
pub(crate) fn beside(f: &Observation<'_>) -> String {
    if f.deleting() {
        " To delete this object without waiting, set spec.deletionPolicy: Orphan.".to_owned()
    } else if f.spec().suspended() && f.own_intent().is_some() && f.status().run_id.is_none() {
        " spec.suspend is ignored, since the submission has begun.".to_owned()
    } else {
        String::new()
    }
}

pub(crate) fn workspace_missing(f: &Observation<'_>) -> Why {
    Why::new(
        Reason::WorkspaceNotFound,
        format!(
            "Waiting for the {}, which doesn't exist; create it.{}",
            workspace_name(f),
            beside(f)
        ),
    )
}

/// Contains no detail of the Workspace: a namespace that may not use it must not see any.
pub(crate) fn namespace_not_allowed(f: &Observation<'_>) -> Why {
    let namespace = f.o.run.metadata.namespace.as_deref().unwrap_or_default();
    let next = if f.not_created() {
        "Nothing is submitted. Label the namespace to match, or create a new Run with another Workspace.".to_owned()
    } else {
        format!(
            "Whether the service made a run is unknown, and the service is not called for this namespace. Allow the namespace again, or {ORPHAN}."
        )
    };
    Why::new(
        Reason::NamespaceNotAllowed,
        format!(
            "The namespace {namespace} may not use the {}: spec.namespaceSelector there doesn't match the namespace's labels. {next}",
            workspace_name(f)
        ),
    )
}

pub(crate) fn workspace_deleted(f: &Observation<'_>) -> Why {
    Why::new(
        Reason::WorkspaceNotFound,
        format!(
            "Whether the service made a run is unknown, and the {} no longer exists, so the service can't be asked. Create the Workspace again, or {ORPHAN}.",
            workspace_name(f)
        ),
    )
}

pub(crate) fn workspace_not_ready(f: &Observation<'_>, reason: Reason, message: &str) -> Why {
    Why::new(
        Reason::WorkspaceNotReady,
        format!(
            "Waiting for the {} to be Ready ({reason}): {}{}",
            workspace_name(f),
            cut(message, MAX_ERROR),
            beside(f)
        ),
    )
}

pub(crate) fn held_back(f: &Observation<'_>, delay: CallDelay) -> Why {
    let workspace = workspace_name(f);
    let what = match delay {
        CallDelay::Paused { .. } => format!(
            "The service answered 429 (too many requests) to the {workspace}, so all its calls are paused."
        ),
        CallDelay::Queued => format!(
            "The calls of the {workspace} have reached a limit, its spec.rateLimit or the operator's own, and other calls are ahead in the queue."
        ),
    };
    Why::new(
        Reason::RateLimited,
        format!(
            "{what} This Run is queued and resumes automatically.{}",
            beside(f)
        ),
    )
}

pub(crate) fn key_in_use(f: &Observation<'_>, holder: &str) -> Why {
    Why::new(
        Reason::KeyInUse,
        format!(
            "The Run {holder} of this namespace holds the idempotency key {}; this Run is submitted when that one has ended or is deleted.",
            cut(
                f.spec().idempotency_key.as_deref().unwrap_or_default(),
                MAX_QUOTE
            )
        ),
    )
}

/// The session is of another place than the one that the Run is pinned to.
pub(crate) fn elsewhere(
    f: &Observation<'_>,
    reason: Reason,
    pinned: &ResolvedWorkspace,
    session: &Session,
) -> Why {
    let now = &session.resolved;
    let workspace = workspace_name(f);
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
    let otherwise = if !f.deleting() && f.run_id().is_none() && f.not_created() {
        format!(" No run was made yet; to submit it at the new base URL or identity, {RETRY}.")
    } else {
        beside(f)
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
    Why::new(
        obstacle.reason,
        format!("The run is not cancelled yet. {}", obstacle.message),
    )
}
