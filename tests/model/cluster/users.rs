//! Actions of people on objects.

use std::sync::Arc;

use run_operator::api::{
    Intent, Phase, Reason, RunStatus,
    intent::{End, IntentRecord},
    run::DeletionPolicy,
};

use super::{create, create_born, delete, put};
use crate::object::{INTENT, Object, RETRY, at};
use crate::scenarios::User;
use crate::state::State;

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

/// Whether the status shows that its deadline has passed.
fn overdue(object: &Object) -> bool {
    let status = object.run.status.as_ref();
    status.is_some_and(|status| status.deadline_exceeded_time.is_some())
}

/// Makes a second object of the first, as a tool that restores it does, with its status or without.
fn copy(s: &mut State, of: &Object, status: bool) {
    let mut copy = of.run.clone();
    copy.metadata.name = Some("run-1".into());
    copy.metadata.deletion_timestamp = None;
    copy.metadata.generation = Some(1);
    if !status {
        copy.status = Some(RunStatus::initial());
    }
    // A copied status says itself which retry was handled.
    let wish = of.wish().filter(|_| !status).cloned();
    create(s, 1, copy);
    s.ghosts[1].copied_wish = wish;
}

/// Creates an object, if the person does that and may.
fn creates(s: &mut State, user: User, spec: &serde_json::Value) -> bool {
    let name = usize::from(user != User::Recreate);
    let mut new = Object::fresh(spec, 0, name);
    let born = match user {
        User::Recreate | User::Second => s.now,
        User::Elder => s.now - 1,
        User::Urgent => {
            new.spec.priority = Some(1);
            s.now
        }
        _ => return false,
    };
    let may = s.live[name].is_none() && s.ghosts.len() < 2;
    if may {
        create_born(s, name, new, born);
    }
    may
}

/// Carries out an action of a person.
pub(crate) fn act(s: &mut State, user: User, spec: &serde_json::Value) {
    let first = s.live[0].clone();
    if creates(s, user, spec) {
        return;
    }
    let Some(object) = first else {
        return;
    };
    let mut run = object.run.clone();
    let (spec_before, ended) = (run.spec.clone(), run.ended());
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
        User::NoDeadline => {
            s.ghost(object.uid).overdue |= overdue(&object);
            run.spec.active_deadline_seconds = None;
        }
        User::Workload if !ended => {
            let swapped = [
                ("image".to_owned(), "i".into()),
                ("swapped".to_owned(), true.into()),
            ];
            run.spec.workload = serde_json::Map::from_iter(swapped).into();
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
            run.metadata.finalizers = None;
            let bare = Object::new(run, object.uid, object.version);
            s.live[0] = Some(Arc::new(bare));
            delete(s, 0);
            return;
        }
        // Not for an object that was stripped too: nothing would then show which run belongs to which object.
        User::LoseStatus if !matches!(object.run.intent_record(), IntentRecord::Absent) => {
            run.status = Some(RunStatus::initial());
        }
        User::LoseRest if object.run_id().is_some() => {
            let status = object.run.status.clone().unwrap_or_default();
            run.status = Some(RunStatus {
                run_id: status.run_id,
                workspace: status.workspace,
                ..RunStatus::initial()
            });
        }
        User::Scribble if object.held() && !ended => {
            let annotations = run.metadata.annotations.get_or_insert_default();
            annotations.insert(INTENT.into(), "{".into());
        }
        User::ForgeTime | User::ForgePlace | User::ForgeName | User::ForgeKey | User::ForgeEnd
            if object.held() =>
        {
            let Some(intent) = object.run.intent_record().own() else {
                return;
            };
            s.ghost(object.uid).forged |= user == User::ForgeEnd;
            let text = serde_json::to_string(&forged(intent, user, s.now)).unwrap();
            let annotations = run.metadata.annotations.get_or_insert_default();
            annotations.insert(INTENT.into(), text);
        }
        User::Copy { status } if s.ghosts.len() < 2 && object.held() => {
            return copy(s, &object, status);
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
