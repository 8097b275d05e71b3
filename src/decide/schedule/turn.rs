//! One decision of a RunSchedule.

use jiff::{SignedDuration, Timestamp};
use kube::ResourceExt;

use crate::api::conditions::{is_true, whole_seconds};
use crate::api::schedule::{ActiveRun, ConcurrencyPolicy, InForce, Tick};
use crate::api::{
    ConditionType as Type, EventReason, Reason, RunScheduleStatus, limits::MAX_ACTIVE,
};
use crate::decide::conditions::{Why, set_condition};
use crate::decide::events::{EventDraft, of_schedule};

use super::calendar::Calendar;
use super::manifest::name_of;
use super::{Decision, Effect, Inputs, OwnedRun, Version, runs};

/// A time that lies further ahead of the clock is from one that was wrong: from the present one no tick comes so soon.
const SKEW: SignedDuration = SignedDuration::from_hours(24);
const SCHEDULED: &str = "A Run is created at each time of spec.schedules.";
const TICK_AHEAD: &str = "The latest tick is more than a day ahead of the operator's clock, and no tick comes until \
     then. Correct the clock. If it is right and was ahead before, delete this schedule with --cascade=orphan and \
     create it under another name.";
const SINCE_AHEAD: &str = "status.inForce.since is more than a day ahead of the operator's clock, and no tick comes \
     until then. Correct the clock. If it is right and was ahead before, suspend this schedule and resume it.";
const SUSPENDED: &str = "Suspended by spec.suspend; set it to false to create Runs from then on.";

pub fn decide(inputs: &Inputs<'_>) -> Decision {
    let stored = inputs.schedule.status.clone().unwrap_or_default();
    let mut turn = Turn {
        inputs,
        stored: &stored,
        next: Decision {
            status: stored.clone(),
            events: Vec::new(),
            effect: None,
            due: None,
            again: None,
        },
    };
    // Its Runs are deleted by the garbage collector.
    if inputs.schedule.metadata.deletion_timestamp.is_none() {
        turn.take();
    }
    turn.next
}

struct Turn<'a> {
    inputs: &'a Inputs<'a>,
    stored: &'a RunScheduleStatus,
    next: Decision,
}

/// Whether a tick's Run may be created now.
enum Gate {
    Open,
    /// Until a Run has ended.
    Closed,
    /// This Run has to be cancelled first.
    Replaces(OwnedRun),
    Skipped,
    Late,
}

impl Turn<'_> {
    fn take(&mut self) {
        let spec = &self.inputs.schedule.spec;
        self.show_runs();
        self.finish_pending();
        let calendar = Calendar::new(&spec.schedules, spec.time_zone.as_deref());
        match &calendar {
            Ok(_) if spec.suspended() => self.suspend(),
            Ok(calendar) => self.follow(calendar),
            Err(_) => {
                self.next.status.in_force = None;
                self.next.status.next_schedule_time = None;
            }
        }
        let verdict = self.verdict(calendar.err());
        // What is shown and done waits for the trial, once for each version, and for the look at a tick that is
        // given up.
        let trial = (verdict.is_ok() && !self.accepted()).then_some(Effect::Try);
        if let Some(first) = trial.or_else(|| self.doubted().map(Effect::Look)) {
            self.next.status = self.stored.clone();
            self.next.events.clear();
            self.next.effect = Some(first);
            return;
        }
        let shown = verdict.clone().and_then(|()| self.ticks_come());
        self.show(&shown);
        self.choose_effect(&verdict);
    }

    /// What a clock that was far ahead has stored keeps every tick away until then.
    fn ticks_come(&mut self) -> Result<(), Why> {
        let Some(in_force) = &self.next.status.in_force else {
            return Ok(());
        };
        let wall = self.inputs.wall;
        let ahead = |time: Timestamp| time.checked_sub(SKEW).ok().filter(|soon| *soon > wall);
        let tick = self.latest_tick().and_then(ahead);
        let Some(soon) = tick.max(ahead(in_force.since.0)) else {
            return Ok(());
        };
        self.next.due = self.next.due.into_iter().chain([soon]).min();
        // A new time since which ticks count does not bring back those before the latest.
        let message = tick.map_or(SINCE_AHEAD, |_| TICK_AHEAD);
        Err(Why::new(Reason::ClockSkew, message))
    }

    /// Of what the tick needs, what can be done: nothing of it while its Run could not be created.
    fn choose_effect(&mut self, verdict: &Result<(), Why>) {
        let wanted = self.next.effect.take();
        let refused = self.refused().map(|(_, _, until)| *until);
        let (now, creates) = (self.inputs.now, matches!(wanted, Some(Effect::Create(_))));
        let tried_again = refused.is_some_and(|until| until <= now);
        let wanted = wanted.filter(|_| verdict.is_ok() || tried_again && creates);
        if let (Some(Effect::Cancel(run)), Some(pending)) = (&wanted, &self.stored.pending_tick) {
            let message = self.of_tick(pending.into(), &format!("Cancels {}", run.name));
            // A tick may replace several.
            let event = EventDraft::new(EventReason::RunReplaced, &*run.name, message);
            self.next.events.push(event);
        }
        let effect = wanted.or_else(|| self.housekeeping());
        // Without a tick a trial shows whether the API server takes the Run now.
        let again = tried_again.then_some(Effect::Try);
        self.next.effect = effect.or(again);
        let kept = self.inputs.memory.kept.iter().map(|(_, again)| *again);
        let later = kept.chain(refused).filter(|at| *at > now);
        self.next.again = later.min();
    }

    fn keeps(&self, run: &OwnedRun) -> bool {
        let kept = self.inputs.memory.kept.iter();
        let mut kept = kept.filter(|(_, again)| *again > self.inputs.now);
        kept.any(|(uid, _)| *uid == run.uid)
    }

    fn refused(&self) -> Option<&(Version, Why, Timestamp)> {
        let version = self.inputs.version();
        let refused = self.inputs.memory.refused.as_ref();
        refused.filter(|(of, ..)| *of == version)
    }

    /// Whether the API server takes the Runs of these versions. After a start, what the status says.
    fn accepted(&self) -> bool {
        let version = self.inputs.version();
        let stored = self.stored;
        let template = version.1.as_ref().map(|template| template.generation);
        let shown =
            (stored.observed_generation, stored.template_generation) == (Some(version.0), template);
        let shown = shown && is_true(&stored.conditions, Type::Ready);
        shown && self.inputs.memory.accepted.is_none()
            || self.inputs.memory.accepted == Some(version)
    }

    fn verdict(&self, wrong: Option<String>) -> Result<(), Why> {
        if let Some(message) = wrong {
            return Err(Why::new(Reason::ScheduleInvalid, message));
        }
        self.inputs.source.as_ref().map_err(Clone::clone)?;
        match self.refused() {
            Some((_, why, _)) => Err(why.clone()),
            None => Ok(()),
        }
    }

    /// The Runs that are active, and the last success. One that is listed and that the watch lacks counts until a live
    /// read shows that it no longer exists.
    fn show_runs(&mut self) {
        let inputs = self.inputs;
        let live = inputs.runs.iter().filter(|run| run.ended.is_none());
        let mut active: Vec<_> = live.map(OwnedRun::active).collect();
        active.extend(self.unseen().cloned());
        active.sort();
        active.truncate(MAX_ACTIVE);
        self.next.status.active = active;
        let ended = inputs.runs.iter().filter_map(|run| run.ended.as_ref());
        let succeeded = ended.filter(|ended| ended.succeeded);
        let last = succeeded.map(|ended| whole_seconds(ended.at)).max();
        let shown = self.stored.last_successful_time.clone();
        self.next.status.last_successful_time = last.max(shown);
    }

    fn unseen(&self) -> impl Iterator<Item = &ActiveRun> {
        let inputs = self.inputs;
        self.stored
            .active
            .iter()
            .filter(|run| !inputs.knows(&run.uid) && !inputs.looked(&run.name))
    }

    /// The name of the Run that a tick which is given up may have all the same, and that no watch has shown yet.
    fn doubted(&self) -> Option<String> {
        let inputs = self.inputs;
        let pending = self.stored.pending_tick.as_ref()?;
        let tick = Tick::from(pending);
        let given_up = self.next.status.pending_tick.as_ref() != Some(pending);
        let name = name_of(inputs.schedule, tick);
        let known = inputs.run_of(tick).is_some() || inputs.looked(&name);
        (given_up && !known).then_some(name)
    }

    /// The tick that was begun, if it has its Run now.
    fn finish_pending(&mut self) {
        let pending = self.stored.pending_tick.as_ref().map(Tick::from);
        if let Some(tick) = pending.filter(|tick| self.inputs.run_of(*tick).is_some()) {
            self.dealt_with(tick);
            self.tell(EventReason::RunCreated, tick, "Created its Run");
        }
    }

    fn pending(&self) -> Option<Tick> {
        self.next.status.pending_tick.as_ref().map(Tick::from)
    }

    fn give_up(&mut self, tick: Tick, reason: EventReason, why: &str) {
        self.dealt_with(tick);
        self.tell(reason, tick, why);
    }

    fn suspend(&mut self) {
        if let Some(tick) = self.pending() {
            self.give_up(tick, EventReason::TickSkipped, "The schedule was suspended");
        }
        self.next.status.in_force = None;
        self.next.status.next_schedule_time = None;
    }

    fn follow(&mut self, calendar: &Calendar) {
        let since = self.put_in_force();
        if let Some(tick) = self.pending().filter(|tick| tick.at <= since) {
            let why = format!("The schedule's ticks count only from {since} on");
            self.give_up(tick, EventReason::TickSkipped, &why);
        }
        let mut pending = self.pending();
        let after = self.latest_tick().max(Some(since)).unwrap_or(since);
        let wall = self.inputs.wall;
        if let Some(at) = calendar.latest(after, wall) {
            if let Some(earlier) = pending.filter(|tick| tick.attempt == 1) {
                self.tell(
                    EventReason::TickMissed,
                    earlier,
                    "The next tick came before its Run was created",
                );
            }
            pending = Some(Tick { at, attempt: 1 });
        }
        let next = calendar.next(after.max(wall));
        self.next.status.next_schedule_time = next.map(whole_seconds);
        let mut due = vec![next];
        if pending.is_none() {
            let retry = self.retry(since);
            let ready = retry.filter(|(_, at)| *at <= wall);
            pending = ready.map(|(failed, _)| failed.again());
            due.push(retry.map(|(_, at)| at));
        }
        if let Some(tick) = pending {
            let late = self.late_from(tick);
            due.push(late);
            match self.gate(tick, late) {
                Gate::Open => self.next.effect = Some(Effect::Create(tick)),
                Gate::Closed => {}
                Gate::Replaces(run) => self.next.effect = Some(Effect::Cancel(run)),
                Gate::Skipped => {
                    let why = "A Run of an earlier tick has not ended";
                    self.give_up(tick, EventReason::TickSkipped, why);
                    pending = None;
                }
                Gate::Late => {
                    let why = "Its Run could not be created in time";
                    self.give_up(tick, EventReason::TickMissed, why);
                    pending = None;
                }
            }
        }
        self.next.status.pending_tick = pending.map(Into::into);
        // What was begun by a guarded write is done; what is only about to begin is written first.
        if self.next.status.pending_tick != self.stored.pending_tick {
            self.next.effect = None;
        }
        // What is due already is done now; if that fails, the pause after a failure counts.
        self.next.due = due.into_iter().flatten().filter(|at| *at > wall).min();
    }

    /// The latest tick that was begun or dealt with. Where the status was lost, its Runs show the ticks that had one.
    fn latest_tick(&self) -> Option<Timestamp> {
        let last = self.next.status.last_schedule_time.as_ref();
        let begun = [last.map(|time| time.0), self.pending().map(|tick| tick.at)];
        let had = self.inputs.runs.iter().filter_map(|run| Some(run.tick?.at));
        begun.into_iter().flatten().chain(had).max()
    }

    /// Records the schedule in force. Returns since when its ticks count.
    fn put_in_force(&mut self) -> Timestamp {
        let spec = &self.inputs.schedule.spec;
        let same =
            |now: &&InForce| now.schedules == spec.schedules && now.time_zone == spec.time_zone;
        let created = self.inputs.schedule.creation_timestamp();
        if let Some(now) = self.stored.in_force.as_ref().filter(same) {
            // The status of a backup is older than the object, whose keys are others.
            return created.map_or(now.since.0, |created| created.0.max(now.since.0));
        }
        let new = self.stored.observed_generation.is_none_or(|seen| seen < 0);
        let created = created.filter(|_| new);
        let since = created.unwrap_or_else(|| whole_seconds(self.inputs.wall));
        let at = since.0;
        self.next.status.in_force = Some(InForce {
            schedules: spec.schedules.clone(),
            time_zone: spec.time_zone.clone(),
            since,
        });
        at
    }

    /// The last tick and attempt if another follows its failed Run, and the time of that. No earlier attempt is followed
    /// by one: a Run of the last may have been deleted.
    fn retry(&self, since: Timestamp) -> Option<(Tick, Timestamp)> {
        let (limit, seconds) = self.inputs.schedule.spec.retries();
        let last = self.next.status.last_tick()?;
        let run = self.inputs.run_of(last)?;
        let ended = run.ended.as_ref().filter(|ended| ended.failed)?;
        let pause = SignedDuration::from_secs(seconds);
        let at = ended.at.checked_add(pause).ok()?;
        (last.attempt <= limit && last.at > since).then_some((last, at))
    }

    /// The time from which on a tick is too late. One that was begun in time and replaces a Run has the default time from
    /// the end of that on.
    fn late_from(&self, tick: Tick) -> Option<Timestamp> {
        let spec = &self.inputs.schedule.spec;
        let seconds = spec.starting_deadline().filter(|_| tick.attempt == 1)?;
        let begun = self.stored.pending_tick.as_ref().map(Tick::from) == Some(tick);
        let replaces = begun
            && spec.concurrency_policy() == ConcurrencyPolicy::Replace
            && spec.starting_deadline_seconds.is_none();
        if replaces && !self.next.status.active.is_empty() {
            return None;
        }
        let ended = self.inputs.runs.iter().filter_map(|run| run.ended.as_ref());
        let ended = ended
            .map(|ended| ended.at)
            .chain(self.inputs.memory.vacated);
        let ended = ended.filter(|_| replaces);
        let begins = ended.fold(tick.at, Timestamp::max);
        let seconds = SignedDuration::from_secs(seconds.saturating_add(1));
        begins.checked_add(seconds).ok()
    }

    fn gate(&self, tick: Tick, late: Option<Timestamp>) -> Gate {
        let spec = &self.inputs.schedule.spec;
        if late.is_some_and(|late| late <= self.inputs.wall) {
            return Gate::Late;
        }
        let busy = !self.next.status.active.is_empty();
        let waits = spec.starting_deadline_seconds.is_some() || tick.attempt > 1;
        match spec.concurrency_policy() {
            ConcurrencyPolicy::Allow => Gate::Open,
            // Whether they still exist is read first.
            _ if self.unseen().next().is_some() => Gate::Closed,
            ConcurrencyPolicy::Forbid if busy && waits => Gate::Closed,
            ConcurrencyPolicy::Forbid if busy => Gate::Skipped,
            ConcurrencyPolicy::Replace if busy => {
                let mut live = self.inputs.runs.iter().filter(|run| run.ended.is_none());
                let first = live.find(|run| !run.cancelling && !self.keeps(run));
                first.map_or(Gate::Closed, |run| Gate::Replaces(run.clone()))
            }
            ConcurrencyPolicy::Forbid | ConcurrencyPolicy::Replace => Gate::Open,
        }
    }

    fn dealt_with(&mut self, tick: Tick) {
        let status = &mut self.next.status;
        let last = status.last_tick().map_or(tick, |last| last.max(tick));
        status.last_schedule_time = Some(whole_seconds(last.at));
        status.last_attempt = Some(last.attempt).filter(|attempt| *attempt > 1);
        status.pending_tick = None;
    }

    fn tell(&mut self, reason: EventReason, tick: Tick, what: &str) {
        let name = name_of(self.inputs.schedule, tick);
        let event = EventDraft::new(reason, name, self.of_tick(tick, what));
        self.next.events.push(event);
    }

    /// An Event's text.
    fn of_tick(&self, tick: Tick, what: &str) -> String {
        let name = name_of(self.inputs.schedule, tick);
        format!("Tick {}: {what} ({name}).", tick.at)
    }

    fn show(&mut self, verdict: &Result<(), Why>) {
        let (generation, template) = self.inputs.version();
        let suspended = self.inputs.schedule.spec.suspended();
        let status = &mut self.next.status;
        status.observed_generation = Some(generation);
        if verdict.is_ok() {
            status.template_generation = template.map(|template| template.generation);
        }
        let held = Why::new(Reason::Suspended, SUSPENDED);
        let why = match verdict {
            Err(why) => why.clone(),
            Ok(()) if suspended => held.clone(),
            Ok(()) => Why::new(Reason::Scheduled, SCHEDULED),
        };
        let stalled = verdict.is_err().then_some(true);
        let wall = self.inputs.wall;
        let mut set = |kind, holds, why: &Why| {
            set_condition(&mut status.conditions, kind, holds, why, generation, wall);
        };
        set(Type::Suspended, suspended.then_some(true), &held);
        set(Type::Ready, Some(verdict.is_ok()), &why);
        set(Type::Stalled, stalled, &why);
        let changed = of_schedule(self.stored, &self.next.status);
        self.next.events.extend(changed);
    }

    fn housekeeping(&self) -> Option<Effect> {
        if let Some(unseen) = self.unseen().next() {
            return Some(Effect::Look(unseen.name.clone()));
        }
        let since = self.next.status.in_force.as_ref().map(|now| now.since.0);
        let failed = since.and_then(|since| self.retry(since));
        let failed = failed.map(|(tick, _)| tick);
        runs::beyond(self.inputs.runs, self.inputs.schedule.spec.history())
            .find(|run| (failed.is_none() || run.tick != failed) && !self.keeps(run))
            .map(|run| Effect::Delete(run.clone()))
    }
}
