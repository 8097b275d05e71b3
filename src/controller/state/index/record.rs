//! Record of one Run. For a Run that has ended, it takes under 100 bytes without uid and name.

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{Resource, ResourceExt};

use crate::api::{
    ConditionType, Phase, Reason, Run, WorkspaceKey,
    conditions::{find, is_true},
    finalizer,
    intent::IntentRecord,
};
use crate::controller::{apiserver::Maybe, metrics::catalogue::STALLED};
use crate::decide::{
    key_claim::{KeyClaim, created},
    workspace::in_use::needs_any,
};

use super::staged::place_of;

/// The index's record of one Run.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    pub(crate) uid: Arc<str>,
    pub(crate) namespace: Arc<str>,
    pub(crate) name: Arc<str>,
    /// Its phase. A Run without a status, or one that can't be decoded, counts as Pending.
    pub(crate) phase: Phase,
    /// Position in [`STALLED`] of the reason of its Stalled condition.
    pub(crate) stalled: Option<u8>,
    /// Whether it can't be decoded and has the finalizer: it may need any Workspace.
    pub(crate) unreadable: bool,
    /// Whether it was decoded.
    pub(crate) decoded: bool,
    /// Whether nothing is left to do for it before its TTL: no cache has its object.
    pub(crate) settled: bool,
    /// Present while the Run is live, is being deleted, or needs its Workspace. If the Run can no longer be decoded,
    /// present while it holds a key.
    pub(crate) details: Option<Box<Details>>,
}

/// Details of a Run that may still change.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Details {
    /// The Workspace that it references.
    pub(crate) workspace: Arc<WorkspaceKey>,
    /// Its claim on a key of its own. Only while it is live.
    pub(crate) claim: Option<Claim>,
    /// Time of its intent, while it is in doubt.
    pub(crate) doubt: Option<Timestamp>,
    /// Whether it has not ended.
    pub(crate) live: bool,
    /// Whether it has not ended, or is being deleted: changes of its Workspace enqueue it.
    pub(crate) waits: bool,
    /// Whether the Workspace must outlive it.
    pub(crate) needs: bool,
}

/// A live Run's claim on an idempotency key.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Claim {
    /// `spec.idempotencyKey`.
    pub(crate) key: Arc<str>,
    /// Strength of the claim.
    pub(crate) strength: KeyClaim,
    /// Creation time of the object; the elder has priority.
    pub(crate) created: Timestamp,
}

impl Record {
    /// The record of a stored object.
    pub fn of(object: &Maybe<Run>) -> Self {
        let meta = object.meta();
        let text = |text: &Option<String>| Arc::from(text.as_deref().unwrap_or_default());
        let run = object.good();
        let status = run.and_then(|run| run.status.as_ref());
        let unreadable = run.is_none() && finalizer::present(object.meta());
        Self {
            uid: text(&meta.uid),
            namespace: text(&meta.namespace),
            name: text(&meta.name),
            phase: status.and_then(|s| s.phase).unwrap_or(Phase::Pending),
            stalled: if unreadable {
                Some(place_of(STALLED, Reason::RunInvalid.as_str()))
            } else {
                run.and_then(|run| stalled(run))
            },
            unreadable,
            decoded: run.is_some(),
            settled: false,
            details: run.and_then(|run| Details::of(run)).map(Box::new),
        }
    }

    /// The same record, of a Run that is or is not settled.
    #[must_use]
    pub(crate) fn settled(self, settled: bool) -> Self {
        Self { settled, ..self }
    }

    /// Keeps the claim of `old`, the previous record of the name, if this is the same Run and can no longer be decoded.
    /// Its run continues, and another Run with the same key would obtain that run.
    pub(super) fn keep_key(&mut self, old: &Self) {
        let held = old.details.as_ref().zip(old.claim());
        let Some((details, claim)) = held.filter(|(_, c)| c.strength == KeyClaim::Holds) else {
            return;
        };
        if !self.decoded && self.uid == old.uid {
            self.details = Some(Box::new(Details {
                workspace: Arc::clone(&details.workspace),
                claim: Some(claim.clone()),
                doubt: None,
                live: true,
                waits: false,
                needs: false,
            }));
        }
    }

    /// The claim of a live Run that has a key of its own.
    pub(crate) fn claim(&self) -> Option<&Claim> {
        self.details.as_ref()?.claim.as_ref()
    }

    /// Whether it was decoded and has not ended, or holds its key although it can no longer be decoded.
    pub(crate) fn live(&self) -> bool {
        self.details.as_ref().is_some_and(|details| details.live)
    }

    /// The Workspace that must outlive it.
    pub(crate) fn needs(&self) -> Option<&Arc<WorkspaceKey>> {
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
        let intent = run.intent_record();
        Some(Self {
            workspace: Arc::new(WorkspaceKey::of(&run.spec.workspace_ref(), &namespace)),
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
        Some(Self {
            key: Arc::from(run.spec.idempotency_key.as_deref()?),
            strength: KeyClaim::of(run, intent),
            created: created(run),
        })
    }
}

/// Time of an intent whose outcome is not in the status.
fn doubt(run: &Run, intent: &IntentRecord) -> Option<Timestamp> {
    let status = run.status.as_ref();
    let settled = status.is_some_and(|s| s.run_id.is_some() || s.refusal.is_some());
    match intent {
        IntentRecord::Own(intent) if !settled => Some(intent.time),
        _ => None,
    }
}

/// Position in [`STALLED`] of the reason for which an unfinished Run waits for a person.
fn stalled(run: &Run) -> Option<u8> {
    let conditions: &[Condition] = run.status.as_ref().map_or(&[], |s| &s.conditions);
    let stalled = find(conditions, ConditionType::Stalled).filter(|c| c.status == "True")?;
    (!is_true(conditions, ConditionType::Finished)).then(|| place_of(STALLED, &stalled.reason))
}
