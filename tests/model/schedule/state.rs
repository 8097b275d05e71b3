//! The world of one schedule: the API server, the service, two processes, and what may still go wrong.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};

use run_operator::api::{RunSchedule, schedule::Tick};
use run_operator::decide::schedule::{Ended, Memory, OwnedRun, manifest::name_of};

use super::judge::Broken;
use super::scenarios::Scenario;

/// 2026-03-02T10:00:00Z, at which the schedule is created.
const START: i64 = 1_772_445_600;

/// The world at one moment.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct State {
    /// Minutes since the start, which only grow.
    pub(crate) minutes: i8,
    /// Minutes by which the wall clock was set back.
    pub(crate) back: i8,
    /// The schedule at the API server.
    pub(crate) schedule: Option<Known>,
    pub(crate) version: u8,
    /// Its Runs at the API server, by uid.
    pub(crate) objects: Vec<Object>,
    /// The uid of the latest Run.
    pub(crate) uid: u8,
    /// The tick whose name is that of another's Run.
    pub(crate) taken: Option<Tick>,
    /// The runs at the service, one for each key.
    pub(crate) made: Vec<Made>,
    pub(crate) procs: [Option<Proc>; 2],
    pub(crate) left: Budget,
    pub(crate) ghost: Ghost,
    pub(crate) broken: Option<Broken>,
}

/// What may still happen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Budget {
    pub(crate) minutes: u8,
    pub(crate) back: u8,
    pub(crate) crashes: u8,
    /// Writes that are carried out and not answered.
    pub(crate) unheard: u8,
    /// Runs that fail.
    pub(crate) fails: u8,
    /// Which of the scenario's people have acted, a bit each.
    pub(crate) acted: u8,
}

/// What only the model knows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Ghost {
    /// Ticks that were stored as `pendingTick`.
    pub(crate) begun: Vec<Tick>,
    /// The latest tick and attempt that was dealt with since the status was last lost.
    pub(crate) last: Option<Tick>,
    pub(crate) lost: bool,
    /// Ticks whose Run was deleted, and whether by a person.
    pub(crate) deleted: Vec<(Tick, bool)>,
}

/// A version of the schedule.
#[derive(Clone, Debug)]
pub(crate) struct Known {
    pub(crate) schedule: Arc<RunSchedule>,
    /// All of it, resourceVersion included.
    text: Arc<str>,
}

impl PartialEq for Known {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for Known {}

impl Hash for Known {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        self.text.hash(hasher);
    }
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum End {
    Succeeded,
    Failed,
    Cancelled,
}

/// A Run of the schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Object {
    pub(crate) uid: u8,
    pub(crate) tick: Tick,
    /// Its run, as an index into those of the service.
    pub(crate) made: u8,
    pub(crate) created: Timestamp,
    pub(crate) cancel: bool,
    /// A process has deleted it, and its watch does not show that yet.
    pub(crate) deleting: bool,
    pub(crate) end: Option<(End, Timestamp)>,
}

/// A run at the service.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Made {
    pub(crate) key: String,
    pub(crate) tick: Tick,
    pub(crate) end: Option<End>,
}

/// A process: its caches, and its memory.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Proc {
    pub(crate) view: Option<Known>,
    pub(crate) runs: Vec<Object>,
    pub(crate) memory: Remembered,
}

#[derive(Clone, Debug)]
pub(crate) struct Remembered {
    pub(crate) memory: Memory,
    text: String,
}

impl PartialEq for Remembered {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for Remembered {}

impl Hash for Remembered {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        self.text.hash(hasher);
    }
}

impl From<Memory> for Remembered {
    fn from(memory: Memory) -> Self {
        let text = format!("{memory:?}");
        Self { memory, text }
    }
}

pub(crate) fn minute(number: i8) -> Timestamp {
    Timestamp::from_second(START + i64::from(number) * 60).unwrap()
}

fn created(spec: &Value) -> RunSchedule {
    let mut all = json!({
        "schedules": ["*/2 * * * *"],
        "template": {"spec": {"workload": {}}},
    });
    for (name, value) in spec.as_object().into_iter().flatten() {
        all[name.as_str()] = value.clone();
    }
    let object = json!({
        "apiVersion": "run-operator.dev/v1alpha1",
        "kind": "RunSchedule",
        "metadata": {
            "namespace": "team",
            "name": "nightly",
            "uid": "c0ffee",
            "generation": 1,
            "creationTimestamp": minute(0).to_string(),
        },
        "spec": all,
        "status": {"observedGeneration": -1},
    });
    // From text, since a workload is kept as such.
    serde_json::from_str(&object.to_string()).unwrap()
}

impl State {
    pub(crate) fn begin(scenario: &Scenario) -> Self {
        let mut s = Self {
            minutes: 0,
            back: 0,
            schedule: None,
            version: 0,
            objects: Vec::new(),
            uid: 0,
            taken: None,
            made: Vec::new(),
            procs: [None, None],
            left: scenario.budget,
            ghost: Ghost::default(),
            broken: None,
        };
        s.store(created(&scenario.spec));
        let first = Proc::start(&s);
        s.procs = [Some(first.clone()), scenario.two.then_some(first)];
        s
    }

    /// The time by the processes' own clocks.
    pub(crate) fn now(&self) -> Timestamp {
        minute(self.minutes)
    }

    pub(crate) fn wall(&self) -> Timestamp {
        minute(self.minutes - self.back)
    }

    /// Gives the schedule its next version.
    pub(crate) fn store(&mut self, mut schedule: RunSchedule) {
        self.version += 1;
        schedule.metadata.resource_version = Some(self.version.to_string());
        let text = serde_json::to_string(&schedule).unwrap().into();
        let schedule = Arc::new(schedule);
        self.schedule = Some(Known { schedule, text });
    }

    /// The first violation counts.
    pub(crate) fn breaks(&mut self, what: Broken) {
        self.broken = self.broken.or(Some(what));
    }

    /// The run of an object ends, unless it has ended before, and the object shows it.
    pub(crate) fn end(&mut self, uid: u8, end: End) {
        let wall = self.wall();
        let object = self.objects.iter_mut().find(|o| o.uid == uid).unwrap();
        let made = &mut self.made[usize::from(object.made)];
        let end = *made.end.get_or_insert(end);
        object.end = Some((end, wall));
    }

    /// Removes an object, and so cancels its run.
    pub(crate) fn remove(&mut self, uid: u8) {
        let index = self.objects.iter().position(|o| o.uid == uid).unwrap();
        let object = self.objects.remove(index);
        let made = &mut self.made[usize::from(object.made)];
        made.end = made.end.or(Some(End::Cancelled));
    }

    /// The garbage collector removes what has lost its owner.
    pub(crate) fn collect(&mut self) {
        while let Some(uid) = self.objects.first().map(|o| o.uid) {
            self.remove(uid);
        }
    }
}

impl Proc {
    /// A process with fresh lists and without a memory.
    pub(crate) fn start(s: &State) -> Self {
        Self {
            view: s.schedule.clone(),
            runs: s.objects.clone(),
            memory: Memory::default().into(),
        }
    }

    /// Takes in a Run that was read or written.
    pub(crate) fn put(&mut self, object: Object) {
        self.runs.retain(|known| known.uid != object.uid);
        self.runs.push(object);
        self.runs.sort_by_key(|known| known.uid);
    }
}

impl Object {
    pub(crate) fn live(&self) -> bool {
        self.end.is_none()
    }

    /// As policy sees it.
    pub(crate) fn owned(&self, schedule: &RunSchedule) -> OwnedRun {
        OwnedRun {
            name: name_of(schedule, self.tick),
            uid: self.uid.to_string(),
            version: "1".into(),
            created: self.created,
            tick: Some(self.tick),
            cancelling: self.cancel || self.deleting,
            deleting: self.deleting,
            ended: self.end.map(|(end, at)| Ended {
                at,
                succeeded: end == End::Succeeded,
                failed: end == End::Failed,
            }),
        }
    }
}
