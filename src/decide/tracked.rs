//! Who keeps an object in step with a source: what is deleted here, Argo CD, Flux or Helm would create again,
//! under a new uid, and so run and pay for it again. Such an object is not deleted by its TTL.
//!
//! Judged by the marks that these tools leave on what they apply. A mark that only looks like one of theirs
//! keeps an object that could have gone, which costs nothing; the other mistake costs a run.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::api::{ConditionType, RunStatus, names};

use super::{
    Note,
    facts::Facts,
    memory::later,
    text::{MAX_SENTENCES, cut},
    transitions::RECENT,
};

/// A tool that would create the object again, and the mark that shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tracker {
    /// As people call it.
    pub tool: &'static str,
    /// The label or annotation.
    pub mark: &'static str,
}

/// Who would create this object again if it were deleted.
///
/// A hook is created at each sync or upgrade in any case, by its tool's own rules, and at no other time:
/// deleting it runs nothing that would not run anyway. Flux applies a manifest whatever Argo CD or Helm
/// call it.
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

/// Begins what the Finished condition says of it, so that it can be taken back when the marks go.
const NOTICE: &str = "spec.ttlSecondsAfterFinished doesn't apply: ";

impl Tracker {
    /// What an ended Run that outlives its TTL says of it.
    pub fn sentence(&self) -> String {
        format!(
            "{NOTICE}{} would create this object again, as a new Run (it carries {}). To delete it, remove it there.",
            self.tool, self.mark
        )
    }
}

/// Says in the Finished condition of a Run that has ended why its TTL doesn't delete it, or no longer says
/// so. It goes along with the write of the end; marks and TTLs that come or go later are a write of their own.
pub(super) fn tell(f: &Facts<'_>, status: &mut RunStatus) {
    let ended = ConditionType::Finished.as_str();
    let finished = status
        .conditions
        .iter_mut()
        .find(|c| c.type_ == ended && c.status == "True");
    if let Some(finished) = finished.filter(|_| !f.deleting()) {
        let bare = finished.message.split(NOTICE).next().unwrap_or_default();
        let told = match f.kept_by() {
            Some(by) => format!("{} {}", bare.trim_end(), by.sentence()),
            None => bare.trim_end().to_owned(),
        };
        cut(&told, MAX_SENTENCES).clone_into(&mut finished.message);
    }
}

/// The Event that goes along with a status which tells of it for the first time; of a recent end, also for a
/// process that ended before it could say so.
pub(super) fn note(f: &Facts<'_>, next: Option<&RunStatus>) -> Option<Note> {
    let by = f.kept_by()?;
    let after = next.unwrap_or(f.status());
    let ended = after.completion_time.as_ref();
    let recent = ended.is_some_and(|at| f.o.wall < later(at.0, RECENT));
    (tells(after) && (recent || !tells(f.status()))).then_some(Note::TtlIgnored { by })
}

fn tells(status: &RunStatus) -> bool {
    status.conditions.iter().any(|c| c.message.contains(NOTICE))
}
