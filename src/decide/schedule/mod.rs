//! What a RunSchedule does next: a tick is one run.
//!
//! 1. The status gets the tick as `pendingTick`: a guarded write, so that a process whose view of the schedule is older
//!    begins no tick.
//! 2. The tick's Run is created. Its name, `NAME-202611300217`, stops a second object; its idempotency key, the
//!    schedule's uid and the minute, a second run, even where somebody has deleted the first object.
//! 3. The status gets the tick as `lastScheduleTime`, and loses `pendingTick`.
//!
//! A crash anywhere repeats step 2. A tick that is given up after step 1, since it is late or the next one has come, is
//! looked for first: step 2 may have been carried out without an answer.

pub mod calendar;
pub mod manifest;
mod runs;
mod source;
mod turn;

use jiff::Timestamp;
use kube::ResourceExt;

use crate::api::schedule::Tick;
use crate::api::{ConditionType as Type, Reason, RunSchedule, RunScheduleStatus};

use super::conditions::{Why, set_condition};
use super::delays::{AFTER_REFUSAL, later};
use super::events::EventDraft;
use super::truncate::{MAX_ERROR, escaped};
pub use runs::{Ended, OwnedRun, owner};
pub use source::{EACH_RUNS_OWN, Origin, Source, source};
pub use turn::decide;

/// One process's knowledge of one schedule beyond the objects.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Memory {
    /// The versions of schedule and template whose Run the API server has accepted, at least as a trial.
    accepted: Option<Version>,
    /// The API server refuses the Run that these versions yield, or its name is taken; tried again then, by process time.
    refused: Option<(Version, Why, Timestamp)>,
    /// uids of Runs that can't be cancelled or deleted; tried again then, by process time.
    kept: Vec<(String, Timestamp)>,
    /// Names of Runs that were read live, and the schedule's resourceVersion at that time: they are known since, or
    /// don't exist. Those of the latest version.
    looked: Vec<(String, Option<String>)>,
    /// When a Run that the status lists was last read while a tick waited, by the wall clock: it has vanished by then,
    /// or its own end says when.
    vacated: Option<Timestamp>,
}

/// The schedule's generation, and what its Runs are made from.
type Version = (i64, Option<Origin>);

pub struct Inputs<'a> {
    pub schedule: &'a RunSchedule,
    pub source: &'a Result<Source, Why>,
    /// Its Runs as the watch and this process's own writes show them, in any order.
    pub runs: &'a [OwnedRun],
    pub memory: &'a Memory,
    pub now: Timestamp,
    pub wall: Timestamp,
}

/// One write or read of Runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Has the API server check the Run that the template yields, without creating it.
    Try,
    Create(Tick),
    /// Reads a Run that may exist and that the watch lacks, by its name: one that the status lists, or that of a tick which
    /// is given up, since its creation may have been carried out without an answer.
    Look(String),
    /// Sets `cancel: true`.
    Cancel(OwnedRun),
    /// Of one that has ended: the history is full.
    Delete(OwnedRun),
}

/// What became of an effect.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    Accepted,
    /// A trial that the API server can't make: some webhook takes none.
    Untried,
    /// The API server's sentence.
    Refused(String),
    /// It refuses to cancel or to delete the Run with this uid.
    Kept(String),
    /// Another object has the name.
    Taken(String),
    /// The Run of this name was taken in, or doesn't exist.
    Looked(String),
}

#[derive(Debug, PartialEq)]
pub struct Decision {
    pub status: RunScheduleStatus,
    /// To be published once the status is written.
    pub events: Vec<EventDraft>,
    /// To be carried out once the status is as above.
    pub effect: Option<Effect>,
    /// The time by the wall clock at which it must be decided again, if nothing changes before.
    pub due: Option<Timestamp>,
    /// The same by process time.
    pub again: Option<Timestamp>,
}

impl Inputs<'_> {
    fn version(&self) -> Version {
        let source = self.source.as_ref().ok();
        let template = source.and_then(|source| source.template.clone());
        let generation = self.schedule.metadata.generation.unwrap_or_default();
        (generation, template)
    }

    fn run_of(&self, tick: Tick) -> Option<&OwnedRun> {
        self.runs.iter().find(|run| run.tick == Some(tick))
    }

    fn knows(&self, uid: &str) -> bool {
        self.runs.iter().any(|run| run.uid == uid)
    }

    fn looked(&self, name: &str) -> bool {
        let version = self.schedule.resource_version();
        let mut looked = self.memory.looked.iter();
        looked.any(|(of, at)| of == name && *at == version)
    }

    /// The memory with what became of an effect at `now`.
    pub fn record(&self, outcome: Outcome, now: Timestamp) -> Memory {
        let mut memory = self.memory.clone();
        let (version, until) = (self.version(), later(now, AFTER_REFUSAL));
        let refused =
            |reason, message: String| Some((self.version(), Why::new(reason, message), until));
        match outcome {
            Outcome::Accepted => {
                memory.accepted = Some(version);
                memory.refused = None;
            }
            // What a creation has shown counts on.
            Outcome::Untried => match &mut memory.refused {
                Some((of, _, again)) if *of == version => *again = until,
                _ => memory.accepted = Some(version),
            },
            Outcome::Kept(uid) => {
                memory.kept.retain(|(_, again)| *again > now);
                memory.kept.push((uid, until));
            }
            Outcome::Refused(sentence) => {
                let sentence = escaped(&sentence, MAX_ERROR);
                let message =
                    format!("The API server refuses the Run of this template: {sentence}");
                memory.refused = refused(Reason::TemplateRefused, message);
            }
            Outcome::Taken(name) => {
                let message = format!(
                    "The Run {name} exists and is not this schedule's, so that its tick has none. Delete that Run; this is tried again."
                );
                memory.refused = refused(Reason::NameTaken, message);
            }
            Outcome::Looked(name) => {
                let version = self.schedule.resource_version();
                memory.looked.retain(|(_, at)| *at == version);
                let status = self.schedule.status.as_ref();
                let waits = status.filter(|status| status.pending_tick.is_some());
                if waits.is_some_and(|status| status.active.iter().any(|run| run.name == name)) {
                    memory.vacated = Some(self.wall);
                }
                memory.looked.push((name, version));
            }
        }
        memory
    }
}

/// Status of a schedule that can't be decoded.
pub fn undecodable(
    mut status: RunScheduleStatus,
    what: &str,
    generation: i64,
    wall: Timestamp,
) -> RunScheduleStatus {
    let message = format!(
        "The operator can't read this RunSchedule: {what}. No Run is created until it changes. Correct it, or apply the CRDs of this operator's version."
    );
    let why = Why::new(Reason::ScheduleInvalid, message);
    status.observed_generation = Some(generation);
    status.next_schedule_time = None;
    for (kind, holds) in [(Type::Ready, false), (Type::Stalled, true)] {
        set_condition(
            &mut status.conditions,
            kind,
            Some(holds),
            &why,
            generation,
            wall,
        );
    }
    status
}
