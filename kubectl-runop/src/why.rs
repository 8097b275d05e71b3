//! `kubectl runs why`: from a Run to its Workspace, to the Secret, to what is to be done.

use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use kube::core::PartialObjectMeta;
use serde::Serialize;

use run_operator::api::any_workspace::AnyWorkspace;
use run_operator::api::{ClusterWorkspace, Workspace, WorkspaceKind, WorkspaceRef};
use run_operator::clock::wall;
use run_operator::decide::explain::causes::{
    Explanation, explain, secret_to_read, workspace_to_read,
};
use run_operator::decide::explain::looks::{Look, SecretLook, SecretName, WorkspaceLook};

use crate::cli::OutputFormat;
use crate::cli::runs::WhyArgs;

use super::cluster::{Cluster, bounded};
use super::exit::{End, RunsError};
use super::object::Seen;
use super::print::{json, out};

pub(super) async fn run(cluster: &Cluster, args: &WhyArgs) -> Result<End, RunsError> {
    let run = cluster.run(&args.name).await?;
    let explanation = examine(cluster, &run).await;
    out(&match args.output {
        OutputFormat::Text => text(cluster, &run, &explanation),
        OutputFormat::Json => document(&run, &explanation),
    })?;
    Ok(End::Succeeded)
}

async fn examine(cluster: &Cluster, run: &Seen) -> Explanation {
    let workspace = match workspace_to_read(run.stored()) {
        Some(reference) => workspace(cluster, &reference).await,
        None => Look::NotNeeded,
    };
    let secret = match (&workspace, workspace_to_read(run.stored())) {
        (Look::Found(found), Some(reference)) if reference.kind() == WorkspaceKind::Workspace => {
            match secret_to_read(found) {
                Some(name) => secret(cluster, &name).await,
                None => Look::NotNeeded,
            }
        }
        _ => Look::NotNeeded,
    };
    explain(run.stored(), &workspace, &secret, wall())
}

async fn workspace(cluster: &Cluster, reference: &WorkspaceRef) -> Look<WorkspaceLook> {
    let name = &reference.name;
    match reference.kind() {
        WorkspaceKind::Workspace => {
            let api: Api<Workspace> = Api::namespaced(cluster.client.clone(), &cluster.namespace);
            look(bounded(api.get(name)).await.map(common))
        }
        WorkspaceKind::ClusterWorkspace => {
            let api: Api<ClusterWorkspace> = Api::all(cluster.client.clone());
            look(bounded(api.get(name)).await.map(common))
        }
    }
}

#[allow(
    clippy::needless_pass_by_value,
    reason = "it stands for the object that was read"
)]
fn common<K: AnyWorkspace>(workspace: K) -> WorkspaceLook {
    WorkspaceLook {
        spec: workspace.common().clone(),
        status: workspace.stored().cloned(),
    }
}

/// Reads the metadata only: the API server sends no more.
async fn secret(cluster: &Cluster, secret: &SecretName) -> Look<SecretLook> {
    let api: Api<PartialObjectMeta<Secret>> =
        Api::namespaced(cluster.client.clone(), &cluster.namespace);
    look(bounded(api.get(&secret.name)).await.map(|secret| {
        let meta = secret.metadata;
        let writes = meta.managed_fields.into_iter().flatten();
        let writes = writes.filter_map(|entry| entry.time);
        let changed = writes
            .chain(meta.creation_timestamp)
            .map(|time| time.0)
            .max();
        SecretLook { changed }
    }))
}

fn look<T>(answer: Result<T, RunsError>) -> Look<T> {
    match answer {
        Ok(found) => Look::Found(found),
        Err(error) => match error.code() {
            Some(404) => Look::Missing,
            Some(401 | 403) => Look::NotAllowed,
            _ => Look::Failed(error.to_string()),
        },
    }
}

fn text(cluster: &Cluster, run: &Seen, explanation: &Explanation) -> String {
    let causes = explanation.causes.iter().enumerate();
    let causes = causes.map(|(depth, cause)| format!("{}└ {}", "  ".repeat(depth), cause.line()));
    let unreadable = run.unreadable.as_ref().map(|why| format!("└ {why}"));
    let remedy = match &explanation.remedy {
        Some(remedy) => format!("To mend it: {remedy}"),
        None => "Nothing needs to be done.".to_owned(),
    };
    let again = || cluster.command(&format!("retry {}", run.name()));
    let again = explanation.retry.then(|| format!("To retry: {}", again()));
    let lines = std::iter::once(explanation.summary.clone())
        .chain(causes)
        .chain(unreadable)
        .chain([remedy])
        .chain(again);
    lines.map(|line| line + "\n").collect::<Vec<_>>().concat()
}

/// What `-o json` prints.
#[derive(Serialize)]
struct Document<'a> {
    name: &'a str,
    namespace: &'a str,
    uid: &'a str,
    #[serde(flatten)]
    explanation: &'a Explanation,
}

fn document(run: &Seen, explanation: &Explanation) -> String {
    let document = Document {
        name: run.name(),
        namespace: run.namespace(),
        uid: run.uid(),
        explanation,
    };
    json(&serde_json::to_string(&document).unwrap_or_default())
}
