//! `spec.ttlSecondsAfterFinished`: deletes a Run that has ended, or records why not.
//!
//! Argo CD, Flux or Helm would re-create a deleted object under a new uid, and so run and pay for it again. Such an object
//! is not deleted by its TTL. Detected by the marks that these tools leave on applied objects. A mark that only looks like
//! theirs keeps an object that could be deleted, which costs nothing; the opposite mistake costs a run.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::api::{ConditionType, RunStatus, conditions::is_true, names};

use super::{
    decision::{Decision, Effect},
    delays::after_stored,
    facts::Facts,
};

/// Deletes the object after its TTL.
pub(crate) fn expiry(facts: &Facts<'_>) -> Decision {
    match due(facts).filter(|_| !facts.deleting()) {
        None => Decision::quiet(),
        Some(due) if due <= facts.wall => Decision::act(Effect::Delete),
        Some(due) => Decision::quiet().requeue_at(facts.when(due)),
    }
}

/// Time of the wall clock at which the TTL deletes the object. None if a GitOps tool would re-create it and run it
/// again: adding or removing that tool's marks changes the object and so requeues it.
pub(crate) fn due(facts: &Facts<'_>) -> Option<Timestamp> {
    if kept_by(facts).is_some() {
        return None;
    }
    let ttl = u64::try_from(facts.spec().ttl_seconds_after_finished?).ok()?;
    let ended = facts.status().completion_time.as_ref()?;
    Some(after_stored(ended.0, ttl))
}

/// Records which tool keeps a Run that has ended past its TTL. It is part of the write of the end; later changes of
/// marks or TTL cost one more write.
pub(crate) fn record_keeper(facts: &Facts<'_>, status: &mut RunStatus) {
    if is_true(&status.conditions, ConditionType::Finished) && !facts.deleting() {
        status.kept_by = kept_by(facts).map(|by| by.to_string());
    }
}

/// The GitOps tool that would re-create this object if its TTL deleted it.
fn kept_by(facts: &Facts<'_>) -> Option<Tracker> {
    facts.spec().ttl_seconds_after_finished?;
    tracked_by(&facts.run.metadata)
}

/// A tool that would re-create the object, and the mark that shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tracker {
    /// The tool's usual name.
    pub tool: &'static str,
    /// The label or annotation.
    pub mark: &'static str,
}

/// The tool that would re-create this object if it were deleted.
///
/// Hooks are excluded: their tool creates them at each sync or upgrade in any case, and at no other time. Deleting one
/// runs nothing that would not run anyway. Flux applies a manifest even if it is a hook for Argo CD or Helm.
pub fn tracked_by(meta: &ObjectMeta) -> Option<Tracker> {
    let label = |name: &str| meta.labels.as_ref().is_some_and(|l| l.contains_key(name));
    let annotation = |name: &str| {
        meta.annotations
            .as_ref()
            .is_some_and(|a| a.contains_key(name))
    };
    let found = |tool, mark, there: bool| there.then_some(Tracker { tool, mark });

    let helm_hook = annotation(names::HELM_HOOK);
    let argo_hook = annotation(names::ARGO_HOOK) || helm_hook;
    let argo = |mark, there| found("Argo CD", mark, there && !argo_hook);
    let of_helm = !helm_hook;
    found(
        "Flux",
        names::FLUX_KUSTOMIZATION,
        label(names::FLUX_KUSTOMIZATION),
    )
    .or_else(|| found("Flux", names::FLUX_HELM, label(names::FLUX_HELM) && of_helm))
    .or_else(|| argo(names::ARGO_TRACKING, annotation(names::ARGO_TRACKING)))
    .or_else(|| argo(names::ARGO_INSTANCE, label(names::ARGO_INSTANCE)))
    .or_else(|| {
        found(
            "Helm",
            names::HELM_RELEASE,
            annotation(names::HELM_RELEASE) && of_helm,
        )
    })
    .or_else(|| argo(names::INSTANCE, label(names::INSTANCE)))
}

/// As in `Argo CD (argocd.argoproj.io/tracking-id)`.
impl std::fmt::Display for Tracker {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{} ({})", self.tool, self.mark)
    }
}
