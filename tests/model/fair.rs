//! The way to rest: the faults have ended, one process is left, and everything that is due is done in turn.

mod begin;
mod quiescence;

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::cluster;
use crate::process::{self, Fate};
use crate::properties::Broken;
use crate::service;
use crate::state::{Fair, Place, RunState, State, Wake};
use begin::begin;
use quiescence::at_rest;

/// Steps in which an object comes to rest, is deleted and is removed.
const BOUND: usize = 300;

/// The violation on the way from a state to rest, if there is one, and the length of the way.
type Known = (Option<Broken>, usize);

/// The states whose way to rest is known.
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

    /// The length of the longest way.
    pub(crate) fn longest(&self) -> usize {
        self.longest.load(Ordering::Relaxed)
    }

    /// The violation on the way to rest from here, if there is one.
    pub(crate) fn ends(&self, from: &State) -> Option<Broken> {
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
            match step(&s) {
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
pub(crate) fn way(from: &State) -> Vec<String> {
    let mut lines = Vec::new();
    let mut s = begin(from);
    for _ in 0..60 {
        if s.broken.is_some() {
            break;
        }
        match step(&s) {
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

enum Way {
    On(String, Box<State>),
    Rest,
    Wrong(Broken),
}

fn step(before: &State) -> Way {
    let mut s = before.clone();
    match due(&mut s) {
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

/// The consecutive reconciles without an effect.
fn idle(s: &mut State) -> Option<&mut u8> {
    let (Fair::Held(n) | Fair::Alone(n) | Fair::Deleted(n) | Fair::Orphaned(n)) =
        s.fair.as_mut()?;
    Some(n)
}

/// The next thing that is due.
fn due(s: &mut State) -> Option<String> {
    if let Some(write) = s.writes.pop() {
        let _ = cluster::execute(s, &write);
        return Some(format!("late write {:?}", write.op));
    }
    if !s.calls.is_empty() {
        let packet = s.calls.remove(0);
        let answer = service::serve(s, &packet);
        let what = format!("served {:?}: {answer:?}", packet.call);
        process::answered(s, &packet, answer);
        return Some(what);
    }
    if s.procs[0]
        .as_ref()
        .is_some_and(|p| p.place == Some(Place::Other))
    {
        process::freed(s, 0);
        return Some("the place for calls is free".into());
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
        .find(|e| e.wake == Wake::Now && !e.calling());
    if let Some(uid) = awake.map(|e| e.uid) {
        let what = process::plan(s, 0, uid);
        process::step(s, 0, uid, Fate::Done);
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
