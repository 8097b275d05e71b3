//! The index by idempotency key.

use super::*;

/// The Run that holds a Run's key, and the number of Runs read to find it.
fn key_holder(index: &RunIndex, run: &Maybe<Run>) -> (Option<Arc<str>>, usize) {
    LOOKS.set(0);
    let found = index.key_holder(run.good().unwrap(), false);
    (found, LOOKS.get())
}

/// Proves: P-key-index
#[test]
fn a_key_belongs_to_an_intent_then_a_submission_then_the_elder() {
    let young = run("young", keyed(2026));
    let index = filled([Record::of(&young.clone().into())]);
    assert_eq!(key_holder(&index, &young).0, None);
    index.put(record("old", keyed(2025)));
    let named = |run: &Maybe<Run>| key_holder(&index, run).0.map(|name| name.to_string());
    assert_eq!(named(&young).as_deref(), Some("old"));
    assert_eq!(named(&run("old", keyed(2025))), None, "it is the elder");
    // A copy of another object holds nothing, however old it is.
    index.put(record("copy", merged(keyed(2020), intent("another", 2020))));
    assert_eq!(named(&run("old", keyed(2025))), None);
    assert_eq!(named(&run("copy", keyed(2030))).as_deref(), Some("old"));
    let stripped = merged(keyed(2027), json!({"status": {"runId": "r"}}));
    index.put(record("stripped", stripped));
    assert_eq!(named(&run("old", keyed(2025))).as_deref(), Some("stripped"));
    index.remove("stripped");
    let edited = json!({"metadata": {"annotations": {names::INTENT_ANNOTATION: "edited"}}});
    index.put(record("edited", merged(keyed(2028), edited)));
    assert_eq!(named(&run("old", keyed(2025))).as_deref(), Some("edited"));
    index.remove("edited");
    index.put(record("young", merged(keyed(2026), intent("young", 2026))));
    assert_eq!(named(&run("old", keyed(2025))).as_deref(), Some("young"));
    // Policy asks only before the first intent.
    assert_eq!(named(&run("young", keyed(2026))).as_deref(), Some("old"));
}

/// Proves: P-key-index
#[test]
fn an_end_or_a_deletion_reports_the_key_that_became_free() {
    let holder = || record("a", merged(keyed(2026), intent("a", 2026)));
    let waits = run("b", keyed(2026));
    let index = filled([holder(), Record::of(&waits.clone().into())]);
    assert_eq!(index.next_of_key("team", "k").as_deref(), Some("b"));
    let ended = record("a", merged(keyed(2026), phase("Succeeded")));
    let freed = Some((Arc::from("team"), Arc::from("k")));
    assert_eq!(index.put(ended).unwrap().freed, freed);
    assert_eq!(key_holder(&index, &waits).0, None);
    assert_eq!(index.live_name("a"), None);
    let deleting = json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}});
    let leaving = merged(keyed(2026), merged(phase("Succeeded"), deleting));
    index.put(record("a", leaving));
    assert_eq!(key_holder(&index, &waits).0, None);
    index.put(holder());
    assert_eq!(index.remove("a").unwrap().freed, freed);
    assert_eq!(key_holder(&index, &waits).0, None);
}

/// Proves: P-key-index
#[test]
fn a_run_that_becomes_undecodable_keeps_its_key() {
    let holder = || merged(keyed(2026), intent("a", 2026));
    let broken = || record("a", merged(holder(), json!({"spec": {"workload": 1}})));
    let waits = run("b", keyed(2026));
    let index = filled([record("a", holder()), Record::of(&waits.clone().into())]);
    let held = |index: &RunIndex| {
        key_holder(index, &waits)
            .0
            .is_some_and(|name| &*name == "a")
    };
    assert_eq!(index.put(broken()), None);
    assert_eq!(index.put(broken()), None, "a list shows it again");
    assert!(held(&index) && index.live_name("a").is_some());
    // Once decodable and ended, or deleted, it no longer holds the key.
    let ended = record("a", merged(keyed(2026), phase("Succeeded")));
    let freed = Some((Arc::from("team"), Arc::from("k")));
    assert_eq!(index.put(ended).unwrap().freed, freed);
    index.put(record("a", holder()));
    index.put(broken());
    assert_eq!(index.remove("a").unwrap().freed, freed);
    assert!(!held(&index));
    // A Run that only waited holds nothing.
    index.put(record("a", keyed(2025)));
    assert_eq!(index.put(broken()).unwrap().freed, freed);
    assert!(!held(&index));
}

/// Proves: P-key-index
#[test]
fn each_end_of_a_run_enqueues_the_next_one_with_its_key() {
    const ALL: usize = 1000;
    let waits = record("waits", keyed(2026));
    let one = |n: usize| again(&waits, &format!("run-{n:03}"), None);
    let index = filled((0..ALL).map(one));
    let copy = merged(keyed(2020), intent("another", 2020));
    index.put(record("copy", copy));
    assert_eq!(index.next_of_key("team", "k").as_deref(), Some("run-000"));
    let mut woken = Vec::new();
    let mut next = index.next_of_key("team", "k");
    while let Some(name) = next.filter(|name| &**name != "copy") {
        index.put(record(&name, merged(keyed(2026), intent(&name, 2026))));
        let ended = record(&name, merged(keyed(2026), phase("Succeeded")));
        assert!(index.put(ended).unwrap().freed.is_some());
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
        record.claim.as_mut().unwrap().key = Arc::from(key);
    }
    record
}

/// Proves: P-key-index, P-run-index
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
