//! The intent in force: its object, the process that may POST under it, the age of its key, and its retries.

use std::time::Duration;

use jiff::Timestamp;

use crate::api::{Intent, intent::IntentRecord, limits::MAX_RETRY, names};
use crate::decide::{request::body, time::later, truncate::cut};

use super::Observation;

/// The intent in force.
pub(crate) enum Known<'a> {
    /// No intent was ever written for this uid.
    Nothing,
    /// This object's own: from the object or, if it was removed there, from memory.
    Own(&'a Intent),
    /// Another object's.
    Foreign,
    /// Made unreadable by an edit.
    Unreadable,
}

impl Observation<'_> {
    pub(crate) fn intent(&self) -> Known<'_> {
        match (&self.record, &self.o.memory.intent) {
            (IntentRecord::Own(intent), _) => Known::Own(intent),
            // Stripped by an edit, and remembered by the process that wrote it.
            (_, Some(intent)) if intent.uid == self.uid => Known::Own(intent),
            (IntentRecord::Absent, _) => Known::Nothing,
            (IntentRecord::Foreign, _) => Known::Foreign,
            (IntentRecord::Unreadable, _) => Known::Unreadable,
        }
    }

    pub(crate) fn own_intent(&self) -> Option<&Intent> {
        match self.intent() {
            Known::Own(intent) => Some(intent),
            Known::Nothing | Known::Foreign | Known::Unreadable => None,
        }
    }

    /// Whether the object's annotation holds an intent of this object.
    pub(crate) fn intent_stands(&self) -> bool {
        matches!(self.record, IntentRecord::Own(_))
    }

    /// Whether this process may POST under the intent: it is in the object, names this process as owner, and this
    /// process got the answer to its write: else the proof of one epoch would be used for the next.
    pub(crate) fn owned_by_this_process(&self, intent: &Intent) -> bool {
        self.intent_stands()
            && intent.owner == self.o.settings.process
            && intent.epoch == self.memory().submission.epoch
    }

    /// The intent as this process wrote it, if it counts in addition to the one in the object: both have the same
    /// epoch, or a run may have been made under it. Another process never moves a submission in doubt, so any
    /// difference is then an edit.
    pub(crate) fn written(&self) -> Option<&Intent> {
        let stands = self.own_intent()?;
        self.memory().intent.as_ref().filter(|own| {
            let made_some = self.memory().run_id.is_some() || !self.memory().knows_none_made();
            own.uid == self.uid && (own.epoch == stands.epoch || made_some)
        })
    }

    /// Time from which the service may have forgotten the key of this intent, by the wall clock.
    pub(crate) fn key_forgotten_at(&self, intent: &Intent) -> Timestamp {
        let retention = self.o.contract.key_retention_seconds();
        // An edit makes no key younger.
        let time = self
            .written()
            .map_or(intent.time, |own| own.time.min(intent.time));
        later(time, Duration::from_secs(retention))
    }

    /// Whether the service may have forgotten the key of this intent, after which no POST is sent again.
    pub(crate) fn key_may_be_forgotten(&self, intent: &Intent) -> bool {
        self.key_forgotten_at(intent) <= self.o.wall
    }

    /// Whether the retry annotation has a value that was not acted on yet. A value copied with a manifest, before the
    /// first reconcile of this object, is no request.
    pub(crate) fn new_retry(&self) -> bool {
        let Some(value) = self.retry_annotation() else {
            return false;
        };
        let copied = matches!(self.intent(), Known::Foreign) && self.status().phase.is_none();
        !copied && !self.retry_was_handled(&value)
    }

    /// Whether this retry was acted on, which happens once.
    fn retry_was_handled(&self, value: &str) -> bool {
        let own = self.own_intent().and_then(|i| i.retry.as_deref());
        self.status().handled_retry.as_deref() == Some(value) || own == Some(value)
    }

    /// The retry annotation's value, or its hash if it is too long to be stored.
    pub(crate) fn retry_annotation(&self) -> Option<String> {
        let annotations = self.o.run.metadata.annotations.as_ref()?;
        let value = annotations.get(names::RETRY_ANNOTATION)?;
        Some(if cut(value, MAX_RETRY).len() == value.len() {
            value.clone()
        } else {
            format!("sha256:{}", body::sha256(value.as_bytes()))
        })
    }
}
