//! Every state that faults, people and two processes can lead to, each decided by the very `decide` that
//! ships (docs/reliability.md).
//!
//! The world keeps to the assumptions of docs/limits.md and to no more: what may go wrong in it stands in
//! `scenarios`, what must never happen in `properties`. It is enumerated by stateright; that an object comes to its
//! end is seen by going the way there from each state (`fair`). `RUN_OPERATOR_PROVE=full` has larger budgets,
//! `RUN_OPERATOR_SCENARIO` and `RUN_OPERATOR_RULE` name what is looked at alone.

mod actions;
mod cluster;
mod fair;
#[path = "../figures/mod.rs"]
mod figures;
mod model;
mod object;
mod process;
mod properties;
mod rules;
mod scenarios;
mod service;
mod state;

use std::sync::{Mutex, PoisonError};

use figures::Figures;
use properties::Broken;
use rules::{Away, Fences};

/// Rules are taken away from the whole process: one test at a time.
static ALONE: Mutex<()> = Mutex::new(());

/// States that are looked at for one rule in one scenario, at most, repeated ones included.
const FOR_A_RULE: usize = 60_000;

fn asked(variable: &str) -> String {
    std::env::var(variable).unwrap_or_default()
}

#[test]
fn no_run_is_lost_or_doubled_in_any_state() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let only = asked("RUN_OPERATOR_SCENARIO");
    let all = scenarios::all(asked("RUN_OPERATOR_PROVE") == "full");
    let (mut rows, mut wrong) = (Vec::new(), Vec::new());
    let (mut states, mut deepest, mut longest) = (0, 0, 0);
    for scenario in all.into_iter().filter(|s| s.name.contains(&only)) {
        let name = scenario.name;
        let found = model::check(scenario, Fences::default(), usize::MAX);
        eprintln!(
            "{name}: {} states, {} steps deep",
            found.states, found.depth
        );
        states += found.states;
        deepest = deepest.max(found.depth);
        longest = longest.max(found.rest);
        rows.push(vec![
            name.to_owned(),
            found.states.to_string(),
            found.depth.to_string(),
        ]);
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
            &["scenario", "distinct states", "steps deep"],
            rows,
        )
        .record();
    let enough = !only.is_empty() || states >= 1_000_000;
    assert!(enough, "{states} states are less than a million");
}

#[test]
fn each_rule_is_missed_when_it_is_taken_away() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let only = asked("RUN_OPERATOR_RULE");
    let (mut rows, mut unnoticed, mut elsewhere) = (Vec::new(), Vec::new(), Vec::new());
    for away in Away::all().filter(|a| a.name().contains(&only)) {
        if let Some((_, why)) = rules::ELSEWHERE.iter().find(|e| e.0 == away.name()) {
            elsewhere.push(vec![away.says().to_owned(), (*why).to_owned()]);
            continue;
        }
        let Some((scenario, wrong)) = away.missed(FOR_A_RULE) else {
            eprintln!("without {}: nothing", away.name());
            unnoticed.push(away.name());
            continue;
        };
        eprintln!(
            "without {}: {:?} after {}",
            away.name(),
            wrong.what,
            wrong.length
        );
        rows.push(vec![
            away.says().to_owned(),
            wrong.what.says().to_owned(),
            wrong.length.to_string(),
            scenario.to_owned(),
        ]);
    }
    assert!(unnoticed.is_empty(), "nobody misses {unnoticed:?}");
    Figures::new("rules")
        .row(
            "Rules and guards taken away, one at a time",
            rows.len() + elsewhere.len(),
        )
        .row("Missed by the model", rows.len())
        .row("Missed by another test", elsewhere.len())
        .table(
            "What fails without it",
            &["taken away", "what fails", "after steps", "scenario"],
            rows,
        )
        .table(
            "What the model can't see",
            &["taken away", "who sees it"],
            elsewhere,
        )
        .record();
}
