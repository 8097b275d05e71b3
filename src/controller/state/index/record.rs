//! Record of one Run: its claim on an idempotency key.

use std::sync::Arc;

use jiff::Timestamp;

use crate::api::{Run, intent::IntentRecord};
use crate::controller::state::run_store::Known;
use crate::decide::key_claim::{KeyClaim, created};

/// The index's record of one Run.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    pub(crate) uid: Arc<str>,
    pub(crate) namespace: Arc<str>,
    pub(crate) name: Arc<str>,
    /// Whether it was decoded.
    pub(crate) decoded: bool,
    /// Whether it has not ended. If it can no longer be decoded: whether it holds a key.
    pub(crate) live: bool,
    /// Its claim on a key of its own, while it is live.
    pub(crate) claim: Option<Claim>,
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
    /// The record of what is known of an object.
    pub fn of(known: &Known) -> Self {
        let [uid, namespace, name] = known.identity().map(Arc::from);
        let live = match known {
            Known::Active(run) => Some(run).filter(|run| !run.ended()),
            Known::Bad(_) | Known::Ended(_) => None,
        };
        Self {
            uid,
            namespace,
            name,
            decoded: !matches!(known, Known::Bad(_)),
            live: live.is_some(),
            claim: live.and_then(|run| Claim::of(run, &run.intent_record())),
        }
    }

    /// Keeps the claim of `old`, the previous record of this Run, if it can no longer be decoded. Its run continues, and
    /// another Run with the same key would obtain that run.
    pub(super) fn keep_key(&mut self, old: &Self) {
        let held = old.claim.as_ref();
        if let Some(claim) = held.filter(|c| c.strength == KeyClaim::Holds)
            && !self.decoded
        {
            self.claim = Some(claim.clone());
            self.live = true;
        }
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
