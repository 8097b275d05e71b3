//! `cancel`, `retry`, `suspend`, `resume` and `orphan`: changes that are decided on a version of the object, and
//! written only to that version.

use std::fmt::Debug;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{Patch, PatchParams};
use kube::{Api, Resource};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use run_operator::api::run::DeletionPolicy;
use run_operator::api::{Phase, RunSpec, names};
use run_operator::checks::bounded;
use run_operator::clock::wall;
use run_operator::decide::ttl;

use crate::args::NamesArgs;
use crate::cluster::{self, Cluster};
use crate::error::{End, ToolError};
use crate::explain::retry_is_pointless;
use crate::run::Run;
use crate::{PROGRAM, print};

/// Versions that are decided on before the change is given up: the operator writes, too.
const ATTEMPTS: usize = 3;
/// The API server's answer to a patch of a version that is not the present one.
const CONFLICT: u16 = 409;

/// What a change comes to for one version of an object.
pub(crate) enum Step {
    /// A merge patch, and what it makes of the object.
    Write(Value, &'static str),
    /// It is so already.
    Unchanged(&'static str),
    /// It can't be, or nothing could come of it.
    Refused(String),
}

pub(crate) async fn run(
    cluster: &Cluster,
    args: &NamesArgs,
    change: fn(&Run) -> Step,
) -> Result<End, ToolError> {
    let runs = cluster.runs();
    let mut end = End::Succeeded;
    for name in &args.names {
        let changed = one(&runs, name, change).await;
        let printed = changed.and_then(|(run, became)| print::object(&run, args.output, &became));
        // The others are changed all the same, as by kubectl.
        if let Err(error) = printed {
            eprintln!("{error}");
            end = End::Failed;
        }
    }
    Ok(end)
}

/// Changes one object. Returns its present version, and what became of it.
pub(crate) async fn one<K>(
    api: &Api<K>,
    name: &str,
    change: impl Fn(&K) -> Step,
) -> Result<(K, String), ToolError>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned,
{
    let params = PatchParams {
        field_manager: Some(PROGRAM.to_owned()),
        ..PatchParams::default()
    };
    let mut uid = None;
    for _ in 0..ATTEMPTS {
        let object = cluster::read(api, name).await?;
        let meta = object.meta();
        if *uid.get_or_insert_with(|| meta.uid.clone()) != meta.uid {
            let what = "was deleted and created again; nothing was changed";
            return Err(ToolError::usage(format!("{name} {what}")));
        }
        let (mut patch, became) = match change(&object) {
            Step::Write(patch, became) => (patch, became),
            Step::Unchanged(why) => return Ok((object, format!("unchanged: {why}"))),
            Step::Refused(why) => return Err(ToolError::usage(format!("{name}: {why}"))),
        };
        patch["metadata"]["resourceVersion"] = json!(meta.resource_version);
        match bounded(api.patch(name, &params, &Patch::Merge(patch))).await {
            Ok(changed) => {
                warn_of_gitops(changed.meta());
                return Ok((changed, became.to_owned()));
            }
            Err(refused) if refused.code() == Some(CONFLICT) => {}
            Err(refused) => return Err(refused.into()),
        }
    }
    let what = format!("changed {ATTEMPTS} times meanwhile; try again");
    Err(ToolError::usage(format!("{name} {what}")))
}

fn spec(run: &Run, holds: impl Fn(&RunSpec) -> bool) -> bool {
    run.spec.as_ref().is_some_and(holds)
}

pub(crate) fn cancel(run: &Run) -> Step {
    match run.phase() {
        Some(Phase::Succeeded) => Step::Unchanged("it has ended (Succeeded)"),
        Some(Phase::Failed) => Step::Unchanged("it has ended (Failed)"),
        Some(Phase::Cancelled) => Step::Unchanged("it has ended (Cancelled)"),
        _ if spec(run, RunSpec::cancelled) => Step::Unchanged("it is being cancelled"),
        _ => Step::Write(json!({"spec": {"cancel": true}}), "cancelled"),
    }
}

pub(crate) fn retry(run: &Run) -> Step {
    if let Some(why) = retry_is_pointless(run) {
        return Step::Refused(why);
    }
    let annotations = json!({names::RETRY_ANNOTATION: wall().to_string()});
    Step::Write(json!({"metadata": {"annotations": annotations}}), "retried")
}

pub(crate) fn suspend(run: &Run) -> Step {
    let annotations = run.metadata.annotations.as_ref();
    if run.ended() {
        Step::Refused("it has ended".to_owned())
    } else if annotations.is_some_and(|a| a.contains_key(names::INTENT_ANNOTATION)) {
        Step::Refused("its submission has begun; it can only be cancelled".to_owned())
    } else if spec(run, RunSpec::suspended) {
        Step::Unchanged("it is suspended")
    } else {
        Step::Write(json!({"spec": {"suspend": true}}), "suspended")
    }
}

pub(crate) fn resume(run: &Run) -> Step {
    if spec(run, |spec| !spec.suspended()) {
        Step::Unchanged("it is not suspended")
    } else {
        Step::Write(json!({"spec": {"suspend": null}}), "resumed")
    }
}

pub(crate) fn orphan(run: &Run) -> Step {
    if spec(run, |spec| spec.deletion_policy() == DeletionPolicy::Orphan) {
        Step::Unchanged("its deletion leaves the run alone")
    } else {
        let patch = json!({"spec": {"deletionPolicy": "Orphan"}});
        Step::Write(patch, "orphaned: its deletion leaves the run alone")
    }
}

/// A tool that keeps the object may put the change back.
fn warn_of_gitops(meta: &ObjectMeta) {
    if let Some(tracker) = ttl::tracked_by(meta) {
        let name = meta.name.as_deref().unwrap_or_default();
        eprintln!("Warning: {tracker} keeps {name} and may undo this; make the change there, too.");
    }
}
