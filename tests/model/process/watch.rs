//! A process's view of the objects, and of the events of the service's stream.

use std::sync::Arc;

use run_operator::decide::{
    Memory,
    event_buffer::Received,
    turn::{Remembers, TrackedRun},
};

use super::{look, look_all};
use crate::object::{Object, Remembered, at, uid};
use crate::state::{Cancelled, Entry, Known, Proc, State, Wake};

/// The watch delivers the newest version of an object, or its deletion.
pub(crate) fn watch(s: &mut State, slot: usize, name: usize) -> bool {
    let shown = show(s, slot, name);
    if shown {
        // Another Run's key may be free now.
        look_all(s, slot);
    }
    shown
}

/// A process's first list.
pub(super) fn list(s: &mut State, slot: usize) {
    for name in 0..2 {
        show(s, slot, name);
    }
    look_all(s, slot);
}

fn show(s: &mut State, slot: usize, name: usize) -> bool {
    let seen = s.live[name].clone();
    let Some(proc) = s.procs[slot].as_mut() else {
        return false;
    };
    let shown = proc.shown(name).cloned();
    if shown == seen {
        return false;
    }
    let same = |old: &Arc<Object>| seen.as_ref().is_some_and(|seen| seen.uid == old.uid);
    if let Some(old) = shown.filter(|old| !same(old)) {
        proc.loses(old.uid);
    }
    if let Some(seen) = seen {
        proc.knows(seen.uid, Some(Known::Shown(Arc::clone(&seen))));
        if proc.entry(seen.uid).is_none() {
            proc.entries.push(Entry::new(seen));
        }
    }
    true
}

/// A list from the past lacks an object that exists; the watch shows it again later.
pub(crate) fn lack(s: &mut State, slot: usize, name: usize) -> bool {
    let Some(proc) = s.procs[slot].as_mut() else {
        return false;
    };
    let Some(uid) = proc.shown(name).map(|object| object.uid) else {
        return false;
    };
    proc.loses(uid);
    look_all(s, slot);
    true
}

impl Proc {
    /// The watch no longer shows an object.
    fn loses(&mut self, uid: u8) {
        let shown = self.knows_of(uid).cloned();
        let last = self.entry(uid).zip(shown);
        let last = last.map(|(entry, shown)| entry.run.observe(shown));
        self.knows(uid, last.map(Known::Gone));
    }

    /// The object with this uid, as the watch shows it.
    fn knows_of(&self, uid: u8) -> Option<&Arc<Object>> {
        let mut names = (0..2).filter_map(|name| self.shown(name));
        names.find(|object| object.uid == uid)
    }
}

impl Entry {
    fn new(seen: Arc<Object>) -> Self {
        let memory = Memory::of(&seen.run);
        let uid = seen.uid;
        let mut run = TrackedRun::new(Remembered::new(memory));
        run.observe(seen);
        Self {
            uid,
            run,
            streaming: false,
            wake: Wake::Now,
            waits: false,
            decided: false,
            ended: false,
            refused: 0,
            cancel: Cancelled::No,
        }
    }
}

/// A reconcile takes in the version that the watch has shown; not while a call is in flight, whose answer may be older.
pub(super) fn observe(s: &mut State, slot: usize, number: u8) {
    let Some(proc) = s.procs[slot].as_mut() else {
        return;
    };
    let seen = proc.knows_of(number).cloned();
    let entry = proc.entry(number).filter(|entry| !entry.calling());
    let Some((entry, seen)) = entry.zip(seen) else {
        return;
    };
    let before = entry.run.latest().cloned();
    if entry.run.observe(Arc::clone(&seen)) == seen && before != Some(seen) {
        // Somebody may have taken the end away.
        entry.ended = false;
    }
}

pub(super) fn forget(proc: &mut Proc, number: u8) {
    proc.leaves_place(number);
    proc.knows(number, None);
    proc.entries.retain(|e| e.uid != number);
    proc.claim = proc.claim.filter(|c| *c != number);
    let granted = proc.queues.leave(&uid(number));
    proc.granted(&granted);
}

/// The next event of the stream after the received ones, or the first one again.
pub(crate) fn event(s: &mut State, slot: usize, number: u8, replay: bool) -> bool {
    let now = s.now;
    let Some(entry) = s.procs[slot]
        .as_ref()
        .and_then(|p| p.entries.iter().find(|e| e.uid == number))
    else {
        return false;
    };
    let run = entry
        .run
        .latest()
        .and_then(|o| crate::service::numbered(o.run_id()?));
    let (true, Some(run)) = (entry.streaming, run.and_then(|n| s.service.runs.get(n))) else {
        return false;
    };
    let cursor = entry
        .run
        .memory
        .event_buffer
        .cursor()
        .and_then(|c| c.strip_prefix('e')?.parse().ok());
    let next = if replay { 0 } else { cursor.unwrap_or(0_usize) };
    if replay && cursor.is_none() {
        return false;
    }
    let Some(state) = run.passed.get(next).map(|state| state.word()) else {
        return false;
    };
    let received = Received {
        id: Some(format!("e{}", next + 1)),
        kind: "state".into(),
        data: state.into(),
    };
    let Some(entry) = s.procs[slot].as_mut().and_then(|p| p.entry(number)) else {
        return false;
    };
    entry.run.memory.change(|memory| {
        let mirrored = memory.reading.as_ref().and_then(|seen| seen.state.clone());
        memory
            .event_buffer
            .receive(&received, Some(state), mirrored.as_deref(), at(now));
    });
    look(s, slot, number);
    true
}
