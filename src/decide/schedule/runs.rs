//! A schedule's Runs, as far as it looks at them.

use std::cmp::Reverse;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::Resource;

use crate::api::schedule::{ActiveRun, Tick};
use crate::api::{ConditionType, Phase, Reason, Run, RunSchedule, conditions::find};

use super::manifest::tick_of;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnedRun {
    pub name: String,
    pub uid: String,
    pub version: String,
    pub created: Timestamp,
    /// By its name; `None`: a person triggered it.
    pub tick: Option<Tick>,
    /// It has `cancel: true`, or is being deleted.
    pub cancelling: bool,
    pub deleting: bool,
    pub ended: Option<Ended>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    pub at: Timestamp,
    pub succeeded: bool,
    /// The run itself failed, so that another attempt may follow: no deadline, cancellation, refusal or doubt.
    pub failed: bool,
}

/// The RunSchedule that made an object.
pub fn owner(meta: &ObjectMeta) -> Option<&OwnerReference> {
    let mut owners = meta.owner_references.iter().flatten();
    owners.find(|owner| {
        owner.controller == Some(true)
            && owner.kind == RunSchedule::kind(&())
            && owner.api_version == RunSchedule::api_version(&())
    })
}

impl OwnedRun {
    /// `run`: absent for one of which only the metadata can be read, which may be active.
    pub fn of(meta: &ObjectMeta, run: Option<&Run>) -> Option<Self> {
        let schedule = owner(meta)?;
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        let name = text(&meta.name);
        let created = meta
            .creation_timestamp
            .as_ref()
            .map_or(Timestamp::MIN, |at| at.0);
        let deleting = meta.deletion_timestamp.is_some();
        Some(Self {
            tick: tick_of(&name, &schedule.name),
            name,
            uid: text(&meta.uid),
            version: text(&meta.resource_version),
            created,
            cancelling: deleting || run.is_some_and(|run| run.spec.cancelled()),
            deleting,
            ended: run.and_then(|run| Ended::of(run, created)),
        })
    }

    pub fn active(&self) -> ActiveRun {
        ActiveRun {
            name: self.name.clone(),
            uid: self.uid.clone(),
        }
    }
}

impl Ended {
    fn of(run: &Run, created: Timestamp) -> Option<Self> {
        let status = run.status.as_ref().filter(|_| run.ended())?;
        let failed = find(&status.conditions, ConditionType::Failed);
        let by_itself =
            failed.is_some_and(|c| c.status == "True" && c.reason == Reason::Failed.as_str());
        Some(Self {
            at: status.completion_time.as_ref().map_or(created, |at| at.0),
            succeeded: status.phase == Some(Phase::Succeeded),
            failed: status.phase == Some(Phase::Failed) && by_itself,
        })
    }
}

/// The Runs that have ended and don't stay: of those that succeeded and of the others, all but the newest.
pub(super) fn beyond(runs: &[OwnedRun], history: [usize; 2]) -> impl Iterator<Item = &OwnedRun> {
    let [succeeded, other] = [true, false].map(|succeeded| {
        let of = |ended: &Ended| ended.succeeded == succeeded;
        let mut all: Vec<_> = runs
            .iter()
            .filter(|run| run.ended.as_ref().is_some_and(of))
            .collect();
        all.sort_by_key(|run| {
            Reverse((
                run.tick.map_or(run.created, |tick| tick.at),
                run.tick,
                &run.name,
            ))
        });
        all
    });
    let [keep, keep_other] = history;
    let beyond = succeeded.into_iter().skip(keep);
    beyond
        .chain(other.into_iter().skip(keep_other))
        .filter(|run| !run.deleting)
}
