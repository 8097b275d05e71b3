//! A process takes a turn: one status write, or one effect, as `controller::schedule` carries them out.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use jiff::Timestamp;

use run_operator::api::RunScheduleStatus;
use run_operator::api::schedule::Tick;
use run_operator::decide::schedule::{
    Decision, Effect, Inputs, Outcome, OwnedRun, decide, manifest, source,
};

use super::judge::{self, Broken};
use super::state::{Known, Made, Object, Proc, Remembered, State};

type Question = (Known, Vec<Object>, Remembered, Timestamp, Timestamp);

/// What policy has answered before, and the states whose way to rest is known.
#[derive(Default)]
pub(crate) struct Policy {
    decided: Mutex<HashMap<Question, Arc<Decision>>>,
    pub(crate) ways: Mutex<HashMap<u64, Option<Broken>>>,
}

impl Policy {
    /// What the process would do now, and the version of the schedule that it knows.
    pub(crate) fn decides(&self, s: &State, slot: usize) -> Option<(Known, Arc<Decision>)> {
        let proc = s.procs[slot].as_ref()?;
        let view = proc.view.clone()?;
        let (runs, memory) = (proc.runs.clone(), proc.memory.clone());
        let question = (view.clone(), runs, memory, s.now(), s.wall());
        let known = self.decided.lock().unwrap().get(&question).cloned();
        let decision = known.unwrap_or_else(|| {
            let decision = Arc::new(ask(s, proc, &view, decide));
            let mut decided = self.decided.lock().unwrap();
            decided.insert(question, Arc::clone(&decision));
            decision
        });
        Some((view, decision))
    }

    /// True if nothing is written or done until something changes.
    pub(crate) fn quiet(&self, s: &State, slot: usize) -> bool {
        self.decides(s, slot).is_none_or(|(view, decision)| {
            decision.status == status(&view) && decision.effect.is_none()
        })
    }

    /// What a turn does, for people.
    pub(crate) fn plan(&self, s: &State, slot: usize) -> String {
        let Some((view, decision)) = self.decides(s, slot) else {
            return "nothing".into();
        };
        if decision.status == status(&view) {
            return format!("process {slot}: {:?}", decision.effect);
        }
        let RunScheduleStatus {
            pending_tick,
            last_schedule_time,
            active,
            ..
        } = &decision.status;
        format!(
            "process {slot}: status with pendingTick {pending_tick:?}, lastScheduleTime {last_schedule_time:?}, active {active:?}"
        )
    }
}

fn ask<T>(s: &State, proc: &Proc, view: &Known, question: impl FnOnce(&Inputs<'_>) -> T) -> T {
    let source = source(&view.schedule, None);
    let owned = proc.runs.iter().map(|run| run.owned(&view.schedule));
    let runs: Vec<OwnedRun> = owned.collect();
    question(&Inputs {
        schedule: &view.schedule,
        source: &source,
        runs: &runs,
        memory: &proc.memory.memory,
        now: s.now(),
        wall: s.wall(),
    })
}

fn status(view: &Known) -> RunScheduleStatus {
    view.schedule.status.clone().unwrap_or_default()
}

/// A turn whose write is carried out, if it can be. `heard`: it is answered.
pub(crate) fn turn(policy: &Policy, s: &mut State, slot: usize, heard: bool) {
    let Some((view, decision)) = policy.decides(s, slot) else {
        return;
    };
    let mut turn = Turn {
        s,
        slot,
        view,
        heard,
    };
    if decision.status != status(&turn.view) {
        turn.write(&decision.status);
        return;
    }
    match &decision.effect {
        None => {}
        Some(Effect::Try) => turn.record(Outcome::Accepted),
        Some(Effect::Create(tick)) => turn.create(*tick),
        Some(Effect::Look(name)) => turn.look(name),
        Some(Effect::Cancel(run)) => turn.cancel(run.uid.parse().unwrap()),
        Some(Effect::Delete(run)) => turn.delete(run.uid.parse().unwrap()),
    }
}

struct Turn<'a> {
    s: &'a mut State,
    slot: usize,
    view: Known,
    heard: bool,
}

impl Turn<'_> {
    fn proc(&mut self) -> &mut Proc {
        self.s.procs[self.slot].as_mut().unwrap()
    }

    fn object(&self, uid: u8) -> Option<Object> {
        self.s.objects.iter().find(|o| o.uid == uid).copied()
    }

    /// A status is written where the version is still that which the process knows.
    fn write(&mut self, status: &RunScheduleStatus) {
        if self.s.schedule.as_ref() != Some(&self.view) {
            return;
        }
        judge::stored(self.s, &self.view.schedule, status);
        let mut schedule = self.view.schedule.as_ref().clone();
        schedule.status = Some(status.clone());
        self.s.store(schedule);
        if self.heard {
            let written = self.s.schedule.clone();
            self.proc().view = written;
        }
    }

    fn record(&mut self, outcome: Outcome) {
        if !self.heard {
            return;
        }
        let (s, view) = (&*self.s, &self.view);
        let proc = s.procs[self.slot].as_ref().unwrap();
        let memory = ask(s, proc, view, |inputs| inputs.record(outcome, inputs.now));
        self.proc().memory = memory.into();
    }

    /// The process hears of a Run, or that there is none.
    fn look(&mut self, name: &str) {
        let schedule = &self.view.schedule;
        let mut objects = self.s.objects.iter();
        let found = objects.find(|object| manifest::name_of(schedule, object.tick) == name);
        if let Some(object) = found.copied().filter(|_| self.heard) {
            self.proc().put(object);
        }
        self.record(Outcome::Looked(name.to_owned()));
    }

    fn create(&mut self, tick: Tick) {
        let schedule = Arc::clone(&self.view.schedule);
        if self.s.taken == Some(tick) {
            let name = manifest::name_of(&schedule, tick);
            self.record(Outcome::Taken(name));
            return;
        }
        let known = self.s.objects.iter().find(|o| o.tick == tick).copied();
        let object = known.unwrap_or_else(|| self.new_object(tick));
        if self.heard {
            self.proc().put(object);
        }
        self.record(Outcome::Accepted);
    }

    fn new_object(&mut self, tick: Tick) -> Object {
        let (s, view) = (&mut *self.s, &self.view);
        judge::created(s, view, tick);
        let key = key(view, tick);
        let known = s.made.iter().position(|made| made.key == key);
        let made = known.unwrap_or_else(|| {
            s.made.push(Made {
                key,
                tick,
                end: None,
            });
            judge::made(s, view);
            s.made.len() - 1
        });
        s.uid += 1;
        let object = Object {
            uid: s.uid,
            tick,
            made: u8::try_from(made).unwrap(),
            created: s.wall(),
            cancel: false,
            deleting: false,
            end: None,
        };
        s.objects.push(object);
        object
    }

    /// The Run is no longer the version that the process knows.
    fn conflicts(&mut self, uid: u8) -> bool {
        let live = self.object(uid);
        live.is_some_and(|live| !self.proc().runs.contains(&live))
    }

    fn cancel(&mut self, uid: u8) {
        if self.conflicts(uid) {
            return;
        }
        let mut objects = self.s.objects.iter_mut();
        if let Some(object) = objects.find(|o| o.uid == uid) {
            object.cancel = true;
        }
        if !self.heard {
            return;
        }
        match self.object(uid) {
            Some(cancelled) => self.proc().put(cancelled),
            None => self.proc().runs.retain(|run| run.uid != uid),
        }
    }

    fn delete(&mut self, uid: u8) {
        if self.conflicts(uid) {
            return;
        }
        if let Some(object) = self.object(uid) {
            if object.live() {
                self.s.breaks(Broken::DeletedLive);
            }
            self.s.ghost.deleted.push((object.tick, false));
            self.s.remove(uid);
        }
        if self.heard {
            let mut known = self.proc().runs.iter_mut();
            if let Some(run) = known.find(|run| run.uid == uid) {
                run.deleting = true;
            }
        }
    }
}

/// The key with which the service is asked for the Run of a tick.
fn key(view: &Known, tick: Tick) -> String {
    let source = source(&view.schedule, None).unwrap();
    let new = manifest::of_tick(&view.schedule, &source, tick).unwrap();
    let named = OwnedRun::of(&new.metadata, None).unwrap();
    assert_eq!(named.tick, Some(tick), "a Run's name says its tick");
    let new = serde_json::to_value(&new).unwrap();
    new["spec"]["idempotencyKey"].as_str().unwrap().to_owned()
}
