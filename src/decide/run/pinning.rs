//! The place a Run belongs to: the Workspace, base URL and identity that it is pinned to, and the records that decide
//! it.
//!
//! # Records that decide
//! - `status.workspace`, once there is a runId. The API server rejects every change of it, and the run lives there.
//!   Permission to edit Runs without their status is not enough to move it.
//! - Before that, the intent: as stored in the object and as written by this process. Anyone with permission to edit
//!   the Run can edit the intent, so both records must name the place. An edit can make a Run wait, but can't send it
//!   to another place. After a restart only the object's record is left; an edit then counts as much as removing the
//!   intent (docs/limits.md).
//! - Never the Workspace's status or the session: they hold the present state, not the agreed one.

use crate::api::{Reason, status::ResolvedWorkspace};
use crate::decide::{Session, WorkspaceView, observation::Observation};

/// Difference between the place that a Run is pinned to and the place of a session; `None` if they are the same. A
/// Workspace re-created with the same base URL and identity is the same place. A Run pinned while the contract file
/// named no identity is pinned only to its base URL. A Run pinned to an identity is not served by a session without
/// one.
pub fn elsewhere(pinned: &ResolvedWorkspace, now: &ResolvedWorkspace) -> Option<Reason> {
    let same_workspace = pinned.kind == now.kind && pinned.name == now.name;
    if !same_workspace || pinned.base_url != now.base_url {
        Some(Reason::WorkspaceChanged)
    } else if pinned.identity.is_some() && pinned.identity != now.identity {
        Some(Reason::IdentityChanged)
    } else {
        None
    }
}

impl WorkspaceView {
    /// The place of the verified token, if there is one.
    pub fn place(&self) -> Option<&ResolvedWorkspace> {
        match self {
            Self::Ready(session) => Some(&session.resolved),
            Self::Unknown | Self::Missing | Self::NotReady { .. } => None,
        }
    }

    /// Whether calls may be made for a Run pinned to `place`.
    pub fn serves(&self, place: &ResolvedWorkspace) -> bool {
        self.place()
            .is_some_and(|now| elsewhere(place, now).is_none())
    }
}

/// Difference between the Run's place and the session's, and the place that the Run is pinned to.
pub(crate) fn moved<'a>(
    f: &'a Observation<'_>,
    session: &Session,
) -> Option<(Reason, &'a ResolvedWorkspace)> {
    pins(f).find_map(|pin| elsewhere(pin, &session.resolved).map(|reason| (reason, pin)))
}

/// Every record that decides the Run's place.
pub(crate) fn pins<'a>(f: &'a Observation<'_>) -> impl Iterator<Item = &'a ResolvedWorkspace> {
    let status = f.status();
    let stored = status
        .workspace
        .as_ref()
        .filter(|_| status.run_id.is_some());
    let before = stored.is_none().then(|| {
        let intents = f.written().into_iter().chain(f.own_intent());
        intents.map(|intent| &intent.workspace)
    });
    stored.into_iter().chain(before.into_iter().flatten())
}
