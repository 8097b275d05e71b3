//! `spec.ttlSecondsAfterFinished`: deletes a Run that has ended, or records why not.
//!
//! Argo CD, Flux or Helm would re-create a deleted object under a new uid, and so run and pay for it again: an object with
//! their marks stays. A mark that only looks like theirs costs nothing; the opposite mistake costs a run.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::api::{ConditionType, RunStatus, conditions::is_true, names};

use super::{
    decision::{Decision, Effect},
    delays::after_stored,
    facts::Facts,
};

pub(crate) fn expiry(facts: &Facts<'_>) -> Decision {
    match due(facts).filter(|_| !facts.deleting()) {
        None => Decision::quiet(),
        Some(due) if due <= facts.wall => Decision::act(Effect::Delete),
        Some(due) => Decision::quiet().requeue_at(facts.when(due)),
    }
}

/// Time of the wall clock at which the TTL deletes the object; none if a GitOps tool would re-create it.
pub(crate) fn due(facts: &Facts<'_>) -> Option<Timestamp> {
    if kept_by(facts).is_some() {
        return None;
    }
    let ttl = u64::try_from(facts.spec().ttl_seconds_after_finished?).ok()?;
    let ended = facts.status().completion_time.as_ref()?;
    Some(after_stored(ended.0, ttl))
}

pub(crate) fn record_keeper(facts: &Facts<'_>, status: &mut RunStatus) {
    if is_true(&status.conditions, ConditionType::Finished) && !facts.deleting() {
        status.kept_by = kept_by(facts).map(|by| by.to_string());
    }
}

fn kept_by(facts: &Facts<'_>) -> Option<Tracker> {
    facts.spec().ttl_seconds_after_finished?;
    tracked_by(&facts.run.metadata)
}

/// A tool that would re-create the object, and the mark that shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tracker {
    pub tool: &'static str,
    pub mark: &'static str,
}

/// The tool that would re-create this object if it were deleted. Not a hook's, which creates it at each sync or upgrade
/// in any case. Flux applies a manifest even if it is a hook for Argo CD or Helm.
pub fn tracked_by(meta: &ObjectMeta) -> Option<Tracker> {
    let (labels, annotations) = (meta.labels.as_ref(), meta.annotations.as_ref());
    let helm_hook = has(annotations, names::HELM_HOOK);
    let argo_hook = helm_hook || has(annotations, names::ARGO_HOOK);
    let marks = [
        ("Flux", names::FLUX_KUSTOMIZATION, labels, false),
        ("Flux", names::FLUX_HELM, labels, helm_hook),
        ("Argo CD", names::ARGO_TRACKING, annotations, argo_hook),
        ("Argo CD", names::ARGO_INSTANCE, labels, argo_hook),
        ("Helm", names::HELM_RELEASE, annotations, helm_hook),
        ("Argo CD", names::INSTANCE, labels, argo_hook),
    ];
    let mut found = marks.into_iter();
    let (tool, mark, ..) = found.find(|(_, mark, on, hook)| !hook && has(*on, mark))?;
    Some(Tracker { tool, mark })
}

fn has(marks: Option<&BTreeMap<String, String>>, name: &str) -> bool {
    marks.is_some_and(|marks| marks.contains_key(name))
}

/// As in `Argo CD (argocd.argoproj.io/tracking-id)`.
impl std::fmt::Display for Tracker {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{} ({})", self.tool, self.mark)
    }
}
