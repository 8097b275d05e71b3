//! Record of one Run: under 100 bytes, its uid and name aside, for one that has ended.

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{Resource, ResourceExt};

use crate::api::{
    ConditionType, Phase, Run,
    conditions::{find, is_true},
    intent::IntentRecord,
    names,
};
use crate::controller::{
    context::Guarded, metrics::catalogue::STALLED, registry::Key, writes::held,
};
use crate::decide::need::needs_any;

use super::place_of;

/// What the index keeps of one Run.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    /// Its uid.
    pub(super) uid: Arc<str>,
    /// Its namespace.
    pub(super) namespace: Arc<str>,
    /// Its name.
    pub(super) name: Arc<str>,
    /// Its phase; one without a status, or that can't be decoded, is Pending.
    pub(super) phase: Phase,
    /// The place among [`STALLED`] of the reason for which it waits for a person.
    pub(super) stalled: Option<u8>,
    /// It can't be decoded and has the finalizer: it may need any Workspace.
    pub(super) unreadable: bool,
    /// There while the Run is live, is being deleted, or needs its Workspace.
    pub(super) details: Option<Box<Details>>,
}

/// What is kept of a Run that something may still happen to.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Details {
    /// The Workspace that it refers to.
    pub(super) workspace: Arc<Key>,
    /// What it has to do with a key of its own. Only while it is live.
    pub(super) claim: Option<Claim>,
    /// The time of its intent, while it may have a run whose id is not known.
    pub(super) doubt: Option<Timestamp>,
    /// It has not ended.
    pub(super) live: bool,
    /// It has not ended, or is being deleted: it follows its Workspace.
    pub(super) waits: bool,
    /// The Workspace must outlive it.
    pub(super) needs: bool,
}

/// A live Run's part in an idempotency key.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Claim {
    /// `spec.idempotencyKey`.
    pub(super) key: Arc<str>,
    /// How strong the claim is.
    pub(super) standing: Standing,
    /// When the object was created; the elder goes first.
    pub(super) created: Timestamp,
}

/// How a live Run stands to its key. The order is the one in which Runs go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Standing {
    /// It has an intent of its own, or one that can't be read, or was submitted and somebody stripped its
    /// intent: it is about to be put back.
    Holds,
    /// It has no intent: the elder goes first.
    Waits,
    /// A copy of another object. It holds nothing: it waits for a person, and would block whoever waits for
    /// it for good; asked to submit, it takes the key as it writes its own intent.
    Copy,
}

impl Record {
    /// The record of an object as it is stored.
    pub fn of(object: &Guarded<Run>) -> Self {
        let meta = object.meta();
        let text = |text: &Option<String>| Arc::from(text.as_deref().unwrap_or_default());
        let run = object.0.as_ref().ok();
        let status = run.and_then(|run| run.status.as_ref());
        Self {
            uid: text(&meta.uid),
            namespace: text(&meta.namespace),
            name: text(&meta.name),
            phase: status.and_then(|s| s.phase).unwrap_or(Phase::Pending),
            stalled: run.and_then(stalled),
            unreadable: run.is_none() && held(object),
            details: run.and_then(Details::of).map(Box::new),
        }
    }

    /// The part in a key, of a live Run that has one of its own.
    pub(super) fn claim(&self) -> Option<&Claim> {
        self.details.as_ref()?.claim.as_ref()
    }

    /// Whether it was decoded and has not ended.
    pub(super) fn live(&self) -> bool {
        self.details.as_ref().is_some_and(|details| details.live)
    }

    /// The Workspace that it needs.
    pub(super) fn needs(&self) -> Option<&Arc<Key>> {
        let details = self.details.as_ref().filter(|details| details.needs)?;
        Some(&details.workspace)
    }
}

impl Details {
    fn of(run: &Run) -> Option<Self> {
        let live = !run.ended();
        let waits = live || run.metadata.deletion_timestamp.is_some();
        let needs = needs_any(run);
        if !waits && !needs {
            return None;
        }
        let namespace = run.namespace().unwrap_or_default();
        let intent = intent(run);
        Some(Self {
            workspace: Arc::new(Key::of(&run.spec.workspace_ref(), &namespace)),
            claim: Claim::of(run, &intent).filter(|_| live),
            doubt: doubt(run, &intent).filter(|_| live),
            live,
            waits,
            needs,
        })
    }
}

impl Claim {
    fn of(run: &Run, intent: &IntentRecord) -> Option<Self> {
        let submitted = run.status.as_ref().is_some_and(|s| s.run_id.is_some());
        Some(Self {
            key: Arc::from(run.spec.idempotency_key.as_deref()?),
            standing: match intent {
                IntentRecord::Own(_) | IntentRecord::Unreadable => Standing::Holds,
                IntentRecord::Absent if submitted => Standing::Holds,
                IntentRecord::Absent => Standing::Waits,
                IntentRecord::Foreign => Standing::Copy,
            },
            created: created(run),
        })
    }
}

/// When an object was created.
pub(super) fn created(run: &Run) -> Timestamp {
    let created = run.metadata.creation_timestamp.as_ref();
    created.map_or(Timestamp::MIN, |time| time.0)
}

fn intent(run: &Run) -> IntentRecord {
    let annotation = run.annotations().get(names::INTENT_ANNOTATION);
    let uid = run.metadata.uid.as_deref().unwrap_or_default();
    IntentRecord::read(annotation.map(String::as_str), uid)
}

/// The time of an intent whose outcome the status does not have.
fn doubt(run: &Run, intent: &IntentRecord) -> Option<Timestamp> {
    let status = run.status.as_ref();
    let settled = status.is_some_and(|s| s.run_id.is_some() || s.refusal.is_some());
    match intent {
        IntentRecord::Own(intent) if !settled => Some(intent.time),
        _ => None,
    }
}

/// Why a Run that is not finished waits for a person.
fn stalled(run: &Run) -> Option<u8> {
    let conditions: &[Condition] = run.status.as_ref().map_or(&[], |s| &s.conditions);
    let stalled = find(conditions, ConditionType::Stalled).filter(|c| c.status == "True")?;
    (!is_true(conditions, ConditionType::Finished)).then(|| place_of(STALLED, &stalled.reason))
}
