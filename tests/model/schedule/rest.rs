//! The way to rest: the faults have ended, one process is left with fresh caches, and the rest of the world goes on.

use std::hash::{DefaultHasher, Hash, Hasher};

use jiff::Timestamp;

use run_operator::api::RunSchedule;
use run_operator::api::schedule::{ConcurrencyPolicy, Tick};

use super::judge::Broken;
use super::state::{Budget, End, State, minute};
use super::turn::{Policy, turn};

/// Turns in which it comes to rest.
const BOUND: usize = 60;
/// At rest, the runs end; at rest again, time passes; and once more the runs end.
const STAGES: usize = 3;
/// Two ticks, and longer than the pause after a refusal.
const LATER: i8 = 4;

/// The violation on the way to rest from here, if there is one.
pub(crate) fn rests(policy: &Policy, from: &State) -> Option<Broken> {
    let mut s = begin(from);
    let mut hasher = DefaultHasher::new();
    s.hash(&mut hasher);
    let print = hasher.finish();
    let known = policy.ways.lock().unwrap().get(&print).copied();
    known.unwrap_or_else(|| {
        let verdict = goes_on(policy, &mut s, &mut Vec::new()).err();
        policy.ways.lock().unwrap().insert(print, verdict);
        verdict
    })
}

/// The way to rest, for people.
pub(crate) fn way(policy: &Policy, from: &State) -> Vec<String> {
    let mut lines = Vec::new();
    let mut s = begin(from);
    if let Err(what) = goes_on(policy, &mut s, &mut lines) {
        lines.push(format!("{what:?} in {s:?}"));
    }
    lines
}

fn begin(from: &State) -> State {
    let mut s = from.clone();
    s.procs[1] = None;
    s.left = Budget::default();
    deliver(&mut s);
    s
}

fn deliver(s: &mut State) {
    if s.schedule.is_none() {
        s.collect();
    }
    let (schedule, objects) = (s.schedule.clone(), s.objects.clone());
    let proc = s.procs[0].as_mut().unwrap();
    proc.view = schedule;
    proc.runs = objects;
}

fn goes_on(policy: &Policy, s: &mut State, lines: &mut Vec<String>) -> Result<(), Broken> {
    for stage in 0..STAGES {
        settles(policy, s, lines)?;
        at_rest(s)?;
        if stage == 1 {
            lines.push("time passes".into());
            s.minutes += LATER;
            s.taken = None;
        } else {
            lines.push("the runs end".into());
            all_end(s);
        }
    }
    settles(policy, s, lines)?;
    at_rest(s)
}

fn settles(policy: &Policy, s: &mut State, lines: &mut Vec<String>) -> Result<(), Broken> {
    for _ in 0..BOUND {
        deliver(s);
        if policy.quiet(s, 0) {
            return Ok(());
        }
        lines.push(policy.plan(s, 0));
        turn(policy, s, 0, true);
        if let Some(broken) = s.broken {
            return Err(broken);
        }
    }
    Err(Broken::NoRest)
}

fn all_end(s: &mut State) {
    let live = s.objects.iter().filter(|object| object.live());
    let ends: Vec<_> = live
        .map(|object| {
            let end = if object.cancel {
                End::Cancelled
            } else {
                End::Succeeded
            };
            (object.uid, end)
        })
        .collect();
    for (uid, end) in ends {
        s.end(uid, end);
    }
}

fn at_rest(s: &State) -> Result<(), Broken> {
    let Some(known) = &s.schedule else {
        let lives = s.made.iter().any(|made| made.end.is_none());
        return holds(s.objects.is_empty() && !lives, Broken::LeftBehind);
    };
    let schedule = known.schedule.as_ref();
    let status = schedule.status.clone().unwrap_or_default();
    let live = s.objects.iter().filter(|object| object.live());
    let live: Vec<_> = live.map(|object| object.owned(schedule).active()).collect();
    let listed = live.iter().all(|run| status.active.contains(run));
    holds(
        listed && live.len() == status.active.len(),
        Broken::FalseActive,
    )?;
    let pending = status.pending_tick.as_ref().map(Tick::from);
    let alone = schedule.spec.concurrency_policy() != ConcurrencyPolicy::Allow;
    let waits = alone && !live.is_empty() || s.taken.is_some();
    let may_wait = waits && !schedule.spec.suspended();
    holds(pending.is_none() || may_wait, Broken::Stuck)?;
    if schedule.spec.suspended() {
        return Ok(());
    }
    let since = status.in_force.as_ref().map(|now| now.since.0);
    let since = since.ok_or(Broken::Overlooked)?;
    let Some(due) = due(s, schedule, since) else {
        return Ok(());
    };
    let last = status.last_schedule_time.as_ref().map(|time| time.0);
    let ticks = s.objects.iter().map(|object| object.tick).chain(pending);
    let mut dealt = ticks.map(|tick| tick.at).chain(last);
    holds(dealt.any(|at| at >= due), Broken::Overlooked)
}

fn holds(what: bool, otherwise: Broken) -> Result<(), Broken> {
    if what { Ok(()) } else { Err(otherwise) }
}

/// The latest tick after `since`, by this model's own calendar of even or odd minutes.
fn due(s: &State, schedule: &RunSchedule, since: Timestamp) -> Option<Timestamp> {
    let odd = i8::from(schedule.spec.schedules[0].starts_with('1'));
    let wall = s.minutes - s.back;
    let latest = wall - (wall - odd).rem_euclid(2);
    Some(minute(latest)).filter(|at| *at > since)
}
