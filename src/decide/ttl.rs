//! `ttlSecondsAfterFinished`: deletes a Run that has ended, or records why not.
//!
//! Argo CD, Flux or Helm would re-create a deleted object under a new uid, and so run and pay for it again: one that has
//! their mark stays. A mark is what the tool sets with any configuration and no other tool sets: Argo CD's field manager,
//! and not the label `app.kubernetes.io/instance`, which Helm charts and kustomize set too.

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
    let ttl = u64::try_from(facts.ttl_seconds()?).ok()?;
    let ended = facts.status().completion_time.as_ref()?;
    Some(after_stored(ended.0, ttl))
}

pub(crate) fn record_keeper(facts: &Facts<'_>, status: &mut RunStatus) {
    if is_true(&status.conditions, ConditionType::Finished) && !facts.deleting() {
        status.kept_by = kept_by(facts).map(|by| by.to_string());
    }
}

fn kept_by(facts: &Facts<'_>) -> Option<Tracker> {
    facts.ttl_seconds()?;
    tracked_by(&facts.run.metadata)
}

/// A tool that would re-create the object, and the mark that shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tracker {
    pub tool: &'static str,
    mark: Mark,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mark {
    Label(&'static str),
    Annotation(&'static str),
    /// In `managedFields`.
    Manager(&'static str),
}

use Mark::{Annotation, Label, Manager};

/// Each mark with its tool, and with the annotations of hooks that the tool creates at each sync or upgrade in any case.
/// Flux and Helm mark all that they apply. Argo CD's tracking may be a label of any name: its field managers have theirs.
const MARKS: [(&str, Mark, &[&str]); 6] = [
    ("Flux", Label(names::FLUX_KUSTOMIZATION), &[]),
    ("Flux", Label(names::FLUX_HELM), &[names::HELM_HOOK]),
    ("Argo CD", Annotation(names::ARGO_TRACKING), ARGO_HOOKS),
    ("Argo CD", Manager(names::ARGO_APPLIES), ARGO_HOOKS),
    ("Argo CD", Manager(names::ARGO_REPLACES), ARGO_HOOKS),
    ("Helm", Annotation(names::HELM_RELEASE), &[names::HELM_HOOK]),
];

const ARGO_HOOKS: &[&str] = &[names::ARGO_HOOK, names::HELM_HOOK];

/// The tool that would re-create this object if it were deleted.
pub fn tracked_by(meta: &ObjectMeta) -> Option<Tracker> {
    let hooked = |hooks: &[&'static str]| hooks.iter().any(|hook| Annotation(hook).is_on(meta));
    let mut marks = MARKS.into_iter();
    let (tool, mark, _) = marks.find(|(_, mark, hooks)| mark.is_on(meta) && !hooked(hooks))?;
    Some(Tracker { tool, mark })
}

impl Mark {
    fn is_on(self, meta: &ObjectMeta) -> bool {
        let (marks, name) = match self {
            Label(name) => (&meta.labels, name),
            Annotation(name) => (&meta.annotations, name),
            Manager(name) => {
                let mut entries = meta.managed_fields.iter().flatten();
                return entries.any(|entry| entry.manager.as_deref() == Some(name));
            }
        };
        marks.as_ref().is_some_and(|marks| marks.contains_key(name))
    }
}

/// As in `Argo CD (argocd.argoproj.io/tracking-id)`.
impl std::fmt::Display for Tracker {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.mark {
            Label(name) | Annotation(name) => write!(out, "{} ({name})", self.tool),
            Manager(name) => write!(out, "{} (field manager {name})", self.tool),
        }
    }
}
