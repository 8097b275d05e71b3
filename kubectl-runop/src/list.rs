//! `list`: what needs a person first.

use std::cmp::Reverse;

use jiff::Timestamp;
use kube::Api;
use kube::api::ListParams;

use run_operator::api::Phase;
use run_operator::checks::pages;
use run_operator::clock::wall;

use crate::args::ListArgs;
use crate::cluster::Cluster;
use crate::error::{End, ToolError};
use crate::explain::{begun, between, severity};
use crate::print::{out, table};
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
    if args.output.is_some() {
        let names = runs.iter().map(|run| format!("{}\n", run.reference()));
        out(&names.collect::<String>())?;
    } else if runs.is_empty() && args.all_namespaces {
        eprintln!("No resources found");
    } else if runs.is_empty() {
        eprintln!("No resources found in {} namespace.", cluster.namespace);
    } else {
        let heads = ["NAME", "PHASE", "STATE", "REASON", "AGE", "DURATION"];
        let namespace = args.all_namespaces.then_some("NAMESPACE");
        let heads = namespace.into_iter().chain(heads).map(str::to_owned);
        let mut rows: Vec<Vec<String>> = vec![heads.collect()];
        let now = wall();
        let seen = Seen {
            runs,
            everywhere: args.all_namespaces,
        };
        let places = queue::places(cluster, &seen, args.selector.is_some()).await;
        rows.extend(seen.runs.iter().map(|run| {
            let namespace = args.all_namespaces.then(|| run.namespace().to_owned());
            let row = row(run, places.get(run.uid()), now);
            namespace.into_iter().chain(row).collect()
        }));
        out(&table(&rows))?;
    }
    Ok(End::Succeeded)
}

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
