//! Questions about an observation that every branch of the policy asks.

mod calls;
mod end;
mod intent;
mod proof;

pub(crate) use end::lost;
pub(crate) use intent::Known;
pub(crate) use proof::refusal_is_for_this_epoch;

use std::time::Duration;

use jiff::Timestamp;

use crate::api::{RunSpec, RunStatus, finalizer, intent::IntentRecord, run::DeletionPolicy};
use crate::decide::{
    Observed,
    gitops::{Tracker, tracked_by},
    memory::Memory,
    request::body,
    time::later,
};

/// An observation with its intent decoded.
pub(crate) struct Observation<'a> {
    pub(crate) o: &'a Observed<'a>,
    pub(crate) uid: &'a str,
    record: IntentRecord,
    no_status: RunStatus,
}

impl<'a> Observation<'a> {
    pub(crate) fn gather(o: &'a Observed<'a>) -> Self {
        let uid = o.run.metadata.uid.as_deref().unwrap_or_default();
        Self {
            o,
            uid,
            record: o.run.intent_record(),
            no_status: RunStatus::default(),
        }
    }

    pub(crate) fn spec(&self) -> &'a RunSpec {
        &self.o.run.spec
    }

    pub(crate) fn memory(&self) -> &'a Memory {
        self.o.memory
    }

    /// The stored status.
    pub(crate) fn status(&self) -> &RunStatus {
        self.o.run.status.as_ref().unwrap_or(&self.no_status)
    }

    pub(crate) fn generation(&self) -> i64 {
        self.o.run.metadata.generation.unwrap_or_default()
    }

    /// Process time at which the wall clock shows `wall`; now, if that has passed.
    pub(crate) fn when(&self, wall: Timestamp) -> Timestamp {
        let wait = Duration::try_from(wall.duration_since(self.o.wall));
        later(self.o.now, wait.unwrap_or_default())
    }

    /// Time since a stored time. A stored time in the future is from before the clock was set back: nothing waits for
    /// it to come again.
    pub(crate) fn since(&self, stored: Timestamp) -> Duration {
        Duration::try_from(self.o.wall.duration_since(stored)).unwrap_or(Duration::MAX)
    }

    pub(crate) fn deletion_requested_at(&self) -> Option<Timestamp> {
        self.o.run.metadata.deletion_timestamp.as_ref().map(|t| t.0)
    }

    pub(crate) fn deleting(&self) -> bool {
        self.o.vanished || self.deletion_requested_at().is_some()
    }

    /// Whether the object is deleted without cancelling its run.
    pub(crate) fn orphaned(&self) -> bool {
        self.deleting() && self.spec().deletion_policy() == DeletionPolicy::Orphan
    }

    /// The GitOps tool that would re-create this object if its TTL deleted it.
    pub(crate) fn kept_by(&self) -> Option<Tracker> {
        self.spec().ttl_seconds_after_finished?;
        tracked_by(&self.o.run.metadata)
    }

    pub(crate) fn has_finalizer(&self) -> bool {
        finalizer::present(&self.o.run.metadata)
    }

    pub(crate) fn key(&self) -> String {
        let namespace = self.o.run.metadata.namespace.as_deref().unwrap_or_default();
        body::idempotency_key(self.spec(), namespace, self.uid)
    }
}
