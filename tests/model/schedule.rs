//! Every state of one RunSchedule, whose ticks come every two minutes, decided by the `decide::schedule` that ships.
//!
//! Two processes with caches of their own that may be old, each of whose writes may be lost, carried out and not
//! answered, or refused since the version is no longer the newest; a clock that is set back; people who delete,
//! suspend, edit and lose. `judge` says what holds in each state. From each, `rest` follows one process to rest.
//!
//! Not in this world: a creation that is carried out after its sender has given it up, and a watch that goes back in
//! time. A Run that is deleted goes at once, and its run with it.

mod actions;
mod judge;
mod rest;
mod scenarios;
mod state;
mod turn;

use std::sync::Arc;
use std::time::Instant;

use stateright::Property;

use crate::model::enumerate;
use crate::{IN_FULL, asked};
use actions::Action;
use scenarios::Scenario;
use state::State;
use turn::Policy;

/// Maximum number of states of a scenario that are searched for every change, repeated ones included.
const FOR_A_CHANGE: usize = 40_000;

#[derive(Clone)]
struct Model {
    scenario: Scenario,
    policy: Arc<Policy>,
}

impl stateright::Model for Model {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![State::begin(&self.scenario)]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        if state.broken.is_none() {
            actions::possible(&self.scenario, state, actions);
        }
    }

    fn next_state(&self, state: &State, action: Action) -> Option<State> {
        actions::take(&self.scenario, &self.policy, state, action)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("nothing breaks", |_, s: &State| s.broken.is_none()),
            Property::always("it comes to rest", |m: &Self, s: &State| {
                s.broken.is_some() || rest::rests(&m.policy, s).is_none()
            }),
        ]
    }
}

struct Found {
    states: usize,
    complete: bool,
    depth: usize,
    violation: Option<String>,
}

fn check(scenario: Scenario, at_most: usize) -> Found {
    let model = Model {
        scenario,
        policy: Arc::default(),
    };
    let found = enumerate(model.clone(), at_most);
    Found {
        states: found.states,
        complete: found.complete,
        depth: found.depth,
        violation: found.path.map(|path| violation(&model, path)),
    }
}

/// What should have held, and the actions that led there.
fn violation(model: &Model, path: Vec<(State, Option<Action>)>) -> String {
    let mut lines = Vec::new();
    let mut broken = None;
    for (state, action) in path {
        match action {
            Some(Action::Turn(slot)) => lines.push(model.policy.plan(&state, slot)),
            Some(Action::Unheard(slot)) => {
                lines.push(format!("{} (unheard)", model.policy.plan(&state, slot)));
            }
            Some(action) => lines.push(format!("{action:?}")),
            None => {
                broken = state.broken;
                if broken.is_none() {
                    broken = rest::rests(&model.policy, &state);
                    lines.push("-- the faults end --".into());
                    lines.extend(rest::way(&model.policy, &state));
                }
            }
        }
    }
    let says = broken.map_or("", judge::Broken::says);
    format!("it doesn't hold that: {says}\n  {}", lines.join("\n  "))
}

#[test]
fn a_tick_is_one_run_in_any_state() {
    let only = asked("RUN_OPERATOR_SCENARIO");
    let full = asked("RUN_OPERATOR_PROVE") == "full";
    let at_most = if full { IN_FULL } else { FOR_A_CHANGE };
    // The name may be that of a scenario of Runs.
    let mut all = scenarios::all(full);
    all.retain(|s| only.is_empty() || s.name == only);
    let (searched, mut states, mut wrong) = (all.len(), 0, Vec::new());
    for scenario in all {
        let name = scenario.name;
        let began = Instant::now();
        let found = check(scenario, at_most);
        let all = if found.complete { "all" } else { "the first" };
        println!(
            "{name}: {} states ({all}), {} steps deep, {:.1} s",
            found.states,
            found.depth,
            began.elapsed().as_secs_f32()
        );
        states += found.states;
        let violation = found.violation;
        wrong.extend(violation.map(|violation| format!("{name}: {violation}")));
    }
    println!("{searched} scenarios of schedules, {states} distinct states");
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
    // A world in which nothing happens would hold too.
    assert!(!only.is_empty() || states > 20_000, "{states} states");
}
