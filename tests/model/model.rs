//! The model as stateright runs it, and what came of it.

use std::fmt;
use std::hash::Hash;
use std::sync::Arc;

use stateright::{Checker, HasDiscoveries, Property};

use crate::THREADS;
use crate::actions::{self, Action};
use crate::fair::{self, Ways};
use crate::process;
use crate::properties::Broken;
use crate::scenarios::Scenario;
use crate::state::State;

#[derive(Clone)]
pub(crate) struct Model {
    pub(crate) scenario: Scenario,
    pub(crate) ways: Arc<Ways>,
}

impl stateright::Model for Model {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![self.scenario.begin()]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        if state.broken.is_none() {
            actions::possible(self, state, actions);
        }
    }

    fn next_state(&self, state: &State, action: Action) -> Option<State> {
        actions::take(self, state, action)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("nothing breaks", |_, s: &State| s.broken.is_none()),
            Property::always("it comes to rest", |m: &Self, s: &State| {
                s.broken.is_some() || m.ways.ends(s).is_none()
            }),
        ]
    }
}

/// The result of one scenario.
pub(crate) struct Found {
    /// Distinct states.
    pub(crate) states: usize,
    /// These are all that there are.
    pub(crate) complete: bool,
    /// The longest way from the beginning.
    pub(crate) depth: usize,
    /// The longest way to rest.
    pub(crate) rest: usize,
    pub(crate) violation: Option<Violation>,
}

/// A violation, and the actions that led to it.
pub(crate) struct Violation {
    pub(crate) what: Broken,
    pub(crate) trace: Vec<String>,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "it doesn't hold that: {}", self.what.says())?;
        for line in &self.trace {
            writeln!(f, "  {line}")?;
        }
        Ok(())
    }
}

/// The states that were enumerated, and the shortest way to one that is wrong.
pub(crate) struct Enumerated<M: stateright::Model> {
    /// Distinct states.
    pub(crate) states: usize,
    /// These are all that there are.
    pub(crate) complete: bool,
    /// The longest way from the beginning.
    pub(crate) depth: usize,
    pub(crate) path: Option<Way<M>>,
}

pub(crate) type Way<M> = Vec<(
    <M as stateright::Model>::State,
    Option<<M as stateright::Model>::Action>,
)>;

/// Enumerates every state of a model, up to the first that is wrong, and `at_most` so many, repeated ones included.
pub(crate) fn enumerate<M>(model: M, at_most: usize) -> Enumerated<M>
where
    M: stateright::Model + Send + Sync + 'static,
    M::State: Clone + Hash + PartialEq + Send + Sync + 'static,
    M::Action: Clone + PartialEq,
{
    let checker = model
        .checker()
        .threads(THREADS)
        .target_state_count(at_most)
        .finish_when(HasDiscoveries::AnyFailures)
        .spawn_bfs()
        .join();
    let path = checker
        .discoveries()
        .into_values()
        .min_by_key(|path| path.clone().into_actions().len());
    Enumerated {
        states: checker.unique_state_count(),
        complete: checker.state_count() < at_most,
        depth: checker.max_depth(),
        path: path.map(stateright::Path::into_vec),
    }
}

/// Searches a scenario.
pub(crate) fn check(scenario: Scenario, at_most: usize) -> Found {
    let model = Model {
        scenario,
        ways: Arc::default(),
    };
    let found = enumerate(model.clone(), at_most);
    Found {
        states: found.states,
        complete: found.complete,
        depth: found.depth,
        rest: model.ways.longest(),
        violation: found.path.map(|path| violation(&model, path)),
    }
}

fn violation(model: &Model, path: Vec<(State, Option<Action>)>) -> Violation {
    let mut trace = Vec::new();
    let last = path.last().map(|(s, _)| s.clone());
    for (state, action) in path {
        let Some(action) = action else { continue };
        let what = match action {
            Action::Step { slot, uid, fate } => {
                format!("{} ({fate:?})", process::plan(&state, slot, uid))
            }
            Action::Serve(i)
            | Action::Answered(i, _)
            | Action::Unheard(i)
            | Action::Lost(i)
            | Action::Late(i)
            | Action::Double(i)
            | Action::Begin(i) => {
                format!("{action:?} {:?}", state.calls[i])
            }
            action => format!("{action:?}"),
        };
        trace.push(what);
    }
    let last = last.unwrap_or_else(|| model.scenario.begin());
    let what = last.broken.or_else(|| model.ways.ends(&last));
    if last.broken.is_none() {
        trace.push("-- the faults end --".into());
        trace.extend(fair::way(&last));
    }
    Violation {
        what: what.unwrap_or(Broken::NoEnd),
        trace,
    }
}
