//! The API server: guarded writes, and what people do to objects.

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use run_operator::api::{
    Intent, Phase, Reason,
    intent::{End, IntentRecord},
    run::DeletionPolicy,
};

use crate::object::{FINALIZER, INTENT, Object, RETRY, at};
use crate::properties::{self, Broken};
use crate::rules::{Fence, Fences};
use crate::scenarios::User;
use crate::state::{Ghost, Hold, Op, State, Write};

/// Why the API server did nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    Conflict,
    Gone,
    Invalid,
}

/// Carries out a write of the operator. Returns what stands then, nothing of an object that is gone.
pub(crate) fn execute(
    s: &mut State,
    fences: Fences,
    write: &Write,
) -> Result<Option<Arc<Object>>, Refused> {
    let Some(old) = s.live[write.name].clone() else {
        return Err(Refused::Gone);
    };
    let fence = match &write.op {
        Op::Status(_) => Fence::StatusVersion,
        Op::Intent(..) => Fence::IntentVersion,
        Op::Release(_) | Op::Delete => Fence::ReleaseVersion,
    };
    if fences.holds(Fence::Uid) {
        let overtaken = fences.holds(fence) && old.version != write.version;
        if old.uid != write.uid || overtaken {
            return Err(Refused::Conflict);
        }
    }
    let mut run = old.run.clone();
    match &write.op {
        Op::Status(status) => {
            properties::status_written(s, &old, status);
            run.status = Some((**status).clone());
        }
        Op::Intent(text, finalizer) => {
            if *finalizer && old.deleting() && !old.held() {
                return Err(Refused::Invalid);
            }
            intent_written(s, &old, write.sender, text);
            run.metadata
                .annotations
                .get_or_insert_default()
                .insert(INTENT.into(), text.clone());
            if *finalizer {
                run.metadata.finalizers = Some(vec![FINALIZER.into()]);
            }
        }
        Op::Release(text) => {
            if old.held() {
                properties::released(s, &old);
            }
            if let Some(text) = text {
                s.ghost(old.uid).kept = true;
                run.metadata
                    .annotations
                    .get_or_insert_default()
                    .insert(INTENT.into(), text.clone());
            }
            run.metadata.finalizers = None;
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
        let ghost = s.ghost(old.uid);
        ghost.owners |= 1 << sender;
        ghost.pinned = Some(properties::spot(&intent.workspace));
    }
    let same_epoch = matches!(old.intent(), IntentRecord::Own(i) if i.epoch == intent.epoch);
    if !same_epoch {
        // What was answered before ends nothing of this epoch.
        let ghost = s.ghost(old.uid);
        (ghost.answered, ghost.unreadable) = (None, 0);
    }
    let annotations = old.run.metadata.annotations.as_ref();
    let asked = annotations.is_some_and(|a| a.contains_key(RETRY));
    if matches!(old.intent(), IntentRecord::Foreign) && !asked {
        s.breaks(Broken::Unasked);
    }
    let first = matches!(old.intent(), IntentRecord::Absent) && old.run_id().is_none();
    let held = s.procs.iter().flatten().any(|p| {
        p.number == sender && matches!(p.view, crate::state::View::Ready { holds: Some(_), .. })
    });
    if first && held && !s.ghost(old.uid).forced {
        s.breaks(Broken::Unasked);
    }
    let spec = &old.run.spec;
    if first && !s.ghost(old.uid).forced && (spec.suspended() || spec.cancelled()) {
        s.breaks(Broken::Unasked);
    }
}

/// The object stands so now; without a finalizer one that is being deleted is gone.
pub(crate) fn put(s: &mut State, name: usize, run: run_operator::api::Run) -> Option<Arc<Object>> {
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

/// Of an object that went by force, its run is owed to be cancelled as long as a process lives that knows it.
pub(crate) fn owed(s: &mut State, uid: u8) {
    let knows = s.procs.iter().flatten().any(|p| {
        let entry = p
            .entries
            .iter()
            .find(|e| e.uid == uid && e.hold == Hold::Held);
        entry.is_some_and(|e| {
            e.memory.run_id.is_some()
                || e.latest
                    .as_ref()
                    .is_some_and(|o| o.run_id().is_some() && !o.run.ended())
        })
    });
    let ghost = s.ghost(uid);
    if ghost.gone && ghost.forced {
        ghost.owed = knows;
    }
}

/// A person creates an object.
pub(crate) fn create(s: &mut State, name: usize, mut run: run_operator::api::Run) {
    s.ghosts.push(Ghost::default());
    let uid = u8::try_from(s.ghosts.len()).unwrap();
    run.metadata.uid = Some(crate::object::uid(uid));
    run.metadata.creation_timestamp = Some(Time(at(s.now)));
    s.version += 1;
    s.live[name] = Some(Arc::new(Object::new(run, uid, s.version)));
}

/// An intent as somebody edits it.
fn forged(mut intent: Intent, user: User, now: i64) -> Intent {
    match user {
        User::ForgeTime => intent.time = at(now),
        User::ForgePlace => intent.workspace.identity = Some("ws-1".into()),
        User::ForgeName => intent.workspace.name = "another".into(),
        User::ForgeKey => intent.key = "another".into(),
        _ => {
            intent.end = Some(End {
                run_id: Some("run-7".into()),
                phase: Phase::Failed,
                reason: Reason::RunNotFound,
            });
        }
    }
    intent
}

/// What a person does.
pub(crate) fn act(s: &mut State, user: User, spec: &serde_json::Value) {
    let first = s.live[0].clone();
    match user {
        User::Recreate if first.is_none() && s.ghosts.len() < 2 => {
            return create(s, 0, Object::fresh(spec, 0, 0));
        }
        User::Second if s.live[1].is_none() && s.ghosts.len() < 2 => {
            return create(s, 1, Object::fresh(spec, 0, 1));
        }
        _ => {}
    }
    let Some(object) = first else {
        return;
    };
    let mut run = object.run.clone();
    let spec_before = run.spec.clone();
    let ended = run.ended();
    match user {
        User::Delete if !object.deleting() => {
            delete(s, 0);
            return;
        }
        User::Cancel => run.spec.cancel = Some(true),
        User::Suspend if object.run_id().is_none() => run.spec.suspend = Some(true),
        User::Resume if run.spec.suspended() => run.spec.suspend = None,
        User::Orphan => run.spec.deletion_policy = Some(DeletionPolicy::Orphan),
        User::Deadline => run.spec.active_deadline_seconds = Some(60),
        User::Workload if !ended => {
            run.spec.workload.insert("swapped".into(), true.into());
        }
        User::Retry(n) => {
            let annotations = run.metadata.annotations.get_or_insert_default();
            annotations.insert(RETRY.into(), n.to_string());
        }
        User::Strip if object.held() && !ended => {
            s.ghost(object.uid).forced = true;
            run.metadata.annotations = None;
            run.metadata.finalizers = None;
        }
        User::StripKnown if object.held() && !ended && object.run_id().is_some() => {
            s.ghost(object.uid).forced = true;
            run.metadata.annotations = None;
            run.metadata.finalizers = None;
        }
        User::Force if object.held() => {
            s.ghost(object.uid).forced = true;
            s.live[0] = Some(Arc::new(Object::new(
                {
                    run.metadata.finalizers = None;
                    run
                },
                object.uid,
                object.version,
            )));
            delete(s, 0);
            return;
        }
        // Not of an object that was stripped too: nothing would say any more which run is whose.
        User::LoseStatus if !matches!(object.intent(), IntentRecord::Absent) => {
            run.status = Some(run_operator::api::RunStatus {
                observed_generation: Some(-1),
                ..Default::default()
            });
        }
        User::Scribble if object.held() && !ended => {
            let annotations = run.metadata.annotations.get_or_insert_default();
            annotations.insert(INTENT.into(), "{".into());
        }
        User::ForgeTime | User::ForgePlace | User::ForgeName | User::ForgeKey | User::ForgeEnd
            if object.held() =>
        {
            let IntentRecord::Own(intent) = object.intent() else {
                return;
            };
            s.ghost(object.uid).forged |= user == User::ForgeEnd;
            let text = serde_json::to_string(&forged(*intent, user, s.now)).unwrap();
            let annotations = run.metadata.annotations.get_or_insert_default();
            annotations.insert(INTENT.into(), text);
        }
        User::Copy { status } if s.ghosts.len() < 2 && object.held() => {
            let mut copy = object.run.clone();
            copy.metadata.name = Some("run-1".into());
            copy.metadata.deletion_timestamp = None;
            copy.metadata.generation = Some(1);
            if !status {
                copy.status = Object::fresh(spec, 0, 1).status;
            }
            return create(s, 1, copy);
        }
        _ => return,
    }
    if run.spec != spec_before {
        run.metadata.generation = run.metadata.generation.map(|g| g + 1);
    }
    if run != object.run {
        put(s, 0, run);
    }
}
