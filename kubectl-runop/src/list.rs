//! `list`: what needs a person first.

use std::cmp::Reverse;

use jiff::Timestamp;
use kube::Api;
use kube::api::ListParams;

use run_operator::api::{Phase, WorkspaceKind};
use run_operator::checks::pages;
use run_operator::clock::wall;

use crate::args::ListArgs;
use crate::cluster::Cluster;
use crate::error::{End, ToolError};
use crate::explain::{begun, between, severity};
use crate::print::{self, List, out};
use crate::queue::{self, Seen};
use crate::run::Run;

pub(crate) async fn run(cluster: &Cluster, args: &ListArgs) -> Result<End, ToolError> {
    let api = if args.all_namespaces {
        Api::all(cluster.client.clone())
    } else {
        cluster.runs()
    };
    let params = ListParams {
        label_selector: args.selector.clone(),
        ..ListParams::default()
    };
    let mut runs: Vec<Run> = pages(&api, params).await?;
    runs.sort_by_cached_key(|run| {
        let created = run.metadata.creation_timestamp.as_ref().map(|t| t.0);
        let name = (run.namespace().to_owned(), run.name().to_owned());
        (severity(run), Reverse(created), name)
    });
    let objects: Vec<_> = runs
        .iter()
        .map(|run| (run.reference(), run.text()))
        .collect();
    let list = List {
        cluster,
        all_namespaces: args.all_namespaces,
        format: args.output,
    };
    if list.without_table(&objects)? {
        return Ok(End::Succeeded);
    }
    let seen = Seen {
        runs,
        everywhere: args.all_namespaces,
    };
    let places = queue::places(cluster, &seen, args.selector.is_some()).await;
    let now = wall();
    let rows = seen.runs.iter().map(|run| {
        let cells = row(run, places.get(run.uid()), now);
        let cells = cells.into_iter().chain(further(run)).collect();
        (print::style(severity(run)), run.namespace(), cells)
    });
    out(&list.table(&HEADS, &WIDE, rows))?;
    Ok(End::Succeeded)
}

const HEADS: [&str; 6] = ["NAME", "PHASE", "STATE", "REASON", "AGE", "DURATION"];
const WIDE: [&str; 3] = ["WORKSPACE", "PRIORITY", "RUN ID"];

fn row(run: &Run, place: Option<&String>, now: Timestamp) -> [String; 6] {
    let status = run.status.as_ref();
    let text = |value: Option<&str>| value.unwrap_or_default().to_owned();
    let reason = match &run.unreadable {
        Some(_) => Some("RunInvalid"),
        None => run.condition().map(|condition| condition.reason.as_str()),
    };
    let place = place.map(|place| format!(" ({place})"));
    let created = run.metadata.creation_timestamp.as_ref();
    let end = status.and_then(|status| status.completion_time.as_ref());
    let duration = begun(run).map(|begun| between(begun, end.map_or(now, |end| end.0)));
    [
        run.name().to_owned(),
        text(status.and_then(|status| status.phase).map(Phase::as_str)),
        text(status.and_then(|status| status.state.as_deref())),
        text(reason) + &place.unwrap_or_default(),
        created.map_or(String::new(), |created| between(created.0, now)),
        duration.unwrap_or_default(),
    ]
}

/// What only the wide form shows: the Workspace as `submit --workspace` takes it, the priority, the service's id.
fn further(run: &Run) -> [String; 3] {
    let status = run.status.as_ref();
    let named = status.and_then(|status| {
        let bound = status.workspace.as_ref().map(|w| (w.kind, &w.name));
        bound.or_else(|| status.queued_for.as_ref().map(|w| (w.kind(), &w.name)))
    });
    let workspace = named.map(|(kind, name)| match kind {
        WorkspaceKind::Workspace => name.clone(),
        WorkspaceKind::ClusterWorkspace => format!("{kind}/{name}"),
    });
    let priority = run.spec.as_ref().map(|spec| spec.priority().to_string());
    let id = status.and_then(|status| status.run_id.clone());
    [workspace, priority, id].map(Option::unwrap_or_default)
}

#[cfg(test)]
mod tests {
    use run_operator::api::{Reason, WorkspaceRef};

    use super::*;
    use crate::fixtures::{active, pending};

    /// Proves: K-output
    #[test]
    fn the_wide_form_shows_where_a_run_is_or_is_queued() {
        assert_eq!(further(&active()), ["", "", "run-1"]);
        let mut run = pending(Reason::Queued);
        let queued_for = WorkspaceRef::shared("shared".to_owned());
        run.status.get_or_insert_default().queued_for = Some(queued_for);
        assert_eq!(further(&run), ["ClusterWorkspace/shared", "", ""]);
    }
}
