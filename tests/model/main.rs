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

/// Rules are taken away in the whole process: whoever explores does it alone.
fn alone() -> std::sync::MutexGuard<'static, ()> {
    static ALONE: std::sync::Mutex<()> = std::sync::Mutex::new(());
    ALONE
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}

#[test]
fn no_run_is_lost_or_doubled_in_any_state() {
    let _alone = alone();
    let full = std::env::var("RUN_OPERATOR_PROVE").is_ok_and(|v| v == "full");
    for scenario in scenarios::all(full) {
        let name = scenario.name;
        let began = std::time::Instant::now();
        let found = model::check(scenario, rules::Fences::default(), 2);
        eprintln!(
            "{name}: {} states, {} deep, {} to rest, {:?}",
            found.states,
            found.depth,
            found.rest,
            began.elapsed()
        );
        if let Some(wrong) = found.violation {
            panic!(
                "{name}: {} ({:?})\n{}",
                wrong.what.says(),
                wrong.what,
                wrong.trace.join("\n")
            );
        }
    }
}
