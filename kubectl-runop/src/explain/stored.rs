//! A Run as it is stored, and what its conditions say.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta};

use crate::api::{ConditionType, Phase, Reason, RunSpec, RunStatus, conditions};

/// A Run as it is stored. Spec and status are absent if they can't be read by this version.
#[derive(Clone, Copy, Debug)]
pub struct Stored<'a> {
    /// Its metadata.
    pub meta: &'a ObjectMeta,
    /// Its spec.
    pub spec: Option<&'a RunSpec>,
    /// Its status; also absent before the operator's first write.
    pub status: Option<&'a RunStatus>,
}

impl<'a> Stored<'a> {
    /// The phase; none before the operator's first write.
    pub fn phase(self) -> Option<Phase> {
        self.status?.phase
    }

    /// Whether the run has ended.
    pub fn ended(self) -> bool {
        self.phase().is_some_and(Phase::terminal)
    }

    /// Whether a condition is there and True.
    pub fn holds(self, kind: ConditionType) -> bool {
        self.status
            .is_some_and(|status| conditions::is_true(&status.conditions, kind))
    }

    /// The condition that says most: that the Run is stalled, or that what it shows is old, or else Ready.
    pub fn telling(self) -> Option<&'a Condition> {
        let found = &self.status?.conditions;
        let find = |kind, status: &str| {
            conditions::find(found, kind).filter(|c| status.is_empty() || c.status == status)
        };
        find(ConditionType::Stalled, "True")
            .or_else(|| find(ConditionType::Synced, "False").filter(|_| !self.ended()))
            .or_else(|| find(ConditionType::Ready, ""))
    }

    /// The reason of the condition that says most; `None` also for one of another version.
    pub fn reason(self) -> Option<Reason> {
        Reason::named(&self.telling()?.reason)
    }
}
