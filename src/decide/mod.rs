//! Layer 2: all policy, pure and synchronous. No clock, no client, no async.
//!
//! # Flow
//! The controller observes, calls [`decide`], writes [`Decision::status`] if it differs from the stored
//! one, then carries out the one effect, tells [`Memory::learn`](memory::Memory::learn) what it came to,
//! and decides again.
//!
//! # Guarantees
//! - No [`Effect::Submit`] without an intent in the object that this process owns.
//! - [`Effect::Release`] only as the deletion table of the design says.
//! - A terminal status never changes its phase, and leads to no call.
//!
//! # Assumptions
//! - `Observed::run` is at least as new as this process's own last write to it.
//! - Two clocks: `now` never steps and paces what this process does; `wall` is compared with what is stored, and
//!   is what gets stored. When the wall clock has stepped, whoever waits for [`Decision::again`] asks again.
//! - No request outlives the contract file's `keyRetentionSeconds`.

mod allowance;
pub mod answer;
pub mod backoff;
pub mod body;
pub mod canonical;
pub mod classify;
mod ended;
mod facts;
pub mod feed;
pub mod last_events;
pub mod last_token;
pub mod memory;
pub mod need;
pub mod notes;
mod outlook;
mod pace;
pub mod place;
pub mod recheck;
mod report;
pub mod rules;
pub mod situation;
mod submitted;
pub mod text;
pub mod tracked;
pub mod transitions;
pub mod undecodable;
mod unsubmitted;
pub mod voice;
mod wording;
pub mod workspace;

use std::time::Duration;

use jiff::Timestamp;

use crate::api::{
    Contract, Intent, Reason, Run, RunStatus, intent::End, status::ResolvedWorkspace,
};

pub use memory::{Learned, Learning, Memory};
pub use notes::Note;

/// Everything that a decision depends on.
#[derive(Clone, Copy, Debug)]
pub struct Observed<'a> {
    /// The object.
    pub run: &'a Run,
    /// Its Workspace as last seen.
    pub workspace: &'a WorkspaceView,
    /// Whether that Workspace may be used from the object's namespace now; `None` while the namespace's
    /// labels are not known.
    pub namespace_allowed: Option<bool>,
    /// What this process remembers of the object.
    pub memory: &'a Memory,
    /// Another live Run of the namespace that holds the same `spec.idempotencyKey`.
    pub key_rival: Option<&'a str>,
    /// The object is gone from the API server without having been released.
    pub vanished: bool,
    /// The event stream.
    pub stream: Stream,
    /// Why a call would have to wait longer than a moment.
    pub held: Option<Held>,
    /// The contract in force.
    pub contract: &'a Contract,
    /// The operator's settings.
    pub settings: &'a Settings,
    /// Now, by the clock of this process, which never steps: for every pause.
    pub now: Timestamp,
    /// Now, by the wall clock: for what is stored, and for what is compared with it.
    pub wall: Timestamp,
}

/// What the operator was told at its start.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Names this process; the owner of the intents that it writes.
    pub process: String,
    /// The shortest poll interval.
    pub poll_min: Duration,
    /// The longest poll interval, and the longest between two tries of what the service refused.
    pub poll_max: Duration,
}

/// A Workspace as the Runs that use it see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WorkspaceView {
    /// This process has not looked yet: wait, and write nothing.
    Unknown,
    /// There is no such Workspace.
    Missing,
    /// It can't be used now.
    NotReady {
        /// Its Ready condition's reason.
        reason: Reason,
        /// Its Ready condition's message.
        message: String,
        /// When the trouble began, in the process's time: its Runs say so only when it lasts.
        since: Timestamp,
    },
    /// The service answered `/workspaces/current` for the very token in use.
    Ready(Session),
}

/// Why the calls of a Workspace are held back for longer than a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Held {
    /// The service answered 429; no call of the Workspace starts before this time (rule 10).
    Paused {
        /// The end of the pause, by process time.
        until: Timestamp,
    },
    /// The Run waits for its turn behind others, or for `spec.rateLimit`; it is woken.
    Queued,
}

/// The event stream of a Run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Stream {
    /// Not open: not wanted, not opened yet, or broken.
    #[default]
    Closed,
    /// Not open, since the places for streams have been taken from this time on.
    Waiting {
        /// When the last stream was closed, or a place first asked for.
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
    /// What a Run is pinned to when it is submitted now.
    pub resolved: ResolvedWorkspace,
    /// Why first submissions are held, if they are.
    pub holds: Option<(Reason, String)>,
}

impl Session {
    /// The base URL that the token was verified at.
    pub fn base_url(&self) -> Option<&str> {
        Some(&self.resolved.base_url)
    }
}

/// What happens next.
#[derive(Clone, Debug)]
pub struct Decision {
    /// The status that should stand; the controller writes it, before the effect, if it differs.
    pub status: Option<RunStatus>,
    /// At most one effect.
    pub effect: Option<Effect>,
    /// When to look again, by process time, if nothing happens before.
    pub again: Option<Timestamp>,
    /// What becomes of the event stream.
    pub follow: Follow,
    /// How many of the events received by this process the status shows once it is written.
    pub shown: usize,
    /// What deserves a Kubernetes Event as soon as the status stands; nothing that this process told before.
    pub notes: Vec<Note>,
}

/// What becomes of the event stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Follow {
    /// As it is.
    Keep,
    /// It should be open.
    Open,
    /// The run has ended: it should be read until the service closes it.
    Finish,
    /// It should be closed: nothing more is to be learnt.
    Close,
}

/// The effects, one at a time. Each is guarded by the object's uid and resourceVersion where it
/// touches the object.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(
    clippy::large_enum_variant,
    reason = "one effect a decision, moved once: a box would buy nothing"
)]
pub enum Effect {
    /// Write the intent and, unless the object is being deleted, the finalizer, in one patch.
    WriteIntent {
        /// What to write.
        intent: Intent,
        /// Whether the finalizer goes along.
        finalizer: bool,
        /// Nothing that was sent before can have made a run.
        clean: bool,
    },
    /// `POST /runs` with this key and body.
    Submit {
        /// The idempotency key.
        key: String,
        /// The body.
        body: Vec<u8>,
    },
    /// `GET /runs/{runId}`.
    Refresh {
        /// The run.
        run_id: String,
    },
    /// `POST /runs/{runId}:cancel`.
    Cancel {
        /// The run.
        run_id: String,
    },
    /// Take the finalizer off; the intent keeps how the Run ended.
    Release {
        /// What stays in the intent, if the object stays.
        end: Option<End>,
    },
    /// Delete the object: its TTL has passed, and nobody would create it again.
    Delete,
}

/// Decides what happens next for one Run.
pub fn decide(observed: &Observed<'_>) -> Decision {
    let facts = facts::Facts::gather(observed);
    let mut decision = next(&facts);
    let kept = tracked::note(&facts, decision.status.as_ref());
    decision.notes.extend(kept);
    let (before, voice) = (facts.status(), &observed.memory.voice);
    // Of an object that is gone no status is written.
    if !observed.vanished {
        let after = decision.status.as_ref().unwrap_or(before);
        let turned = transitions::of_run(before, after, voice, observed.now, observed.wall);
        decision.notes.extend(turned);
    }
    decision.notes.retain(|note| !voice.said(&note.news()));
    let counted = |s: &RunStatus| s.event_count;
    if decision
        .status
        .as_ref()
        .map_or_else(|| counted(before), counted)
        != counted(before)
    {
        let feed = &observed.memory.feed;
        decision.shown = if facts.ended() {
            feed.received()
        } else {
            feed.shown()
        };
    }
    decision
}

fn next(facts: &facts::Facts<'_>) -> Decision {
    if facts.ended() {
        return ended::decide(facts);
    }
    match facts.run_id() {
        Some(run_id) => submitted::decide(facts, run_id),
        None => unsubmitted::decide(facts),
    }
}

impl Decision {
    /// Nothing to do and nothing to say.
    fn quiet() -> Self {
        Self {
            status: None,
            effect: None,
            again: None,
            follow: Follow::Keep,
            shown: 0,
            notes: Vec::new(),
        }
    }

    fn act(effect: Effect) -> Self {
        Self {
            effect: Some(effect),
            ..Self::quiet()
        }
    }

    fn tell(status: RunStatus) -> Self {
        Self {
            status: Some(status),
            ..Self::quiet()
        }
    }

    fn at(self, again: Timestamp) -> Self {
        Self {
            again: Some(again),
            ..self
        }
    }
}
