//! The end of a life, without the parts that differ between any two lives.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::api::ListParams;
use kube::{Api, ResourceExt};
use serde_json::{Map, Value, json};

use run_operator::api::{Run, RunStatus, Workspace};

use super::trial::{RUN, Told, Trial, text};
use crate::support::intent_of;

/// Every thing by its name, as text.
pub(super) type Outcome = BTreeMap<String, String>;

/// Looks at the object, its Workspace, the service and the Kubernetes Events.
pub(super) async fn observe(trial: &Trial) -> Told<Outcome> {
    let mut outcome = Outcome::new();
    let mut add = |thing: &str, value: Value| outcome.insert(thing.to_owned(), value.to_string());
    let runs = trial.world.service.runs().await;
    let posts = trial.world.service.requests("createRun").await;
    let run = trial.world.runs().get_opt(RUN).await.map_err(text)?;
    for (thing, value) in of_service(&trial.uid, &runs, &posts) {
        add(&format!("service {thing}"), value);
    }
    add("object", json!(run.is_some()));
    for (thing, value) in run.iter().flat_map(|run| of_run(run, &runs)) {
        add(&format!("run {thing}"), value);
    }
    let workspaces = trial.world.workspaces();
    let workspace = workspaces.get_opt("default").await.map_err(text)?;
    add("workspace", json!(workspace.as_ref().map(of_workspace)));
    for (event, times) in events(trial).await? {
        add(&format!("event {event}"), json!(times));
    }
    Ok(outcome)
}

fn of_service(uid: &str, runs: &[Value], posts: &[Value]) -> Vec<(&'static str, Value)> {
    let terminal = ["succeeded", "failed", "cancelled"];
    let live = |run: &&Value| !terminal.contains(&run["state"].as_str().unwrap_or_default());
    let bodies: BTreeSet<_> = posts.iter().map(|p| p["bodySha256"].to_string()).collect();
    let another = |post: &&Value| post["idempotencyKey"].as_str() != Some(uid);
    let states = runs.iter().map(|run| run["state"].clone());
    let asked_to_cancel = runs.iter().any(|run| run["cancels"] != json!(0));
    vec![
        ("runs", json!(runs.len())),
        ("live", json!(runs.iter().filter(live).count())),
        ("states", states.collect()),
        ("bodies", json!(bodies.len())),
        (
            "posts with another key",
            json!(posts.iter().filter(another).count()),
        ),
        ("was asked to cancel", json!(asked_to_cancel)),
    ]
}

fn of_run(run: &Run, at_the_service: &[Value]) -> Vec<(&'static str, Value)> {
    let status = run.status.clone().unwrap_or_default();
    let of_it = |theirs: &&Value| theirs["idempotencyKey"].as_str() == run.metadata.uid.as_deref();
    let theirs = at_the_service.iter().find(of_it);
    let theirs = theirs.cloned().unwrap_or_default();
    let same_run = status.run_id.as_deref() == theirs["runId"].as_str();
    let same_key = status.idempotency_key.is_some() && status.idempotency_key == run.uid();
    let observed = status.observed_generation == run.metadata.generation;
    let annotations: Vec<_> = run.annotations().keys().collect();
    let mut end = intent_of(run).map_or(Value::Null, |intent| intent["end"].clone());
    if let Some(end) = end.as_object_mut() {
        let same = end.get("runID") == theirs.get("runId");
        end.insert("runID".to_owned(), json!(same));
    }
    vec![
        ("phase", json!(status.phase)),
        ("state", json!(status.state)),
        ("runId is the service's", json!(same_run)),
        ("key is the uid", json!(same_key)),
        ("conditions", conditions(&status.conditions)),
        ("observed its generation", json!(observed)),
        ("times", times(&status)),
        ("events", json!(mirrored(&status))),
        ("handledRetry", json!(status.handled_retry)),
        (
            "lastError",
            json!(status.last_error.map(|error| error.code)),
        ),
        (
            "refusal",
            json!(status.refusal.map(|refusal| refusal.reason)),
        ),
        ("finalizers", json!(run.finalizers())),
        ("annotations", json!(annotations)),
        ("intent's end", end),
    ]
}

/// The ids of the service end with the event's place among the run's, from 1. "With the events up to the
/// terminal GET": how many they are depends on who was faster; that none is missing or double does not.
fn mirrored(status: &RunStatus) -> String {
    let place = |id: &str| id.rsplit('-').next().and_then(|n| n.parse::<i64>().ok());
    let count = status.event_count.unwrap_or_default();
    let cursor = status.last_event_id.as_deref().and_then(place);
    let shown: Vec<_> = status
        .events
        .iter()
        .map(|event| event.id.as_deref().and_then(place))
        .collect();
    let first = 1.max(count - 9);
    let expected: Vec<_> = (first..=count).map(Some).collect();
    if cursor.unwrap_or_default() == count && shown == expected {
        "each once, in order, without a gap".to_owned()
    } else {
        format!("{count} counted, cursor at {cursor:?}, {shown:?} shown")
    }
}

fn times(status: &RunStatus) -> Value {
    json!({
        "submission": status.submission_time.is_some(),
        "start": status.start_time.is_some(),
        "completion": status.completion_time.is_some(),
        "cancelAccepted": status.cancel_accepted_time.is_some(),
        "lastSync": status.last_sync_time.is_some(),
    })
}

fn conditions(all: &[Condition]) -> Value {
    let words = |c: &Condition| json!(format!("{} ({})", c.status, c.reason));
    let words = all.iter().map(|c| (c.type_.clone(), words(c)));
    Value::Object(words.collect::<Map<_, _>>())
}

fn of_workspace(workspace: &Workspace) -> Value {
    let status = workspace.status.clone().unwrap_or_default();
    json!({"conditions": conditions(&status.conditions), "finalizers": workspace.finalizers()})
}

/// The number of Events published, by kind and reason.
async fn events(trial: &Trial) -> Told<BTreeMap<String, i32>> {
    let api: Api<k8s_openapi::api::core::v1::Event> =
        Api::namespaced(trial.world.client.clone(), &trial.world.namespace);
    let all = api.list(&ListParams::default()).await.map_err(text)?.items;
    let mut counts = BTreeMap::new();
    for event in all {
        let reason = event.reason.unwrap_or_default();
        let kind = event.involved_object.kind.unwrap_or_default();
        *counts.entry(format!("{kind}/{reason}")).or_default() += event.count.unwrap_or(1);
    }
    Ok(counts)
}
