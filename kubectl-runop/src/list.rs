//! `kubectl runs list`: what needs a person first.

use std::cmp::Reverse;

use jiff::Timestamp;
use kube::Api;
use kube::api::ListParams;

use run_operator::api::{Phase, WorkspaceKind};
use run_operator::clock::wall;
use run_operator::decide::explain::{duration, standing};

use crate::cli::runs::{ListArgs, ListFormat};

use super::cluster::{Cluster, bounded};
use super::exit::{End, RunsError};
use super::object::Seen;
use super::print::{json, out, table, yaml};

/// Runs asked for at a time.
const PAGE: u32 = 500;

pub(super) async fn run(cluster: &Cluster, args: &ListArgs) -> Result<End, RunsError> {
    let mut runs = read(cluster, args).await?;
    runs.sort_by_cached_key(|run| {
        let created = run.metadata.creation_timestamp.as_ref().map(|t| t.0);
        let name = (run.namespace().to_owned(), run.name().to_owned());
        (standing::of(run.stored()), Reverse(created), name)
    });
    match args.output {
        Some(ListFormat::Json) => out(&json(&as_list(&runs)))?,
        Some(ListFormat::Yaml) => out(&yaml(&as_list(&runs))?)?,
        Some(ListFormat::Name) => {
            let names = runs.iter().map(|run| format!("{}\n", run.reference()));
            out(&names.collect::<String>())?;
        }
        None | Some(ListFormat::Wide) if runs.is_empty() => nothing(cluster, args),
        None | Some(ListFormat::Wide) => {
            let columns = Columns {
                namespace: args.all_namespaces,
                wide: args.output.is_some(),
                now: wall(),
            };
            let heads = (!args.no_headers).then(|| columns.heads());
            let rows = heads
                .into_iter()
                .chain(runs.iter().map(|run| columns.of(run)));
            out(&table(&rows.collect::<Vec<_>>()))?;
        }
    }
    Ok(End::Succeeded)
}

fn nothing(cluster: &Cluster, args: &ListArgs) {
    if args.all_namespaces {
        eprintln!("No resources found");
    } else {
        eprintln!("No resources found in {} namespace.", cluster.namespace);
    }
}

async fn read(cluster: &Cluster, args: &ListArgs) -> Result<Vec<Seen>, RunsError> {
    let api: Api<Seen> = if args.all_namespaces {
        Api::all(cluster.client.clone())
    } else {
        cluster.runs()
    };
    let mut params = ListParams::default().limit(PAGE);
    params.label_selector.clone_from(&args.selector);
    params.field_selector.clone_from(&args.field_selector);
    let mut runs = Vec::new();
    loop {
        let page = bounded(api.list(&params)).await?;
        runs.extend(page.items);
        params.continue_token = page.metadata.continue_.filter(|token| !token.is_empty());
        if params.continue_token.is_none() {
            return Ok(runs);
        }
    }
}

/// A List, as kubectl prints several objects.
fn as_list(runs: &[Seen]) -> String {
    let items: Vec<&str> = runs.iter().map(Seen::text).collect();
    let items = items.join(",");
    format!(
        r#"{{"apiVersion":"v1","kind":"List","metadata":{{"resourceVersion":""}},"items":[{items}]}}"#
    )
}

/// The columns that are shown.
struct Columns {
    namespace: bool,
    wide: bool,
    now: Timestamp,
}

impl Columns {
    fn heads(&self) -> Vec<String> {
        let namespace = self.namespace.then_some("NAMESPACE").into_iter();
        let all = ["NAME", "PHASE", "STATE", "REASON", "AGE", "DURATION"];
        let wide = ["RUN ID", "WORKSPACE", "REQUEST ID"];
        let wide = wide.into_iter().filter(|_| self.wide);
        let heads = namespace.chain(all).chain(wide);
        heads.map(str::to_owned).collect()
    }

    fn of(&self, run: &Seen) -> Vec<String> {
        let status = run.status.as_ref();
        let text = |value: Option<&str>| value.unwrap_or_default().to_owned();
        let stored = run.stored();
        let created = run.metadata.creation_timestamp.as_ref();
        let reason = match &run.unreadable {
            Some(_) => "RunInvalid".to_owned(),
            None => text(stored.telling().map(|c| c.reason.as_str())),
        };
        let mut row = Vec::new();
        if self.namespace {
            row.push(run.namespace().to_owned());
        }
        row.extend([
            run.name().to_owned(),
            text(stored.phase().map(Phase::as_str)),
            text(status.and_then(|s| s.state.as_deref())),
            reason,
            created.map_or(String::new(), |at| duration::between(at.0, self.now)),
            self.duration(run).unwrap_or_default(),
        ]);
        if self.wide {
            row.extend([
                text(status.and_then(|s| s.run_id.as_deref())),
                workspace(run),
                text(status.and_then(|s| s.request_id.as_deref())),
            ]);
        }
        row
    }

    /// The time since the run began, or that it took.
    fn duration(&self, run: &Seen) -> Option<String> {
        let status = run.status.as_ref()?;
        let begun = status
            .start_time
            .as_ref()
            .or(status.submission_time.as_ref())?;
        let end = status.completion_time.as_ref().map_or(self.now, |t| t.0);
        Some(duration::between(begun.0, end))
    }
}

fn workspace(run: &Seen) -> String {
    let Some(spec) = &run.spec else {
        return String::new();
    };
    let reference = spec.workspace_ref();
    match reference.kind() {
        WorkspaceKind::Workspace => reference.name,
        WorkspaceKind::ClusterWorkspace => format!("ClusterWorkspace/{}", reference.name),
    }
}
