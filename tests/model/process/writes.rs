//! What a process does: one write to the API server, or one call.

use std::sync::Arc;

use run_operator::{
    api::{Intent, RunStatus, intent::IntentRecord},
    decide::{Effect, Learned},
};

use super::{Fate, ask, calls::send, look, news, object_is_vanishing, sight::forget};
use crate::cluster::{self, Refused};
use crate::object::Object;
use crate::rules::{Fence, Fences};
use crate::state::{Hold, Op, State, Wake, Write};

/// After the API server refused a write.
const AFTER_REFUSAL: i64 = 60;

/// Does what policy decides for one object: one write, or one call.
pub(crate) fn step(s: &mut State, fences: Fences, slot: usize, number: u8, fate: Fate) {
    let Some((object, decision)) = ask(s, slot, number) else {
        return;
    };
    let entry = s.procs[slot].as_mut().and_then(|p| p.entry(number));
    let Some(entry) = entry.filter(|e| e.wake == Wake::Now) else {
        return;
    };
    let vanished = entry.vanishing.is_some();
    let shown = entry.memory.feed.shown();
    let counted = |s: Option<&RunStatus>| s.and_then(|s| s.event_count);
    let folds = counted(decision.status.as_ref()) != counted(object.run.status.as_ref());
    if let Some(status) = news(&object, &decision, vanished) {
        let write = (object, Op::Status(Box::new(status)), None);
        wrote(
            s,
            fences,
            slot,
            number,
            fate,
            write,
            if folds { shown } else { 0 },
        );
    } else if let Some(effect) = decision.effect {
        act(s, fences, slot, number, fate, object, effect);
    }
    look(s, slot, number);
}

fn act(
    s: &mut State,
    fences: Fences,
    slot: usize,
    number: u8,
    fate: Fate,
    object: Arc<Object>,
    effect: Effect,
) {
    match effect {
        Effect::WriteIntent {
            intent,
            finalizer,
            clean,
        } => {
            if intent.epoch == 1 && clean && object.run.spec.idempotency_key.is_some() {
                let Some(proc) = s.procs[slot].as_mut() else {
                    return;
                };
                proc.claim = Some(number);
            }
            let text = serde_json::to_string(&intent).unwrap();
            let learned = Learned::IntentWritten { intent, clean };
            let finalizer = finalizer && !object.held();
            let write = (object, Op::Intent(text, finalizer), Some(learned));
            wrote(s, fences, slot, number, fate, write, 0);
        }
        Effect::Release { end } => {
            if object_is_vanishing(s, slot, number) {
                if let Some(proc) = s.procs[slot].as_mut() {
                    forget(proc, number);
                }
                let orphan = object.run.spec.deletion_policy()
                    == run_operator::api::run::DeletionPolicy::Orphan;
                s.ghost(number).orphaned |= orphan;
                return;
            }
            let kept = match (end, object.intent()) {
                (Some(end), IntentRecord::Own(intent)) => {
                    let intent = Intent {
                        end: Some(end),
                        ..*intent
                    };
                    Some(serde_json::to_string(&intent).unwrap())
                }
                _ => None,
            };
            wrote(
                s,
                fences,
                slot,
                number,
                fate,
                (object, Op::Release(kept), None),
                0,
            );
        }
        Effect::Delete => wrote(s, fences, slot, number, fate, (object, Op::Delete, None), 0),
        Effect::Submit { .. } | Effect::Refresh { .. } | Effect::Cancel { .. } => {
            send(s, fences, slot, number, &object, &effect);
        }
    }
}

/// A write goes out, and what becomes of it is heard, or isn't.
fn wrote(
    s: &mut State,
    fences: Fences,
    slot: usize,
    number: u8,
    fate: Fate,
    (object, op, learned): (Arc<Object>, Op, Option<Learned>),
    shown: usize,
) {
    let Some(sender) = s.procs[slot].as_ref().map(|p| p.number) else {
        return;
    };
    let name = usize::from(object.run.metadata.name.as_deref() == Some("run-1"));
    let status = matches!(op, Op::Status(_));
    let release = matches!(op, Op::Release(_));
    let write = Write {
        name,
        uid: number,
        version: object.version,
        sender,
        op,
    };
    if fate == Fate::Late {
        s.writes.push(write);
        return;
    }
    let answer = cluster::execute(s, fences, &write);
    if fate == Fate::Unheard {
        return;
    }
    let now = s.now;
    let Some(proc) = s.procs[slot].as_mut() else {
        return;
    };
    let session = proc.session();
    let Some(entry) = proc.entry(number) else {
        return;
    };
    match answer {
        Ok(written) => {
            if let Some(learned) = learned {
                entry.refused = 0;
                entry.memory.learn(learned, number, session, now);
            }
            if status {
                entry
                    .memory
                    .learn(Learned::StatusWritten, number, session, now);
                entry.memory.change(|m| m.feed.written(shown));
            }
            if release {
                entry.hold = if written.is_none() {
                    Hold::Gone
                } else {
                    Hold::Released
                };
            }
            if let Some(written) = written.filter(|_| fences.holds(Fence::OwnWrites)) {
                entry.ended |= written.run.ended();
                entry.latest = Some(written);
            } else if status {
                entry.ended |= matches!(&write.op, Op::Status(s) if s.phase.is_some_and(run_operator::api::Phase::terminal));
            }
        }
        Err(Refused::Gone) if release => entry.hold = Hold::Released,
        Err(Refused::Gone | Refused::Conflict) => {}
        Err(Refused::Invalid) => entry.wake = Wake::At(now + AFTER_REFUSAL),
    }
}
