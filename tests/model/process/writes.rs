//! The steps of a process: a write to the API server or a read of it, or a call.

use std::sync::Arc;

use run_operator::{
    api::{Phase, run::DeletionPolicy},
    decide::{
        Effect,
        turn::{Outcome, Step},
    },
};

use super::{Fate, calls::send, decide_next, look, watch};
use crate::cluster::{self, Refused};
use crate::object::{Object, report_context};
use crate::state::{Op, State, Wake, Write};

/// Pause after the API server refused a write, in seconds.
const AFTER_REFUSAL: i64 = 60;
/// Pause before an object that the watch lacks, but that exists, is looked at again.
const LOOK_AGAIN: i64 = 15;

/// The process, the object, and the fate of the write.
#[derive(Clone, Copy)]
struct Doing {
    slot: usize,
    uid: u8,
    fate: Fate,
}

/// Carries out the next step for one object, as `src/controller/run/reconcile.rs` does.
pub(crate) fn step(s: &mut State, slot: usize, number: u8, fate: Fate) {
    watch::observe(s, slot, number);
    let Some((object, run, turn)) = decide_next(s, slot, number) else {
        return;
    };
    let entry = s.procs[slot].as_mut().and_then(|p| p.entry(number));
    let Some(entry) = entry.filter(|e| e.wake == Wake::Now) else {
        return;
    };
    entry.run = run;
    let doing = Doing {
        slot,
        uid: number,
        fate,
    };
    match &turn.step {
        Step::WriteStatus { status, .. } => {
            doing.writes(s, &turn.step, &object, Op::Status(status.clone()));
        }
        Step::Act(effect) if effect.call().is_some() => send(s, slot, number, &object, effect),
        Step::Act(effect) => doing.changes(s, &turn.step, &object, effect),
        Step::ReadLive => return doing.reads(s),
        Step::Forget => doing.forgets(s, &object),
        Step::Rest(_) => {}
    }
    look(s, slot, number);
}

impl Doing {
    fn changes(self, s: &mut State, step: &Step, object: &Object, effect: &Effect) {
        if effect.claims_key()
            && object.run.spec.idempotency_key.is_some()
            && let Some(proc) = s.procs[self.slot].as_mut()
        {
            proc.claim = Some(self.uid);
        }
        let op = match effect.metadata_change(&object.run).unwrap() {
            Some(change) if matches!(effect, Effect::Release { .. }) => Op::Release(change),
            Some(change) => Op::Intent(change),
            None => Op::Delete,
        };
        self.writes(s, step, object, op);
    }

    /// Reads the object live.
    fn reads(self, s: &mut State) {
        let exists = s.live.iter().flatten().any(|o| o.uid == self.uid);
        let again = Wake::At(s.now + LOOK_AGAIN);
        let Some(proc) = s.procs[self.slot].as_mut() else {
            return;
        };
        if exists {
            // It waits for the watch.
            proc.leaves_place(self.uid);
            if let Some(entry) = proc.entry(self.uid) {
                entry.wake = again;
            }
        } else {
            self.took(s, &Step::ReadLive, Outcome::Gone);
            look(s, self.slot, self.uid);
        }
    }

    fn forgets(self, s: &mut State, object: &Object) {
        let Some(proc) = s.procs[self.slot].as_mut() else {
            return;
        };
        // Policy has released it.
        let released = proc.entry(self.uid).is_some_and(|entry| entry.run.done());
        watch::forget(proc, self.uid);
        let orphan = object.run.spec.deletion_policy() == DeletionPolicy::Orphan;
        s.ghost(self.uid).orphaned |= released && orphan;
    }

    /// Sends a write; its answer arrives or is lost.
    fn writes(self, s: &mut State, step: &Step, object: &Object, op: Op) {
        let Some(sender) = s.procs[self.slot].as_ref().map(|p| p.number) else {
            return;
        };
        let write = Write {
            name: object.name(),
            uid: self.uid,
            version: object.version,
            sender,
            op,
        };
        if self.fate == Fate::Late {
            self.unheard(s, &write);
            s.writes.push(write);
            return;
        }
        let answer = cluster::execute(s, &write);
        if self.fate == Fate::Unheard {
            self.unheard(s, &write);
            return;
        }
        let again = Wake::At(s.now + AFTER_REFUSAL);
        let Some(entry) = s.procs[self.slot].as_mut().and_then(|p| p.entry(self.uid)) else {
            return;
        };
        let outcome = match answer {
            Ok(written) => {
                let ends = |o: &Arc<Object>| o.run.ended();
                entry.ended |= match (&written, &write.op) {
                    (Some(written), _) => ends(written),
                    (None, Op::Status(status)) => status.phase.is_some_and(Phase::terminal),
                    (None, _) => false,
                };
                if matches!(write.op, Op::Intent(_)) {
                    entry.refused = 0;
                }
                written.map_or(Outcome::Removed, Outcome::Written)
            }
            Err(Refused::Gone) => Outcome::Gone,
            Err(Refused::Conflict) => return,
            Err(Refused::Invalid) => {
                entry.wake = again;
                return;
            }
        };
        self.took(s, step, outcome);
    }

    fn unheard(self, s: &mut State, write: &Write) {
        let entry = s.procs[self.slot].as_mut().and_then(|p| p.entry(self.uid));
        if let Some(entry) = entry.filter(|_| matches!(write.op, Op::Intent(_))) {
            entry.run.intent_unheard();
        }
    }

    fn took(self, s: &mut State, step: &Step, outcome: Outcome<Object>) {
        let now = s.now;
        let Some(proc) = s.procs[self.slot].as_mut() else {
            return;
        };
        let session = proc.session();
        if let Some(entry) = proc.entry(self.uid) {
            report_context(self.uid, session, now, |with| {
                entry.run.took(step, outcome, with);
            });
        }
    }
}
