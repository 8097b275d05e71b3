//! Priority of the Runs of a namespace that share a `spec.idempotencyKey`: one submits, the others wait.

use jiff::Timestamp;

use crate::api::{Run, intent::IntentRecord};

/// A live Run's relation to its key, in order of priority.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum KeyClaim {
    /// It has its own intent, or one that can't be read. Or it was submitted and its intent was removed; the operator
    /// restores it.
    Holds,
    /// It has no intent: the elder has priority.
    Waits,
    /// It is a copy of another object and holds nothing. It waits for a person, so that a Run waiting for it would be
    /// blocked permanently. When it is asked to submit, it claims the key by writing its own intent.
    Copy,
}

impl KeyClaim {
    /// The claim of a Run with this intent.
    pub fn of(run: &Run, intent: &IntentRecord) -> Self {
        let submitted = run.status.as_ref().is_some_and(|s| s.run_id.is_some());
        match intent {
            IntentRecord::Own(_) | IntentRecord::Unreadable => Self::Holds,
            IntentRecord::Absent if submitted => Self::Holds,
            IntentRecord::Absent => Self::Waits,
            IntentRecord::Foreign => Self::Copy,
        }
    }

    /// Whether a Run with this claim goes before one that has written no intent. If that one has `claimed` the key in
    /// this process, it waits only for a holder: its intent may be stored although the watch has not shown it. Age is
    /// the creation time, then the uid, which makes the order total.
    pub fn has_priority(
        self,
        age: (Timestamp, &str),
        other: (Timestamp, &str),
        claimed: bool,
    ) -> bool {
        match self {
            Self::Holds => true,
            Self::Waits => !claimed && age < other,
            Self::Copy => false,
        }
    }
}

/// Creation time of a Run.
pub fn created(run: &Run) -> Timestamp {
    let created = run.metadata.creation_timestamp.as_ref();
    created.map_or(Timestamp::MIN, |time| time.0)
}
