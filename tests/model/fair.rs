//! The way to rest: the faults have ended, one process is left, and whatever is due is done in turn.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use run_operator::api::{
    Phase, intent::IntentRecord, run::DeletionPolicy, status::ResolvedWorkspace,
};

use crate::cluster;
use crate::model::Model;
use crate::object::{MOVED, OTHER_URL};
use crate::process::{self, Fate};
use crate::properties::Broken;
use crate::service;
use crate::state::{Budget, Fair, RunState, State, Token, Wake};

/// Steps in which an object comes to rest, is deleted and goes.
const BOUND: usize = 300;

/// What goes wrong on the way from a state to rest, if anything does, and how long it is.
type Known = (Option<Broken>, usize);

/// Of which states the way to rest is known.
pub(crate) struct Ways {
    known: Vec<Mutex<HashMap<u64, Known>>>,
    longest: AtomicUsize,
}

impl Default for Ways {
    fn default() -> Self {
        Self {
            known: (0..64).map(|_| Mutex::default()).collect(),
            longest: AtomicUsize::new(0),
        }
    }
}

fn print(s: &State) -> u64 {
    let mut hasher = DefaultHasher::new();
    s.hash(&mut hasher);
    hasher.finish()
}

impl Ways {
    fn shelf(&self, print: u64) -> &Mutex<HashMap<u64, (Option<Broken>, usize)>> {
        &self.known[usize::try_from(print % 64).unwrap()]
    }

    /// The longest way that was gone.
    pub(crate) fn longest(&self) -> usize {
        self.longest.load(Ordering::Relaxed)
    }

    /// What goes wrong on the way to rest from here.
    pub(crate) fn ends(&self, m: &Model, from: &State) -> Option<Broken> {
        let mut passed = Vec::new();
        let mut s = begin(from);
        let (verdict, mut steps) = loop {
            let print = print(&s);
            if let Some(known) = self.shelf(print).lock().unwrap().get(&print) {
                break *known;
            }
            passed.push(print);
            if s.broken.is_some() {
                break (s.broken, 0);
            }
            if passed.len() > BOUND {
                break (Some(Broken::NoEnd), 0);
            }
            match step(m, &s) {
                Way::On(_, next) => s = *next,
                Way::Rest => break (None, 0),
                Way::Wrong(what) => break (Some(what), 0),
            }
        };
        for print in passed.into_iter().rev() {
            steps += 1;
            self.shelf(print)
                .lock()
                .unwrap()
                .insert(print, (verdict, steps));
        }
        self.longest.fetch_max(steps, Ordering::Relaxed);
        verdict
    }
}

/// The way to rest, for people.
pub(crate) fn way(m: &Model, from: &State) -> Vec<String> {
    let mut lines = Vec::new();
    let mut s = begin(from);
    for _ in 0..60 {
        if s.broken.is_some() {
            break;
        }
        match step(m, &s) {
            Way::On(what, next) => {
                lines.push(what);
                s = *next;
            }
            Way::Rest => return lines,
            Way::Wrong(what) => {
                lines.push(format!("{what:?}"));
                break;
            }
        }
    }
    for object in s.live.iter().flatten() {
        lines.push(serde_json::to_string(&object.run).unwrap());
    }
    lines.push(format!("{:?}", s.service));
    lines
}

/// The faults have ended.
fn begin(from: &State) -> State {
    let mut s = from.clone();
    s.left = Budget::default();
    s.fair = Some(if s.world.holds {
        Fair::Held(0)
    } else {
        Fair::Alone(0)
    });
    let number = |p: &Option<process::Proc>| p.as_ref().map(|p| p.number);
    let (first, second) = (number(&s.procs[0]), number(&s.procs[1]));
    match (first, second) {
        (Some(a), Some(b)) => process::crash(&mut s, usize::from(a > b)),
        (None, None) => process::start(&mut s, 0),
        _ => {}
    }
    if s.procs[0].is_none() {
        s.procs.swap(0, 1);
    }
    let pinned = pinned(&s);
    let identity = pinned.as_ref().and_then(|p| p.identity.as_deref());
    let good = Token {
        identity: u8::from(identity == Some("ws-1")),
        valid: true,
    };
    if s.world.tokens.last() != Some(&good) {
        s.world.tokens.push(good);
    }
    let moved = s.world.workspace == Some(MOVED);
    s.world.workspace = match pinned {
        Some(place) if (place.base_url == OTHER_URL) != moved => {
            s.world.leaving = false;
            Some(if moved { 2 } else { MOVED })
        }
        _ => s.world.workspace.or(Some(1)),
    };
    s.world.allowed = true;
    for entry in s.procs.iter_mut().flatten().flat_map(|p| &mut p.entries) {
        entry.streaming = false;
    }
    process::look_all(&mut s, 0);
    s
}

/// Where the first object is pinned to: there Workspace and token are good in the end.
fn pinned(s: &State) -> Option<ResolvedWorkspace> {
    let object = s.live.iter().flatten().next();
    let intent = object.and_then(|o| match o.intent() {
        IntentRecord::Own(intent) => Some(intent.workspace),
        _ => None,
    });
    let stored = object.and_then(|o| o.run.status.as_ref()?.workspace.clone());
    // Whoever wrote the intent knows better than what somebody else made of it.
    let mut entries = s.procs.iter().flatten().flat_map(|p| &p.entries);
    let own = object.and_then(|o| entries.find(|e| e.uid == o.uid));
    let own = own.and_then(|e| Some(e.memory.intent.as_ref()?.workspace.clone()));
    stored.or(own).or(intent)
}

enum Way {
    On(String, Box<State>),
    Rest,
    Wrong(Broken),
}

fn step(m: &Model, before: &State) -> Way {
    let mut s = before.clone();
    match due(m, &mut s) {
        Some(what) => {
            s.calls.sort();
            if let (Some(idle), false) = (idle(&mut s), what.starts_with("wait")) {
                *idle = 0;
            }
            Way::On(what, Box::new(s))
        }
        None => at_rest(s),
    }
}

/// The looks in a row that came to nothing.
fn idle(s: &mut State) -> Option<&mut u8> {
    let (Fair::Held(n) | Fair::Alone(n) | Fair::Deleted(n) | Fair::Orphaned(n)) =
        s.fair.as_mut()?;
    Some(n)
}

/// The next thing that is due.
fn due(m: &Model, s: &mut State) -> Option<String> {
    if let Some(write) = s.writes.pop() {
        let _ = cluster::execute(s, m.fences, &write);
        return Some(format!("late write {:?}", write.op));
    }
    if !s.calls.is_empty() {
        let packet = s.calls.remove(0);
        let answer = service::serve(s, &packet);
        let what = format!("served {:?}: {answer:?}", packet.call);
        process::answered(s, &packet, answer);
        return Some(what);
    }
    for name in 0..2 {
        if process::watch(s, 0, name) {
            return Some(format!("watch {name}"));
        }
    }
    if process::verify(s, 0) {
        return Some("verify".into());
    }
    let entries = s.procs[0].iter().flat_map(|p| &p.entries);
    let awake = entries
        .into_iter()
        .find(|e| e.wake == Wake::Now && !e.calling);
    if let Some(uid) = awake.map(|e| e.uid) {
        let what = process::plan(s, 0, uid);
        process::step(s, m.fences, 0, uid, Fate::Done);
        return Some(what);
    }
    if process::may_leave(s) {
        process::leave(s);
        return Some("the Workspace goes".into());
    }
    if s.world.workspace.is_none() {
        s.world.workspace = Some(2);
        return Some("the Workspace is created again".into());
    }
    if let Some(what) = run_goes_on(s) {
        return Some(what);
    }
    let wakes = s.procs[0].iter().flat_map(|p| &p.entries).map(|e| e.wake);
    let Some(Wake::At(next)) = wakes.min().filter(|w| *w != Wake::Never) else {
        return None;
    };
    let idle = idle(s).filter(|idle| **idle < 8)?;
    *idle += 1;
    if next - s.now > 80_000 {
        service::forget(s);
    }
    process::tick(s, next);
    Some(format!("wait until {next}"))
}

/// A run at the service ends: well, unless somebody asked for its cancellation, which the operator has to do.
fn run_goes_on(s: &mut State) -> Option<String> {
    let stops = |s: &State, uid: u8| {
        let object = s.live.iter().flatten().find(|o| o.uid == uid);
        object.is_none_or(|o| o.deleting() || o.run.spec.cancelled())
    };
    for number in 0..s.service.runs.len() {
        let run = &s.service.runs[number];
        let to = match run.state() {
            _ if run.lost => continue,
            RunState::Cancelling => RunState::Cancelled,
            RunState::Running if !stops(s, run.uid) => RunState::Succeeded,
            _ => continue,
        };
        s.service.runs[number].passed.push(to);
        return Some(format!("run {} is {to:?}", number + 1));
    }
    None
}

fn at_rest(mut s: State) -> Way {
    let objects: Vec<_> = s.live.iter().flatten().cloned().collect();
    for object in &objects {
        let status = object.run.status.clone().unwrap_or_default();
        let is = |kind: &str| {
            let mut all = status.conditions.iter();
            all.any(|c| c.type_ == kind && c.status == "True")
        };
        let says = |reason: &str| status.conditions.iter().any(|c| c.reason == reason);
        if !crate::properties::told(&s, object) {
            return Way::Wrong(Broken::Untold);
        }
        if !crate::properties::retried(&s, object) {
            return Way::Wrong(Broken::RetryLost);
        }
        if matches!(s.fair, Some(Fair::Held(_))) {
            continue;
        }
        let ended = status.phase.is_some_and(Phase::terminal);
        let explained = is("Stalled") || says("Suspended");
        if !ended && !explained || ended && object.held() && !says("RunNotFound") {
            return Way::Wrong(Broken::NoEnd);
        }
        let entries = s.procs[0].iter().flat_map(|p| &p.entries);
        let asleep = entries
            .into_iter()
            .all(|e| e.uid != object.uid || e.wake == Wake::Never);
        if ended && !asleep && !object.deleting() {
            return Way::Wrong(Broken::NotQuiet);
        }
    }
    let owed = |g: &crate::state::Ghost| g.owed && !g.orphaned;
    for (uid, ghost) in (1_u8..).zip(&s.ghosts) {
        if owed(ghost) && !crate::properties::settled(&s, uid) {
            return Way::Wrong(Broken::LeftBehind);
        }
    }
    let next = match s.fair {
        Some(Fair::Held(_)) => {
            (s.world.holds, s.fair) = (false, Some(Fair::Alone(0)));
            return Way::On("nothing is held any more".into(), Box::new(s));
        }
        _ if objects.is_empty() => return Way::Rest,
        Some(Fair::Alone(_)) => Fair::Deleted(0),
        Some(Fair::Deleted(_)) => Fair::Orphaned(0),
        _ => return Way::Wrong(Broken::NoEnd),
    };
    s.fair = Some(next);
    for name in 0..2 {
        let Some(object) = s.live[name].clone() else {
            continue;
        };
        if next == Fair::Deleted(0) {
            cluster::delete(&mut s, name);
        } else {
            let mut run = object.run.clone();
            run.spec.deletion_policy = Some(DeletionPolicy::Orphan);
            run.metadata.generation = run.metadata.generation.map(|g| g + 1);
            cluster::put(&mut s, name, run);
        }
    }
    Way::On(format!("{next:?}"), Box::new(s))
}
