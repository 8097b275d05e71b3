//! What one process knows of one object beyond the object itself. Lost with the process: everything
//! that must outlive it stands in the object.

use std::time::Duration;

use jiff::Timestamp;

use crate::api::{Contract, Intent, Reason, contract::StateClass, limits::MAX_RUN_ID};

use super::{
    allowance::{Allowance, Bounds},
    answer::{Failure, FailureKind, RunView},
    backoff,
    classify::{self, Call, Class},
    feed::{Feed, Received},
    last_events::{LastEvents, StreamEnd},
    rules::{Rule, holds},
    text::cut,
    voice::Voice,
};

/// The memory of one object, kept by uid.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    /// The intent as this process last wrote it; a replace that strips the annotation is mended from it.
    pub intent: Option<Intent>,
    /// What is known of the POSTs under this intent.
    pub submission: Submission,
    /// The runId, from the answer until it stands in the status.
    pub run_id: Option<String>,
    /// The latest reading of the run.
    pub seen: Option<Seen>,
    /// A GET has shown that the run has ended.
    pub ended: bool,
    /// The consecutive failures, at most one entry a kind of call.
    pub troubles: Vec<Trouble>,
    /// The service's events, until they stand in the status.
    pub feed: Feed,
    /// How far the streams were read.
    pub last_events: LastEvents,
    /// What the cancellation came to.
    pub cancel: Cancel,
    /// GETs in a row, a minute apart, that said that the run doesn't exist.
    pub not_found: NotFound,
    /// Polls in a row that showed nothing new.
    pub quiet_polls: u32,
    /// GETs in a row that denied the end that the latest event names: they are answered by a replica that lags.
    pub lagging: u32,
    /// The GETs that hints may lead to.
    hints: Allowance,
    /// When this process last wrote the status, by process time.
    pub written_at: Option<Timestamp>,
    /// What was said of it in Events.
    pub voice: Voice,
}

/// What the owner of an intent knows of its POSTs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Submission {
    /// The epoch of the intent that this process wrote and that all else here speaks of; 0 before.
    pub epoch: i64,
    /// No other process ever sent a POST for this object, or what it did is proved to have made no run.
    pub sole: bool,
    /// An attempt was not answered by a 4xx problem other than an idempotency conflict.
    pub doubt: bool,
    /// A POST was started whose answer was not learnt.
    pub open: bool,
    /// POSTs under this intent.
    pub attempts: u32,
}

impl Submission {
    /// Whether every attempt, perhaps none, was answered by what proves that it made no run.
    pub fn made_none(&self) -> bool {
        (self.sole || !holds(Rule::SoleOwner)) && !self.doubt && !self.open
    }
}

/// A reading of the run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// The state, verbatim, where the answer named one.
    pub state: Option<String>,
    /// The answer's request id.
    pub request_id: Option<String>,
    /// When it was read, by process time.
    pub at: Timestamp,
    /// When it was read, by the wall clock.
    pub wall: Timestamp,
    /// Whether a GET read it; the answer to a create or a cancel counts less.
    pub by_get: bool,
    /// The Workspace session that it was read with.
    pub session: u64,
}

/// Failures in a row of one kind of call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trouble {
    /// The call that failed.
    pub call: Call,
    /// What the last failure means.
    pub class: Class,
    /// The last failure.
    pub failure: Failure,
    /// How many in a row.
    pub count: u32,
    /// When the last one happened, by process time.
    pub at: Timestamp,
    /// When the last one happened, by the wall clock.
    pub wall: Timestamp,
    /// When the backoff, and the answer's `Retry-After`, allow the next attempt, by process time.
    pub next: Timestamp,
    /// The Workspace session that the call used.
    pub session: u64,
}

/// Failed GETs in a row that are not worth a write: a restart of the service is over by then.
const SILENT_FAILURES: u32 = 2;

/// The GETs of one run that hints may lead to.
const HINTS: Bounds = Bounds {
    burst: 3,
    refill: Duration::from_secs(1),
};

impl Trouble {
    /// A hiccup of the mirror that will most likely be gone at the next try. A first 401 is one too:
    /// the Workspace is about to say what is wrong with the token.
    pub fn passing(&self) -> bool {
        let worth = match self.class {
            Class::Retry => SILENT_FAILURES,
            Class::Unauthorized => 1,
            Class::InProgress | Class::Violation | Class::Refused(_) | Class::Final(_) => 0,
        };
        self.call == Call::Get && self.count <= worth
    }
}

/// What the cancellation came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cancel {
    /// When the service last accepted one, by the wall clock.
    pub accepted_at: Option<Timestamp>,
    /// When one was last answered, in whatever way, by process time.
    pub answered_at: Option<Timestamp>,
    /// How many were answered.
    pub count: u32,
    /// The last answer refused it; what it means.
    pub refused: Option<Reason>,
    /// A GET after the last answer showed what became of the run.
    pub looked_since: bool,
    /// A GET after the last answer said that the run doesn't exist.
    pub denied_since: bool,
}

/// The confirmation of a 404.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NotFound {
    /// Confirmations, at least [`CONFIRM_APART`] seconds apart.
    pub count: u32,
    /// When the last one counted, by process time.
    pub at: Option<Timestamp>,
}

/// Seconds between two 404s that both count: a service that loses its index for a moment is not to fail
/// every Run.
pub const CONFIRM_APART: i64 = 60;

/// An effect's start or end, as the controller reports it.
#[derive(Clone, Debug)]
pub enum Learned {
    /// The intent stands in the object.
    IntentWritten {
        /// As written.
        intent: Intent,
        /// Nothing that was sent before it can have made a run.
        clean: bool,
    },
    /// A POST is about to be sent.
    SubmitStarted,
    /// The create was answered, or wasn't.
    Submitted(Result<RunView, Failure>),
    /// A GET is about to be sent.
    RefreshStarted,
    /// The GET was answered, or wasn't.
    Refreshed(Result<RunView, Failure>),
    /// The cancel was answered, or wasn't.
    CancelAnswered(Result<RunView, Failure>),
    /// The status was written.
    StatusWritten,
    /// An event stream was opened.
    StreamOpened,
    /// An event stream ended, or could not be opened.
    StreamEnded(StreamEnd),
    /// The status with the end is stored, and the stream is read on for the last events.
    ReadingOn,
}

/// What [`Memory::learn`] needs beside the news.
#[derive(Clone, Copy, Debug)]
pub struct Learning<'a> {
    /// The contract in force.
    pub contract: &'a Contract,
    /// The object's uid.
    pub uid: &'a str,
    /// The Workspace session that the call used; 0 for none.
    pub session: u64,
    /// Now, by process time.
    pub now: Timestamp,
    /// Now, by the wall clock.
    pub wall: Timestamp,
}

impl Learning<'_> {
    /// Whether a run in this state has ended.
    fn ends(&self, state: &str) -> bool {
        self.contract.state(state).terminal().is_some()
    }
}

impl Memory {
    /// Takes in what an effect came to.
    pub fn learn(&mut self, news: Learned, with: Learning<'_>) {
        match news {
            Learned::IntentWritten { intent, clean } => self.intent_written(intent, clean),
            Learned::SubmitStarted => {
                let submission = &mut self.submission;
                submission.attempts = submission.attempts.saturating_add(1);
                // The one before was given up in the middle: nobody knows what became of it.
                submission.doubt |= submission.open;
                submission.open = holds(Rule::GivenUpProvesNothing);
            }
            Learned::Submitted(answer) => self.submitted(answer, with),
            Learned::RefreshStarted => {
                if self.feed.refresh_wanted() {
                    self.hints.take(HINTS, with.now);
                }
                self.feed.mark();
            }
            Learned::Refreshed(answer) => self.refreshed(answer, with),
            Learned::CancelAnswered(answer) => self.cancel_answered(answer, with),
            Learned::StatusWritten => self.written_at = Some(with.now),
            Learned::StreamOpened => self.last_events.opened(self.ended),
            Learned::StreamEnded(how) => self.last_events.stream_ended(how),
            Learned::ReadingOn => self.last_events.begin(with.now),
        }
    }

    /// Takes in an event of the stream. Returns whether it is new.
    pub fn received(&mut self, event: &Received, contract: &Contract, wall: Timestamp) -> bool {
        let named = contract.event_state_of(&event.data);
        let mirrored = self.seen.as_ref().and_then(|seen| seen.state.as_deref());
        let new = self.feed.receive(event, named.as_deref(), mirrored, wall);
        if new {
            let class = named.map(|state| contract.state(&state));
            self.last_events
                .received(class.and_then(StateClass::terminal).is_some());
        }
        new
    }

    /// Somebody else wrote the status: another process beside this one, or a person. What this process
    /// read may be older than what they mirrored, and must not be written over it.
    pub fn overtaken(&mut self) {
        if holds(Rule::Overtaken) {
            self.seen = None;
            self.cancel.looked_since = false;
            self.feed.uncover();
        }
    }

    fn intent_written(&mut self, intent: Intent, clean: bool) {
        let same_epoch = self.submission.epoch == intent.epoch;
        if !same_epoch {
            self.went_well(Call::Create);
        }
        if clean || !same_epoch {
            // What was known of an earlier epoch proves nothing of this one, unless it is proved that
            // nothing was created.
            self.submission = Submission {
                epoch: intent.epoch,
                sole: clean,
                ..Submission::default()
            };
        }
        self.intent = Some(intent);
    }

    fn submitted(&mut self, answer: Result<RunView, Failure>, with: Learning<'_>) {
        self.submission.open = false;
        match answer.and_then(identified) {
            Ok(view) => {
                self.run_id.clone_from(&view.run_id);
                self.went_well(Call::Create);
                self.saw(view, with, false);
            }
            Err(failure) => {
                let class = classify::classify(&failure, Call::Create, with.contract);
                let unsent = matches!(failure.kind, FailureKind::NotSent | FailureKind::NoFile);
                self.submission.doubt |= !unsent && !classify::answers_not_created(&failure, class);
                self.failed(Call::Create, class, failure, with);
            }
        }
    }

    fn refreshed(&mut self, answer: Result<RunView, Failure>, with: Learning<'_>) {
        match answer {
            Ok(view) => {
                self.went_well(Call::Get);
                let ended = view.state.as_deref().is_some_and(|s| with.ends(s));
                let told = self.feed.named().is_some_and(|s| with.ends(s));
                self.lagging = if told && !ended {
                    self.lagging.saturating_add(1)
                } else {
                    0
                };
                if ended {
                    // A run that has ended needs no cancellation any more.
                    self.went_well(Call::Cancel);
                    self.ended = true;
                }
                self.answered_for(&view);
                self.not_found = NotFound::default();
                self.cancel.looked_since = true;
                self.feed.covered();
                let changed = self.seen.as_ref().is_none_or(|s| s.state != view.state);
                self.quiet_polls = if changed {
                    0
                } else {
                    self.quiet_polls.saturating_add(1)
                };
                self.saw(view, with, true);
            }
            Err(failure) => {
                let class = classify::classify(&failure, Call::Get, with.contract);
                if class == Class::Refused(Reason::RunNotFound) {
                    self.cancel.looked_since = true;
                    self.cancel.denied_since = true;
                    let counts = self
                        .not_found
                        .at
                        .is_none_or(|at| seconds_since(at, with.now) >= CONFIRM_APART)
                        || !holds(Rule::NotFoundApart);
                    if counts {
                        self.not_found.count = self.not_found.count.saturating_add(1);
                        self.not_found.at = Some(with.now);
                    }
                }
                self.quiet_polls = self.quiet_polls.saturating_add(1);
                self.failed(Call::Get, class, failure, with);
            }
        }
    }

    fn cancel_answered(&mut self, answer: Result<RunView, Failure>, with: Learning<'_>) {
        match answer {
            Ok(view) => {
                self.went_well(Call::Cancel);
                self.answered_for(&view);
                self.quiet_polls = 0;
                self.cancel.accepted_at = Some(with.wall);
                self.cancel.refused = None;
                self.cancel_ended(with.now);
                // What the answer shows is a hint; GET is truth.
                self.feed.hint();
                if let Some(seen) = &mut self.seen {
                    seen.request_id = view.request_id.or(seen.request_id.take());
                }
            }
            Err(failure) => {
                let class = classify::classify(&failure, Call::Cancel, with.contract);
                if let Class::Refused(reason) = class {
                    self.cancel.refused = Some(reason);
                    self.cancel_ended(with.now);
                    self.feed.hint();
                }
                self.failed(Call::Cancel, class, failure, with);
            }
        }
    }

    fn cancel_ended(&mut self, now: Timestamp) {
        self.cancel.looked_since = false;
        self.cancel.denied_since = false;
        self.cancel.answered_at = Some(now);
        self.cancel.count = self.cancel.count.saturating_add(1);
    }

    /// Keeps the runId that an answer names: one that differs from the status is seen by it.
    fn answered_for(&mut self, view: &RunView) {
        if view.run_id.is_some() {
            self.run_id.clone_from(&view.run_id);
        }
    }

    fn saw(&mut self, view: RunView, with: Learning<'_>, by_get: bool) {
        self.seen = Some(Seen {
            state: view.state,
            request_id: view.request_id,
            at: with.now,
            wall: with.wall,
            by_get,
            session: with.session,
        });
    }

    /// When the next GET for a hint may start; `now` or later.
    pub(super) fn hint_due(&self, now: Timestamp) -> Timestamp {
        self.hints.next(HINTS, now)
    }

    /// The failures in a row of `call`.
    pub fn trouble(&self, call: Call) -> Option<&Trouble> {
        self.troubles.iter().find(|t| t.call == call)
    }

    fn went_well(&mut self, call: Call) {
        self.troubles.retain(|t| t.call != call);
    }

    fn failed(&mut self, call: Call, class: Class, failure: Failure, with: Learning<'_>) {
        let count = self.trouble(call).map_or(0, |t| t.count).saturating_add(1);
        let wait = backoff::delay(count, failure.retry_after, backoff::seed(with.uid, count));
        self.went_well(call);
        self.troubles.push(Trouble {
            call,
            class,
            failure,
            count,
            at: with.now,
            wall: with.wall,
            next: later(with.now, wait),
            session: with.session,
        });
    }
}

/// An answer to a create without a runId that can be kept says nothing: it may hide a run.
fn identified(view: RunView) -> Result<RunView, Failure> {
    let id = view.run_id.as_deref().unwrap_or_default();
    let readable = !id.is_empty() && cut(id, MAX_RUN_ID).len() == id.len();
    if readable || !holds(Rule::UnreadableProvesNothing) {
        return Ok(view);
    }
    Err(Failure {
        kind: FailureKind::Unreadable,
        http_status: None,
        code: None,
        request_id: view.request_id,
        retryable: None,
        retry_after: None,
        message: "it names no runId of 1 to 512 bytes".to_owned(),
    })
}

/// Whole seconds from `then` to `now`.
pub fn seconds_since(then: Timestamp, now: Timestamp) -> i64 {
    now.as_second() - then.as_second()
}

/// `at` plus `wait`, or the end of time.
pub fn later(at: Timestamp, wait: Duration) -> Timestamp {
    at.checked_add(wait).unwrap_or(Timestamp::MAX)
}

/// When so many seconds have passed since a time that is stored in whole seconds, never before: it may have
/// been up to a second later than it says.
pub fn after_stored(at: Timestamp, seconds: u64) -> Timestamp {
    let rounded = u64::from(seconds > 0);
    later(
        at,
        std::time::Duration::from_secs(seconds.saturating_add(rounded)),
    )
}
