//! What stands between a Run and its calls: its Workspace, its place, its turn.

use crate::api::{Reason, run::WorkspaceKind, status::ResolvedWorkspace};

use super::{MAX_QUOTE, ORPHAN, RETRY};
use crate::decide::{
    Held, Session,
    facts::Facts,
    situation::Why,
    text::{MAX_ERROR, cut},
};

pub(super) fn workspace_name(f: &Facts<'_>) -> String {
    let reference = f.spec().workspace_ref();
    let namespace = f.o.run.metadata.namespace.as_deref().unwrap_or_default();
    match reference.kind() {
        WorkspaceKind::Workspace => {
            format!("Workspace {} in namespace {namespace}", reference.name)
        }
        WorkspaceKind::ClusterWorkspace => format!("ClusterWorkspace {}", reference.name),
    }
}

/// What is to be known beside an obstacle: that a suspend comes too late, and how to let go of an
/// object that can't be deleted because of it.
pub(super) fn beside(f: &Facts<'_>) -> String {
    if f.deleting() {
        format!(" To delete this object without waiting, {ORPHAN}.")
    } else if f.spec().suspended() && f.own_intent().is_some() && f.status().run_id.is_none() {
        " spec.suspend is ignored, since the submission has begun.".to_owned()
    } else {
        String::new()
    }
}

pub(in crate::decide) fn workspace_missing(f: &Facts<'_>) -> Why {
    Why::new(
        Reason::WorkspaceNotFound,
        format!(
            "Waiting for the {}, which doesn't exist; create it.{}",
            workspace_name(f),
            beside(f)
        ),
    )
}

/// Says nothing of the Workspace itself: a namespace that may not use it learns nothing of it.
pub(in crate::decide) fn namespace_not_allowed(f: &Facts<'_>) -> Why {
    let namespace = f.o.run.metadata.namespace.as_deref().unwrap_or_default();
    let next = if f.not_created() {
        "Nothing is submitted. Have the namespace labelled so that it is, or create a new Run with another Workspace.".to_owned()
    } else {
        format!(
            "Whether the service made a run is unknown, and it is not asked from here. Have the namespace allowed again, or {ORPHAN}."
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

pub(in crate::decide) fn workspace_gone(f: &Facts<'_>) -> Why {
    Why::new(
        Reason::WorkspaceNotFound,
        format!(
            "Whether the service made a run is unknown, and the {} is gone, so it can't be asked. Create the Workspace again, or {ORPHAN}.",
            workspace_name(f)
        ),
    )
}

pub(in crate::decide) fn workspace_not_ready(f: &Facts<'_>, reason: Reason, message: &str) -> Why {
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

pub(in crate::decide) fn held_back(f: &Facts<'_>, held: Held) -> Why {
    let workspace = workspace_name(f);
    let what = match held {
        Held::Paused { .. } => format!(
            "The service answered 429 (too many requests) to the {workspace}, so all its calls are paused."
        ),
        Held::Queued => format!(
            "The {workspace} has as many calls under way as it may, by its spec.rateLimit or the operator's own bound, and others go first."
        ),
    };
    Why::new(
        Reason::RateLimited,
        format!(
            "{what} This Run waits for its turn and goes on by itself.{}",
            beside(f)
        ),
    )
}

pub(in crate::decide) fn key_in_use(f: &Facts<'_>, rival: &str) -> Why {
    Why::new(
        Reason::KeyInUse,
        format!(
            "The Run {rival} of this namespace holds the idempotency key {}; it is submitted when that one has ended or is deleted.",
            cut(
                f.spec().idempotency_key.as_deref().unwrap_or_default(),
                MAX_QUOTE
            )
        ),
    )
}

/// The session stands for another place than the one that the Run is pinned to.
pub(in crate::decide) fn elsewhere(
    f: &Facts<'_>,
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
            "This Run is pinned to {}, by the {} {}, but the {workspace} now stands for {}, so nothing is sent there. Put the base URL back: in the operator's --base-url, or by creating the Workspace anew with it.",
            cut(&pinned.base_url, 128),
            pinned.kind,
            cut(&pinned.name, 64),
            cut(&now.base_url, 128),
        )
    };
    let otherwise = if !f.deleting() && f.run_id().is_none() && f.not_created() {
        format!(" No run was made yet; to submit it where the Workspace stands now, {RETRY}.")
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
pub(in crate::decide) fn cancellation_waits(obstacle: &Why) -> Why {
    Why::new(
        obstacle.reason,
        format!("The run is not cancelled yet. {}", obstacle.message),
    )
}
