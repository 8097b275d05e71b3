//! One schedule, nightly in the namespace team, on the 30th of November 2026.

use std::collections::HashSet;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::ResourceExt;
use run_operator::api::{
    ConditionType, EventReason, Phase, Reason, Run, RunSchedule, RunScheduleStatus, RunStatus,
    RunTemplate,
    conditions::{self, ConditionUpdate, whole_seconds},
    schedule::Tick,
};
use run_operator::decide::EventDraft;
use run_operator::decide::schedule::{
    Effect, Inputs, Memory, Outcome, OwnedRun, Source, decide, manifest, owner, source,
};
use serde_json::{Value, json};

const UID: &str = "uid-of-nightly";
/// Begins the names of the Runs of the day's ticks.
const DAY: &str = "nightly-20261130";

/// A time of the day.
pub(crate) fn time(text: &str) -> Timestamp {
    format!("2026-11-30T{text}Z").parse().unwrap()
}

/// As the log has it: `0217` of the day's tick, and else the whole name.
fn short(name: &str) -> &str {
    name.strip_prefix(DAY).unwrap_or(name)
}

/// The first with the fields of the second in place; `null` removes one.
fn changed(mut base: Value, changes: &Value) -> Value {
    for (field, value) in changes.as_object().unwrap() {
        if value.is_null() {
            base.as_object_mut().unwrap().remove(field);
        } else {
            base[field] = value.clone();
        }
    }
    base
}

pub(crate) struct World {
    pub(crate) schedule: RunSchedule,
    pub(crate) template: Option<RunTemplate>,
    /// The objects at the API server.
    pub(crate) runs: Vec<Run>,
    /// With which the API server answers every trial and creation.
    pub(crate) refusal: Option<&'static str>,
    pub(crate) events: Vec<EventDraft>,
    /// Of the last decision.
    pub(crate) due: Option<Timestamp>,
    spec: Value,
    /// uids of the Runs that the watch lacks.
    hidden: Vec<String>,
    memory: Memory,
    wall: Timestamp,
    /// The clock of the process, which never steps back.
    now: Timestamp,
    /// Reason and occasion: the API server takes no Event twice.
    published: HashSet<(EventReason, String)>,
    /// Runs that were ever created, for their uids.
    created: usize,
    /// Statuses that were written, for the resourceVersion.
    written: usize,
    log: Vec<String>,
}

impl World {
    /// Of every hour, created at 00:30, and seen by the process. `spec`: what differs.
    pub(crate) fn new(spec: &Value) -> Self {
        Self::created_at("00:30:00", spec)
    }

    pub(crate) fn created_at(at: &str, spec: &Value) -> Self {
        let mut world = Self::unseen(at, spec);
        world.turns();
        world
    }

    /// The same, not seen yet.
    pub(crate) fn unseen(at: &str, spec: &Value) -> Self {
        let usual = json!({
            "schedules": ["0 * * * *"],
            "template": {"spec": {"workload": {"image": "ghcr.io/acme/train:1.4"}}},
        });
        let full = changed(usual, spec);
        let decoded = serde_json::from_value(full.clone()).unwrap();
        let mut schedule = RunSchedule::new("nightly", decoded);
        let meta = &mut schedule.metadata;
        meta.namespace = Some("team".to_owned());
        meta.uid = Some(UID.to_owned());
        meta.generation = Some(1);
        meta.creation_timestamp = Some(whole_seconds(time(at)));
        Self {
            schedule,
            template: None,
            runs: Vec::new(),
            refusal: None,
            events: Vec::new(),
            due: None,
            spec: full,
            hidden: Vec::new(),
            memory: Memory::default(),
            wall: time(at),
            now: time(at),
            published: HashSet::new(),
            created: 0,
            written: 0,
            log: Vec::new(),
        }
    }

    /// A person changes fields of the spec, and the process sees it.
    pub(crate) fn edit(&mut self, changes: &Value) {
        self.spec = changed(self.spec.clone(), changes);
        self.schedule.spec = serde_json::from_value(self.spec.clone()).unwrap();
        let generation = self.schedule.metadata.generation.unwrap();
        self.schedule.metadata.generation = Some(generation + 1);
        self.turns();
    }

    /// Both clocks go on, or the wall clock steps back; nobody looks.
    pub(crate) fn clock_shows(&mut self, text: &str) {
        self.clock_is(time(text));
    }

    /// The clocks go on to the time at which it must be decided again.
    pub(crate) fn wait(&mut self) {
        self.clock_is(self.due.unwrap());
    }

    fn clock_is(&mut self, wall: Timestamp) {
        let passed = wall.duration_since(self.wall);
        self.wall = wall;
        self.now = self
            .now
            .checked_add(passed.max(SignedDuration::ZERO))
            .unwrap();
    }

    /// The same, and the process looks.
    pub(crate) fn at(&mut self, text: &str) -> &mut Self {
        self.clock_shows(text);
        self.turns()
    }

    /// Another process follows, which knows what the objects show.
    pub(crate) fn restart(&mut self) {
        self.memory = Memory::default();
    }

    /// Decides and acts until nothing is left.
    pub(crate) fn turns(&mut self) -> &mut Self {
        for _ in 0..50 {
            if !self.turn() {
                return self;
            }
        }
        panic!("no end: {:?} and {:#?}", self.log, self.schedule.status);
    }

    /// One decision, and its write or effect. False: nothing is left.
    pub(crate) fn turn(&mut self) -> bool {
        let (schedule, memory) = (self.schedule.clone(), self.memory.clone());
        let source = source(&schedule, self.template.as_ref());
        let runs = self.watched();
        let inputs = Inputs {
            schedule: &schedule,
            source: &source,
            runs: &runs,
            memory: &memory,
            now: self.now,
            wall: self.wall,
        };
        let decision = decide(&inputs);
        self.due = decision.due;
        self.publish(decision.events);
        if decision.status != schedule.status.clone().unwrap_or_default() {
            self.schedule.status = Some(decision.status);
            self.written += 1;
            self.schedule.metadata.resource_version = Some(self.written.to_string());
            return true;
        }
        let Some(effect) = &decision.effect else {
            return false;
        };
        if let Some(outcome) = self.carry_out(effect, source.as_ref().ok()) {
            self.memory = inputs.record(outcome, self.now);
        }
        true
    }

    fn watched(&self) -> Vec<OwnedRun> {
        let ours = self.runs.iter().filter(|run| {
            let uid = run.metadata.uid.as_ref().unwrap();
            owner(&run.metadata).is_some_and(|owner| owner.uid == UID) && !self.hidden.contains(uid)
        });
        ours.filter_map(|run| OwnedRun::of(&run.metadata, Some(run)))
            .collect()
    }

    fn publish(&mut self, events: Vec<EventDraft>) {
        for event in events {
            if !self
                .published
                .insert((event.reason, event.occasion.clone()))
            {
                continue;
            }
            let tick = short(&event.occasion);
            match event.reason {
                EventReason::TickSkipped => self.log.push(format!("skipped {tick}")),
                EventReason::TickMissed => self.log.push(format!("missed {tick}")),
                _ => {}
            }
            self.events.push(event);
        }
    }

    fn carry_out(&mut self, effect: &Effect, source: Option<&Source>) -> Option<Outcome> {
        match effect {
            Effect::Try => Some(self.refused().unwrap_or(Outcome::Accepted)),
            Effect::Create(tick) => Some(self.create(*tick, source.unwrap())),
            Effect::Look(name) => {
                let found = self.runs.iter().find(|run| run.name_any() == *name);
                let found = found.and_then(Run::uid);
                self.hidden.retain(|uid| Some(uid) != found.as_ref());
                Some(Outcome::Looked(name.clone()))
            }
            Effect::Cancel(run) => {
                self.log.push(format!("cancelled {}", short(&run.name)));
                self.object(&run.name).spec.cancel = Some(true);
                None
            }
            Effect::Delete(run) => {
                self.log.push(format!("deleted {}", short(&run.name)));
                self.runs.retain(|object| object.name_any() != run.name);
                None
            }
        }
    }

    fn refused(&self) -> Option<Outcome> {
        let sentence = self.refusal?;
        Some(Outcome::Refused(sentence.to_owned()))
    }

    fn create(&mut self, tick: Tick, source: &Source) -> Outcome {
        if let Some(refused) = self.refused() {
            return refused;
        }
        let name = manifest::name_of(&self.schedule, tick);
        let taken = self.runs.iter().find(|run| run.name_any() == name);
        if let Some(taken) = taken.map(|run| run.metadata.clone()) {
            self.hidden.retain(|uid| taken.uid.as_ref() != Some(uid));
            let ours = owner(&taken).is_some_and(|owner| owner.uid == UID);
            return if ours {
                Outcome::Accepted
            } else {
                Outcome::Taken(name)
            };
        }
        let manifest = manifest::of_tick(&self.schedule, source, tick).unwrap();
        self.log.push(format!("created {}", short(&name)));
        self.store(&manifest, &name);
        Outcome::Accepted
    }

    fn store(&mut self, manifest: &manifest::Manifest, name: &str) {
        let text = serde_json::to_string(manifest).unwrap();
        let mut run: Run = serde_json::from_str(&text).unwrap();
        self.created += 1;
        run.metadata.name = Some(name.to_owned());
        run.metadata.uid = Some(format!("uid-{}", self.created));
        run.metadata.creation_timestamp = Some(whole_seconds(self.wall));
        self.runs.push(run);
    }

    /// A Run beside the ticks, as a person triggers one.
    pub(crate) fn trigger(&mut self, name: &str) {
        let source = source(&self.schedule, self.template.as_ref()).unwrap();
        let manifest = manifest::beside(&self.schedule, &source).unwrap();
        self.store(&manifest, name);
    }

    /// A Run of nobody's, with the name of a tick's.
    pub(crate) fn takes_the_name(&mut self, tick: &str) {
        self.trigger(&format!("{DAY}{tick}"));
        self.runs.last_mut().unwrap().metadata.owner_references = None;
    }

    /// The watch lacks this Run.
    pub(crate) fn hide(&mut self, tick: &str) {
        let uid = self.named(tick).uid().unwrap();
        self.hidden.push(uid);
    }

    /// A Run ends so, and the process sees it.
    pub(crate) fn ends(&mut self, tick: &str, phase: Phase, reason: Reason) {
        self.set_end(&format!("{DAY}{tick}"), phase, reason);
        self.turns();
    }

    pub(crate) fn fails(&mut self, tick: &str) {
        self.ends(tick, Phase::Failed, Reason::Failed);
    }

    /// It succeeds, unless it has been cancelled.
    pub(crate) fn ends_or_is_cancelled(&mut self, tick: &str) {
        self.end(&format!("{DAY}{tick}"));
        self.turns();
    }

    /// The same of every Run that has not ended.
    pub(crate) fn end_all(&mut self) {
        let active = self.runs.iter().filter(|run| !run.ended());
        let names: Vec<_> = active.map(Run::name_any).collect();
        for name in names {
            self.end(&name);
        }
        self.turns();
    }

    fn end(&mut self, name: &str) {
        let cancelled = self.object(name).spec.cancelled();
        let phase = if cancelled {
            Phase::Cancelled
        } else {
            Phase::Succeeded
        };
        self.set_end(name, phase, phase.reason());
    }

    fn set_end(&mut self, name: &str, phase: Phase, reason: Reason) {
        let mut status = RunStatus {
            phase: Some(phase),
            completion_time: Some(whole_seconds(self.wall)),
            ..RunStatus::default()
        };
        let failed = ConditionUpdate {
            kind: ConditionType::Failed,
            status: (phase == Phase::Failed).then_some(true),
            reason,
            message: String::new(),
        };
        conditions::set(&mut status.conditions, failed, 1, self.wall);
        self.object(name).status = Some(status);
    }

    fn object(&mut self, name: &str) -> &mut Run {
        let mut runs = self.runs.iter_mut();
        runs.find(|run| run.name_any() == name).unwrap()
    }

    /// The Run of this tick.
    pub(crate) fn named(&self, tick: &str) -> &Run {
        let name = format!("{DAY}{tick}");
        let mut runs = self.runs.iter();
        runs.find(|run| run.name_any() == name).unwrap()
    }

    /// The ticks of the Runs that exist.
    pub(crate) fn names(&self) -> Vec<String> {
        let names = self.runs.iter().map(Run::name_any);
        names.map(|name| short(&name).to_owned()).collect()
    }

    /// What happened until now.
    pub(crate) fn log(&self) -> String {
        self.log.join(", ")
    }

    pub(crate) fn status(&self) -> RunScheduleStatus {
        self.schedule.status.clone().unwrap_or_default()
    }

    pub(crate) fn condition(&self, kind: ConditionType) -> Option<Condition> {
        conditions::find(&self.status().conditions, kind).cloned()
    }

    /// Status and reason of the Ready condition.
    pub(crate) fn ready(&self) -> (String, String) {
        let ready = self.condition(ConditionType::Ready).unwrap();
        (ready.status, ready.reason)
    }

    /// Reason and message of the Stalled condition.
    pub(crate) fn stalled(&self) -> Option<(String, String)> {
        let stalled = self.condition(ConditionType::Stalled)?;
        Some((stalled.reason, stalled.message))
    }
}
