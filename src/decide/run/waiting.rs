//! A submission that waits: in the queue, for its Workspace, or for a person.

use crate::api::{Reason, RunStatus};
use crate::decide::{
    Decision, Session,
    conditions::{Conditions, Why},
    failure::{CallFailures, Repeats},
    messages,
    observation::Observation,
    workspace::in_use::needs_workspace,
};

pub(crate) fn pending(f: &Observation<'_>, why: Why) -> Decision {
    Decision::write(f.status_with(&Conditions::Pending(why)))
}

/// Blocks until a person acts. A retry that can't be carried out now stays unhandled: marked as handled, it would hide
/// the reason from the next reconcile and be lost once the obstacle is removed.
pub(crate) fn blocked(f: &Observation<'_>, why: Why) -> Decision {
    Decision::write(f.status_with(&Conditions::Blocked(why)))
}

/// Reason why a first submission waits, with or without an intent: a version that is not accepted, the Workspace's
/// `suspend` or its deletion. They block nothing else.
pub(crate) fn held_back(f: &Observation<'_>, session: &Session) -> Option<Why> {
    let (reason, message) = session.submissions_blocked.as_ref()?;
    let first = f.not_created();
    let blocks = first && !is_awaited(f, session, *reason);
    blocks.then(|| Why::new(*reason, message.clone()))
}

/// Whether a Workspace that is being deleted waits for this Run and so doesn't block it: the two would wait for
/// each other.
fn is_awaited(f: &Observation<'_>, session: &Session, reason: Reason) -> bool {
    reason == Reason::WorkspaceDeleting
        && needs_workspace(f.o.run, Some(&session.resolved.base_url))
}

/// The decision while a call is due and the Workspace's calls are paused.
pub(crate) fn paused(f: &Observation<'_>) -> Option<Decision> {
    let over = f.pause_over()?;
    Some(Decision {
        status: waiting(f),
        ..Decision::quiet().requeue_at(over)
    })
}

/// The status for a call that waits longer than a moment.
pub(crate) fn waiting(f: &Observation<'_>) -> Option<RunStatus> {
    let why = messages::held_back(f, f.o.call_delay?);
    Some(f.status_with(&Conditions::Pending(why)))
}

pub(crate) fn retrying(f: &Observation<'_>, failed: &CallFailures) -> Decision {
    if failed.repeats() == Repeats::AtOnce {
        // The Workspace's own status is about to show the error of the token.
        return Decision::quiet();
    }
    let requeue_at = Some(f.next_attempt(failed)).filter(|at| *at > f.o.now);
    Decision {
        requeue_at,
        ..pending(f, messages::retrying(f, failed))
    }
}
