#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test stops at what it did not expect"
)]

use futures::FutureExt;
use serde_json::{Value, json};

use crate::api::names;
use crate::controller::state::fixtures::{intent, key, key_in, merged, phase, run};

use super::*;

fn known(name: &str, fields: Value) -> Known {
    run(name, fields).into()
}

fn filled(runs: impl IntoIterator<Item = Known>) -> RunStore {
    let store = RunStore::default();
    for known in runs {
        store.put(known);
    }
    store
}

fn ended(version: &str, expires: Option<Timestamp>) -> EndedRun {
    let meta = json!({"metadata": {"resourceVersion": version}});
    let object = run("a", meta);
    EndedRun {
        object: ObjectVersion::of(&object.good().unwrap().metadata),
        phase: Phase::Succeeded,
        expires,
    }
}

fn shared() -> WorkspaceKey {
    WorkspaceKey {
        kind: WorkspaceKind::ClusterWorkspace,
        namespace: String::new(),
        name: "shared".to_owned(),
    }
}

/// Proves: B-ended
#[test]
fn changes_concern_the_runs_of_a_workspace_that_are_unfinished_or_being_deleted() {
    let deleting = json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}});
    let waits_for = |fields| known("a", merged(refers("Workspace", "default"), fields)).waits_for();
    let own = [Whose::All, Whose::Workspace(key())];
    assert_eq!(waits_for(phase("Active")), own);
    assert_eq!(waits_for(phase("Succeeded")), []);
    assert_eq!(waits_for(merged(phase("Succeeded"), deleting)), own);
    let tenant = waits_for(refers("ClusterWorkspace", "shared"));
    assert!(tenant.contains(&Whose::Workspace(shared())));
    assert!(tenant.contains(&Whose::Tenants("team".to_owned())));
    assert!(tenant.contains(&Whose::AllTenants));
    assert!(!tenant.contains(&Whose::Undecided));
}

fn refers(kind: &str, name: &str) -> Value {
    json!({"spec": {"workspaceRef": {"kind": kind, "name": name}}})
}

/// Its Workspace `default` may appear, a ClusterWorkspace may become the default, or the namespace be allowed elsewhere.
/// Proves: P-default-workspace
#[test]
fn whatever_may_decide_about_its_workspace_concerns_a_run_without_one() {
    let undecided = [
        Whose::All,
        Whose::AllTenants,
        Whose::Tenants("team".to_owned()),
        Whose::Undecided,
        Whose::Workspace(key()),
    ];
    assert_eq!(known("a", json!({})).waits_for(), undecided);
    let pinned = known("a", intent("a", 2026)).waits_for();
    assert_eq!(pinned, [Whose::All, Whose::Workspace(key())]);
}

/// Proves: P-workspace-finalizer, P-default-workspace
#[test]
fn a_run_needs_the_workspace_that_it_is_pinned_to() {
    let needs = |fields: Value| {
        let known = known("a", fields);
        [key(), shared()].map(|key| known.needs(&key, Some("https://a")))
    };
    assert_eq!(needs(json!({})), [false, false]);
    assert_eq!(needs(intent("a", 2026)), [true, false]);
    let place =
        json!({"kind": "ClusterWorkspace", "name": "shared", "uid": "w", "baseURL": "https://a"});
    let submitted = json!({"status": {"runID": "r", "workspace": place}});
    assert_eq!(needs(submitted), [false, true]);
    // Nothing shows where it was submitted.
    let stripped = json!({"status": {"runID": "r"}});
    assert_eq!(needs(stripped), [true, true]);
}

/// Proves: B-ended
#[tokio::test]
async fn changes_during_a_scan_cost_one_more() {
    let wakes = Wakes::default();
    assert!(wakes.next().now_or_never().is_none());
    for n in 0..1000 {
        wakes.ask(Whose::Workspace(key_in(&n.to_string())));
        wakes.ask(Whose::All);
    }
    assert_eq!(wakes.next().await.len(), 1001);
    assert!(wakes.next().now_or_never().is_none());
}

/// Proves: P-workspace-finalizer, F-undecodable
#[test]
fn an_undecodable_run_may_need_any_workspace() {
    let broken = json!({"metadata": {"finalizers": [names::FINALIZER]}, "spec": {"workload": 1}});
    let broken = known("broken", broken);
    assert!(matches!(broken, Known::Bad(_)));
    let needs = |known: &Known, key: &WorkspaceKey| known.needs(key, Some("https://a"));
    assert!(needs(&broken, &key()) && needs(&broken, &shared()));
    assert!(!needs(&broken, &key_in("other")));
    // Without the finalizer the operator does not manage it.
    let alien = known("alien", json!({"spec": {"workload": 1}}));
    assert!(!needs(&alien, &key()));
}

/// Proves: P-workspace-finalizer
#[test]
fn the_first_runs_that_need_a_workspace_are_named_in_order() {
    let submitted = |n: usize| known(&format!("run-{n:03}"), json!({"status": {"runID": "r"}}));
    let store = filled((0..500).rev().map(submitted));
    let named = store.still_needing(&key(), None, 3);
    assert_eq!(named, ["run-000", "run-001", "run-002"]);
    assert!(store.still_needing(&key_in("other"), None, 3).is_empty());
}

/// Proves: P-workspace-finalizer
#[test]
fn the_end_of_a_need_for_a_workspace_is_reported_once() {
    let submitted = || known("a", json!({"status": {"runID": "r", "phase": "Active"}}));
    let store = RunStore::default();
    assert_eq!(store.put(submitted()).unneeded(), None);
    assert_eq!(store.put(submitted()).unneeded(), None);
    let over = store.put(known("a", phase("Succeeded")));
    assert_eq!(over.unneeded(), Some(key()));
    assert_eq!(store.gone("a", None).unneeded(), None);
    store.put(submitted());
    assert_eq!(store.gone("a", None).unneeded(), Some(key()));
    assert_eq!(store.gone("a", None).unneeded(), None);
    // One that this process remembers is needed until it is forgotten.
    store.put(submitted());
    assert_eq!(store.gone("a", Some(last("a"))).unneeded(), None);
    let forgotten = store.forget("a", || ()).unwrap();
    assert_eq!(forgotten.unneeded(), Some(key()));
}

fn last(name: &str) -> Arc<Run> {
    let submitted = json!({"status": {"runID": "r", "phase": "Active"}});
    run(name, submitted).good().cloned().unwrap()
}

/// Proves: D-vanished, P-workspace-finalizer
#[test]
fn a_remembered_run_that_the_watch_lacks_needs_its_workspace_until_it_is_forgotten() {
    let submitted = || known("a", json!({"status": {"runID": "r", "phase": "Active"}}));
    let needing = |store: &RunStore| store.still_needing(&key(), Some("https://a"), 9);
    let gone = |store: &RunStore| matches!(store.get("a"), Some(Known::Gone(_)));
    let store = filled([submitted()]);
    // A list that lacks it. One that is not remembered is removed with it.
    store.put(known("b", phase("Active")));
    store.begin(&Scope::All);
    let changes = store.listed(&Scope::All, |uid, _| (uid == "a").then(|| last(uid)));
    assert_eq!(changes.len(), 2);
    assert!(gone(&store) && store.get("b").is_none());
    assert_eq!(needing(&store), ["a"]);
    // A list that lacks it once more.
    store.begin(&Scope::All);
    store.listed(&Scope::All, |uid, _| Some(last(uid)));
    assert!(gone(&store));
    // The watch shows it again: it is not forgotten, whoever says so.
    store.put(submitted());
    assert!(store.forget("a", || panic!("it is there")).is_none());
    store.gone("a", Some(last("a")));
    assert!(store.forget("a", || ()).is_some());
    assert!(store.get("a").is_none() && needing(&store).is_empty());
}

/// Proves: F-stale
#[test]
fn a_list_replaces_its_scope_and_no_other() {
    let elsewhere = json!({"metadata": {"namespace": "other"}});
    let store = filled([
        known("a", phase("Active")),
        known("b", phase("Active")),
        known("c", elsewhere),
    ]);
    let scope = Scope::Namespace("team".to_owned());
    store.begin(&scope);
    store.list(&scope, known("dropped", phase("Active")));
    // The list was interrupted and begins again.
    store.begin(&scope);
    store.list(&scope, known("b", phase("Succeeded")));
    assert!(store.get("a").is_some(), "a list takes effect at its end");
    let changes = store.listed(&scope, |_, _| None);
    let gone = |change: &Change| change.new.is_none();
    assert_eq!(changes.iter().filter(|change| gone(change)).count(), 1);
    let there = ["a", "b", "c", "dropped"].map(|uid| store.get(uid).is_some());
    assert_eq!(there, [false, true, true, false]);
}

/// Proves: B-ended
#[test]
fn only_the_version_that_was_found_settled_is_stripped() {
    let version = |version| {
        merged(
            phase("Succeeded"),
            json!({"metadata": {"resourceVersion": version}}),
        )
    };
    let store = filled([known("a", version("1"))]);
    assert!(!store.strip(ended("2", None)), "the watch has not shown it");
    assert!(store.strip(ended("1", None)));
    assert!(matches!(store.get("a"), Some(Known::Ended(_))));
    assert!(!store.strip(ended("1", None)), "it is already");
    store.put(known("a", version("3")));
    assert!(matches!(store.get("a"), Some(Known::Active(_))));
    assert!(size_of::<Known>() <= 16 && size_of::<EndedRun>() <= 96);
}

/// Proves: B-ended
#[test]
fn a_ttl_is_over_once_and_again_if_the_object_stays() {
    let at = |second| Timestamp::from_second(second).unwrap();
    let store = filled([Known::Ended(Arc::new(ended("1", Some(at(100)))))]);
    assert!(store.take_expired(at(99)).is_empty());
    let expired = store.take_expired(at(100));
    assert_eq!(expired, [ended("1", None).object]);
    assert!(store.take_expired(at(159)).is_empty());
    assert_eq!(store.take_expired(at(160)).len(), 1);
    store.put(Known::Ended(Arc::new(ended("2", None))));
    assert!(store.take_expired(at(999)).is_empty());
}
