//! Every state that faults, people and two processes can lead to, each decided by the very `decide` that
//! ships (docs/reliability.md).

mod ablations;
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

/// Rules are taken away from the whole process: one test at a time.
static ALONE: std::sync::Mutex<()> = std::sync::Mutex::new(());

fn states() -> usize {
    let asked = std::env::var("RUN_OPERATOR_STATES").ok();
    asked.and_then(|v| v.parse().ok()).unwrap_or(usize::MAX)
}

#[test]
#[ignore = "a survey by hand, in the large: ablations.rs has the smallest world for each"]
fn each_rule_is_missed_when_it_is_taken_away() {
    let _alone = ALONE.lock().unwrap();
    let only = std::env::var("RUN_OPERATOR_RULE").unwrap_or_default();
    for away in rules::Away::all().filter(|a| a.name().contains(&only)) {
        let began = std::time::Instant::now();
        match away.missed(scenarios::all(false), states()) {
            Some((name, wrong)) => eprintln!(
                "MISSED {}: {name}: {:?} after {} ({:?})",
                away.name(),
                wrong.what,
                wrong.length,
                began.elapsed()
            ),
            None => eprintln!(
                "UNNOTICED {}: {} ({:?})",
                away.name(),
                away.says(),
                began.elapsed()
            ),
        }
    }
}

#[test]
fn no_run_is_lost_or_doubled_in_any_state() {
    let _alone = ALONE.lock().unwrap();
    let full = std::env::var("RUN_OPERATOR_PROVE").is_ok_and(|v| v == "full");
    let only = std::env::var("RUN_OPERATOR_SCENARIO").unwrap_or_default();
    let all = scenarios::all(full).into_iter();
    let mut wrong = Vec::new();
    for scenario in all.filter(|s| s.name.contains(&only)) {
        let name = scenario.name;
        let began = std::time::Instant::now();
        let found = model::check(scenario, rules::Fences::default(), 2, states());
        eprintln!(
            "{name}: {} states, {} deep, {} to rest, {:?}",
            found.states,
            found.depth,
            found.rest,
            began.elapsed()
        );
        if let Some(violation) = found.violation {
            eprintln!(
                "{name}: {} ({:?})\n{}",
                violation.what.says(),
                violation.what,
                violation.trace.join("\n")
            );
            wrong.push(name);
        }
    }
    assert!(wrong.is_empty(), "{wrong:?}");
}
