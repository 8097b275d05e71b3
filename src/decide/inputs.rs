//! Input of a decision, provided by the controller.

use std::time::Duration;

use jiff::Timestamp;

use crate::api::{Contract, Reason, Run, status::ResolvedWorkspace};

use super::memory::Memory;

/// The complete input of a decision.
#[derive(Clone, Copy, Debug)]
pub struct Inputs<'a> {
    /// The object.
    pub run: &'a Run,
    /// Its Workspace as last seen.
    pub workspace: &'a WorkspaceView,
    /// That Workspace may be used from the object's namespace now; `None` while the namespace's labels are not known.
    pub namespace_allowed: Option<bool>,
    /// This process's memory of the object.
    pub memory: &'a Memory,
    /// Another live Run of the namespace with the same `spec.idempotencyKey`.
    pub key_holder: Option<&'a str>,
    /// The object was deleted from the API server without having been released.
    pub deleted_without_release: bool,
    /// The event stream.
    pub stream: Stream,
    /// Reason why a call would have to wait.
    pub call_delay: Option<CallDelay>,
    /// The contract in force.
    pub contract: &'a Contract,
    /// The operator's settings.
    pub settings: &'a Settings,
    /// Process time, which never steps: for every delay.
    pub now: Timestamp,
    /// Wall clock: for stored times.
    pub wall: Timestamp,
}

/// The operator's settings from its command line.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Name of this process; the owner of the intents that it writes.
    pub process: String,
    /// The shortest poll interval.
    pub poll_min: Duration,
    /// The longest poll interval, and the longest between two attempts of a refused call.
    pub poll_max: Duration,
    /// Whether the service's own events are published as Kubernetes Events, too.
    pub service_events: bool,
}

/// A Workspace as seen by the Runs that use it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WorkspaceView {
    /// Not checked by this process yet: wait, and write nothing.
    Unknown,
    /// There is no such Workspace.
    Missing,
    /// It can't be used now.
    NotReady {
        /// Its Ready condition's reason.
        reason: Reason,
        /// Its Ready condition's message.
        message: String,
        /// Start of the failure, by process time: its Runs show the failure only if it lasts.
        since: Timestamp,
    },
    /// The service answered `/workspaces/current` for the token in use.
    Ready(Session),
}

/// Reason why the calls of a Workspace are delayed for longer than a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallDelay {
    /// The service answered 429; no call of the Workspace starts before this time (rule 10).
    Paused {
        /// The end of the pause, by process time.
        until: Timestamp,
    },
    /// The Run is queued behind others, or for `spec.rateLimit`, and resumes automatically.
    Queued,
}

/// The event stream of a Run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Stream {
    /// Not open: not wanted, not opened yet, or broken.
    #[default]
    Closed,
    /// Not open: all places for streams have been taken since this time.
    Waiting {
        /// Time at which the last stream was closed, or a place first requested.
        since: Timestamp,
    },
    /// Open.
    Open,
}

/// A verified token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Session {
    /// Counts verifications in this process; a later session is another token or another check.
    pub number: u64,
    /// The place that a Run submitted now is pinned to.
    pub resolved: ResolvedWorkspace,
    /// Reason why first submissions are blocked, if they are.
    pub submissions_blocked: Option<(Reason, String)>,
}

/// How a session's place differs from the one that a Run is pinned to. A Workspace re-created with the same base URL and
/// identity is the same place. A Run pinned without an identity is pinned only to its base URL.
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
    /// The verified token, if there is one.
    pub fn session(&self) -> Option<&Session> {
        match self {
            Self::Ready(session) => Some(session),
            Self::Unknown | Self::Missing | Self::NotReady { .. } => None,
        }
    }

    /// The place of the verified token.
    pub fn place(&self) -> Option<&ResolvedWorkspace> {
        Some(&self.session()?.resolved)
    }

    /// Whether calls may be made for a Run pinned to `place`.
    pub fn serves(&self, place: &ResolvedWorkspace) -> bool {
        let now = self.place();
        now.is_some_and(|now| elsewhere(place, now).is_none())
    }
}
