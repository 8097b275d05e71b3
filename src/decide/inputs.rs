//! Input of a decision, provided by the controller.

use std::time::Duration;

use jiff::Timestamp;

use crate::api::{
    Contract, Reason, Run, WorkspaceSpec, status::ResolvedWorkspace, workspace::RunLimits,
};

use super::{choice::Choice, console::ConsoleOrigins, memory::Memory};

#[derive(Clone, Copy, Debug)]
pub struct Inputs<'a> {
    /// At least as new as this process's own last write to it.
    pub run: &'a Run,
    pub choice: &'a Choice,
    /// The state of that Workspace. `Missing` if there is none, or several; `Unknown` while that isn't known.
    pub workspace: &'a WorkspaceView,
    /// Its spec; `None` if the store lacks it or it can't be read.
    pub rules: Option<&'a WorkspaceSpec>,
    /// That Workspace may be used from the object's namespace now; `None` while the namespace's labels are not known.
    pub namespace_allowed: Option<bool>,
    pub memory: &'a Memory,
    /// Another live Run of the namespace with the same `spec.idempotencyKey`.
    pub key_holder: Option<&'a str>,
    /// The limits of its Workspace, while it has no slot there.
    pub needs_slot: Option<RunLimits>,
    pub deleted_without_release: bool,
    pub stream: Stream,
    pub call_delay: Option<CallDelay>,
    pub contract: &'a Contract,
    pub settings: &'a Settings,
    /// Process time, which never steps: for every delay of this process.
    pub now: Timestamp,
    /// Wall clock: stored, and compared with stored times.
    pub wall: Timestamp,
}

#[derive(Clone, Debug)]
pub struct Settings {
    /// Name of this process; the owner of the intents that it writes.
    pub process: String,
    pub poll_min: Duration,
    /// The longest poll interval, and the longest between two attempts of a refused call.
    pub poll_max: Duration,
    /// Whether the service's own events are published as Kubernetes Events, too.
    pub service_events: bool,
    /// Where the links to the service's console may lead.
    pub console_origins: ConsoleOrigins,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WorkspaceView {
    /// Not checked by this process yet: wait, and write nothing.
    Unknown,
    Missing,
    NotReady {
        reason: Reason,
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
        /// By process time.
        until: Timestamp,
    },
    /// The Run is queued behind others, or for `spec.rateLimit`, and resumes automatically.
    Queued,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Stream {
    /// Not open: not wanted, not opened yet, or broken.
    #[default]
    Closed,
    /// Not open: all places for streams are taken.
    Waiting {
        /// Time at which the last stream was closed, or a place first requested.
        since: Timestamp,
    },
    Open,
}

/// A verified token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Session {
    /// Counts verifications in this process; a later session is another token or another check.
    pub number: u64,
    /// The place that a Run submitted now is pinned to.
    pub resolved: ResolvedWorkspace,
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
    pub fn session(&self) -> Option<&Session> {
        match self {
            Self::Ready(session) => Some(session),
            Self::Unknown | Self::Missing | Self::NotReady { .. } => None,
        }
    }

    pub fn place(&self) -> Option<&ResolvedWorkspace> {
        Some(&self.session()?.resolved)
    }

    pub fn serves(&self, place: &ResolvedWorkspace) -> bool {
        let now = self.place();
        now.is_some_and(|now| elsewhere(place, now).is_none())
    }
}
