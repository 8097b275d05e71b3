//! Updates the memory with the results of effects.

use jiff::Timestamp;

use crate::api::{Contract, Intent, Reason, limits::MAX_RUN_ID};
use crate::decide::{
    backoff,
    failure::{Call, CallFailures, Class, FailedCall, Failure, FailureKind, RunView},
    last_events::StreamEnd,
    time::later,
    truncate::cut,
};

use super::{
    remote::{NotFound, Seen},
    state::Memory,
    submission::Submission,
};

/// Start or result of an effect, as reported by the controller.
#[derive(Clone, Debug)]
pub enum Learned {
    /// The intent is in the object.
    IntentWritten {
        /// As written.
        intent: Intent,
        /// No POST before it can have made a run.
        clean: bool,
    },
    /// A POST is about to be sent.
    SubmitStarted,
    /// The create's answer, or its failure.
    Submitted(Result<RunView, Failure>),
    /// A GET is about to be sent.
    RefreshStarted,
    /// The GET's answer, or its failure.
    Refreshed(Result<RunView, Failure>),
    /// The cancel's answer, or its failure.
    CancelAnswered(Result<RunView, Failure>),
    /// The status was written.
    StatusWritten,
    /// An event stream was opened.
    StreamOpened,
    /// An event stream ended, or could not be opened.
    StreamEnded(StreamEnd),
    /// The status with the end is stored, and the stream is still read for the last events.
    ReadingOn,
}

/// Context that [`Memory::learn`] needs for an update.
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
    /// Records the start or result of an effect.
    pub fn learn(&mut self, learned: Learned, with: Learning<'_>) {
        match learned {
            Learned::IntentWritten { intent, clean } => self.intent_written(intent, clean),
            Learned::SubmitStarted => self.submission.started(),
            Learned::Submitted(answer) => self.submitted(answer, with),
            Learned::RefreshStarted => {
                if self.event_buffer.refresh_wanted() {
                    self.hint_taken(with.now);
                }
                self.event_buffer.mark();
            }
            Learned::Refreshed(answer) => self.refreshed(answer, with),
            Learned::CancelAnswered(answer) => self.cancel_answered(answer, with),
            Learned::StatusWritten => self.written_at = Some(with.now),
            Learned::StreamOpened => self.last_events.opened(self.ended),
            Learned::StreamEnded(how) => self.last_events.stream_ended(how),
            Learned::ReadingOn => self.last_events.begin(with.now),
        }
    }

    fn intent_written(&mut self, intent: Intent, clean: bool) {
        let same_epoch = self.submission.epoch == intent.epoch;
        if !same_epoch {
            self.succeeded(Call::Create);
        }
        if clean || !same_epoch {
            // The proof of an earlier epoch doesn't count for this one, unless no run can have been made before.
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
                self.succeeded(Call::Create);
                self.saw(view, with, false);
            }
            Err(failure) => {
                let failed = FailedCall::new(Call::Create, failure, with.contract);
                self.submission.doubt |= failed.class.was_sent() && !failed.proves_not_created();
                self.failed(failed, with);
            }
        }
    }

    fn refreshed(&mut self, answer: Result<RunView, Failure>, with: Learning<'_>) {
        match answer {
            Ok(view) => {
                self.succeeded(Call::Get);
                let ended = view.state.as_deref().is_some_and(|s| with.ends(s));
                let end_named = self.event_buffer.named().is_some_and(|s| with.ends(s));
                self.lagging = if end_named && !ended {
                    self.lagging.saturating_add(1)
                } else {
                    0
                };
                if ended {
                    // A run that has ended needs no cancellation.
                    self.succeeded(Call::Cancel);
                    self.ended = true;
                }
                self.answered_for(&view);
                self.not_found = NotFound::default();
                self.cancel.read_since = true;
                self.event_buffer.covered();
                let changed = self.seen.as_ref().is_none_or(|s| s.state != view.state);
                self.quiet_polls = if changed {
                    0
                } else {
                    self.quiet_polls.saturating_add(1)
                };
                self.saw(view, with, true);
            }
            Err(failure) => {
                let failed = FailedCall::new(Call::Get, failure, with.contract);
                if failed.class == Class::Refused(Reason::RunNotFound) {
                    self.cancel.read_since = true;
                    self.cancel.denied_since = true;
                    self.not_found.confirm(with.now);
                }
                self.quiet_polls = self.quiet_polls.saturating_add(1);
                self.failed(failed, with);
            }
        }
    }

    fn cancel_answered(&mut self, answer: Result<RunView, Failure>, with: Learning<'_>) {
        match answer {
            Ok(view) => {
                self.succeeded(Call::Cancel);
                self.answered_for(&view);
                self.quiet_polls = 0;
                self.cancel.accepted_at = Some(with.wall);
                self.cancel.refused = None;
                self.cancel_ended(with.now);
                // The answer's state is a hint; the GET is the truth.
                self.event_buffer.hint();
                if let Some(seen) = &mut self.seen {
                    seen.request_id = view.request_id.or(seen.request_id.take());
                }
            }
            Err(failure) => {
                let failed = FailedCall::new(Call::Cancel, failure, with.contract);
                if let Some(reason) = failed.class.refusal() {
                    self.cancel.refused = Some(reason);
                    self.cancel_ended(with.now);
                    self.event_buffer.hint();
                }
                self.failed(failed, with);
            }
        }
    }

    fn cancel_ended(&mut self, now: Timestamp) {
        self.cancel.read_since = false;
        self.cancel.denied_since = false;
        self.cancel.answered_at = Some(now);
        self.cancel.count = self.cancel.count.saturating_add(1);
    }

    /// Keeps the runId of an answer; one that differs from the status is detected that way.
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

    fn failed(&mut self, last: FailedCall, with: Learning<'_>) {
        let count = self
            .failures_of(last.call)
            .map_or(0, |failed| failed.count)
            .saturating_add(1);
        let wait = backoff::delay(count, last.retry_after(), backoff::seed(with.uid, count));
        self.succeeded(last.call);
        self.failures.push(CallFailures {
            last,
            count,
            at: with.now,
            wall: with.wall,
            next: later(with.now, wait),
            session: with.session,
        });
    }
}

/// Rejects an answer to a create without a usable runId: it proves nothing and may hide a run.
fn identified(view: RunView) -> Result<RunView, Failure> {
    let id = view.run_id.as_deref().unwrap_or_default();
    if !id.is_empty() && cut(id, MAX_RUN_ID).len() == id.len() {
        return Ok(view);
    }
    let message = "it names no runId of 1 to 512 bytes";
    Err(Failure {
        request_id: view.request_id,
        ..Failure::new(FailureKind::Unreadable, message)
    })
}
