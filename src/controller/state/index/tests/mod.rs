#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test stops at what it did not expect"
)]

use std::cell::Cell;
use std::sync::Arc;

use serde_json::{Value, json};

use crate::api::{Run, Workspace, WorkspaceKey, names, workspace_ref::WorkspaceKind};
use crate::controller::{
    apiserver::{Maybe, decode, scope::Scope},
    metrics::catalogue::{NOT_READY, OTHER, PHASES, STALLED},
    state::fixtures::{key, key_in},
};

use super::*;

mod keys;

thread_local! {
    /// Number of Runs that a lookup by key has read, or that were counted.
    pub(crate) static LOOKS: Cell<usize> = const { Cell::new(0) };
}

pub(crate) fn merged(mut into: Value, from: Value) -> Value {
    match (&mut into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (field, value) in from {
                let old = into.remove(&field).unwrap_or(Value::Null);
                into.insert(field, merged(old, value));
            }
        }
        (into, from) => *into = from,
    }
    into
}

/// A Run with its name as its uid, and with these fields.
pub(crate) fn run(name: &str, fields: Value) -> Maybe<Run> {
    let run = json!({
        "apiVersion": "run-operator.dev/v1alpha1", "kind": "Run",
        "metadata": {"name": name, "namespace": "team", "uid": name},
        "spec": {"workload": {"image": "a"}},
    });
    let raw = serde_json::value::to_raw_value(&merged(run, fields)).unwrap();
    decode(&raw).unwrap()
}

pub(crate) fn record(name: &str, fields: Value) -> Record {
    Record::of(&run(name, fields))
}

/// The annotation with an intent of the Run with this uid, of this year.
pub(crate) fn intent(uid: &str, year: u16) -> Value {
    let workspace =
        json!({"kind": "Workspace", "name": "default", "uid": "w", "baseUrl": "https://a"});
    let intent = json!({
        "uid": uid, "workspace": workspace, "key": uid, "sha256": "", "serializer": 1,
        "time": format!("{year}-01-01T00:00:00Z"), "owner": "p", "epoch": 1,
    });
    json!({"metadata": {"annotations": {names::INTENT_ANNOTATION: intent.to_string()}}})
}

fn condition(kind: &str, reason: &str) -> Value {
    let at = "2026-01-01T00:00:00Z";
    json!({"type": kind, "status": "True", "reason": reason, "message": "", "lastTransitionTime": at})
}

fn phase(phase: &str) -> Value {
    json!({"status": {"phase": phase}})
}

pub(crate) fn keyed(year: u16) -> Value {
    let at = format!("{year}-01-01T00:00:00Z");
    json!({"metadata": {"creationTimestamp": at}, "spec": {"idempotencyKey": "k"}})
}

fn filled(records: impl IntoIterator<Item = Record>) -> RunIndex {
    let index = RunIndex::default();
    index.begin(&Scope::All);
    for record in records {
        index.list(&Scope::All, record);
    }
    assert_eq!(index.listed(&Scope::All, |_| {}), []);
    index
}

fn names_of(runs: &[RunRef]) -> Vec<&str> {
    runs.iter().map(|(_, name)| &**name).collect()
}

fn count(words: &[&str], counts: &[usize], word: &str) -> usize {
    counts[words.iter().position(|w| *w == word).unwrap()]
}

/// Proves: P-metrics
#[test]
fn a_run_is_counted_as_stalled_until_it_is_finished() {
    let with = |phase: &str, conditions: Value| json!({"status": {"phase": phase, "conditions": conditions}});
    let refused = condition("Stalled", "Forbidden");
    let finished = json!([
        condition("Stalled", "Failed"),
        condition("Finished", "Failed")
    ]);
    let index = filled([
        record("a", with("Pending", json!([refused]))),
        record(
            "b",
            with("Pending", json!([condition("Stalled", "made-up")])),
        ),
        record("c", with("Failed", finished)),
    ]);
    let counts = index.counts();
    assert_eq!(counts.stalled.iter().sum::<usize>(), 2);
    assert_eq!(count(STALLED, &counts.stalled, "Forbidden"), 1);
    assert_eq!(count(STALLED, &counts.stalled, OTHER), 1);
    assert_eq!(count(PHASES, &counts.phases, "Pending"), 2);
    assert_eq!(count(PHASES, &counts.phases, "Failed"), 1);
}

/// Proves: P-metrics
#[test]
fn the_oldest_doubt_is_an_intent_without_an_answer_or_end() {
    let refusal = json!({"reason": "CreateRefused", "notCreated": true, "epoch": 1});
    let index = filled([
        record(
            "a",
            merged(intent("a", 2020), json!({"status": {"refusal": refusal}})),
        ),
        record("b", merged(intent("b", 2021), phase("Failed"))),
        record("c", intent("c", 2025)),
        record("d", intent("d", 2024)),
        record("e", intent("another", 2019)),
    ]);
    let counts = index.counts();
    let oldest = counts.oldest_doubt.map(|at| at.to_string());
    assert_eq!(counts.in_doubt, 2);
    assert_eq!(oldest.as_deref(), Some("2024-01-01T00:00:00Z"));
    let submitted = json!({"status": {"runId": "r"}});
    index.apply(record("d", merged(intent("d", 2024), submitted)));
    let oldest = index.counts().oldest_doubt.map(|at| at.to_string());
    assert_eq!(oldest.as_deref(), Some("2025-01-01T00:00:00Z"));
}

/// Proves: P-scrape
#[test]
fn counts_follow_every_change_and_end_at_zero() {
    let index = filled((0..100).map(|n| record(&n.to_string(), phase("Active"))));
    for n in 0..50 {
        index.apply(record(&n.to_string(), phase("Succeeded")));
    }
    let counts = index.counts();
    assert_eq!(count(PHASES, &counts.phases, "Active"), 50);
    assert_eq!(count(PHASES, &counts.phases, "Succeeded"), 50);
    LOOKS.set(0);
    let _ = index.counts();
    assert_eq!(LOOKS.get(), 0, "no Run is read to tell the counts");
    for n in 0..100 {
        index.delete("team", &n.to_string());
    }
    assert_eq!(index.counts(), RunCounts::default());
    assert!(index.waiting().is_empty());
}

/// Proves: P-run-index, F-undecodable
#[test]
fn an_undecodable_run_is_pending_and_may_need_any_workspace() {
    let broken = json!({"metadata": {"finalizers": [names::FINALIZER]}, "spec": {"workload": 1}});
    let broken = run("broken", broken);
    assert!(broken.good().is_none());
    let index = filled([Record::of(&broken)]);
    assert_eq!(count(PHASES, &index.counts().phases, "Pending"), 1);
    assert_eq!(count(STALLED, &index.counts().stalled, "RunInvalid"), 1);
    let elsewhere = key_in("other");
    let shared = WorkspaceKey {
        kind: WorkspaceKind::ClusterWorkspace,
        namespace: String::new(),
        name: "shared".to_owned(),
    };
    assert_eq!(names_of(&index.needing(&key())), ["broken"]);
    assert_eq!(names_of(&index.needing(&shared)), ["broken"]);
    assert!(index.needing(&elsewhere).is_empty());
    assert!(index.of_workspace(&key()).is_empty() && index.contains("broken"));
    index.delete("team", "broken");
    assert!(index.needing(&key()).is_empty() && !index.contains("broken"));
    assert_eq!(count(STALLED, &index.counts().stalled, "RunInvalid"), 0);
    // Without the finalizer the operator does not manage it.
    let index = filled([record("alien", json!({"spec": {"workload": 1}}))]);
    assert_eq!(count(STALLED, &index.counts().stalled, "RunInvalid"), 0);
}

/// Proves: P-run-index
#[test]
fn runs_of_a_workspace_are_unfinished_or_being_deleted() {
    let shared = json!({"spec": {"workspaceRef": {"kind": "ClusterWorkspace", "name": "shared"}}});
    let deleting = json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}});
    let index = filled([
        record("active", phase("Active")),
        record("ended", phase("Succeeded")),
        record("leaving", merged(phase("Succeeded"), deleting)),
        record("tenant", shared),
    ]);
    assert_eq!(names_of(&index.of_workspace(&key())), ["active", "leaving"]);
    assert_eq!(names_of(&index.tenants(Some("team"))), ["tenant"]);
    assert!(index.tenants(Some("other")).is_empty());
    assert_eq!(names_of(&index.tenants(None)), ["tenant"]);
    assert_eq!(index.waiting().len(), 3);
}

/// Proves: P-run-index
#[test]
fn the_first_runs_that_need_a_workspace_are_named_in_order() {
    let submitted = |n: usize| record(&format!("run-{n:03}"), json!({"status": {"runId": "r"}}));
    let index = filled((0..500).rev().map(submitted));
    let named = index.needing(&key());
    assert_eq!(
        names_of(&named[..4]),
        ["run-000", "run-001", "run-002", "run-003"]
    );
    assert!(index.needing(&key_in("other")).is_empty());
}

/// Proves: P-run-index
#[test]
fn the_end_of_a_need_for_a_workspace_is_reported_once() {
    let submitted = json!({"status": {"runId": "r", "phase": "Active"}});
    let index = filled([record("a", submitted.clone())]);
    assert_eq!(index.apply(record("a", submitted)), None);
    let change = index.apply(record("a", phase("Succeeded"))).unwrap();
    assert_eq!(change.unneeded.as_deref(), Some(&key()));
    assert_eq!(change.ended.as_deref(), Some("a"));
    assert_eq!((change.deleted, change.freed), (None, None));
    let change = index.delete("team", "a").unwrap();
    assert_eq!(change.deleted.as_deref(), Some("a"));
    assert_eq!((change.ended, change.unneeded), (None, None));
    assert_eq!(index.delete("team", "a"), None);
}

#[test]
fn a_run_that_has_ended_is_a_small_record() {
    assert!(size_of::<Record>() <= 64, "{}", size_of::<Record>());
    let ended = record("a", merged(intent("a", 2026), phase("Succeeded")));
    assert!(ended.details.is_none());
}

fn workspace(namespace: &str, name: &str, ready: &Value) -> Maybe<Workspace> {
    let workspace = json!({
        "apiVersion": "run-operator.dev/v1alpha1", "kind": "Workspace",
        "metadata": {"name": name, "namespace": namespace, "uid": name}, "spec": {},
        "status": {"conditions": ready},
    });
    decode(&serde_json::value::to_raw_value(&workspace).unwrap()).unwrap()
}

/// Proves: P-scrape, F-undecodable
#[test]
fn workspaces_are_counted_by_their_ready_condition() {
    let mut refused = condition("Ready", "Unauthorized");
    refused["status"] = json!("False");
    let index = WorkspaceIndex::default();
    let [team, other] = ["team", "other"].map(|name| Scope::Namespace(name.to_owned()));
    for scope in [&team, &other] {
        let Scope::Namespace(namespace) = scope else {
            continue;
        };
        index.begin(scope);
        index.list(
            scope,
            &workspace(namespace, "ready", &json!([condition("Ready", "Verified")])),
        );
        index.list(scope, &workspace(namespace, "refused", &json!([refused])));
        index.list(scope, &workspace(namespace, "new", &json!([])));
        index.listed(scope);
    }
    let counts = index.counts();
    assert_eq!(counts.ready, [2, 2, 2]);
    assert_eq!(count(NOT_READY, &counts.not_ready, "Unauthorized"), 2);
    assert_eq!(count(NOT_READY, &counts.not_ready, OTHER), 2);
    index.apply(&workspace(
        "team",
        "refused",
        &json!([condition("Ready", "Verified")]),
    ));
    index.delete(&workspace("team", "new", &json!([])));
    assert_eq!(index.counts().ready, [3, 1, 1]);
    let verified = json!([condition("Ready", "Verified")]);
    let broken = json!({
        "metadata": {"name": "broken", "namespace": "team", "uid": "broken"},
        "spec": {"baseUrl": 1}, "status": {"conditions": verified},
    });
    let broken = decode::<Workspace>(&serde_json::value::to_raw_value(&broken).unwrap()).unwrap();
    assert!(broken.good().is_none());
    index.apply(&broken);
    let counts = index.counts();
    assert_eq!(counts.ready, [3, 2, 1]);
    assert_eq!(count(NOT_READY, &counts.not_ready, "WorkspaceInvalid"), 1);
    index.begin(&team);
    index.listed(&team);
    assert_eq!(index.counts().ready, [1, 1, 1], "the others stay");
}

/// Proves: B-ended
#[test]
fn a_run_is_settled_until_the_watch_shows_another_version() {
    let index = filled([record("a", phase("Succeeded"))]);
    assert!(!index.is_settled("a"));
    assert!(index.settle("a") && !index.settle("unknown"));
    assert!(index.is_settled("a"));
    index.apply(record("a", phase("Succeeded")));
    assert!(!index.is_settled("a"));
    index.apply(record("a", phase("Succeeded")).settled(true));
    assert!(index.is_settled("a"));
    index.delete("team", "a");
    assert!(!index.is_settled("a"));
}
