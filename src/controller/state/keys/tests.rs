#![allow(clippy::unwrap_used, reason = "a test stops at what it did not expect")]

use serde_json::{Value, json};

use crate::api::names;
use crate::controller::state::fixtures::{intent, keyed, merged, phase, run};

use super::*;

fn known(name: &str, fields: Value) -> Known {
    run(name, fields).into()
}

fn filled(runs: impl IntoIterator<Item = Known>) -> Keys {
    let keys = Keys::default();
    for known in runs {
        assert_eq!(keys.update(&known), None);
    }
    keys
}

fn holder(keys: &Keys, name: &str, fields: Value) -> Option<String> {
    let holder = keys.holder(run(name, fields).good().unwrap());
    holder.map(|name| name.to_string())
}

fn claim(keys: &Keys, name: &str, fields: Value) -> bool {
    keys.claim(run(name, fields).good().unwrap())
}

fn holding(name: &str, year: u16) -> Value {
    merged(keyed(year), intent(name, year))
}

fn over() -> Value {
    merged(keyed(2026), phase("Succeeded"))
}

fn next(uid: &str) -> RunRef {
    ("team".to_owned(), Arc::from(uid))
}

/// Proves: P-key-in-use
#[test]
fn a_key_belongs_to_an_intent_then_a_submission_then_the_elder() {
    let keys = filled([known("young", keyed(2026))]);
    let young = || holder(&keys, "young", keyed(2026));
    let old = || holder(&keys, "old", keyed(2025));
    assert_eq!(young(), None);
    keys.update(&known("old", keyed(2025)));
    assert_eq!(young().as_deref(), Some("old"));
    assert_eq!(old(), None, "it is the elder");
    // A copy of another object holds nothing, however old it is.
    keys.update(&known("copy", merged(keyed(2020), intent("another", 2020))));
    assert_eq!(old(), None);
    let copy = holder(&keys, "copy", keyed(2030));
    assert_eq!(copy.as_deref(), Some("old"));
    let stripped = merged(keyed(2027), json!({"status": {"runID": "r"}}));
    keys.update(&known("stripped", stripped));
    assert_eq!(old().as_deref(), Some("stripped"));
    keys.remove("stripped");
    let edited = json!({"metadata": {"annotations": {names::INTENT_ANNOTATION: "edited"}}});
    keys.update(&known("edited", merged(keyed(2028), edited)));
    assert_eq!(old().as_deref(), Some("edited"));
    keys.remove("edited");
    keys.update(&known("young", holding("young", 2026)));
    assert_eq!(old().as_deref(), Some("young"));
    // Policy asks only before the first intent.
    assert_eq!(young().as_deref(), Some("old"));
}

/// Proves: P-key-in-use
#[test]
fn an_end_or_a_deletion_frees_the_key_for_the_next_and_for_one_alone() {
    let waits = || holder(&keys_of_two(), "b", keyed(2026));
    assert_eq!(waits().as_deref(), Some("a"));
    let keys = keys_of_two();
    assert_eq!(keys.update(&known("a", over())), Some(next("b")));
    assert_eq!(keys.remove("a"), None, "it is free already");
    let keys = keys_of_two();
    assert_eq!(keys.remove("a"), Some(next("b")));
    assert_eq!(holder(&keys, "b", keyed(2026)), None);
    assert_eq!(keys.remove("b"), None);
    let table = lock(&keys.0);
    assert!(table.places.is_empty() && table.runs.is_empty());
}

fn keys_of_two() -> Keys {
    filled([
        known("a", holding("a", 2026)),
        known("b", keyed(2026)),
        known("without", json!({})),
    ])
}

/// Proves: P-key-in-use
#[test]
fn a_run_that_becomes_undecodable_keeps_the_key_that_it_held() {
    let broken = |fields| known("a", merged(fields, json!({"spec": {"workload": 1}})));
    let keys = keys_of_two();
    assert_eq!(keys.update(&broken(holding("a", 2026))), None);
    assert_eq!(
        keys.update(&broken(json!({}))),
        None,
        "a list shows it again"
    );
    assert_eq!(holder(&keys, "b", keyed(2026)).as_deref(), Some("a"));
    assert!(!claim(&keys, "b", keyed(2026)));
    // Once decodable and ended, or deleted, it no longer holds the key.
    assert_eq!(keys.update(&known("a", over())), Some(next("b")));
    keys.update(&known("a", holding("a", 2026)));
    keys.update(&broken(json!({})));
    assert_eq!(keys.remove("a"), Some(next("b")));
    // A Run that only waited holds nothing; one that may have written its intent does.
    keys.update(&known("a", keyed(2025)));
    assert_eq!(keys.update(&broken(json!({}))), Some(next("b")));
    keys.update(&known("a", keyed(2025)));
    assert!(claim(&keys, "a", keyed(2025)));
    assert_eq!(keys.update(&broken(json!({}))), None);
    assert_eq!(holder(&keys, "b", keyed(2026)).as_deref(), Some("a"));
}

/// Proves: P-key-in-use
#[test]
fn each_end_of_a_run_frees_the_key_for_the_next_one() {
    const ALL: usize = 1000;
    let name = |n: usize| format!("run-{n:03}");
    let keys = filled((0..ALL).map(|n| known(&name(n), keyed(2026))));
    let copy = merged(keyed(2020), intent("another", 2020));
    keys.update(&known("copy", copy));
    let mut freed = Vec::new();
    for n in 0..ALL {
        keys.update(&known(&name(n), holding(&name(n), 2026)));
        freed.extend(keys.update(&known(&name(n), over())));
    }
    let later = (1..ALL).map(name).chain(["copy".to_owned()]);
    let in_order: Vec<RunRef> = later.map(|uid| next(&uid)).collect();
    assert_eq!(
        freed, in_order,
        "and then the copy, which may have been asked to submit"
    );
}

/// Proves: P-key-in-use
#[test]
fn of_two_runs_created_in_one_second_exactly_one_waits() {
    // The smaller uid has priority.
    let keys = filled([known("younger", keyed(2026))]);
    let waits = || ["elder", "younger"].map(|name| holder(&keys, name, keyed(2026)));
    let name = |name: &str| Some(name.to_owned());
    // The younger one has claimed the key, and its write got no answer; then the elder appears.
    assert!(claim(&keys, "younger", keyed(2026)));
    keys.update(&known("elder", keyed(2026)));
    assert_eq!(waits(), [name("younger"), None]);
    assert!(!claim(&keys, "elder", keyed(2026)));
    assert!(claim(&keys, "younger", keyed(2026)), "it is its own");
    // The write succeeded, which the watch shows later.
    keys.update(&known("younger", holding("younger", 2026)));
    assert_eq!(waits(), [name("younger"), None]);
    // Or nothing was written, and the claim is released.
    keys.update(&known("younger", keyed(2026)));
    keys.unclaim("younger");
    assert_eq!(waits(), [None, name("elder")]);
    // Another process's intent counts, whichever Run claims here.
    assert!(claim(&keys, "younger", keyed(2026)));
    keys.update(&known("elder", holding("elder", 2026)));
    assert_eq!(waits()[1], name("elder"));
    assert!(!claim(&keys, "younger", keyed(2026)));
}

/// Proves: P-key-in-use
#[test]
fn the_claim_of_a_run_that_is_gone_passes_on() {
    let keys = filled([known("a", keyed(2025)), known("b", keyed(2026))]);
    assert!(claim(&keys, "a", keyed(2025)));
    assert_eq!(keys.remove("a"), Some(next("b")));
    // A pass that has not seen the deletion.
    assert!(claim(&keys, "a", keyed(2025)));
    assert!(claim(&keys, "b", keyed(2026)));
    assert_eq!(holder(&keys, "b", keyed(2026)), None);
}

/// Proves: P-key-in-use
#[test]
fn a_run_of_another_namespace_has_a_key_of_its_own() {
    let elsewhere = json!({"metadata": {"namespace": "other"}});
    let there = || merged(keyed(2026), elsewhere.clone());
    let keys = filled([
        known("here", holding("here", 2025)),
        known("there", there()),
    ]);
    assert_eq!(holder(&keys, "there", there()), None);
    assert!(claim(&keys, "there", there()));
}
