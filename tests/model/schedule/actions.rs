//! Everything that can happen next.

use run_operator::api::RunScheduleStatus;
use run_operator::api::schedule::Tick;

use super::scenarios::Scenario;
use super::state::{End, Proc, State, minute};
use super::turn::{Policy, turn};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Action {
    /// A process writes or does what policy decides, and hears the answer.
    Turn(usize),
    /// The same, and the answer is lost.
    Unheard(usize),
    /// The watch delivers the newest schedule.
    Schedule(usize),
    /// The watch delivers the newest Runs.
    Runs(usize),
    /// A process ends and is started again.
    Crash(usize),
    Minute,
    /// The wall clock is set back by a minute.
    Back,
    /// The run of an object ends.
    End(u8, End),
    /// One of the scenario's people acts.
    Person(usize),
    /// The garbage collector removes the Runs of a schedule that is gone.
    Collect,
}

/// What a person does, once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Person {
    /// Of the oldest Run.
    DeletesRun,
    DeletesLatestRun,
    DeletesSchedule,
    Suspends,
    Resumes,
    /// To the odd minutes.
    Edits,
    LosesStatus,
    /// Another's Run gets the name of the next tick's.
    TakesName,
}

pub(crate) fn possible(scenario: &Scenario, s: &State, actions: &mut Vec<Action>) {
    for (slot, proc) in s.procs.iter().enumerate() {
        let Some(proc) = proc else { continue };
        actions.push(Action::Turn(slot));
        let each = [
            (s.left.unheard > 0, Action::Unheard(slot)),
            (proc.view != s.schedule, Action::Schedule(slot)),
            (proc.runs != s.objects, Action::Runs(slot)),
            (s.left.crashes > 0, Action::Crash(slot)),
        ];
        actions.extend(
            each.iter()
                .filter(|(may, _)| *may)
                .map(|(_, action)| *action),
        );
    }
    if s.left.minutes > 0 {
        actions.push(Action::Minute);
    }
    if s.left.back > 0 && s.minutes > s.back {
        actions.push(Action::Back);
    }
    for object in s.objects.iter().filter(|object| object.live()) {
        let by_itself = if object.cancel {
            End::Cancelled
        } else {
            End::Succeeded
        };
        let before = s.made[usize::from(object.made)].end;
        actions.push(Action::End(object.uid, before.unwrap_or(by_itself)));
        if s.left.fails > 0 && before.is_none() && !object.cancel {
            actions.push(Action::End(object.uid, End::Failed));
        }
    }
    let people = 0..scenario.people.len();
    let left = people.filter(|person| (s.left.acted & (1_u8 << *person)) == 0);
    actions.extend(left.map(Action::Person));
    if s.schedule.is_none() && !s.objects.is_empty() {
        actions.push(Action::Collect);
    }
}

/// The state after an action; `None` if nothing has changed.
pub(crate) fn take(
    scenario: &Scenario,
    policy: &Policy,
    before: &State,
    action: Action,
) -> Option<State> {
    let mut s = before.clone();
    match action {
        Action::Turn(slot) => turn(policy, &mut s, slot, true),
        Action::Unheard(slot) => turn(policy, &mut s, slot, false),
        Action::Schedule(slot) => s.procs[slot].as_mut()?.view.clone_from(&before.schedule),
        Action::Runs(slot) => s.procs[slot].as_mut()?.runs.clone_from(&before.objects),
        Action::Crash(slot) => s.procs[slot] = Some(Proc::start(before)),
        Action::Minute => s.minutes += 1,
        Action::Back => s.back += 1,
        Action::End(uid, end) => s.end(uid, end),
        Action::Person(person) => acts(&mut s, scenario.people[person])?,
        Action::Collect => s.collect(),
    }
    if s == *before {
        return None;
    }
    let left = &mut s.left;
    match action {
        Action::Unheard(_) => left.unheard -= 1,
        Action::Crash(_) => left.crashes -= 1,
        Action::Minute => left.minutes -= 1,
        Action::Back => left.back -= 1,
        Action::End(_, End::Failed) => left.fails = left.fails.saturating_sub(1),
        Action::Person(person) => left.acted |= 1_u8 << person,
        _ => {}
    }
    Some(s)
}

fn acts(s: &mut State, person: Person) -> Option<()> {
    let mut schedule = s.schedule.as_ref()?.schedule.as_ref().clone();
    let generation = schedule
        .metadata
        .generation
        .map(|generation| generation + 1);
    match person {
        Person::DeletesRun | Person::DeletesLatestRun => {
            let latest = person == Person::DeletesLatestRun;
            let run = if latest {
                s.objects.last()
            } else {
                s.objects.first()
            };
            let run = *run?;
            s.ghost.deleted.push((run.tick, true));
            s.remove(run.uid);
            return Some(());
        }
        Person::DeletesSchedule => {
            s.schedule = None;
            return Some(());
        }
        Person::TakesName => {
            let at = s.minutes - s.back;
            let next = Tick {
                at: minute(at + 2 - at % 2),
                attempt: 1,
            };
            let free = !s.objects.iter().any(|object| object.tick == next);
            s.taken = free.then_some(next);
            return free.then_some(());
        }
        Person::LosesStatus => {
            s.ghost.last = None;
            s.ghost.lost = true;
            schedule.status = Some(RunScheduleStatus {
                observed_generation: Some(-1),
                ..RunScheduleStatus::default()
            });
        }
        Person::Suspends if !schedule.spec.suspended() => {
            schedule.spec.suspend = Some(true);
            schedule.metadata.generation = generation;
        }
        Person::Resumes if schedule.spec.suspended() => {
            schedule.spec.suspend = None;
            schedule.metadata.generation = generation;
        }
        Person::Suspends | Person::Resumes => return None,
        Person::Edits => {
            schedule.spec.schedules = vec!["1-59/2 * * * *".to_owned()];
            schedule.metadata.generation = generation;
        }
    }
    s.store(schedule);
    Some(())
}
