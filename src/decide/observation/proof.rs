//! Proof that no run was made.

use crate::api::{Intent, status::Refusal};
use crate::decide::invariants::{Rule, holds};

use super::{Observation, intent::Known};

impl Observation<'_> {
    /// Whether it is proved that no run exists for this object (docs/design.md, "In doubt").
    pub(crate) fn not_created(&self) -> bool {
        match self.intent() {
            Known::Nothing => true,
            Known::Foreign => foreign_intent_is_no_doubt(),
            Known::Unreadable => false,
            Known::Own(intent) => self.refusal_proves(intent) || self.owner_knows(intent),
        }
    }

    fn refusal_proves(&self, intent: &Intent) -> bool {
        let refusal = self.status().refusal.as_ref();
        refusal.is_some_and(|r| r.not_created && refusal_is_for_this_epoch(r, intent))
    }

    fn owner_knows(&self, intent: &Intent) -> bool {
        self.owned_by_this_process(intent) && self.memory().knows_none_made()
    }
}

/// Whether an intent of another uid is no reason for doubt (`Rule::ForeignFrees`).
fn foreign_intent_is_no_doubt() -> bool {
    holds(Rule::ForeignFrees)
}

/// Whether a refusal answers the POSTs under this intent: it counts only for its own epoch (`Rule::RefusalOfEpoch`).
pub(crate) fn refusal_is_for_this_epoch(refusal: &Refusal, intent: &Intent) -> bool {
    refusal.epoch == intent.epoch || !holds(Rule::RefusalOfEpoch)
}
