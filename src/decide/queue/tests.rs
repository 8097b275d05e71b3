use super::*;

fn own() -> WorkspaceKey {
    WorkspaceKey::own_default("team")
}

fn shared() -> WorkspaceKey {
    WorkspaceKey {
        kind: crate::api::WorkspaceKind::ClusterWorkspace,
        namespace: String::new(),
        name: "shared".to_owned(),
    }
}

fn limits(all: usize, per_namespace: Option<usize>) -> RunLimits {
    RunLimits {
        all: Some(all),
        per_namespace,
    }
}

fn wants(priority: i32, second: i64) -> Claim {
    let created = Timestamp::from_second(second).unwrap();
    Claim::Wants { priority, created }
}

/// The uids of the Runs that got a slot.
fn names(granted: &[RunRef]) -> Vec<&str> {
    granted.iter().map(|(_, uid)| &**uid).collect()
}

/// A queue of a ClusterWorkspace with these limits, and Runs as `namespace/uid` that joined while it was closed.
fn queue(limits: RunLimits, runs: &[(&str, &str, Claim)]) -> (Queues, Vec<String>) {
    let mut queues = Queues::default();
    queues.open();
    for (namespace, uid, claim) in runs {
        assert_eq!(queues.claim((namespace, uid), &shared(), *claim), []);
    }
    let granted = queues.set(&shared(), Some(limits));
    let granted = names(&granted).into_iter().map(str::to_owned).collect();
    (queues, granted)
}

#[test]
fn slots_go_by_priority_then_to_who_has_fewest_then_by_age() {
    let runs = [
        ("a", "a1", wants(0, 1)),
        ("a", "a2", wants(0, 2)),
        ("a", "a3", wants(0, 3)),
        ("b", "b1", wants(0, 4)),
        ("b", "b2", wants(0, 5)),
        ("c", "c1", wants(1, 6)),
        ("c", "c2", wants(-1, 0)),
    ];
    let (_, granted) = queue(limits(7, None), &runs);
    assert_eq!(granted, ["c1", "a1", "b1", "a2", "b2", "a3", "c2"]);
    let (mut queues, granted) = queue(limits(4, Some(2)), &runs);
    assert_eq!(granted, ["c1", "a1", "b1", "a2"]);
    // `a` has two already.
    assert_eq!(names(&queues.leave("c1")), ["b2"]);
    assert_eq!(names(&queues.leave("a1")), ["a3"]);
    assert_eq!(names(&queues.leave("b1")), ["c2"]);
}

#[test]
fn who_has_a_slot_by_its_object_counts_and_needs_none_to_be_free() {
    let runs = [("a", "a1", wants(0, 1)), ("a", "a2", Claim::Holds)];
    let (mut queues, granted) = queue(limits(1, None), &runs);
    assert_eq!(granted, [""; 0]);
    assert!(queues.has_slot("a2", &shared()) && !queues.has_slot("a1", &shared()));
    // A lower limit takes none away.
    assert_eq!(queues.claim(("a", "a3"), &shared(), Claim::Holds), []);
    assert_eq!(queues.leave("a2"), []);
    assert_eq!(
        names(&queues.claim(("a", "a3"), &shared(), Claim::Nothing)),
        ["a1"]
    );
}

#[test]
fn a_slot_that_was_given_stays_until_its_run_wants_it_no_more() {
    let runs = [("a", "a1", wants(0, 1)), ("a", "a2", wants(0, 2))];
    let (mut queues, granted) = queue(limits(1, None), &runs);
    assert_eq!(granted, ["a1"]);
    assert_eq!(queues.claim(("a", "a1"), &shared(), wants(-9, 1)), []);
    assert_eq!(queues.claim(("b", "b1"), &shared(), wants(9, 3)), []);
    assert!(queues.has_slot("a1", &shared()));
    assert_eq!(names(&queues.leave("a1")), ["b1"]);
}

#[test]
fn a_changed_priority_a_higher_limit_and_another_workspace_count_at_once() {
    let runs = [("a", "a1", wants(0, 1)), ("a", "a2", wants(0, 2))];
    let (mut queues, _) = queue(limits(0, None), &runs);
    assert_eq!(queues.claim(("a", "a2"), &shared(), wants(1, 2)), []);
    assert_eq!(names(&queues.set(&shared(), Some(limits(1, None)))), ["a2"]);
    queues.set(&own(), Some(RunLimits::default()));
    // It uses another Workspace now, and its slot is free.
    assert_eq!(
        names(&queues.claim(("a", "a2"), &own(), wants(1, 2))),
        ["a1", "a2"]
    );
    assert!(queues.has_slot("a2", &own()) && !queues.has_slot("a2", &shared()));
    // What was given and not used yet is taken back.
    assert_eq!(queues.set(&shared(), None), []);
    assert!(!queues.has_slot("a1", &shared()));
    assert_eq!(names(&queues.set(&shared(), Some(limits(1, None)))), ["a1"]);
}

#[test]
fn after_a_start_no_slot_is_given_before_each_earlier_run_was_decided() {
    let mut queues = Queues::default();
    for uid in ["a1", "a2", "a3"] {
        queues.expect(uid);
    }
    queues.set(&shared(), Some(limits(1, None)));
    queues.set(&own(), Some(RunLimits::default()));
    queues.open();
    assert_eq!(queues.claim(("a", "a1"), &shared(), wants(0, 1)), []);
    // A Workspace without a limit gives slots at once.
    assert_eq!(
        names(&queues.claim(("team", "t"), &own(), wants(0, 1))),
        ["t"]
    );
    // It can't be decided, and is not given a slot either.
    assert_eq!(queues.pass("a2"), []);
    assert_eq!(
        names(&queues.claim(("a", "a3"), &shared(), wants(1, 3))),
        ["a3"]
    );
    assert_eq!(queues.claim(("a", "a3"), &shared(), Claim::Holds), []);
    assert_eq!(names(&queues.leave("a3")), ["a1"]);
}

/// The Runs of one namespace are listed, and decided, before those of another.
#[test]
fn at_a_start_no_slot_is_given_between_two_lists() {
    let mut queues = Queues::default();
    queues.set(&shared(), Some(limits(1, None)));
    queues.expect("a1");
    assert_eq!(queues.claim(("a", "a1"), &shared(), wants(0, 1)), []);
    queues.expect("b1");
    assert_eq!(queues.open(), []);
    assert_eq!(queues.claim(("b", "b1"), &shared(), Claim::Holds), []);
    assert_eq!(names(&queues.leave("b1")), ["a1"]);
}

#[test]
fn nothing_is_kept_of_a_workspace_without_runs_that_is_not_ready() {
    let (mut queues, _) = queue(limits(1, None), &[("a", "a1", wants(0, 1))]);
    let usage = |queues: &Queues| {
        let all = queues
            .usage()
            .map(|(_, usage)| (usage.active, usage.queued));
        all.collect::<Vec<_>>()
    };
    queues.claim(("b", "b1"), &shared(), wants(0, 1));
    assert_eq!(usage(&queues), [(1, 1)]);
    queues.set(&shared(), None);
    queues.leave("a1");
    assert_eq!(usage(&queues), [(0, 1)]);
    queues.leave("b1");
    assert!(queues.runs.is_empty() && queues.workspaces.is_empty());
}
