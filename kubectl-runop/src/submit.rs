//! `kubectl runs submit`: creates Runs, and finds those that the same command made before.

use kube::Resource;
use serde_json::Value;

use run_operator::decide::explain::verdict::Goal;

use crate::cli::OutputFormat;
use crate::cli::runs::{DryRun, ObjectFormat, SubmitArgs};

use super::cluster::{Cluster, bounded};
use super::events;
use super::exit::{End, RunsError};
use super::manifest::{self, Manifest};
use super::object::Seen;
use super::print;
use super::program::MANAGER;
use super::wait::{self, Patience};

/// Random names that are tried before the creation is given up.
const NAMES: usize = 5;

/// What makes a run the one that was asked for, and can't be edited. The rest may have been, as by a cancellation.
const FIXED: [&str; 5] = [
    "workload",
    "provider",
    "region",
    "workspaceRef",
    "idempotencyKey",
];

/// A Run of the cluster, and what the command did to it.
enum Submitted {
    Created(Seen),
    /// It is there from an earlier time, with the same key and spec.
    Found(Seen),
}

pub(super) async fn run(cluster: &Cluster, args: &SubmitArgs) -> Result<End, RunsError> {
    let waits = args.wait || args.follow;
    if args.timeout.is_some() && !waits {
        let message = "--timeout needs --wait or --follow";
        return Err(RunsError::Usage(message.to_owned()));
    }
    let mut placed = Vec::new();
    for manifest in manifest::of(args)? {
        placed.push((place(cluster, &manifest)?, manifest));
    }
    if args.dry_run.is_none() && placed.len() > 1 {
        check(&placed).await?;
    }
    let mut submitted = Vec::new();
    for (place, manifest) in placed {
        if args.dry_run == Some(DryRun::Client) {
            dry_run(&manifest, &place, args.output)?;
            continue;
        }
        let is_dry_run = args.dry_run.is_some();
        let (run, became) = match submit(&place, manifest, is_dry_run).await? {
            Submitted::Created(run) if is_dry_run => (run, "created (server dry run)"),
            Submitted::Created(run) => (run, "created"),
            Submitted::Found(run) => (run, "unchanged: it was submitted before, with this key"),
        };
        if waits && args.output.is_some() {
            // Standard output is for the object at its end.
            eprintln!("{} {became}", run.reference());
        } else {
            print::object(&run, args.output, became)?;
        }
        submitted.push((place, run));
    }
    finish(&submitted, args).await
}

async fn finish(submitted: &[(Cluster, Seen)], args: &SubmitArgs) -> Result<End, RunsError> {
    if args.follow
        && let Some((place, run)) = submitted.first()
    {
        return events::follow(place, run, args.timeout, OutputFormat::Text).await;
    }
    if !args.wait {
        return Ok(End::Succeeded);
    }
    let patience = Patience {
        goal: Goal::Succeeded,
        timeout: args.timeout,
        output: args.output,
    };
    wait::all(submitted, patience).await
}

/// The namespace of a manifest, which must be the flag's if there is one.
fn place(cluster: &Cluster, manifest: &Manifest) -> Result<Cluster, RunsError> {
    match &manifest.namespace {
        Some(own) if *own != cluster.namespace => {
            if cluster.is_namespace_given {
                return Err(RunsError::Usage(format!(
                    "the namespace from the provided object \"{own}\" does not match the namespace \"{}\"; pass --namespace={own}",
                    cluster.namespace
                )));
            }
            Ok(cluster.within(own))
        }
        _ => Ok(cluster.clone()),
    }
}

/// Has the API server check each Run of several before it stores the first. A single one is checked by its creation.
async fn check(placed: &[(Cluster, Manifest)]) -> Result<(), RunsError> {
    for (place, manifest) in placed {
        match create(place, &manifest.object, true).await {
            Ok(_) => {}
            // Perhaps this command made it before.
            Err(RunsError::Server { reason, .. }) if reason == "AlreadyExists" => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Prints what would be created.
fn dry_run(
    manifest: &Manifest,
    place: &Cluster,
    format: Option<ObjectFormat>,
) -> Result<(), RunsError> {
    let mut object = manifest.object.clone();
    object["metadata"]["namespace"] = Value::String(place.namespace.clone());
    let run = Seen::from_text(&object.to_string())
        .map_err(|error| RunsError::Usage(format!("{}: {error}", manifest.name.text())))?;
    if let Some(wrong) = &run.unreadable {
        return Err(RunsError::Usage(format!(
            "{}: {wrong}",
            manifest.name.text()
        )));
    }
    print::object(&run, format, "created (dry run)")
}

/// Creates the Run, or finds the one that the same key and spec made before.
async fn submit(
    cluster: &Cluster,
    mut manifest: Manifest,
    dry_run: bool,
) -> Result<Submitted, RunsError> {
    for _ in 0..NAMES {
        let error = match create(cluster, &manifest.object, dry_run).await {
            Ok(run) => return Ok(Submitted::Created(run)),
            Err(error) => error,
        };
        match &error {
            RunsError::Server { reason, .. } if reason == "AlreadyExists" => {
                if !manifest.rename() {
                    return found(cluster, &manifest, error).await;
                }
            }
            RunsError::Server { code, .. } if *code < 500 => return Err(error),
            _ => return Err(unknown(cluster, &manifest, &error)),
        }
    }
    let message = format!("{NAMES} random names were taken; choose a name");
    Err(RunsError::Usage(message))
}

/// Unknown fields are errors, as for kubectl.
async fn create(cluster: &Cluster, object: &Value, dry_run: bool) -> Result<Seen, RunsError> {
    let path = Seen::url_path(&(), Some(&cluster.namespace));
    let dry_run = if dry_run { "&dryRun=All" } else { "" };
    let target = format!("{path}?fieldManager={MANAGER}&fieldValidation=Strict{dry_run}");
    let request =
        http::Request::post(target).header(http::header::CONTENT_TYPE, "application/json");
    let request = request
        .body(object.to_string().into_bytes())
        .map_err(|error| RunsError::Usage(error.to_string()))?;
    bounded(cluster.client.request(request)).await
}

/// The Run that has the name already: the same one if key and spec are the same.
async fn found(
    cluster: &Cluster,
    manifest: &Manifest,
    exists: RunsError,
) -> Result<Submitted, RunsError> {
    if manifest.key().is_none() {
        return Err(exists);
    }
    let name = manifest.name.text();
    let run = cluster.run(name).await?;
    let stored: Value = serde_json::from_str(run.text())
        .map_err(|error| RunsError::Usage(format!("{name} can't be compared: {error}")))?;
    if run.metadata.deletion_timestamp.is_some() {
        let message =
            format!("{name} has this key and is being deleted; submit again when it is gone");
        return Err(RunsError::Usage(message));
    }
    let wanted = &manifest.object["spec"];
    if FIXED
        .iter()
        .all(|field| is_same(&stored["spec"][field], &wanted[field]))
    {
        return Ok(Submitted::Found(run));
    }
    Err(RunsError::Usage(format!(
        "{name} exists with another workload or place; nothing was submitted. Another run needs another key or name"
    )))
}

/// Whether two values ask for the same: the API server makes a 1 of a 1.0.
fn is_same(stored: &Value, wanted: &Value) -> bool {
    match (stored, wanted) {
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len()
                && a.iter()
                    .all(|(key, value)| b.get(key).is_some_and(|other| is_same(value, other)))
        }
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| is_same(a, b))
        }
        (Value::Number(a), Value::Number(b)) => a == b || a.as_f64() == b.as_f64(),
        (a, b) => a == b,
    }
}

/// An error after which it is unknown whether the object was created, with the way to find out.
fn unknown(cluster: &Cluster, manifest: &Manifest, error: &RunsError) -> RunsError {
    let name = manifest.name.text();
    let next = if manifest.key().is_some() {
        "the same command, repeated, finds it".to_owned()
    } else {
        format!("to find out: {}", cluster.command(&format!("why {name}")))
    };
    let text = error.to_string();
    let text = text.strip_prefix("error: ").unwrap_or(&text);
    RunsError::Usage(format!(
        "{text}. Whether {name} was created is not known; {next}"
    ))
}
