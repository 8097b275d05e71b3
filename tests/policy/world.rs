//! One Run and a service that keeps its rules: `Case`, the executor of `support`, with the calls answered.
//! For the outcome of a whole life: its log, its calls, what is left. Time passes only where a decision asks for it.
//! For answers that break the service's rules take `histories`; for two processes, stale views or late writes
//! `tests/model`; for what lies round the executor `tests/chaos`.

use std::collections::{BTreeMap, VecDeque};

use jiff::Timestamp;
use run_operator::{
    api::{RunStatus, status::ResolvedWorkspace},
    decide::{
        Effect, EventDraft, Follow, WorkspaceView,
        failure::{Failure, RunView},
        turn::{Step, Turn},
    },
};

use crate::support::{Case, at, lost, name, problem};

/// The fate of the next call.
#[derive(Clone, Debug)]
pub(crate) enum Fate {
    /// Carried out, and the answer is lost.
    AnswerLost,
    /// Never arrives.
    Lost,
    /// Answered so, and not carried out.
    Answered(Failure),
}

/// The service: one run a key, whatever is asked how often.
#[derive(Clone, Debug, Default)]
pub(crate) struct Service {
    pub(crate) runs: BTreeMap<String, (Vec<u8>, String)>,
    /// Time of the first use of each key; it is forgotten a day later, as in the contract file.
    used: BTreeMap<String, Timestamp>,
    pub(crate) posts: Vec<(String, Vec<u8>)>,
    pub(crate) cancels: u32,
    pub(crate) fates: VecDeque<Fate>,
    /// States that a GET steps through.
    pub(crate) script: VecDeque<&'static str>,
}

#[derive(Clone, Debug)]
pub(crate) struct World {
    pub(crate) case: Case,
    pub(crate) service: Service,
    pub(crate) log: Vec<String>,
    pub(crate) events: Vec<EventDraft>,
    pub(crate) status_writes: u32,
    /// The place of the latest POST.
    pub(crate) posted_to: Option<ResolvedWorkspace>,
}

impl World {
    pub(crate) fn new(case: Case) -> Self {
        Self {
            case,
            service: Service::default(),
            log: Vec::new(),
            events: Vec::new(),
            status_writes: 0,
            posted_to: None,
        }
    }

    pub(crate) fn fate(mut self, fate: Fate) -> Self {
        self.service.fates.push_back(fate);
        self
    }

    pub(crate) fn script(mut self, states: &[&'static str]) -> Self {
        self.service.script.extend(states);
        self
    }

    /// The object is deleted, and its process is done with it.
    pub(crate) fn gone(&self) -> bool {
        self.case.over()
    }

    /// Carries out one turn. Returns whether anything was done, or else the time of the next reconcile.
    pub(crate) fn step(&mut self) -> Result<(), Option<Timestamp>> {
        if self.case.over() {
            return Err(None);
        }
        let Turn {
            step,
            follow,
            events,
            ..
        } = self.case.next();
        self.events.extend_from_slice(&events);
        let old = self.case.run.status.clone().unwrap_or_default();
        match &step {
            Step::Act(effect) => self.act(effect),
            Step::Rest(_) if follow == Follow::Finish => self.case = self.case.clone().read_on(),
            Step::Rest(again) => {
                self.case.tell(&events);
                return Err(*again);
            }
            Step::ReadLive | Step::WriteStatus { .. } => self.case.carry_out(&step, true),
            Step::Forget => {
                self.log.push("release".into());
                self.case.carry_out(&step, true);
            }
        }
        self.case.tell(&events);
        if let Step::WriteStatus { .. } = step {
            self.status_written(&old);
        }
        Ok(())
    }

    fn status_written(&mut self, old: &RunStatus) {
        let status = self.case.run.status.as_ref().expect("a status");
        assert!(
            old.run_id.is_none() || old.run_id == status.run_id,
            "runID is written once"
        );
        assert!(
            old.workspace.is_none() || old.workspace == status.workspace,
            "workspace is written once"
        );
        self.log
            .push(format!("status {:?}", status.phase.expect("a phase")));
        self.status_writes += 1;
    }

    pub(crate) fn act(&mut self, effect: &Effect) {
        self.log.push(match effect {
            Effect::WriteIntent { intent, .. } => format!("intent {}", intent.epoch),
            other => name(Some(other)).to_owned(),
        });
        let Some(call) = effect.call() else {
            return self.case.carry_out(&Step::Act(effect.clone()), true);
        };
        self.case = self.case.clone().sent(call);
        let answer = self.answer(effect);
        self.case = self.case.clone().answered(call, answer);
    }

    /// The service's answer to a call.
    fn answer(&mut self, effect: &Effect) -> Result<RunView, Failure> {
        match effect {
            Effect::Submit { key, body } => {
                self.may_post(key, body);
                self.post(key, body)
            }
            Effect::Refresh { run_id } => {
                self.at_home(run_id);
                if let Some(next) = self.service.script.pop_front() {
                    self.set_state(run_id, next);
                }
                self.call(|s| s.run(run_id))
            }
            Effect::Cancel { run_id } => {
                self.at_home(run_id);
                self.call(|s| {
                    s.cancels += 1;
                    let view = s.run(run_id)?;
                    s.set(run_id, "cancelling");
                    Ok(view)
                })
            }
            Effect::WriteIntent { .. } | Effect::Release { .. } | Effect::Delete => {
                panic!("no call: {effect:?}")
            }
        }
    }

    pub(crate) fn deleted(&self) -> bool {
        self.case.run.metadata.deletion_timestamp.is_some()
    }

    /// kill -9, and another process takes over.
    pub(crate) fn crash(&mut self) {
        self.case = self.case.clone().restarted();
        self.log.push("crash".into());
    }

    /// The promise of every POST: an intent in the object, this process's own, for these bytes.
    fn may_post(&self, key: &str, body: &[u8]) {
        let intent = self.case.run.intent_record().own();
        let intent = intent.expect("a POST without an intent");
        assert_eq!(intent.owner, self.case.settings.process);
        assert_eq!(intent.key, key);
        assert_eq!(intent.sha256, run_operator::util::sha256(body));
        assert!(self.case.run.metadata.finalizers.is_some(), "unguarded");
    }

    /// The place of a call now; each place has keys and runs of its own.
    fn here(&self) -> String {
        let WorkspaceView::Ready(session) = &self.case.view else {
            panic!("a call without a session");
        };
        where_it_is(&session.resolved)
    }

    /// Asserts the promise of every other call: it is sent where the run is.
    fn at_home(&self, run_id: &str) {
        let here = self.here();
        let home = self.service.home(run_id);
        assert!(
            home.is_none_or(|home| home == here),
            "{run_id} asked for elsewhere"
        );
    }

    fn post(&mut self, key: &str, body: &[u8]) -> Result<RunView, Failure> {
        self.service.posts.push((key.to_owned(), body.to_vec()));
        self.posted_to = self.case.view.place().cloned();
        let place = format!("{}|{key}", self.here());
        let (now, wrong_by) = (self.case.now, self.case.wrong_by);
        self.call(|s| {
            let age = s
                .used
                .get(&place)
                .map_or(0, |at| now.as_second() - at.as_second());
            assert!(age <= DAY + wrong_by, "the key is forgotten: a second run");
            if !s.runs.contains_key(&place) {
                let id = format!("run-{}", s.runs.len() + 1);
                s.used.insert(place.clone(), now);
                s.runs.insert(place.clone(), (body.to_vec(), id.clone()));
                s.set(&id, "queued");
            }
            let known = s.runs.get(&place).expect("a run").1.clone();
            s.run(known.split('=').next().unwrap_or_default())
        })
    }

    fn call(
        &mut self,
        carry_out: impl FnOnce(&mut Service) -> Result<RunView, Failure>,
    ) -> Result<RunView, Failure> {
        match self.service.fates.pop_front() {
            Some(Fate::Answered(failure)) => Err(failure),
            Some(Fate::Lost) => Err(lost()),
            Some(Fate::AnswerLost) => {
                let _ = carry_out(&mut self.service);
                Err(lost())
            }
            None => carry_out(&mut self.service),
        }
    }

    pub(crate) fn set_state(&mut self, run_id: &str, state: &str) {
        self.service.set(run_id, state);
    }

    /// Plays until nothing is left to be done before second `until`.
    pub(crate) fn play(&mut self, until: i64) {
        for _ in 0..400 {
            if self.gone() {
                return;
            }
            match self.step() {
                Ok(()) => {}
                Err(Some(next)) if next <= at(until) => {
                    assert!(next > self.case.now, "looks again at once, for ever");
                    self.case.now = next;
                }
                Err(_) => return,
            }
        }
        panic!("never quiet: {:?}", self.log);
    }

    pub(crate) fn state(&self, run_id: &str) -> Option<String> {
        self.service.state(run_id)
    }
}

/// Time that the service remembers a key, in seconds.
const DAY: i64 = 86_400;

fn where_it_is(place: &ResolvedWorkspace) -> String {
    format!(
        "{} {}",
        place.base_url,
        place.identity.as_deref().unwrap_or_default()
    )
}

impl Service {
    /// The place where a run was made, unless the test itself put it there.
    fn home(&self, run_id: &str) -> Option<&str> {
        let mut runs = self.runs.iter();
        let (place, _) = runs.find(|(_, run)| run.1.split('=').next() == Some(run_id))?;
        place.split_once('|').map(|(home, _)| home)
    }

    /// Stored as `id=state` next to the body.
    fn set(&mut self, run_id: &str, state: &str) {
        for (_, run) in self.runs.values_mut() {
            if run.split('=').next() == Some(run_id) {
                *run = format!("{run_id}={state}");
            }
        }
    }

    fn state(&self, run_id: &str) -> Option<String> {
        self.runs.values().find_map(|(_, run)| {
            let (id, state) = run.split_once('=')?;
            (id == run_id).then(|| state.to_owned())
        })
    }

    fn run(&self, run_id: &str) -> Result<RunView, Failure> {
        let state = self.state(run_id);
        state
            .map(|state| RunView {
                run_id: Some(run_id.to_owned()),
                state: Some(state),
                request_id: Some("req-1".into()),
                details: None,
            })
            .ok_or_else(|| problem(404, "run_not_found"))
    }
}
