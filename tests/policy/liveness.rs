//! Random lives in the simulated world, with a service that keeps its rules: the end of a life once its
//! faults have ended.

use std::time::Duration;

use proptest::prelude::*;
use run_operator::{
    api::{EventReason, Phase, Reason, RunStatus, run::DeletionPolicy},
    decide::{WorkspaceView, claims::needs_workspace, delays::later, failure::Failure},
};

use crate::{
    histories::{self, Answer, Forgery, Sight, Turn, apply, see, turns, wait},
    support::{BASE_URL, Case, condition, session},
    world::{Fate, World},
};

/// Steps that a life may take until it is quiet.
const STEPS: u32 = 3000;

/// Reasons for which a life may stop until a person acts, in addition to a refusal by the service.
const NEEDS_A_PERSON: [&str; 14] = [
    "ApprovalConflict",
    "BodyChanged",
    "ContractViolation",
    "CreateRefused",
    "Forbidden",
    "IdempotencyConflict",
    "IdentityChanged",
    "Refused",
    "RunIDConflict",
    "ServerError",
    "SubmissionUnknown",
    "Suspended",
    "UnknownConflict",
    "VersionConflict",
];

fn turn(world: &mut World, turn: &Turn) {
    if world.gone() {
        return;
    }
    match turn {
        Turn::Act(answer) => act(world, answer),
        Turn::Unheard => {
            world.service.fates.push_back(Fate::AnswerLost);
            let _ = world.step();
            world.service.fates.clear();
            world.crash();
        }
        Turn::Crash => world.crash(),
        Turn::Delete if !world.deleted() => world.case.delete(),
        Turn::Delete => {}
        other => world.case = apply(world.case.clone(), other),
    }
}

/// One step; if it makes a call, then with this outcome.
fn act(world: &mut World, answer: &Answer) {
    match answer {
        Answer::State(state) if live(world) => world.set_state("run-1", state),
        Answer::State(_) => {}
        Answer::Nothing | Answer::OtherRun => world.service.fates.push_back(Fate::AnswerLost),
        // A service that denies a run that it has, or refuses what made it, keeps no rule.
        Answer::Fails(failure) if breaks_a_rule(world, failure) => {}
        Answer::Fails(failure) => {
            world
                .service
                .fates
                .push_back(Fate::Answered(failure.clone()));
        }
    }
    let _ = world.step();
    world.service.fates.clear();
}

fn breaks_a_rule(world: &World, failure: &Failure) -> bool {
    let denies = failure.code.as_deref() == Some("run_not_found");
    denies || failure.http_status == Some(422) && !world.service.runs.is_empty()
}

/// Actions that replace the object, end it by a false record or remove it are a limit that is documented; so
/// is an edit of the intent together with a crash.
fn within_the_promise(turns: Vec<Turn>) -> Vec<Turn> {
    let forged = turns.iter().any(|t| matches!(t, Turn::Forge(_)));
    let keeps = |turn: &Turn| match turn {
        // Without an identity a Run is pinned only to its base URL: a limit too.
        Turn::View(Sight::NoIdentity)
        | Turn::Strip
        | Turn::Scribble
        | Turn::Foreign
        | Turn::Vanish => false,
        Turn::Forge(forgery) => !matches!(forgery, Forgery::End | Forgery::Made),
        Turn::Crash | Turn::Unheard => !forged,
        _ => true,
    };
    turns.into_iter().filter(keeps).collect()
}

/// The troubles end: the Workspace is what it was where the Run belongs, and may be used.
fn heal(world: &mut World) {
    let announced = world.case.run.intent_record().own().map(|i| i.workspace);
    let made = world.posted_to.clone();
    let home = made
        .filter(|_| !world.service.runs.is_empty() || announced.is_none())
        .or(announced);
    let mut case = see(world.case.clone(), Sight::Ready);
    let mut fresh = session(case.sessions);
    fresh.resolved = home.unwrap_or(fresh.resolved);
    case.view = WorkspaceView::Ready(fresh);
    case.namespace_allowed = Some(true);
    case.call_delay = None;
    case.key_holder = None;
    world.case = case;
}

/// Plays for so long, or until nothing asks for another look. Runs that are being cancelled end.
fn play(world: &mut World, seconds: u64) -> Result<(), TestCaseError> {
    let until = later(world.case.now, Duration::from_secs(seconds));
    for _ in 0..STEPS {
        if world.gone() {
            return Ok(());
        }
        match world.step() {
            Ok(()) => {}
            Err(Some(next)) if next <= until => {
                prop_assert!(next > world.case.now, "looks again in the past");
                world.case.now = next;
                if world.state("run-1").as_deref() == Some("cancelling") {
                    world.set_state("run-1", "cancelled");
                }
            }
            Err(_) => {
                world.case.now = until;
                return Ok(());
            }
        }
    }
    Err(TestCaseError::fail(format!("never quiet: {:?}", world.log)))
}

fn status(world: &World) -> RunStatus {
    world.case.run.status.clone().unwrap_or_default()
}

fn ended(world: &World) -> bool {
    status(world).phase.is_some_and(Phase::terminal)
}

/// True if the object shows what a person has to do.
fn says_what_to_do(world: &World) -> bool {
    let ready = condition(&status(world), "Ready").map(|c| c.1);
    ready.is_some_and(|reason| NEEDS_A_PERSON.contains(&reason.as_str()))
}

fn one_run_at_most(world: &World) -> Result<(), TestCaseError> {
    prop_assert!(
        world.service.runs.len() <= 1,
        "{:?} {:?}",
        world.service.runs,
        world.log
    );
    Ok(())
}

fn live(world: &World) -> bool {
    let state = world.state("run-1");
    state.is_some_and(|s| !["succeeded", "failed", "cancelled"].contains(&s.as_str()))
}

fn lived(turns: Vec<Turn>) -> Result<World, TestCaseError> {
    let mut world = World::new(Case::new());
    for one in within_the_promise(turns) {
        turn(&mut world, &one);
        one_run_at_most(&world)?;
    }
    Ok(world)
}

proptest! {
    #![proptest_config(histories::config(1500))]

    #[test]
    fn after_faults_every_run_finishes_or_reports_what_to_do(turns in turns()) {
        let mut world = lived(turns)?;
        heal(&mut world);
        play(&mut world, 700)?;
        if world.state("run-1").is_some() {
            world.set_state("run-1", "succeeded");
        }
        play(&mut world, 1300)?;
        one_run_at_most(&world)?;
        let done = world.gone() || ended(&world) || says_what_to_do(&world);
        prop_assert!(done, "{:?} {:#?}", world.log, status(&world).conditions);
    }

    #[test]
    fn after_faults_every_deleted_object_is_removed_with_its_run(turns in turns()) {
        let mut world = lived(turns)?;
        heal(&mut world);
        world.case.run.spec.deletion_policy = None;
        if !world.gone() && !world.deleted() {
            world.case.delete();
        }
        let before = world.gone();
        play(&mut world, 2000)?;
        one_run_at_most(&world)?;
        if !world.gone() {
            prop_assert!(says_what_to_do(&world), "{:?} {:#?}", world.log, status(&world).conditions);
            let told = status(&world).conditions.iter().any(|c| c.message.contains("Orphan"));
            prop_assert!(told, "{:#?}", status(&world).conditions);
            world.case.run.spec.deletion_policy = Some(DeletionPolicy::Orphan);
            play(&mut world, 1)?;
            prop_assert!(world.gone(), "{:?}", world.log);
        } else if !before {
            let excused = world.events.iter().any(|e| matches!(e.reason, EventReason::CancelUnconfirmed | EventReason::Orphaned));
            prop_assert!(excused || !live(&world), "left behind: {:?}", world.log);
        }
    }

    /// Nothing, not even a hold of the Workspace's own, keeps the Workspace for a Run that can't be
    /// submitted.
    #[test]
    fn after_faults_a_deleting_workspace_awaits_only_stalled_runs(turns in turns()) {
        let mut world = lived(turns)?;
        heal(&mut world);
        if let WorkspaceView::Ready(session) = &mut world.case.view {
            session.submissions_blocked = Some((Reason::WorkspaceDeleting, "going".into()));
        }
        play(&mut world, 700)?;
        if world.state("run-1").is_some() {
            world.set_state("run-1", "succeeded");
        }
        play(&mut world, 1300)?;
        one_run_at_most(&world)?;
        let needs = !world.gone() && needs_workspace(&world.case.run, Some(BASE_URL));
        prop_assert!(!needs || says_what_to_do(&world), "{:?} {:#?}", world.log, status(&world).conditions);
    }

    /// However long the troubles last: a day later the keys are forgotten.
    #[test]
    fn after_a_day_of_trouble_there_is_still_one_run_at_most(turns in turns(), sight in histories::sights()) {
        let mut world = lived(turns)?;
        if world.gone() {
            return Ok(());
        }
        world.case = see(wait(world.case, 90_000), sight);
        play(&mut world, 100)?;
        heal(&mut world);
        play(&mut world, 2000)?;
        one_run_at_most(&world)?;
    }
}
