//! Every state that faults, people and two processes can lead to, each decided by the `decide` that
//! ships and carried out with the `TrackedRun` and its `Step`s (docs/reliability.md).
//! For interleavings: stale views, writes and calls that are lost, late or doubled, two processes, the Workspace. A single
//! life is cheaper in `World` of `tests/policy`; tasks, watches and the wire are seen by `tests/chaos` only.
//!
//! The world keeps to the assumptions of docs/limits.md and to no more: the possible faults are in
//! `scenarios`, the properties in `properties`. It is enumerated by stateright. Each state's way to an end of
//! the object is followed in `fair`. `RUN_OPERATOR_PROVE=full` has larger budgets, `RUN_OPERATOR_SCENARIO`
//! names the only scenario to search: `RUN_OPERATOR_SCENARIO=copy cargo test --test model -- --nocapture`.
//!
//! `schedule` is a second, smaller model: of a RunSchedule.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test stops at what it did not expect"
)]

mod actions;
mod cluster;
mod fair;
mod model;
mod object;
mod process;
mod properties;
mod scenarios;
mod schedule;
mod service;
mod state;

use std::time::Instant;

/// Number of threads: the cores of the machine that runs the tests for every change.
const THREADS: usize = 2;

/// Maximum number of states of a scenario that are searched for every change, repeated ones included. More of
/// the largest scenarios is for `RUN_OPERATOR_PROVE=full`.
const FOR_A_CHANGE: usize = 100_000;
/// The same in full, where budgets are larger too: some minutes and gigabytes for each scenario.
const IN_FULL: usize = 10_000_000;

fn asked(variable: &str) -> String {
    std::env::var(variable).unwrap_or_default()
}

/// Proves: P-at-most-one, P-none-left
#[test]
fn no_run_is_lost_or_doubled_in_any_state() {
    let only = asked("RUN_OPERATOR_SCENARIO");
    let full = asked("RUN_OPERATOR_PROVE") == "full";
    let at_most = if full { IN_FULL } else { FOR_A_CHANGE };
    let mut all = scenarios::all(full);
    all.retain(|s| only.is_empty() || s.name == only);
    assert!(!all.is_empty(), "there is no scenario {only}");
    let (mut states, mut deepest, mut longest) = (0, 0, 0);
    let (searched, mut wrong) = (all.len(), Vec::new());
    for scenario in all {
        let name = scenario.name;
        let began = Instant::now();
        let found = model::check(scenario, at_most);
        let all = if found.complete { "all" } else { "the first" };
        println!(
            "{name}: {} states ({all}), {} steps deep, {:.1} s",
            found.states,
            found.depth,
            began.elapsed().as_secs_f32()
        );
        states += found.states;
        deepest = deepest.max(found.depth);
        longest = longest.max(found.rest);
        let violation = found.violation;
        wrong.extend(violation.map(|violation| format!("{name}: {violation}")));
    }
    println!("{searched} scenarios, {states} distinct states, {deepest} steps to the deepest");
    println!("at most {longest} steps from a state to the object's end, deleted and gone");
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
    // Some 1,000,000: a world in which nothing happens would hold too.
    assert!(!only.is_empty() || states > 500_000, "{states} states");
}
