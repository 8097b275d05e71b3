//! Reason why the mirror of a run is stale, and the time at which that is written.

use jiff::Timestamp;

use crate::api::{ConditionType, Reason};
use crate::decide::{
    WorkspaceView, conditions::Why, failure::Call, messages, observation::Observation,
    workspace::recheck,
};

use super::pinning;

/// Result of the staleness check.
pub(crate) struct Staleness {
    pub(crate) why: Option<Why>,
    /// No call can be made.
    pub(crate) unusable: bool,
    /// Time at which a reason that is not in the status yet is written.
    pub(crate) shown_at: Option<Timestamp>,
}

impl Staleness {
    fn of(why: Option<Why>, unusable: bool) -> Self {
        Self {
            why,
            unusable,
            shown_at: None,
        }
    }
}

pub(crate) fn staleness(f: &Observation<'_>) -> Staleness {
    match f.o.workspace {
        WorkspaceView::Unknown => Staleness::of(None, true),
        WorkspaceView::Missing => Staleness::of(Some(messages::workspace_missing(f)), true),
        WorkspaceView::NotReady {
            reason,
            message,
            since,
        } => {
            // A token is used only after it was verified: no call is made before the Workspace is Ready.
            let Some(shown_at) = not_shown_yet(f, *since) else {
                let why = messages::workspace_not_ready(f, *reason, message);
                return Staleness::of(Some(why), true);
            };
            // Until then the status stays as it is.
            Staleness {
                shown_at: Some(shown_at),
                ..Staleness::of(shown(f), true)
            }
        }
        WorkspaceView::Ready(session) => {
            if let Some((reason, pinned)) = pinning::moved(f, session) {
                return Staleness::of(Some(messages::elsewhere(f, reason, pinned, session)), true);
            }
            let failed = f.failures_of(Call::Get).filter(|t| !t.passing());
            let why = match failed {
                Some(failed) => Some(messages::stale(failed)),
                None => still_stale(f),
            };
            Staleness::of(why, f.awaits_another_session())
        }
    }
}

/// The reason for staleness in the status, until something was read with the current session.
pub(crate) fn still_stale(f: &Observation<'_>) -> Option<Why> {
    let session = f.session().map(|s| s.number);
    let seen = f.memory().seen.as_ref().map(|s| s.session);
    if seen.is_some() && seen == session {
        return None;
    }
    shown(f)
}

/// The reason for staleness in the status.
fn shown(f: &Observation<'_>) -> Option<Why> {
    messages::as_shown(f, ConditionType::Synced, "False")
}

/// Time at which a Workspace failure that began at `since` is written, if that is still ahead: most failures are over
/// before.
pub(crate) fn not_shown_yet(f: &Observation<'_>, since: Timestamp) -> Option<Timestamp> {
    let shown_at = recheck::shown_at(f.uid, since);
    (shown_at > f.o.now).then_some(shown_at)
}

/// Reason for staleness while a due call has to wait. The reason in the status stays until the call was made.
pub(crate) fn held_back(f: &Observation<'_>) -> Option<Why> {
    match f.o.call_delay {
        Some(delay) => Some(messages::held_back(f, delay)),
        None => shown(f).filter(|why| why.reason == Reason::RateLimited),
    }
}
