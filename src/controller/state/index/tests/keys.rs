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
    let index = filled([Record::of(&young)]);
    assert_eq!(key_holder(&index, &young).0, None);
    index.apply(record("old", keyed(2025)));
    let named = |run: &Maybe<Run>| key_holder(&index, run).0.map(|name| name.to_string());
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

/// Proves: P-key-index
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

/// Proves: P-key-index
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

/// Proves: P-key-index
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

/// Proves: P-key-index
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

/// Proves: P-key-index, P-run-index
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
