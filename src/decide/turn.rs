//! The loop over one Run, without I/O: what is done next, and what is known after it.

use std::sync::Arc;

use crate::api::{Run, RunStatus};

use super::{
    Decision, Effect, EventDraft, Follow,
    claims::{created, holds_slot},
    failure::{Call, Failure, RunView},
    memory::{Memory, RefusedWrite, Report, ReportContext},
    queue::Claim,
};

pub trait Version {
    fn run(&self) -> &Run;

    fn newer_than(&self, other: &Self) -> bool;
}

impl Version for Run {
    fn run(&self) -> &Run {
        self
    }

    fn newer_than(&self, other: &Self) -> bool {
        resource_version(self) > resource_version(other)
    }
}

/// The resourceVersion as a number: documented as one since Kubernetes 1.35 (KEP-5504), and a number before that on
/// every server that stores in etcd. 0 if it is none; then the watch is trusted.
fn resource_version(run: &Run) -> u64 {
    let version = run.metadata.resource_version.as_deref();
    version.and_then(|v| v.parse().ok()).unwrap_or_default()
}

pub trait Remembers {
    fn memory(&self) -> &Memory;

    fn change<T>(&mut self, change: impl FnOnce(&mut Memory) -> T) -> T;
}

impl Remembers for Memory {
    fn memory(&self) -> &Memory {
        self
    }

    fn change<T>(&mut self, change: impl FnOnce(&mut Memory) -> T) -> T {
        change(self)
    }
}

#[derive(Clone, Debug)]
pub struct Turn {
    pub step: Step,
    pub follow: Follow,
    /// Events to publish: after the step if it writes the status, else before it.
    pub events: Vec<EventDraft>,
    /// See [`Decision::wants_slot`].
    pub wants_slot: bool,
}

/// One step; each is followed by another decision.
#[derive(Clone, Debug)]
pub enum Step {
    /// Read the object live: the watch lacks it, and its run may be alive or be made by a POST on its way.
    ReadLive,
    WriteStatus {
        status: Box<RunStatus>,
        /// Number of the events received by this process that it shows.
        shown: usize,
    },
    Act(Effect),
    /// Forget the Run: its object is gone, and nothing is left to do for it.
    Forget,
    /// Do nothing before this time or the next change.
    Rest(Option<jiff::Timestamp>),
}

#[derive(Clone, Debug)]
pub enum Outcome<V> {
    /// It was written; the object is this version now.
    Written(Arc<V>),
    /// The write removed the object, or began its deletion: there is no version to go on with.
    Removed,
    /// There was no such object any more.
    Gone,
    /// The API server refuses it.
    Refused(RefusedWrite),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CallProgress {
    Idle,
    InFlight,
    /// It has ended since the last turn.
    Ended,
}

#[derive(Clone, Debug, PartialEq)]
pub struct TrackedRun<V, M = Memory> {
    pub memory: M,
    latest: Option<Arc<V>>,
    /// The API server has said that the object is deleted.
    deleted: bool,
    /// This process removed the finalizer, or is done with the deleted object: its run needs no cancellation.
    released: bool,
    call: CallProgress,
    /// An intent was written over the latest version, and it is not known whether it is stored.
    unheard: bool,
}

impl Step {
    /// What it writes of the object, if it is a write.
    pub fn writes(&self) -> Option<&'static str> {
        match self {
            Self::WriteStatus { .. } => Some("status"),
            Self::Act(Effect::WriteIntent { .. } | Effect::Release { .. }) => Some("metadata"),
            Self::Act(Effect::Delete) => Some("delete"),
            Self::ReadLive | Self::Act(_) | Self::Forget | Self::Rest(_) => None,
        }
    }
}

impl Turn {
    fn of(step: Step) -> Self {
        Self {
            step,
            follow: Follow::Keep,
            events: Vec::new(),
            wants_slot: false,
        }
    }
}

impl<V: Version, M: Remembers> TrackedRun<V, M> {
    pub fn new(memory: M) -> Self {
        Self {
            memory,
            latest: None,
            deleted: false,
            released: false,
            call: CallProgress::Idle,
            unheard: false,
        }
    }

    /// The newest version that this process saw: a write's answer is ahead of the watch.
    pub fn latest(&self) -> Option<&Arc<V>> {
        self.latest.as_ref()
    }

    /// Whether a call is in flight: until its end nothing is decided.
    pub fn calling(&self) -> bool {
        self.call == CallProgress::InFlight
    }

    /// Whether a call has ended, and nothing was decided since.
    pub fn unprocessed(&self) -> bool {
        self.call == CallProgress::Ended
    }

    pub fn deleted(&self) -> bool {
        self.deleted
    }

    pub fn released(&self) -> bool {
        self.released
    }

    pub fn done(&self) -> bool {
        self.deleted && self.released
    }

    /// Whether its run would have to be cancelled if the object were gone.
    pub fn owes(&self) -> bool {
        let stored = |run: &Run| run.status.as_ref().is_some_and(|s| s.run_id.is_some());
        let known = |run: &Run| stored(run) || self.memory.memory().run_id.is_some();
        let latest = self.latest.as_ref().map(|latest| latest.run());
        !self.released() && latest.is_some_and(|run| known(run) && !run.ended())
    }

    /// Whether this process may have sent a POST for it whose run has not ended.
    fn may_have_posted(&self) -> bool {
        let ended = self.latest.as_ref().is_some_and(|run| run.run().ended());
        !self.released() && !ended && self.memory.memory().intent.is_some()
    }

    /// What it claims of the slots of its Workspace.
    pub fn claim(&self, turn: &Turn) -> Claim {
        let Some(run) = self.latest.as_ref().map(|latest| latest.run()) else {
            return Claim::Nothing;
        };
        // An edit may have removed the intent.
        let memory = self.memory.memory();
        let posted = memory.intent.is_some() && !memory.knows_none_made();
        let known = memory.run_id.is_some() || posted || self.unheard;
        if holds_slot(run) || known && !run.ended() {
            return Claim::Holds;
        }
        if !turn.wants_slot {
            return Claim::Nothing;
        }
        Claim::Wants {
            priority: run.spec.priority(),
            created: created(run),
        }
    }

    /// Records that the answer to the write of an intent was lost. A newer version shows whether it is stored.
    pub fn intent_unheard(&mut self) {
        self.unheard = true;
    }

    /// Records a version that was read, and returns the newest. Another writer's status withdraws this process's readings.
    pub fn observe(&mut self, read: Arc<V>) -> Arc<V> {
        let newest = match self.latest.clone() {
            Some(own) if own.newer_than(&read) => own,
            Some(own) if own.run().status != read.run().status => {
                let none = RunStatus::default();
                let status = read.run().status.as_ref().unwrap_or(&none);
                self.memory.change(|memory| memory.overtaken(status));
                read
            }
            _ => read,
        };
        self.take(&newest);
        newest
    }

    /// `lacking`: the watch lacks it. `written`: the last status written, not written again: the API server may have
    /// stored it differently (an older CRD drops fields). `decide` gets true for an object deleted without a release.
    pub fn next(
        &mut self,
        lacking: bool,
        written: Option<&RunStatus>,
        decide: impl FnOnce(&V, &M, bool) -> Decision,
    ) -> Turn {
        let Some(latest) = self.latest.clone().filter(|_| !self.calling()) else {
            return Turn::of(Step::Rest(None));
        };
        self.call = CallProgress::Idle;
        if lacking && !self.deleted() && (self.owes() || self.may_have_posted()) {
            // The watch may be behind. The run of an existing object must not be cancelled, nor its POST be forgotten:
            // once its intent is stripped, only this memory knows of it.
            return Turn::of(Step::ReadLive);
        }
        if lacking && !self.owes() {
            return Turn::of(Step::Forget);
        }
        if self.deleted() && !self.owes() {
            // The watch still has to show it.
            return Turn::of(Step::Rest(None));
        }
        let vanished = self.deleted();
        let decision = decide(&latest, &self.memory, vanished);
        let status = decision.status_due(latest.run(), vanished);
        let status = status.filter(|status| written != Some(*status)).cloned();
        let events = decision.events_due(vanished).to_vec();
        let step = match (status, decision.effect) {
            (Some(status), _) => Step::WriteStatus {
                status: Box::new(status),
                shown: decision.shown,
            },
            (None, Some(Effect::Release { .. })) if vanished => {
                self.released = true;
                if lacking {
                    Step::Forget
                } else {
                    Step::Rest(None)
                }
            }
            (None, Some(effect)) => Step::Act(effect),
            (None, None) => Step::Rest(decision.requeue_at),
        };
        let follow = if vanished {
            Follow::Close
        } else {
            decision.follow
        };
        Turn {
            step,
            follow,
            events,
            wants_slot: decision.wants_slot,
        }
    }

    pub fn took(&mut self, step: &Step, outcome: Outcome<V>, with: ReportContext<'_>) {
        if let Outcome::Refused(refused) = outcome {
            let refused = Some(refused);
            self.memory.change(|memory| match step {
                Step::WriteStatus { .. } => memory.refused_status = refused,
                _ => memory.refused_write = refused,
            });
            return;
        }
        let releases = matches!(step, Step::Act(Effect::Release { .. }));
        match &outcome {
            Outcome::Written(written) if releases => {
                let meta = &written.run().metadata;
                let held = meta.finalizers.as_ref().is_some_and(|all| !all.is_empty());
                self.released = true;
                self.deleted |= meta.deletion_timestamp.is_some() && !held;
            }
            Outcome::Removed if releases => (self.deleted, self.released) = (true, true),
            // An object that another process released needs no cancellation.
            Outcome::Gone if releases => self.released = true,
            Outcome::Gone if matches!(step, Step::ReadLive) => self.deleted = true,
            Outcome::Gone => return,
            Outcome::Written(_) | Outcome::Removed | Outcome::Refused(_) => {}
        }
        if matches!(step, Step::Act(_)) {
            self.memory.change(|memory| memory.refused_write = None);
        }
        match step {
            Step::WriteStatus { shown, .. } => self.memory.change(|memory| {
                memory.refused_status = None;
                memory.record(Report::StatusWritten, with);
                memory.event_buffer.written(*shown);
            }),
            Step::Act(Effect::WriteIntent { intent, clean, .. }) => {
                let (intent, clean) = (intent.clone(), *clean);
                self.record(Report::IntentWritten { intent, clean }, with);
            }
            _ => {}
        }
        if let Outcome::Written(written) = outcome {
            // The watch may have shown a newer version before the answer came.
            let newer = |latest: &Arc<V>| latest.newer_than(&written);
            if !self.latest.as_ref().is_some_and(newer) {
                self.take(&written);
            }
        }
    }

    fn take(&mut self, version: &Arc<V>) {
        let known = self.latest.replace(Arc::clone(version));
        self.unheard &= known.is_some_and(|known| !version.newer_than(&known));
    }

    pub fn sent(&mut self, call: Call, with: ReportContext<'_>) {
        self.call = CallProgress::InFlight;
        self.record(Report::Sent(call), with);
    }

    pub fn answered(
        &mut self,
        call: Call,
        answer: Result<RunView, Failure>,
        with: ReportContext<'_>,
    ) {
        self.given_up();
        self.record(Report::Answered(call, answer), with);
    }

    /// Records that the call has ended and nothing is known of its outcome.
    pub fn given_up(&mut self) {
        self.call = CallProgress::Ended;
    }

    fn record(&mut self, report: Report, with: ReportContext<'_>) {
        self.memory.change(|memory| memory.record(report, with));
    }
}

#[cfg(test)]
mod tests;
