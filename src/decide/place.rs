//! Where a Run belongs: the Workspace, base URL and identity that it is pinned to, and who may say so.
//!
//! # Who has the word
//! - `status.workspace`, once there is a runId: the API server lets nobody change it, and the run lives
//!   there. Whoever may edit Runs but not their status can't move it.
//! - Before that the intent, as it stands in the object and as this process wrote it. It is a record that
//!   whoever may edit the Run may edit too, so the two must both name the place: an edit can only make a
//!   Run wait, never send it to another place. After a restart the object's own word is all there is; an
//!   edit then counts as much as taking the intent off (docs/limits.md).
//! - Never the Workspace's status, nor the session: they say what is now, not what was agreed.

use crate::api::{Reason, status::ResolvedWorkspace};

use super::{
    Session, WorkspaceView,
    facts::Facts,
    rules::{Rule, holds},
};

/// What differs between the place that a Run is pinned to and the place that a session stands for;
/// nothing if they are the same. A Workspace that was re-created with base URL and identity unchanged is
/// the same place. A Run that was pinned while the contract file named no identity is pinned to its base
/// URL alone; one that has an identity is served by no session without.
pub fn elsewhere(pinned: &ResolvedWorkspace, now: &ResolvedWorkspace) -> Option<Reason> {
    let same_workspace = pinned.kind == now.kind && pinned.name == now.name;
    let same_base_url = pinned.base_url == now.base_url;
    let same_identity = pinned.identity.is_none() || pinned.identity == now.identity;
    if !same_workspace && holds(Rule::SameWorkspace) || !same_base_url && holds(Rule::SameBaseUrl) {
        Some(Reason::WorkspaceChanged)
    } else if !same_identity && holds(Rule::SameIdentity) {
        Some(Reason::IdentityChanged)
    } else {
        None
    }
}

impl WorkspaceView {
    /// The place that a verified token stands for, if there is one.
    pub fn place(&self) -> Option<&ResolvedWorkspace> {
        match self {
            Self::Ready(session) => Some(&session.resolved),
            Self::Unknown | Self::Missing | Self::NotReady { .. } => None,
        }
    }

    /// Whether calls for what is pinned to `place` may be made.
    pub fn serves(&self, place: &ResolvedWorkspace) -> bool {
        self.place()
            .is_some_and(|now| elsewhere(place, now).is_none())
    }
}

/// What differs between the Run's place and the session's, and where the Run belongs.
pub(super) fn moved<'a>(
    f: &'a Facts<'_>,
    session: &Session,
) -> Option<(Reason, &'a ResolvedWorkspace)> {
    pins(f).find_map(|pin| elsewhere(pin, &session.resolved).map(|reason| (reason, pin)))
}

/// Every record that has the word.
pub(super) fn pins<'a>(f: &'a Facts<'_>) -> impl Iterator<Item = &'a ResolvedWorkspace> {
    let status = f.status();
    let stored = status
        .workspace
        .as_ref()
        .filter(|_| status.run_id.is_some());
    let before = stored.is_none().then(|| {
        let written = f.written().filter(|_| holds(Rule::PlaceAsWritten));
        let intents = written.into_iter().chain(f.own_intent());
        intents.map(|i| &i.workspace)
    });
    stored.into_iter().chain(before.into_iter().flatten())
}
