//! The table of runs and the rules that need no HTTP: idempotency, scope, derived state, cancel.
//!
//! Pure: the time comes in as an argument. What changed is collected until [`Table::take_changed`].

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use fastrand::Rng;
use serde_json::Value;

use crate::plan::{Millis, Pacing, Plan, is_terminal};
use crate::problem::Problem;
use crate::run::{Event, Received, Run, Timer};

/// The content of a create request, after it was checked.
#[derive(Debug)]
pub(crate) struct Create<'a> {
    pub(crate) workspace: &'a str,
    pub(crate) key: &'a str,
    pub(crate) body: Value,
}

#[derive(Debug)]
pub(crate) struct Created<'a> {
    pub(crate) run: &'a Run,
    /// The key was known, and this is its run.
    pub(crate) replayed: bool,
}

#[derive(Debug)]
pub(crate) struct Table {
    pacing: Pacing,
    random: Rng,
    runs: BTreeMap<String, Run>,
    /// The run of each workspace and key (rule 1).
    keys: HashMap<(String, String), String>,
    keys_seen: HashSet<(String, String)>,
    /// Every run whose timer runs, soonest first.
    agenda: BTreeSet<(Millis, String)>,
    changed: BTreeSet<String>,
    hold_new: bool,
}

impl Table {
    pub(crate) fn new(pacing: Pacing, random: Rng) -> Self {
        Self {
            pacing,
            random,
            runs: BTreeMap::new(),
            keys: HashMap::new(),
            keys_seen: HashSet::new(),
            agenda: BTreeSet::new(),
            changed: BTreeSet::new(),
            hold_new: false,
        }
    }

    /// Creates a run, or finds the one that this key already made (rule 1).
    pub(crate) fn create(
        &mut self,
        now: Millis,
        create: Create<'_>,
    ) -> Result<Created<'_>, Problem> {
        let scoped = (create.workspace.to_owned(), create.key.to_owned());
        self.keys_seen.insert(scoped.clone());
        if let Some(known) = self.keys.get(&scoped) {
            let run = self.runs.get_mut(known);
            let run = run.ok_or_else(|| Problem::run_not_found(known))?;
            if run.body != create.body {
                let title = "This Idempotency-Key was used with another body";
                let problem = Problem::conflict("idempotency_conflict", title);
                return Err(problem.param("idempotencyKey", create.key));
            }
            run.received.posts += 1;
            return Ok(Created {
                run,
                replayed: true,
            });
        }
        let id = self.insert(now, create)?;
        let run = self.runs.get(&id);
        self.keys.insert(scoped, id.clone());
        Ok(Created {
            run: run.ok_or_else(|| Problem::run_not_found(&id))?,
            replayed: false,
        })
    }

    fn insert(&mut self, now: Millis, create: Create<'_>) -> Result<String, Problem> {
        let plan = Plan::of(&create.body["workload"], self.pacing)?;
        let id = match &plan.run_id {
            Some(wished) if self.runs.contains_key(wished) => {
                return Err(Problem::invalid_field(
                    "workload.simulate.runId",
                    "is taken",
                ));
            }
            Some(wished) => wished.clone(),
            None => format!("run_{:016x}", self.random.u64(..)),
        };
        let mut run = Run {
            id: id.clone(),
            number: self.runs.len() as u64 + 1,
            workspace: create.workspace.to_owned(),
            key: create.key.to_owned(),
            body: create.body,
            state: plan.first.clone(),
            created: now,
            updated: now,
            finished: is_terminal(&plan.first).then_some(now),
            cancel_requested: None,
            plan,
            timer: Timer::Idle,
            events: Vec::new(),
            entered: Vec::new(),
            received: Received::default(),
        };
        run.received.posts = 1;
        run.start(now);
        run.wind(now, self.hold_new);
        if let Timer::Due(at) = run.timer {
            self.agenda.insert((at, id.clone()));
        }
        self.runs.insert(id.clone(), run);
        Ok(id)
    }

    /// A run that the caller may see: of its workspace.
    pub(crate) fn find(&mut self, workspace: &str, id: &str) -> Result<&mut Run, Problem> {
        self.runs
            .get_mut(id)
            .filter(|run| run.workspace == workspace)
            .ok_or_else(|| Problem::run_not_found(id))
    }

    pub(crate) fn cancel(
        &mut self,
        now: Millis,
        workspace: &str,
        id: &str,
    ) -> Result<&Run, Problem> {
        self.find(workspace, id)?.received.cancels += 1;
        self.change(id, |run| run.cancel(now))?;
        self.get(id).ok_or_else(|| Problem::run_not_found(id))
    }

    /// Changes one run, and updates the agenda and the list of changes accordingly.
    pub(crate) fn change<T>(
        &mut self,
        id: &str,
        change: impl FnOnce(&mut Run) -> T,
    ) -> Result<T, Problem> {
        let run = self
            .runs
            .get_mut(id)
            .ok_or_else(|| Problem::run_not_found(id))?;
        let before = run.timer;
        let result = change(run);
        let after = run.timer;
        if let Timer::Due(at) = before {
            self.agenda.remove(&(at, id.to_owned()));
        }
        if let Timer::Due(at) = after {
            self.agenda.insert((at, id.to_owned()));
        }
        self.changed.insert(id.to_owned());
        Ok(result)
    }

    /// Takes every step that is due, each at the time at which it was due.
    pub(crate) fn advance(&mut self, now: Millis) {
        while let Some((at, id)) = self.agenda.first().cloned()
            && at <= now
        {
            if self.change(&id, |run| run.step(at)).is_err() {
                self.agenda.remove(&(at, id));
            }
        }
    }

    pub(crate) fn next_due(&self) -> Option<Millis> {
        self.agenda.first().map(|(at, _)| *at)
    }

    /// The runs that changed since the last call.
    pub(crate) fn take_changed(&mut self) -> BTreeSet<String> {
        std::mem::take(&mut self.changed)
    }

    /// Any run, also another workspace's: for the control API and the streams.
    pub(crate) fn get(&self, id: &str) -> Option<&Run> {
        self.runs.get(id)
    }

    pub(crate) fn runs(&self) -> impl Iterator<Item = &Run> {
        self.runs.values()
    }

    pub(crate) fn keys_seen(&self) -> usize {
        self.keys_seen.len()
    }

    /// Stops every run, and each new one.
    pub(crate) fn hold_all(&mut self) {
        self.hold_new = true;
        let ids: Vec<_> = self.runs.keys().cloned().collect();
        for id in ids {
            // The id was just read from the table, so the run is there.
            let _ = self.change(&id, Run::hold);
        }
    }

    /// Sets any state of a run. The rest of its plan is dropped.
    pub(crate) fn set_state(
        &mut self,
        now: Millis,
        id: &str,
        state: &str,
        silently: bool,
    ) -> Result<(), Problem> {
        self.change(id, |run| {
            run.plan.steps.clear();
            run.timer = Timer::Idle;
            run.enter(state, silently, now);
        })
    }

    pub(crate) fn emit(&mut self, id: &str, event: Event) -> Result<(), Problem> {
        self.change(id, |run| run.events.push(event))
    }
}
