//! Effects of a process: one write to the API server, or one call.

use std::sync::Arc;

use run_operator::{
    api::{Intent, Phase, intent::End, run::DeletionPolicy},
    decide::{Effect, metadata_change::MetadataChange, tracked_run::WriteFailure},
};

use super::{Fate, ask, calls::send, look, object_is_vanishing, watch::forget};
use crate::cluster::{self, Refused};
use crate::object::{Object, learning};
use crate::state::{Op, State, Wake, Write};

/// After the API server refused a write.
const AFTER_REFUSAL: i64 = 60;

/// The process, the object, and the fate of the write.
#[derive(Clone, Copy)]
struct Doing {
    slot: usize,
    uid: u8,
    fate: Fate,
}

/// A write, and its process's memory after its success.
struct Deed {
    object: Arc<Object>,
    op: Op,
    intent: Option<(Intent, bool)>,
    /// Events in the status after it.
    shown: usize,
}

impl Deed {
    fn new(object: Arc<Object>, op: Op) -> Self {
        Self {
            object,
            op,
            intent: None,
            shown: 0,
        }
    }
}

/// Does what policy decides for one object: one write, or one call.
pub(crate) fn step(s: &mut State, slot: usize, number: u8, fate: Fate) {
    let Some((object, decision)) = ask(s, slot, number) else {
        return;
    };
    let entry = s.procs[slot].as_mut().and_then(|p| p.entry(number));
    let Some(entry) = entry.filter(|e| e.wake == Wake::Now) else {
        return;
    };
    let doing = Doing {
        slot,
        uid: number,
        fate,
    };
    let vanished = entry.deleted();
    if let Some(status) = decision.status_due(&object.run, vanished) {
        let op = Op::Status(Box::new(status.clone()));
        let deed = Deed {
            shown: decision.shown,
            ..Deed::new(object, op)
        };
        doing.writes(s, deed);
    } else if let Some(effect) = decision.effect {
        doing.acts(s, object, effect);
    }
    look(s, slot, number);
}

impl Doing {
    fn acts(self, s: &mut State, object: Arc<Object>, effect: Effect) {
        let claims = effect.claims_key();
        match effect {
            Effect::WriteIntent {
                intent,
                finalizer,
                clean,
            } => {
                if claims && object.run.spec.idempotency_key.is_some() {
                    let Some(proc) = s.procs[self.slot].as_mut() else {
                        return;
                    };
                    proc.claim = Some(self.uid);
                }
                let change = MetadataChange::write_intent(&object.run, &intent, finalizer);
                let deed = Deed {
                    intent: Some((intent, clean)),
                    ..Deed::new(object, Op::Intent(change.unwrap()))
                };
                self.writes(s, deed);
            }
            Effect::Release { end } => self.releases(s, object, end.as_ref()),
            Effect::Delete => self.writes(s, Deed::new(object, Op::Delete)),
            Effect::Submit { .. } | Effect::Refresh { .. } | Effect::Cancel { .. } => {
                send(s, self.slot, self.uid, &object, &effect);
            }
        }
    }

    /// Removes the object's finalizer, or forgets an object that no longer exists.
    fn releases(self, s: &mut State, object: Arc<Object>, end: Option<&End>) {
        if object_is_vanishing(s, self.slot, self.uid) {
            if let Some(proc) = s.procs[self.slot].as_mut() {
                forget(proc, self.uid);
            }
            let orphan = object.run.spec.deletion_policy() == DeletionPolicy::Orphan;
            s.ghost(self.uid).orphaned |= orphan;
            return;
        }
        let change = MetadataChange::release(&object.run, end).unwrap();
        self.writes(s, Deed::new(object, Op::Release(change)));
    }

    /// Sends a write; its answer arrives or is lost.
    fn writes(self, s: &mut State, deed: Deed) {
        let Some(sender) = s.procs[self.slot].as_ref().map(|p| p.number) else {
            return;
        };
        let write = Write {
            name: deed.object.name(),
            uid: self.uid,
            version: deed.object.version,
            sender,
            op: deed.op,
        };
        if self.fate == Fate::Late {
            s.writes.push(write);
            return;
        }
        let answer = cluster::execute(s, &write);
        if self.fate == Fate::Unheard {
            return;
        }
        match answer {
            Ok(written) => self.succeeds(s, &write.op, deed.intent, deed.shown, written),
            Err(why) => self.fails(s, &write.op, why),
        }
    }

    fn succeeds(
        self,
        s: &mut State,
        op: &Op,
        intent: Option<(Intent, bool)>,
        shown: usize,
        written: Option<Arc<Object>>,
    ) {
        let now = s.now;
        let Some(proc) = s.procs[self.slot].as_mut() else {
            return;
        };
        let session = proc.session();
        let Some(entry) = proc.entry(self.uid) else {
            return;
        };
        if let Some((intent, clean)) = intent {
            entry.refused = 0;
            learning(self.uid, session, now, |with| {
                entry.run.intent_written(intent, clean, with);
            });
        }
        match op {
            Op::Status(_) => learning(self.uid, session, now, |with| {
                entry.run.status_written(shown, with);
            }),
            Op::Release(_) => entry.run.release_answered(Ok(written.is_none())),
            Op::Intent(..) | Op::Delete => {}
        }
        // A process reads its own writes.
        if let Some(written) = written {
            entry.ended |= written.run.ended();
            entry.run.wrote(written);
        } else if let Op::Status(status) = op {
            entry.ended |= status.phase.is_some_and(Phase::terminal);
        }
    }

    fn fails(self, s: &mut State, op: &Op, why: Refused) {
        let now = s.now;
        let Some(entry) = s.procs[self.slot].as_mut().and_then(|p| p.entry(self.uid)) else {
            return;
        };
        match why {
            Refused::Gone if matches!(op, Op::Release(_)) => {
                entry.run.release_answered(Err(WriteFailure::Deleted));
            }
            Refused::Gone | Refused::Conflict => {}
            Refused::Invalid => entry.wake = Wake::At(now + AFTER_REFUSAL),
        }
    }
}
