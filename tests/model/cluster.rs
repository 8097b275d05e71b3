//! The API server: guarded writes, and the creation and removal of objects.

mod users;

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use run_operator::api::{Intent, Phase, Run, intent::IntentRecord, run::DeletionPolicy};

use crate::object::{Object, at};
use crate::process::doubts_the_end;
use crate::properties::{self, Broken};
use crate::state::{Ghost, Op, State, View, Write};
pub(crate) use users::act;

/// Reason for which the API server did nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    Conflict,
    Gone,
    Invalid,
}

/// Carries out a write of the operator. Returns the object after it, none if it no longer exists.
pub(crate) fn execute(s: &mut State, write: &Write) -> Result<Option<Arc<Object>>, Refused> {
    let Some(old) = s.live[write.name].clone() else {
        return Err(Refused::Gone);
    };
    if old.uid != write.uid || old.version != write.version {
        return Err(Refused::Conflict);
    }
    let mut run = old.run.clone();
    match &write.op {
        Op::Status(status) => {
            properties::status_written(s, &old, status);
            if !status.phase.is_some_and(Phase::terminal) && doubts_the_end(s, write) {
                // It acts on the word of a process that knew better than the intent.
                s.ghost(old.uid).kept = false;
            }
            run.status = Some((**status).clone());
        }
        Op::Intent(change) => {
            if change.finalizers.is_some() && old.deleting() && !old.held() {
                return Err(Refused::Invalid);
            }
            let text = change.intent.as_deref().unwrap_or_default();
            intent_written(s, &old, write.sender, text);
            change.apply(&mut run.metadata);
            let written = put(s, write.name, run);
            properties::within_limit(s);
            return Ok(written);
        }
        Op::Release(change) => {
            if old.held() {
                properties::released(s, &old);
            }
            s.ghost(old.uid).kept |= change.intent.is_some();
            change.apply(&mut run.metadata);
        }
        Op::Delete => return Ok(delete(s, write.name)),
    }
    Ok(put(s, write.name, run))
}

fn intent_written(s: &mut State, old: &Object, sender: u8, text: &str) {
    let Ok(intent) = serde_json::from_str::<Intent>(text) else {
        return;
    };
    if intent.uid == crate::object::uid(old.uid) && intent.owner == format!("p{sender}") {
        let alive = s.procs.iter().flatten().any(|p| p.number == sender);
        let ghost = s.ghost(old.uid);
        ghost.unseen |= !alive;
        ghost.owners |= 1 << sender;
        ghost.pinned = Some(properties::spot(&intent.workspace));
        let uses = format!("{} {}", intent.workspace.kind, intent.workspace.name);
        let first = ghost.uses.get_or_insert_with(|| uses.clone());
        let moves = *first != uses && !ghost.forced;
        if moves {
            s.breaks(Broken::Moved);
        }
    }
    let same_epoch =
        matches!(old.run.intent_record(), IntentRecord::Own(i) if i.epoch == intent.epoch);
    if !same_epoch {
        // What was answered before ends nothing of this epoch.
        let ghost = s.ghost(old.uid);
        (ghost.answered, ghost.unreadable) = (None, 0);
    }
    let copied = s.ghost(old.uid).copied_wish.as_ref();
    let asked = old.wish().is_some_and(|wish| Some(wish) != copied);
    if matches!(old.run.intent_record(), IntentRecord::Foreign) && !asked {
        s.breaks(Broken::Unasked);
    }
    let first = matches!(old.run.intent_record(), IntentRecord::Absent) && old.run_id().is_none();
    let held = s
        .procs
        .iter()
        .flatten()
        .any(|p| p.number == sender && matches!(p.view, View::Ready { holds: Some(_), .. }));
    if first && held && !s.ghost(old.uid).forced {
        s.breaks(Broken::Unasked);
    }
    let spec = &old.run.spec;
    if first && !s.ghost(old.uid).forced && (spec.suspended() || spec.cancelled()) {
        s.breaks(Broken::Unasked);
    }
}

/// Stores the object; one that is being deleted and has no finalizer is removed.
pub(crate) fn put(s: &mut State, name: usize, run: Run) -> Option<Arc<Object>> {
    let old = s.live[name].clone()?;
    s.version += 1;
    let new = Object::new(run, old.uid, s.version);
    if new.deleting() && !new.held() {
        gone(s, name);
        return None;
    }
    let new = Arc::new(new);
    s.live[name] = Some(Arc::clone(&new));
    Some(new)
}

/// `kubectl delete`.
pub(crate) fn delete(s: &mut State, name: usize) -> Option<Arc<Object>> {
    let object = s.live[name].clone()?;
    let now = s.now;
    s.ghost(object.uid).deleted.get_or_insert(now);
    let mut run = object.run.clone();
    if run.metadata.deletion_timestamp.is_none() {
        run.metadata.deletion_timestamp = Some(Time(at(s.now)));
        run.metadata.generation = run.metadata.generation.map(|g| g + 1);
    }
    if !object.held() {
        let orphan = run.spec.deletion_policy() == DeletionPolicy::Orphan;
        s.ghost(object.uid).orphaned |= orphan;
    }
    put(s, name, run)
}

fn gone(s: &mut State, name: usize) {
    let Some(object) = s.live[name].take() else {
        return;
    };
    s.ghost(object.uid).gone = true;
    owed(s, object.uid);
    properties::nothing_left(s, object.uid);
}

/// After an object was removed by force, its run is owed a cancellation as long as a process lives that knows
/// it.
pub(crate) fn owed(s: &mut State, uid: u8) {
    let knows = s.procs.iter().flatten().any(|p| {
        let entry = p.entries.iter().find(|e| e.uid == uid && e.held());
        entry.is_some_and(|e| {
            let stored = |o: &Arc<Object>| o.run_id().is_some() && !o.run.ended();
            e.run.memory.run_id.is_some() || e.run.latest().is_some_and(stored)
        })
    });
    let ghost = s.ghost(uid);
    if ghost.gone && ghost.forced {
        ghost.owed = knows;
    }
}

/// A person creates an object.
pub(crate) fn create(s: &mut State, name: usize, run: Run) {
    create_born(s, name, run, s.now);
}

/// The same, with this second as the time of creation.
pub(crate) fn create_born(s: &mut State, name: usize, mut run: Run, born: i64) {
    s.ghosts.push(Ghost::default());
    let uid = u8::try_from(s.ghosts.len()).unwrap();
    run.metadata.uid = Some(crate::object::uid(uid));
    run.metadata.creation_timestamp = Some(Time(at(born)));
    s.version += 1;
    s.live[name] = Some(Arc::new(Object::new(run, uid, s.version)));
}
