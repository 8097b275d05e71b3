//! Idempotency, scope, derived states and cancellation, with no HTTP and no clock.

use fastrand::Rng;
use serde_json::{Value, json};

use crate::problem::Problem;
use crate::table::{Create, Table};
use crate::tests::PACING;

fn table() -> Table {
    Table::new(PACING, Rng::with_seed(1))
}

#[expect(
    clippy::needless_pass_by_value,
    reason = "called with json!(…), as a literal"
)]
fn create(
    table: &mut Table,
    now: u64,
    workspace: &str,
    key: &str,
    simulate: Value,
) -> Result<(String, bool), Problem> {
    let body =
        json!({"workload": {"image": "x", "simulate": simulate}, "provider": "a", "region": "b"});
    let request = Create {
        workspace,
        key,
        body,
    };
    table
        .create(now, request)
        .map(|created| (created.run.id.clone(), created.replayed))
}

fn state(table: &mut Table, now: u64, id: &str) -> String {
    table.advance(now);
    table.get(id).expect("a run").state.clone()
}

/// Proves: R1
#[test]
fn a_repeated_key_finds_its_run_again_and_no_other_body() {
    let mut table = table();
    let (id, replayed) = create(&mut table, 0, "ws", "k", json!({})).expect("created");
    assert!(!replayed);
    assert_eq!(
        create(&mut table, 5, "ws", "k", json!({})),
        Ok((id.clone(), true))
    );
    let problem =
        create(&mut table, 0, "ws", "k", json!({"logEvents": 1})).expect_err("a conflict");
    assert_eq!(
        (problem.status.as_u16(), problem.code.as_str()),
        (409, "idempotency_conflict")
    );
    assert_eq!(table.runs().count(), 1);
    assert_eq!(table.get(&id).expect("a run").received.posts, 2);
}

#[test]
fn a_key_belongs_to_its_workspace() {
    let mut table = table();
    let (first, _) = create(&mut table, 0, "ws-1", "k", json!({})).expect("created");
    let (second, replayed) = create(&mut table, 0, "ws-2", "k", json!({})).expect("created");
    assert!(first != second && !replayed);
    assert_eq!(
        table.find("ws-2", &first).expect_err("hidden").code,
        "run_not_found"
    );
}

#[test]
fn a_refused_create_leaves_its_key_free() {
    let mut table = table();
    create(&mut table, 0, "ws", "k", json!({"bad": 1})).expect_err("refused");
    assert!(create(&mut table, 0, "ws", "k", json!({})).is_ok());
}

#[test]
fn the_state_is_derived_from_the_time() {
    let mut table = table();
    let (id, _) = create(&mut table, 0, "ws", "k", json!({})).expect("created");
    let seen: Vec<_> = (0..5).map(|now| state(&mut table, now, &id)).collect();
    assert_eq!(
        seen,
        [
            "queued",
            "provisioning",
            "running",
            "succeeded",
            "succeeded"
        ]
    );
    let (id, _) = create(&mut table, 10, "ws", "k2", json!({})).expect("created");
    assert_eq!(state(&mut table, 500, &id), "succeeded");
    assert_eq!(
        table.get(&id).expect("a run").events.len(),
        4,
        "no state is skipped"
    );
    assert_eq!(table.next_due(), None);
}

#[test]
fn a_cancel_is_confirmed_once_and_is_idempotent() {
    let mut table = table();
    let (id, _) = create(&mut table, 0, "ws", "k", json!({"cancelTimeMs": 10})).expect("created");
    assert_eq!(
        table.cancel(0, "ws", &id).expect("accepted").state,
        "cancelling"
    );
    assert_eq!(
        table.cancel(1, "ws", &id).expect("accepted").state,
        "cancelling"
    );
    assert_eq!(state(&mut table, 9, &id), "cancelling");
    assert_eq!(state(&mut table, 10, &id), "cancelled");
    assert_eq!(
        table.cancel(11, "ws", &id).expect("no effect").state,
        "cancelled"
    );
    let run = table.get(&id).expect("a run");
    assert_eq!((run.received.cancels, run.events.len()), (3, 3));
}

#[test]
fn a_run_handles_a_cancel_as_its_workload_sets() {
    for (cancel, states) in [
        ("ignoreFirst", ["queued", "cancelling", "cancelled"]),
        ("stuck", ["cancelling", "cancelling", "cancelling"]),
    ] {
        let mut table = table();
        let (id, _) = create(&mut table, 0, "ws", "k", json!({"cancel": cancel})).expect("created");
        let first = table.cancel(0, "ws", &id).expect("accepted").state.clone();
        let second = table.cancel(0, "ws", &id).expect("accepted").state.clone();
        let last = state(&mut table, 100, &id);
        assert_eq!([first, second, last], states, "{cancel}");
    }
}

#[test]
fn a_held_run_waits_for_each_step() {
    let mut table = table();
    let (id, _) = create(&mut table, 0, "ws", "k", json!({})).expect("created");
    table.hold_all();
    assert_eq!(state(&mut table, 100, &id), "queued");
    assert_eq!(table.change(&id, |run| run.step(100)), Ok(true));
    assert_eq!(state(&mut table, 200, &id), "provisioning");
}
