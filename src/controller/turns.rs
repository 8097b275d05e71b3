//! Whose turn it is to call a Workspace's service: the namespaces that wait take turns, and within each
//! it is first come, first served. A Run gives its reconcile back while it waits, and is called when there
//! is room; a task (an event stream, the reaper) waits on the spot. Pure: whoever asks brings the time.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use tokio::time::Instant;

use crate::api::workspace::RateLimit;

use super::{
    lanes::Lanes,
    limiter::Pace,
    window::{Cause, Outcome, Started, Window},
};

/// A Run that was called and doesn't come within this time no longer keeps its room from others: it may
/// have gone, or want no call any more.
const CALLED: Duration = Duration::from_secs(5);
/// A Run that waits for longer is woken once, to say so.
const SILENT: Duration = Duration::from_secs(15);

/// A Run, as it is woken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Caller {
    pub(super) uid: String,
    pub(super) namespace: String,
    pub(super) name: String,
}

/// What is to be done after a change.
#[derive(Debug)]
pub(super) struct Turn<T> {
    /// The Runs to wake.
    pub(super) wake: Vec<Caller>,
    /// The tasks that go now.
    pub(super) go: Vec<(T, Started)>,
    /// When to look again, if nothing changes before.
    pub(super) again: Option<Instant>,
}

/// Where a Run stands.
#[derive(Clone, Copy, Debug)]
enum Place {
    Waiting {
        ticket: u64,
        since: Instant,
    },
    /// It was woken, and room is kept for it.
    Called {
        since: Instant,
    },
    /// It was woken and did not come in time. It goes before those of its namespace that wait.
    Late {
        since: Instant,
    },
}

#[derive(Debug)]
enum Waiter<T> {
    /// It counts as long as the Run's place has this ticket.
    Run(Caller, u64),
    Task(T),
}

/// The queue before one Workspace's window.
pub(super) struct Turns<T> {
    window: Window,
    pace: Pace,
    /// A lane for each namespace.
    queue: Lanes<Waiter<T>>,
    places: HashMap<String, Place>,
    /// Room that is kept for Runs that were called, in the order in which that ends.
    kept: VecDeque<(Instant, Caller)>,
    /// Late Runs, in the order in which they are woken once more, should a wake-up have been lost.
    late: VecDeque<(Instant, Caller)>,
    /// Runs that wait and have not said so, in the order in which they will.
    silent: VecDeque<(Instant, Caller, u64)>,
    tickets: u64,
    /// Those that wait.
    waiting: usize,
    /// Whether a task waits no more.
    gone: fn(&T) -> bool,
}

impl<T> Turns<T> {
    /// Nobody waits. `gone` tells whether a task has given up.
    pub(super) fn new(window: Window, gone: fn(&T) -> bool) -> Self {
        Self {
            window,
            pace: Pace::default(),
            queue: Lanes::new(),
            places: HashMap::new(),
            kept: VecDeque::new(),
            late: VecDeque::new(),
            silent: VecDeque::new(),
            tickets: 0,
            waiting: 0,
            gone,
        }
    }

    /// The window, as it is.
    pub(super) fn window(&self) -> &Window {
        &self.window
    }

    pub(super) fn start_slowly(&mut self) {
        self.window.start_slowly();
    }

    pub(super) fn limit(&mut self, limit: Option<RateLimit>) {
        self.pace.limit(limit);
    }

    /// Those that wait.
    pub(super) fn waiting(&self) -> usize {
        self.waiting
    }

    /// A Run wants to make a call: starts it, or has the Run wait for its turn.
    pub(super) fn enter(&mut self, caller: &Caller, now: Instant) -> Option<Started> {
        match self.places.get(&caller.uid).copied() {
            Some(Place::Waiting { .. }) => None,
            Some(Place::Called { since }) => {
                self.leave_place(&caller.uid);
                // Its right to a call was taken from the rate limit when it was called.
                let free = self.window.room(now) > 0;
                free.then(|| self.window.start())
                    .or_else(|| self.wait(caller, since, true))
            }
            Some(Place::Late { since }) => {
                self.leave_place(&caller.uid);
                // Not behind the room that is kept for others: where everybody is late nobody would go.
                let free = self.window.room(now) > 0 && self.pace.take(now);
                free.then(|| self.window.start())
                    .or_else(|| self.wait(caller, since, true))
            }
            None => self
                .enter_at_once(now)
                .or_else(|| self.wait(caller, now, false)),
        }
    }

    /// Starts a call if nobody waits for one.
    pub(super) fn enter_at_once(&mut self, now: Instant) -> Option<Started> {
        self.drop_stale();
        if self.queue.is_empty() {
            self.start_or(now)
        } else {
            None
        }
    }

    /// A task waits for its turn, among those of this namespace.
    pub(super) fn enqueue(&mut self, namespace: &str, task: T) {
        self.waiting += 1;
        self.queue.push_back(namespace, Waiter::Task(task));
    }

    /// A Run wants no call any more.
    pub(super) fn pass(&mut self, uid: &str) {
        self.leave_place(uid);
    }

    /// A call ended. Returns why a pause begins, if one does.
    pub(super) fn end(&mut self, call: Started, outcome: Outcome, now: Instant) -> Option<Cause> {
        self.window.end(call, outcome, now)
    }

    /// Whether this Run has waited for so long that it should say so.
    pub(super) fn waits_long(&self, uid: &str, now: Instant) -> bool {
        match self.places.get(uid) {
            Some(Place::Waiting { since, .. }) => *since + SILENT <= now,
            Some(Place::Called { .. } | Place::Late { .. }) | None => false,
        }
    }

    /// A long pause has begun: every Run is to look at it, and say so. Tasks wait on.
    pub(super) fn send_away(&mut self) -> Vec<Caller> {
        let mut away = Vec::new();
        self.queue.retain(|waiter| match waiter {
            Waiter::Task(_) => true,
            Waiter::Run(caller, ticket) => {
                if holds(&self.places, &caller.uid, *ticket) {
                    away.push(caller.clone());
                }
                false
            }
        });
        for caller in &away {
            self.leave_place(&caller.uid);
        }
        away
    }

    /// Calls as many as there is room for.
    pub(super) fn turn(&mut self, now: Instant) -> Turn<T> {
        let mut turn = Turn {
            wake: Vec::new(),
            go: Vec::new(),
            again: None,
        };
        self.expire(now, &mut turn);
        while self.room(now) > 0 {
            self.drop_stale();
            if self.queue.is_empty() || !self.pace.take(now) {
                break;
            }
            match self.queue.pop_front() {
                Some(Waiter::Task(task)) => {
                    self.waiting -= 1;
                    turn.go.push((task, self.window.start()));
                }
                Some(Waiter::Run(caller, _)) => {
                    self.call(&caller, now);
                    turn.wake.push(caller);
                }
                None => break,
            }
        }
        self.drop_stale();
        self.break_silence(now, &mut turn);
        turn.again = self.next_look(now);
        turn
    }

    fn start_or(&mut self, now: Instant) -> Option<Started> {
        (self.room(now) > 0 && self.pace.take(now)).then(|| self.window.start())
    }

    fn wait(&mut self, caller: &Caller, since: Instant, first: bool) -> Option<Started> {
        self.tickets += 1;
        let ticket = self.tickets;
        let place = Place::Waiting { ticket, since };
        self.waiting += 1;
        self.places.insert(caller.uid.clone(), place);
        let waiter = Waiter::Run(caller.clone(), ticket);
        if first {
            self.queue.push_front(&caller.namespace, waiter);
        } else {
            self.queue.push_back(&caller.namespace, waiter);
            self.silent
                .push_back((since + SILENT, caller.clone(), ticket));
        }
        None
    }

    fn call(&mut self, caller: &Caller, now: Instant) {
        let Some(Place::Waiting { since, .. }) = self.places.get(&caller.uid).copied() else {
            return;
        };
        self.waiting -= 1;
        let place = Place::Called { since };
        self.places.insert(caller.uid.clone(), place);
        self.kept.push_back((now + CALLED, caller.clone()));
    }

    fn leave_place(&mut self, uid: &str) {
        match self.places.remove(uid) {
            Some(Place::Waiting { .. }) => self.waiting -= 1,
            Some(Place::Called { .. }) => self.kept.retain(|(_, kept)| kept.uid != uid),
            Some(Place::Late { .. }) => self.late.retain(|(_, late)| late.uid != uid),
            None => {}
        }
    }

    /// Ends what is kept for Runs that have not come, and wakes them again from time to time.
    fn expire(&mut self, now: Instant, turn: &mut Turn<T>) {
        while let Some((_, caller)) = self.kept.pop_front_if(|(until, _)| *until <= now) {
            if let Some(place) = self.places.get_mut(&caller.uid)
                && let Place::Called { since } = *place
            {
                *place = Place::Late { since };
                self.late.push_back((now + SILENT, caller));
            }
        }
        while let Some((_, caller)) = self.late.pop_front_if(|(at, _)| *at <= now) {
            if matches!(self.places.get(&caller.uid), Some(Place::Late { .. })) {
                turn.wake.push(caller.clone());
                self.late.push_back((now + SILENT, caller));
            }
        }
    }

    /// What the window leaves beside the room that is kept.
    fn room(&self, now: Instant) -> u32 {
        let kept = u32::try_from(self.kept.len()).unwrap_or(u32::MAX);
        self.window.room(now).saturating_sub(kept)
    }

    fn counts(&self, waiter: &Waiter<T>) -> bool {
        match waiter {
            Waiter::Run(caller, ticket) => holds(&self.places, &caller.uid, *ticket),
            Waiter::Task(task) => !(self.gone)(task),
        }
    }

    /// Takes those that have left off the front; no namespace loses its turn by them.
    fn drop_stale(&mut self) {
        while self.queue.front().is_some_and(|w| !self.counts(w)) {
            if let Some(Waiter::Task(_)) = self.queue.discard_front() {
                self.waiting -= 1;
            }
        }
        while self
            .silent
            .front()
            .is_some_and(|(_, caller, ticket)| !holds(&self.places, &caller.uid, *ticket))
        {
            self.silent.pop_front();
        }
    }

    /// Wakes those that have waited for long, each once.
    fn break_silence(&mut self, now: Instant, turn: &mut Turn<T>) {
        while let Some((_, caller, ticket)) = self.silent.pop_front_if(|(at, ..)| *at <= now) {
            if holds(&self.places, &caller.uid, ticket) {
                turn.wake.push(caller);
            }
        }
        self.drop_stale();
    }

    fn next_look(&self, now: Instant) -> Option<Instant> {
        let free = self
            .window
            .paused_until(now)
            .max(self.pace.held_until(now))
            .filter(|_| !self.queue.is_empty());
        let kept = self.kept.front().map(|(until, _)| *until);
        let late = self.late.front().map(|(at, _)| *at);
        let silent = self.silent.front().map(|(at, ..)| *at);
        [free, kept, late, silent].into_iter().flatten().min()
    }
}

/// Whether the Run still waits with this ticket.
fn holds(places: &HashMap<String, Place>, uid: &str, wanted: u64) -> bool {
    matches!(places.get(uid), Some(Place::Waiting { ticket, .. }) if *ticket == wanted)
}

#[cfg(test)]
#[path = "turns_tests.rs"]
mod tests;
