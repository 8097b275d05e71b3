//! Proof that no run was made.

use crate::api::{Intent, status::Refusal};

use super::{Observation, intent::Known};

impl Observation<'_> {
    /// Whether it is proved that no run exists for this object (docs/design.md, "In doubt").
    pub(crate) fn not_created(&self) -> bool {
        match self.intent() {
            // Another object's intent is no reason for doubt.
            Known::Nothing | Known::Foreign => true,
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

/// Whether a refusal answers the POSTs under this intent: it counts only for its own epoch.
pub(crate) fn refusal_is_for_this_epoch(refusal: &Refusal, intent: &Intent) -> bool {
    refusal.epoch == intent.epoch
}
