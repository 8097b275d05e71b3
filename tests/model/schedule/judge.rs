//! Properties, judged by what is true and not by what a process believes.

use jiff::SignedDuration;

use run_operator::api::schedule::{ConcurrencyPolicy, Tick};
use run_operator::api::{RunSchedule, RunScheduleStatus};

use super::state::{End, Known, Made, State};

/// What went against the promise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Broken {
    TwoRuns,
    Beside,
    Unbegun,
    BegunWhileHeld,
    Early,
    TooLate,
    Repeated,
    SecondObject,
    Retry,
    DeletedLive,
    WentBack,
    NoRest,
    Overlooked,
    Stuck,
    FalseActive,
    LeftBehind,
}

impl Broken {
    /// What should have held.
    pub(crate) fn says(self) -> &'static str {
        match self {
            Self::TwoRuns => "A tick and attempt is at most one run at the service.",
            Self::Beside => {
                "With Forbid and Replace one leader makes no run while another is live."
            }
            Self::Unbegun => "A Run is created only of a tick that was stored as pendingTick.",
            Self::BegunWhileHeld => "Nothing is begun at a version that is suspended.",
            Self::Early => "No tick is begun before its time.",
            Self::TooLate => "No Run is created after its deadline.",
            Self::Repeated => {
                "An attempt at a tick that was dealt with is not begun again, whatever the clock says."
            }
            Self::SecondObject => {
                "A second Run of a tick is created only after a person deleted the first."
            }
            Self::Retry => {
                "Another attempt follows only a failed one, and at most as many as allowed."
            }
            Self::DeletedLive => "The history loses only what has ended.",
            Self::WentBack => "lastScheduleTime and lastAttempt never go back.",
            Self::NoRest => "With the faults ended, it comes to rest in a bounded number of steps.",
            Self::Overlooked => {
                "At rest, the latest tick has its Run, waits for it, or was dealt with."
            }
            Self::Stuck => "At rest, a tick is pending only while it waits or its name is taken.",
            Self::FalseActive => {
                "At rest, the status lists the Runs that are active, and no other."
            }
            Self::LeftBehind => "Nothing lives on after its schedule.",
        }
    }
}

/// A status is stored, in place of that of the newest version.
pub(crate) fn stored(s: &mut State, before: &RunSchedule, status: &RunScheduleStatus) {
    let old = before.status.as_ref();
    let last = status.last_tick();
    if last < old.and_then(RunScheduleStatus::last_tick) {
        s.breaks(Broken::WentBack);
    }
    let pending = status.pending_tick.as_ref().map(Tick::from);
    let before_it = old.and_then(|old| old.pending_tick.as_ref().map(Tick::from));
    if pending != before_it {
        // Whatever the status says of it.
        s.ghost.last = s.ghost.last.max(before_it);
        if let Some(tick) = pending {
            begun(s, before, tick);
        }
    }
    s.ghost.last = s.ghost.last.max(last);
}

fn begun(s: &mut State, schedule: &RunSchedule, tick: Tick) {
    if schedule.spec.suspended() {
        s.breaks(Broken::BegunWhileHeld);
    }
    if s.ghost.last.is_some_and(|last| tick <= last) {
        s.breaks(Broken::Repeated);
    }
    if tick.attempt == 1 {
        if tick.at > s.wall() {
            s.breaks(Broken::Early);
        }
    } else {
        let earlier = Tick {
            attempt: tick.attempt - 1,
            ..tick
        };
        let (limit, _) = schedule.spec.retries();
        let failed = |made: &Made| made.tick == earlier && made.end == Some(End::Failed);
        if earlier.attempt > limit || !s.made.iter().any(failed) {
            s.breaks(Broken::Retry);
        }
    }
    if !s.ghost.begun.contains(&tick) {
        s.ghost.begun.push(tick);
    }
}

/// An object is created by a process that knows this version.
pub(crate) fn created(s: &mut State, view: &Known, tick: Tick) {
    if !s.ghost.begun.contains(&tick) {
        s.breaks(Broken::Unbegun);
    }
    let deadline = view.schedule.spec.starting_deadline();
    let deadline = deadline.filter(|_| tick.attempt == 1);
    if deadline.is_some_and(|seconds| s.wall() > tick.at + SignedDuration::from_secs(seconds)) {
        s.breaks(Broken::TooLate);
    }
    // The key stops a second run, but a process with the newest version does not come to that.
    let newest = s.schedule.as_ref() == Some(view);
    let of_tick = s.ghost.deleted.iter().filter(|(of, _)| *of == tick);
    let by_a_person: Vec<bool> = of_tick.map(|(_, person)| *person).collect();
    let existed = !by_a_person.is_empty();
    if existed && newest && !s.ghost.lost && !by_a_person.contains(&true) {
        s.breaks(Broken::SecondObject);
    }
}

/// A run is made at the service: the last one.
pub(crate) fn made(s: &mut State, view: &Known) {
    let Some((new, others)) = s.made.split_last() else {
        return;
    };
    let twice = others.iter().any(|other| other.tick == new.tick);
    let live = others.iter().any(|other| other.end.is_none());
    if twice {
        s.breaks(Broken::TwoRuns);
    }
    let alone = view.schedule.spec.concurrency_policy() != ConcurrencyPolicy::Allow;
    // The creations of two leaders are guarded by no common write: each knows only what its caches show.
    if alone && live && s.procs[1].is_none() {
        s.breaks(Broken::Beside);
    }
}
