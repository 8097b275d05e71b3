//! Every state that faults, people and two processes can lead to, each decided by the `decide` that
//! ships and carried out with the `TrackedRun` and `MetadataChange` (docs/reliability.md).
//! For interleavings: stale views, writes and calls that are lost, late or doubled, two processes, the Workspace. A single
//! life is cheaper in `World` of `tests/policy`; tasks, watches and the wire are seen by `tests/chaos` only.
//!
//! The world keeps to the assumptions of docs/limits.md and to no more: the possible faults are in
//! `scenarios`, the properties in `properties`. It is enumerated by stateright. Each state's way to an end of
//! the object is followed in `fair`. `RUN_OPERATOR_PROVE=full` has larger budgets, `RUN_OPERATOR_SCENARIO`
//! names the only scenario to search.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test stops at what it did not expect"
)]

mod ablations;
mod actions;
mod cluster;
mod fair;
mod guards;
mod model;
mod object;
mod process;
mod properties;
mod scenarios;
mod service;
mod state;

use std::sync::{Mutex, PoisonError};

use guards::Fences;
use properties::Broken;
use test_support::figures::Figures;

/// Rules are taken away from the whole process: one test at a time.
static ALONE: Mutex<()> = Mutex::new(());

/// Number of threads: the cores of the machine that runs the tests for every change.
const THREADS: usize = 2;

/// Maximum number of states of a scenario that are searched for every change, repeated ones included. More of
/// the largest scenarios is for `RUN_OPERATOR_PROVE=full`.
const FOR_A_CHANGE: usize = 400_000;
/// The same in full, where budgets are larger too: some minutes and gigabytes for each scenario.
const IN_FULL: usize = 10_000_000;

fn asked(variable: &str) -> String {
    std::env::var(variable).unwrap_or_default()
}

/// Proves: P-at-most-one, P-none-left
#[test]
fn no_run_is_lost_or_doubled_in_any_state() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let only = asked("RUN_OPERATOR_SCENARIO");
    let full = asked("RUN_OPERATOR_PROVE") == "full";
    let at_most = if full { IN_FULL } else { FOR_A_CHANGE };
    let all = scenarios::all(full);
    let (mut rows, mut wrong) = (Vec::new(), Vec::new());
    let (mut states, mut deepest, mut longest) = (0, 0, 0);
    for scenario in all.into_iter().filter(|s| s.name.contains(&only)) {
        let name = scenario.name;
        let found = model::check(scenario, Fences::default(), THREADS, at_most);
        let all = if found.complete { "all" } else { "the first" };
        eprintln!(
            "{name}: {} states ({all}), {} steps deep",
            found.states, found.depth
        );
        states += found.states;
        deepest = deepest.max(found.depth);
        longest = longest.max(found.rest);
        let row = [
            name,
            &found.states.to_string(),
            all,
            &found.depth.to_string(),
        ];
        rows.push(row.map(str::to_owned).to_vec());
        wrong.extend(
            found
                .violation
                .map(|violation| format!("{name}: {violation}")),
        );
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
    let properties = Broken::ALL
        .iter()
        .map(|broken| vec![broken.says().to_owned()]);
    Figures::new("model")
        .row("Scenarios", rows.len())
        .row("Distinct states", states)
        .row("Steps to the deepest of them", deepest)
        .row(
            "Steps from any of them to the object's end, deleted and gone, at most",
            longest,
        )
        .table(
            "Held in each of the states",
            &["property"],
            properties.collect(),
        )
        .table(
            "States by what may happen",
            &["scenario", "distinct states", "of it", "steps deep"],
            rows,
        )
        .record();
    let enough = !only.is_empty() || states >= 1_000_000;
    assert!(enough, "{states} states are less than a million");
}
