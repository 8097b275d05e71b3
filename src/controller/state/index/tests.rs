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
    apiserver::{Guarded, decode, scope::Scope},
    metrics::catalogue::{NOT_READY, OTHER, PHASES, STALLED},
    state::fixtures::{key, key_in},
};

use super::*;

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
pub(crate) fn run(name: &str, fields: Value) -> Guarded<Run> {
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

/// The Run that holds a Run's key, and the number of Runs read to find it.
fn key_holder(index: &RunIndex, run: &Guarded<Run>) -> (Option<Arc<str>>, usize) {
    LOOKS.set(0);
    let found = index.key_holder(run.0.as_ref().unwrap(), false);
    (found, LOOKS.get())
}

fn names_of(runs: &[RunRef]) -> Vec<&str> {
    runs.iter().map(|(_, name)| &**name).collect()
}

fn count(words: &[&str], counts: &[usize], word: &str) -> usize {
    counts[words.iter().position(|w| *w == word).unwrap()]
}

// Proves: P-metrics
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

// Proves: P-metrics
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

// Proves: P-scrape
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

// Proves: P-run-index, F-undecodable
#[test]
fn an_undecodable_run_is_pending_and_may_need_any_workspace() {
    let broken = json!({"metadata": {"finalizers": [names::FINALIZER]}, "spec": {"workload": 1}});
    let broken = run("broken", broken);
    assert!(broken.0.is_err());
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

// Proves: P-run-index
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

// Proves: P-run-index
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

// Proves: P-run-index
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

// Proves: P-key-index
#[test]
fn a_key_belongs_to_an_intent_then_a_submission_then_the_elder() {
    let young = run("young", keyed(2026));
    let index = filled([Record::of(&young)]);
    assert_eq!(key_holder(&index, &young).0, None);
    index.apply(record("old", keyed(2025)));
    let named = |run: &Guarded<Run>| key_holder(&index, run).0.map(|name| name.to_string());
    assert_eq!(named(&young).as_deref(), Some("old"));
    assert_eq!(named(&run("old", keyed(2025))), None, "it is the elder");
    // A copy of another object holds nothing, however old it is.
    index.apply(record("copy", merged(keyed(2020), intent("another", 2020))));
    assert_eq!(named(&run("old", keyed(2025))), None);
    assert_eq!(named(&run("copy", keyed(2030))).as_deref(), Some("old"));
    let stripped = merged(keyed(2027), json!({"status": {"runId": "r"}}));
    index.apply(record("stripped", stripped));
    assert_eq!(named(&run("old", keyed(2025))).as_deref(), Some("stripped"));
    index.delete("team", "stripped");
    let edited = json!({"metadata": {"annotations": {names::INTENT_ANNOTATION: "edited"}}});
    index.apply(record("edited", merged(keyed(2028), edited)));
    assert_eq!(named(&run("old", keyed(2025))).as_deref(), Some("edited"));
    index.delete("team", "edited");
    index.apply(record("young", merged(keyed(2026), intent("young", 2026))));
    assert_eq!(named(&run("old", keyed(2025))).as_deref(), Some("young"));
    // Policy asks only before the first intent.
    assert_eq!(named(&run("young", keyed(2026))).as_deref(), Some("old"));
}

// Proves: P-key-index
#[test]
fn an_end_or_a_deletion_reports_the_key_that_became_free() {
    let holder = || record("a", merged(keyed(2026), intent("a", 2026)));
    let waits = run("b", keyed(2026));
    let index = filled([holder(), Record::of(&waits)]);
    assert_eq!(index.next_of_key("team", "k").as_deref(), Some("b"));
    let ended = record("a", merged(keyed(2026), phase("Succeeded")));
    let freed = Some((Arc::from("team"), Arc::from("k")));
    let change = index.apply(ended).unwrap();
    assert_eq!(
        (change.ended.as_deref(), &change.freed),
        (Some("a"), &freed)
    );
    assert_eq!(key_holder(&index, &waits).0, None);
    assert_eq!(index.live_name("a"), None);
    let deleting = json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}});
    let leaving = merged(keyed(2026), merged(phase("Succeeded"), deleting));
    index.apply(record("a", leaving));
    assert_eq!(key_holder(&index, &waits).0, None);
    index.apply(holder());
    let change = index.delete("team", "a").unwrap();
    assert_eq!(
        (change.deleted.as_deref(), change.freed),
        (Some("a"), freed)
    );
    assert_eq!(key_holder(&index, &waits).0, None);
}

// Proves: P-key-index
#[test]
fn a_run_that_becomes_undecodable_keeps_its_key() {
    let holder = || merged(keyed(2026), intent("a", 2026));
    let broken = || record("a", merged(holder(), json!({"spec": {"workload": 1}})));
    let waits = run("b", keyed(2026));
    let index = filled([record("a", holder()), Record::of(&waits)]);
    let held = |index: &RunIndex| {
        key_holder(index, &waits)
            .0
            .is_some_and(|name| &*name == "a")
    };
    // Applied twice, and once more as an item of a list.
    let change = index.apply(broken()).unwrap();
    assert_eq!((change.ended, change.freed), (None, None));
    assert_eq!(index.apply(broken()), None);
    assert!(held(&index) && index.live_name("a").is_some());
    index.begin(&Scope::All);
    index.list(&Scope::All, broken());
    index.list(&Scope::All, Record::of(&waits));
    assert_eq!(index.listed(&Scope::All, |_| {}), []);
    assert!(held(&index));
    // Once decodable and ended, or deleted, it no longer holds the key.
    let ended = record("a", merged(keyed(2026), phase("Succeeded")));
    let freed = Some((Arc::from("team"), Arc::from("k")));
    assert_eq!(index.apply(ended).unwrap().freed, freed);
    index.apply(record("a", holder()));
    index.apply(broken());
    assert_eq!(index.delete("team", "a").unwrap().freed, freed);
    assert!(!held(&index));
    // A Run that only waited holds nothing, nor does another of the same name.
    index.apply(record("a", keyed(2025)));
    assert_eq!(index.apply(broken()).unwrap().freed, freed);
    index.apply(record("a", holder()));
    let again = json!({"metadata": {"uid": "second"}, "spec": {"workload": 1}});
    let again = record("a", merged(holder(), again));
    assert_eq!(index.apply(again).unwrap().freed, freed);
    assert!(!held(&index));
}

// Proves: P-key-index
#[test]
fn each_end_of_a_run_enqueues_the_next_one_with_its_key() {
    const ALL: usize = 1000;
    let waits = record("waits", keyed(2026));
    let one = |n: usize| again(&waits, &format!("run-{n:03}"), None);
    let index = filled((0..ALL).map(one));
    let copy = merged(keyed(2020), intent("another", 2020));
    index.apply(record("copy", copy));
    assert_eq!(index.next_of_key("team", "k").as_deref(), Some("run-000"));
    let mut woken = Vec::new();
    let mut next = index.next_of_key("team", "k");
    while let Some(name) = next.filter(|name| &**name != "copy") {
        index.apply(record(&name, merged(keyed(2026), intent(&name, 2026))));
        let ended = record(&name, merged(keyed(2026), phase("Succeeded")));
        assert!(index.apply(ended).unwrap().freed.is_some());
        woken.push(name);
        next = index.next_of_key("team", "k");
    }
    let in_order: Vec<Arc<str>> = (0..ALL).map(|n| one(n).name).collect();
    assert_eq!(
        woken, in_order,
        "and then the copy, which may have been asked to submit"
    );
}

/// The same Run under another name and uid, with its own key if one is given.
fn again(record: &Record, name: &str, key: Option<String>) -> Record {
    let mut record = Record {
        uid: Arc::from(name),
        name: Arc::from(name),
        ..record.clone()
    };
    if let Some(key) = key {
        let details = record.details.as_mut().unwrap();
        details.claim.as_mut().unwrap().key = Arc::from(key);
    }
    record
}

// Proves: P-key-index, P-run-index
#[test]
fn a_key_of_100000_runs_is_looked_up_in_two_looks() {
    let holds = record("own", merged(keyed(2026), intent("own", 2026)));
    let waits = record("shared", keyed(2026));
    let ended = record("ended", merged(keyed(2025), phase("Failed")));
    let own = (0..50_000).map(|n| again(&holds, &format!("own-{n}"), Some(format!("key-{n}"))));
    let shared = (0..25_000).map(|n| again(&waits, &format!("shared-{n:05}"), None));
    let ended = (0..25_000).map(|n| again(&ended, &format!("ended-{n}"), None));
    let index = filled(own.chain(shared).chain(ended));
    let one = json!({"spec": {"idempotencyKey": "key-77"}});
    assert_eq!(key_holder(&index, &run("own-77", one.clone())), (None, 1));
    let late = key_holder(&index, &run("late", one));
    assert_eq!(late, (Some(Arc::from("own-77")), 1));
    let last = key_holder(&index, &run("shared-24999", keyed(2026)));
    assert_eq!(last, (Some(Arc::from("shared-00000")), 1));
    let first = key_holder(&index, &run("shared-00000", keyed(2026)));
    assert_eq!(first, (None, 2), "itself, and the next of them");
    let next = index.next_of_key("team", "k");
    assert_eq!(
        next.as_deref(),
        Some("shared-00000"),
        "the ended hold nothing"
    );
    assert_eq!(
        index.next_of_key("team", "key-77"),
        None,
        "its holder does not wait"
    );
}

// Proves: P-key-index
#[test]
fn a_list_replaces_its_scope_and_no_other() {
    let elsewhere = json!({"metadata": {"namespace": "other"}});
    let index = filled([
        record("a", keyed(2026)),
        record("b", phase("Active")),
        record("c", elsewhere),
    ]);
    let scope = Scope::Namespace("team".to_owned());
    index.begin(&scope);
    index.list(&scope, record("dropped", phase("Active")));
    // The list was interrupted and begins again.
    index.begin(&scope);
    index.list(&scope, record("b", phase("Succeeded")));
    assert!(index.contains("a"), "a list takes effect at its end");
    let mut missing = Vec::new();
    let changes = index.listed(&scope, |uids| {
        missing = uids.to_vec();
    });
    assert_eq!(missing, [Arc::from("a")]);
    let gone: Vec<_> = changes
        .iter()
        .filter_map(|c| c.deleted.as_deref())
        .collect();
    let ended: Vec<_> = changes.iter().filter_map(|c| c.ended.as_deref()).collect();
    assert_eq!((gone, ended), (vec!["a"], vec!["a", "b"]));
    assert!(changes.iter().any(|change| change.freed.is_some()));
    let there = ["a", "b", "c", "dropped"].map(|uid| index.contains(uid));
    assert_eq!(there, [false, true, true, false]);
}

// Proves: P-key-index, P-run-index
#[test]
fn an_object_made_again_under_its_name_is_another_one() {
    let index = filled([record("a", keyed(2025))]);
    let again = merged(keyed(2026), json!({"metadata": {"uid": "second"}}));
    let change = index.apply(record("a", again)).unwrap();
    assert_eq!(
        (change.deleted.as_deref(), change.ended.as_deref()),
        (Some("a"), Some("a"))
    );
    assert!(!index.contains("a") && index.contains("second"));
    assert_eq!(index.live_name("second").as_deref(), Some("a"));
}

#[test]
fn a_run_that_has_ended_is_a_small_record() {
    assert!(size_of::<Record>() <= 64, "{}", size_of::<Record>());
    let ended = record("a", merged(intent("a", 2026), phase("Succeeded")));
    assert!(ended.details.is_none());
}

fn workspace(namespace: &str, name: &str, ready: &Value) -> Guarded<Workspace> {
    let workspace = json!({
        "apiVersion": "run-operator.dev/v1alpha1", "kind": "Workspace",
        "metadata": {"name": name, "namespace": namespace, "uid": name}, "spec": {},
        "status": {"conditions": ready},
    });
    decode(&serde_json::value::to_raw_value(&workspace).unwrap()).unwrap()
}

// Proves: P-scrape, F-undecodable
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
    assert!(broken.0.is_err());
    index.apply(&broken);
    let counts = index.counts();
    assert_eq!(counts.ready, [3, 2, 1]);
    assert_eq!(count(NOT_READY, &counts.not_ready, "WorkspaceInvalid"), 1);
    index.begin(&team);
    index.listed(&team);
    assert_eq!(index.counts().ready, [1, 1, 1], "the others stay");
}

// Proves: B-ended
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
