//! What one process knows of one object beyond the object. What must survive a restart is in the object.

use jiff::Timestamp;

use crate::api::{
    Contract, Intent, Reason, Run, RunStatus, contract::RunDetails, intent::IntentRecord,
    limits::MAX_RUN_ID,
};

use super::{
    delays::{self, HINTS, NOT_FOUND_APART, TokenBucket, later},
    event_buffer::{EventBuffer, Received},
    failure::{Call, CallFailures, Class, FailedCall, Failure, FailureKind, RunView},
    stream::{LastEvents, StreamEnd},
    truncate::fits,
};

/// The memory of one object, kept by uid.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    /// The intent as this process last wrote it; used to restore an annotation that a replace stripped.
    pub intent: Option<Intent>,
    pub submission: Submission,
    /// The runID, from the answer until it is in the status.
    pub run_id: Option<String>,
    pub reading: Option<Reading>,
    /// A GET has shown that the run has ended.
    pub ended: bool,
    /// Time of the first event or answer that named an end, by process time. For the metrics alone.
    pub end_heard: Option<Timestamp>,
    /// The consecutive failures, at most one entry per kind of call.
    pub failures: Vec<CallFailures>,
    pub event_buffer: EventBuffer,
    pub last_events: LastEvents,
    /// The service has no event stream for the run in the state that was read last.
    pub streamless: bool,
    pub cancel: Cancel,
    pub not_found: NotFound,
    pub quiet_polls: u32,
    /// Consecutive GETs, answered by a replica that lags, without the end that the latest event names.
    pub gets_behind_event: u32,
    /// Remaining allowance of GETs for hints.
    hints: TokenBucket,
    /// By process time.
    pub written_at: Option<Timestamp>,
    /// The last write of the object's metadata, if the API server refused it.
    pub refused_write: Option<RefusedWrite>,
    /// The status that the API server refuses.
    pub refused_status: Option<RefusedWrite>,
}

/// A write that the API server refused, and refuses again until a person changes something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusedWrite {
    /// The API server's own sentence, which names the webhook, the policy or the limit.
    pub sentence: String,
    /// Time of the next attempt, by process time.
    pub again: Timestamp,
}

impl Memory {
    /// The memory of a process that reads the object for the first time.
    pub fn of(run: &Run) -> Self {
        let mut memory = Self::default();
        if let Some(status) = &run.status {
            memory.event_buffer.remember(status);
        }
        memory
    }

    /// The intent in force, from the object or, if an edit removed it there, from memory; and whether it is in the object.
    pub(crate) fn intent_in_force(&self, run: &Run) -> (IntentRecord, bool) {
        let stored = run.intent_record();
        if matches!(stored, IntentRecord::Own(_)) {
            return (stored, true);
        }
        let written = self.intent.as_ref();
        let written = written.filter(|own| Some(&own.uid) == run.metadata.uid.as_ref());
        let intent = written.map(|own| IntentRecord::Own(Box::new(own.clone())));
        (intent.unwrap_or(stored), false)
    }

    /// The intent as this process wrote it, if it counts beside the one in force: of the same epoch, or a run may have
    /// been made under it. Another process never moves a submission in doubt, so a difference is then an edit.
    pub(crate) fn written(&self, in_force: &Intent) -> Option<&Intent> {
        self.intent.as_ref().filter(|own| {
            let made_some = self.run_id.is_some() || !self.knows_none_made();
            own.uid == in_force.uid && (own.epoch == in_force.epoch || made_some)
        })
    }

    /// The intent that decides where the Run is submitted.
    pub fn deciding_intent(&self, run: &Run) -> Option<Intent> {
        let in_force = self.intent_in_force(run).0.own()?;
        Some(self.written(&in_force).cloned().unwrap_or(in_force))
    }

    /// Records an event of the stream. Returns whether it is new.
    pub fn received(&mut self, event: &Received, with: ReportContext<'_>) -> bool {
        let named = with.contract.event_state_of(&event.data);
        let read = self.reading.as_ref().and_then(|read| read.state.as_deref());
        let buffer = &mut self.event_buffer;
        let new = buffer.receive(event, named.as_deref(), read, with.wall);
        if new {
            let ended = with.ends(named.as_deref());
            if ended {
                self.end_heard.get_or_insert(with.now);
            }
            self.last_events.received(ended);
        }
        new
    }

    pub(crate) fn state_read(&self) -> Option<&str> {
        self.reading.as_ref()?.state.as_deref()
    }

    /// Another process or a person wrote the status. This process's reading may be older and must not overwrite it.
    pub fn overtaken(&mut self, status: &RunStatus) {
        self.event_buffer.overtaken(status);
        self.reading = None;
        self.cancel.read_since = false;
        self.event_buffer.uncover();
    }

    /// Whether this process's own POSTs, or a refusal of the bytes, prove that no run was made.
    pub(crate) fn knows_none_made(&self) -> bool {
        let failed = self.failures_of(Call::Create);
        self.submission.made_none() || failed.is_some_and(|f| f.last.refuses_the_bytes())
    }

    pub(crate) fn hint_due(&self, now: Timestamp) -> Timestamp {
        self.hints.next(HINTS, now)
    }

    pub fn failures_of(&self, call: Call) -> Option<&CallFailures> {
        self.failures.iter().find(|failed| failed.last.call == call)
    }

    pub(super) fn succeeded(&mut self, call: Call) {
        self.failures.retain(|failed| failed.last.call != call);
    }
}

/// The owner's knowledge about the POSTs under an intent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Submission {
    /// Epoch of the intent that this process wrote, to which all other fields refer; 0 before.
    pub epoch: i64,
    /// No other process ever sent a POST for this object, or its POSTs are proved to have made no run.
    pub sole: bool,
    /// An attempt was not answered by a 4xx problem other than an idempotency conflict.
    pub doubt: bool,
    /// A POST was started and its answer was not recorded.
    pub open: bool,
    pub attempts: u32,
}

impl Submission {
    /// Whether every attempt, if any, was answered by a proof that it made no run. One given up or in flight is none.
    pub fn made_none(&self) -> bool {
        self.sole && !self.doubt && !self.open
    }

    pub(super) fn started(&mut self) {
        self.attempts = self.attempts.saturating_add(1);
        // The POST before was given up in the middle: its outcome is unknown.
        self.doubt |= self.open;
        self.open = true;
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reading {
    /// The state, verbatim, if the answer named one.
    pub state: Option<String>,
    pub request_id: Option<String>,
    /// Only shown: no decision depends on it.
    pub details: Option<Box<RunDetails>>,
    /// By process time.
    pub at: Timestamp,
    pub wall: Timestamp,
    /// A GET read it; the answer to a create or a cancel counts less.
    pub by_get: bool,
    pub session: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cancel {
    /// Time of the last accepted cancel, by the wall clock.
    pub accepted_at: Option<Timestamp>,
    /// Time of the last answered cancel, accepted or refused, by process time.
    pub answered_at: Option<Timestamp>,
    /// Number of answered cancels.
    pub count: u32,
    /// Reason of the refusal, if the last answer was one.
    pub refused: Option<Reason>,
    /// A GET after the last answer has read the run.
    pub read_since: bool,
    /// A GET after the last answer denied the run's existence.
    pub denied_since: bool,
}

/// The confirmation of a 404.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NotFound {
    /// Confirmations, at least [`NOT_FOUND_APART`] seconds apart.
    pub count: u32,
    /// By process time.
    pub at: Option<Timestamp>,
}

/// 404s that must agree before a run counts as lost.
const CONFIRMATIONS: u32 = 3;

impl NotFound {
    pub(super) fn confirm(&mut self, now: Timestamp) {
        let apart = |at: Timestamp| now.as_second() - at.as_second() >= NOT_FOUND_APART;
        if self.at.is_none_or(apart) {
            self.count = self.count.saturating_add(1);
            self.at = Some(now);
        }
    }

    pub(crate) fn confirmed(&self) -> bool {
        self.count >= CONFIRMATIONS
    }
}

#[derive(Clone, Debug)]
pub enum Report {
    IntentWritten {
        intent: Box<Intent>,
        clean: bool,
    },
    /// A call is about to be sent.
    Sent(Call),
    Answered(Call, Result<RunView, Failure>),
    StatusWritten,
    StreamOpened,
    /// An event stream ended, or could not be opened.
    StreamEnded(StreamEnd),
    /// The status with the end is stored, and the stream is still read for the last events.
    ReadingOn,
}

#[derive(Clone, Copy, Debug)]
pub struct ReportContext<'a> {
    pub contract: &'a Contract,
    pub uid: &'a str,
    /// The Workspace session that the call used; 0 for none.
    pub session: u64,
    pub now: Timestamp,
    pub wall: Timestamp,
}

impl ReportContext<'_> {
    fn ends(&self, state: Option<&str>) -> bool {
        state.is_some_and(|state| self.contract.state(state).terminal().is_some())
    }
}

impl Memory {
    pub fn record(&mut self, report: Report, with: ReportContext<'_>) {
        match report {
            Report::IntentWritten { intent, clean } => self.intent_written(*intent, clean),
            Report::Sent(Call::Create) => self.submission.started(),
            Report::Sent(Call::Get) => {
                if self.event_buffer.refresh_wanted() {
                    self.hints.take(HINTS, with.now);
                }
                self.event_buffer.mark();
            }
            Report::Answered(Call::Create, answer) => self.create_answered(answer, with),
            Report::Answered(Call::Get, answer) => self.get_answered(answer, with),
            Report::Answered(Call::Cancel, answer) => self.cancel_answered(answer, with),
            Report::Sent(_) | Report::Answered(Call::Version | Call::Workspace, _) => {}
            Report::StatusWritten => self.written_at = Some(with.now),
            Report::StreamOpened => self.last_events.opened(self.ended),
            Report::StreamEnded(how) => {
                if how == StreamEnd::Missing {
                    self.streamless = true;
                    // From now on only polls show a change.
                    self.quiet_polls = 0;
                }
                self.last_events.stream_ended(how);
            }
            Report::ReadingOn => self.last_events.begin(with.now),
        }
    }

    fn intent_written(&mut self, intent: Intent, clean: bool) {
        let same_epoch = self.submission.epoch == intent.epoch;
        if !same_epoch {
            self.succeeded(Call::Create);
        }
        if clean || !same_epoch {
            // The proof of an earlier epoch doesn't count for this one.
            self.submission = Submission {
                epoch: intent.epoch,
                sole: clean,
                ..Submission::default()
            };
        }
        self.intent = Some(intent);
    }

    fn create_answered(&mut self, answer: Result<RunView, Failure>, with: ReportContext<'_>) {
        self.submission.open = false;
        match answer.and_then(identified) {
            Ok(view) => {
                self.run_id.clone_from(&view.run_id);
                self.succeeded(Call::Create);
                self.saw(view, with, false);
            }
            Err(failure) => {
                let failed = FailedCall::new(Call::Create, failure, with.contract);
                let sent = !matches!(failed.class, Class::NotSent | Class::NoFile);
                self.submission.doubt |= sent && !failed.proves_not_created();
                self.failed(failed, with);
            }
        }
    }

    fn get_answered(&mut self, answer: Result<RunView, Failure>, with: ReportContext<'_>) {
        match answer {
            Ok(view) => {
                self.succeeded(Call::Get);
                let ended = with.ends(view.state.as_deref());
                let end_named = with.ends(self.event_buffer.named.as_deref());
                self.gets_behind_event = in_a_row(self.gets_behind_event, end_named && !ended);
                self.end_heard.take_if(|_| !end_named && !ended);
                if ended {
                    // A run that has ended needs no cancellation.
                    self.succeeded(Call::Cancel);
                    self.ended = true;
                }
                self.answered_for(&view);
                self.not_found = NotFound::default();
                self.cancel.read_since = true;
                self.event_buffer.covered();
                let same = self.reading.as_ref().is_some_and(|s| s.state == view.state);
                self.quiet_polls = in_a_row(self.quiet_polls, same);
                self.streamless &= same;
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

    fn cancel_answered(&mut self, answer: Result<RunView, Failure>, with: ReportContext<'_>) {
        match answer {
            Ok(view) => {
                self.succeeded(Call::Cancel);
                self.answered_for(&view);
                self.quiet_polls = 0;
                self.cancel.accepted_at = Some(with.wall);
                self.cancel.refused = None;
                self.cancel_ended(with.now);
                if let Some(read) = &mut self.reading {
                    read.request_id = view.request_id.or(read.request_id.take());
                }
            }
            Err(failure) => {
                let failed = FailedCall::new(Call::Cancel, failure, with.contract);
                if let Some(reason) = failed.class.refusal() {
                    self.cancel.refused = Some(reason);
                    self.cancel_ended(with.now);
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
        // The answer's state is a hint; the GET is the truth.
        self.event_buffer.hint();
    }

    /// Keeps the runID of an answer, to detect one that differs from the status.
    fn answered_for(&mut self, view: &RunView) {
        if view.run_id.is_some() {
            self.run_id.clone_from(&view.run_id);
        }
    }

    fn saw(&mut self, view: RunView, with: ReportContext<'_>, by_get: bool) {
        if with.ends(view.state.as_deref()) {
            self.end_heard.get_or_insert(with.now);
        }
        self.reading = Some(Reading {
            state: view.state,
            request_id: view.request_id,
            details: view.details,
            at: with.now,
            wall: with.wall,
            by_get,
            session: with.session,
        });
    }

    fn failed(&mut self, last: FailedCall, with: ReportContext<'_>) {
        let before = self.failures_of(last.call).map_or(0, |failed| failed.count);
        let count = before.saturating_add(1);
        let wait = delays::backoff(count, last.retry_after(), delays::seed(with.uid, count));
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

fn in_a_row(before: u32, again: bool) -> u32 {
    if again { before.saturating_add(1) } else { 0 }
}

/// Refuses an answer to a create without a usable runID: it proves nothing and may hide a run.
fn identified(view: RunView) -> Result<RunView, Failure> {
    let id = view.run_id.as_deref().unwrap_or_default();
    if !id.is_empty() && fits(id, MAX_RUN_ID) {
        return Ok(view);
    }
    let message = "it names no runID of 1 to 512 bytes";
    Err(Failure {
        request_id: view.request_id,
        ..Failure::new(FailureKind::Unreadable, message)
    })
}
