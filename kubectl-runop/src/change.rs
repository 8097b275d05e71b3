//! `cancel`, `retry`, `suspend`, `resume` and `orphan`: changes that are decided on a version of the object, and
//! written only to that version.

use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use run_operator::api::run::DeletionPolicy;
use run_operator::api::{RunSpec, names};
use run_operator::clock::wall;
use run_operator::decide::explain::retry;
use run_operator::decide::gitops;

use crate::cli::runs::NamesArgs;

use super::cluster::{Cluster, bounded};
use super::exit::{End, RunsError};
use super::object::Seen;
use super::print;
use super::program::MANAGER;

/// Versions that are decided on before the change is given up: the operator writes, too.
const ATTEMPTS: usize = 10;
/// The API server's answer to a patch of a version that is not the present one.
const CONFLICT: u16 = 409;

/// What a command does to an object.
#[derive(Clone, Copy, Debug)]
pub(super) enum Change {
    Cancel,
    Retry,
    Suspend,
    Resume,
    Orphan,
}

/// What a change comes to for one version of an object.
enum Step {
    /// A merge patch, and what it makes of the Run.
    Write(Value, &'static str),
    /// It is so already.
    Unchanged(String),
    /// It can't be, or nothing could come of it.
    Refused(String),
}

pub(super) async fn run(
    cluster: &Cluster,
    args: &NamesArgs,
    change: Change,
) -> Result<End, RunsError> {
    let mut end = End::Succeeded;
    for name in &args.names {
        // The others are changed all the same, as by kubectl.
        if let Err(error) = one(cluster, args, name, change).await {
            eprintln!("{error}");
            end = End::Failed;
        }
    }
    Ok(end)
}

async fn one(
    cluster: &Cluster,
    args: &NamesArgs,
    name: &str,
    change: Change,
) -> Result<(), RunsError> {
    let mut uid = None;
    for _ in 0..ATTEMPTS {
        let run = cluster.run(name).await?;
        if uid.get_or_insert_with(|| run.uid().to_owned()) != run.uid() {
            let message = format!("{name} was deleted and created again; nothing was changed");
            return Err(RunsError::Usage(message));
        }
        match step(&run, change) {
            Step::Unchanged(why) => {
                return print::object(&run, args.output, &format!("unchanged: {why}"));
            }
            Step::Refused(why) => return Err(RunsError::Usage(format!("{name}: {why}"))),
            Step::Write(mut patch, became) => {
                patch["metadata"]["resourceVersion"] = json!(run.metadata.resource_version);
                let params = PatchParams {
                    field_manager: Some(MANAGER.to_owned()),
                    ..PatchParams::default()
                };
                let runs = cluster.runs();
                match bounded(runs.patch(name, &params, &Patch::Merge(patch))).await {
                    Ok(run) => {
                        warn_of_gitops(&run);
                        return print::object(&run, args.output, became);
                    }
                    Err(error) if error.code() == Some(CONFLICT) => {}
                    Err(error) => return Err(error),
                }
            }
        }
    }
    let message = format!("{name} changed {ATTEMPTS} times meanwhile; try again");
    Err(RunsError::Usage(message))
}

/// Decides on a version of the object.
fn step(run: &Seen, change: Change) -> Step {
    match change {
        Change::Cancel => cancel(run),
        Change::Retry => again(run),
        Change::Suspend => suspend(run),
        Change::Resume => match &run.spec {
            Some(spec) if !spec.suspended() => Step::Unchanged("it is not suspended".to_owned()),
            _ => Step::Write(
                json!({"spec": {"suspend": null}, "metadata": {}}),
                "resumed",
            ),
        },
        Change::Orphan => orphan(run),
    }
}

fn again(run: &Seen) -> Step {
    if let Some(why) = retry::pointless(run.stored()) {
        return Step::Refused(why);
    }
    let annotations = json!({names::RETRY_ANNOTATION: wall().to_string()});
    Step::Write(json!({"metadata": {"annotations": annotations}}), "retried")
}

fn cancel(run: &Seen) -> Step {
    let cancelled = run.spec.as_ref().is_some_and(RunSpec::cancelled);
    match run.stored().phase() {
        Some(phase) if phase.terminal() => {
            Step::Unchanged(format!("it has ended ({})", phase.as_str()))
        }
        _ if cancelled => Step::Unchanged("it is being cancelled".to_owned()),
        _ => Step::Write(
            json!({"spec": {"cancel": true}, "metadata": {}}),
            "cancelled",
        ),
    }
}

fn suspend(run: &Seen) -> Step {
    let annotations = run.metadata.annotations.as_ref();
    let begun = annotations.is_some_and(|a| a.contains_key(names::INTENT_ANNOTATION));
    if run.stored().ended() {
        Step::Refused("it has ended".to_owned())
    } else if begun {
        Step::Refused("its submission has begun; it can only be cancelled".to_owned())
    } else if run.spec.as_ref().is_some_and(RunSpec::suspended) {
        Step::Unchanged("it is suspended".to_owned())
    } else {
        Step::Write(
            json!({"spec": {"suspend": true}, "metadata": {}}),
            "suspended",
        )
    }
}

fn orphan(run: &Seen) -> Step {
    let policy = run.spec.as_ref().map(RunSpec::deletion_policy);
    if policy == Some(DeletionPolicy::Orphan) {
        return Step::Unchanged("its deletion leaves the run alone".to_owned());
    }
    let patch = json!({"spec": {"deletionPolicy": "Orphan"}, "metadata": {}});
    Step::Write(patch, "orphaned: its deletion leaves the run alone")
}

/// A tool that keeps the object may put the change back.
fn warn_of_gitops(run: &Seen) {
    if let Some(tracker) = gitops::tracked_by(&run.metadata) {
        eprintln!(
            "Warning: {} keeps {} (it carries {}) and may undo this; make the change there, too.",
            tracker.tool,
            run.name(),
            tracker.mark
        );
    }
}
