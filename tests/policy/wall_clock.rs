//! Steps of the wall clock: pauses are not affected, and stored times follow it.

use std::time::Duration;

use jiff::SignedDuration;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use run_operator::{
    api::{Phase, Reason},
    decide::{CallDelay, event_buffer::Received, failure::Failure},
};

use crate::support::{Case, UID, at, bare, hopeless, lost, name, problem, view};
use crate::world::{Fate, World};

/// A step back, and one forward.
const STEPS: [i64; 2] = [-3600, 3600];

fn running() -> Case {
    Case::new()
        .submitted("running")
        .got(Ok(view("running")))
        .settle()
}

fn event(id: &str) -> Received {
    Received {
        id: Some(id.into()),
        kind: "progress".into(),
        data: "{}".into(),
    }
}

fn streaming(mut case: Case, id: &str, state: Option<&str>) -> Case {
    let wall = case.wall();
    case.stream = run_operator::decide::Stream::Open;
    let feed = &mut case.tracked.memory.event_buffer;
    feed.receive(&event(id), state, Some("running"), wall);
    case
}

fn cancelled() -> Case {
    running().spec(|s| s.cancel = Some(true))
}

/// Everything that waits for the clock and isn't a deadline, a TTL or a key's age.
fn paced() -> Vec<(&'static str, Case)> {
    let slow = Failure {
        retry_after: Some(Duration::from_mins(9)),
        ..problem(429, "slow")
    };
    let mut followed = running();
    followed.stream = run_operator::decide::Stream::Open;
    let mut paused = running();
    paused.call_delay = Some(CallDelay::Paused { until: at(600) });
    let mut paused_create = Case::new();
    paused_create.call_delay = Some(CallDelay::Paused { until: at(600) });
    let mut waiting = Case::new();
    waiting.key_holder = Some("elder".into());
    let accepted = || Ok(view("running"));
    let denied = || problem(404, "run_not_found");
    vec![
        ("the next poll", running()),
        ("the next poll of a run that is followed", followed),
        ("a hint", streaming(running(), "e1", None)),
        ("events alone", streaming(running(), "e1", Some("running"))),
        ("a failed poll", running().got(Err(lost()))),
        ("a refused poll", running().got(Err(problem(403, "no")))),
        ("a poll that a proxy answers", running().got(Err(bare(404)))),
        ("a hopeless poll", running().got(Err(hopeless()))),
        ("a run that is denied", running().got(Err(denied()))),
        (
            "a create that got lost",
            Case::new().mine().posted(Err(lost())),
        ),
        (
            "a create that is asked to wait",
            Case::new().mine().posted(Err(slow)),
        ),
        ("a create in a pause", paused_create),
        ("a read in a pause", paused),
        ("a key of another Run", waiting),
        ("a cancel that got lost", cancelled().cancelled(Err(lost()))),
        (
            "a cancel that came to nothing",
            cancelled().cancelled(accepted()).got(Ok(view("running"))),
        ),
        (
            "a cancel that was refused",
            cancelled()
                .cancelled(Err(problem(403, "no")))
                .got(Ok(view("running"))),
        ),
        (
            "a cancel that goes through",
            cancelled()
                .cancelled(accepted())
                .got(Ok(view("cancelling"))),
        ),
    ]
}

/// The effect, the status, the Events and the time of the next reconcile.
fn gist(case: &Case) -> impl PartialEq + std::fmt::Debug + use<> {
    let decision = case.decide();
    (
        name(decision.effect.as_ref()),
        decision.requeue_at,
        case.news(),
        decision.status,
    )
}

/// Proves: P-clock
#[test]
fn nothing_that_is_paced_notices_a_step_of_the_wall_clock() {
    for (what, case) in paced() {
        let case = case.settle();
        for second in [0, 1, 2, 10, 59, 60, 61, 300, 601, 3700] {
            let case = case.clone().at(second);
            // What is new is stored with its time; what isn't stays as it is.
            let (before, settled) = (gist(&case), case.decide().status.is_none());
            for step in STEPS {
                let after = case.clone().wall_steps(step);
                if settled {
                    assert_eq!(gist(&after), before, "{what}, second {second}, {step}");
                }
                assert_eq!(
                    after.decide().requeue_at,
                    case.decide().requeue_at,
                    "{what}, {second}, {step}"
                );
            }
        }
    }
}

/// A life, by its effects and their moments, and by its Events; the wall clock steps before the `nth` step.
fn life(mut world: World, nth: usize, step: i64) -> (Vec<(String, i64)>, Vec<&'static str>) {
    let mut effects = Vec::new();
    for n in 0..200 {
        if n == nth {
            world.case = world.case.wall_steps(step);
        }
        match world.step() {
            Ok(()) => {
                let last = world.log.last().cloned().unwrap_or_default();
                // A time that is stored may be worth a write of its own, or not.
                if !last.starts_with("status") {
                    effects.push((last, world.case.now.as_second()));
                }
            }
            Err(Some(next)) if !world.gone() => world.case.now = world.case.now.max(next),
            Err(_) => break,
        }
    }
    let reasons = world.case.reasons();
    (effects, reasons)
}

fn troubled() -> World {
    let slow = Failure {
        retryable: Some(true),
        ..problem(503, "busy")
    };
    World::new(Case::new())
        .fate(Fate::Answered(slow))
        .fate(Fate::AnswerLost)
        .script(&[
            "queued",
            "queued",
            "running",
            "running",
            "running",
            "running",
            "succeeded",
        ])
}

fn deleted() -> World {
    let mut world = World::new(Case::new()).script(&["running"]);
    while world.case.run.status.as_ref().and_then(|s| s.phase) != Some(Phase::Active) {
        world.step().expect("it is submitted at once");
    }
    world.case.delete();
    world.script(&["running", "running", "running", "cancelling", "cancelled"])
}

/// Proves: P-clock
#[test]
fn a_life_is_the_same_wherever_in_it_the_wall_clock_steps() {
    for world in [troubled(), deleted()] {
        let calm = life(world.clone(), usize::MAX, 0);
        assert!(calm.0.len() > 5, "{calm:?}");
        for nth in 0..60 {
            for step in STEPS {
                assert_eq!(life(world.clone(), nth, step), calm, "{nth}, {step}");
            }
        }
    }
}

/// Proves: P-clock
#[test]
fn three_404s_a_minute_apart_count_under_any_wall_clock() {
    for step in STEPS {
        let denied = || Err(problem(404, "run_not_found"));
        let mut case = running().got(denied());
        for second in [30, 60, 90, 120] {
            assert_eq!(case.settled().phase, Some(Phase::Active), "{second}");
            case = case.at(second).wall_steps(step).got(denied());
        }
        assert_eq!(case.settled().phase, Some(Phase::Failed));
    }
}

/// This process's knowledge of a cancellation is lost; of its time only the stored one is left.
/// Proves: P-clock
#[test]
fn a_cancel_is_repeated_though_the_clock_went_back() {
    let accepted = cancelled().cancelled(Ok(view("running"))).settle().at(3);
    let looks = |case: Case| {
        let mut case = case.restarted().got(Ok(view("running"))).settle();
        case.tracked.memory.cancel.read_since = true;
        case
    };
    let back = looks(accepted.clone().wall_steps(-3600));
    assert_eq!(back.does(), "cancel");
    let calm = looks(accepted.at(0));
    assert_ne!(calm.does(), "cancel");
    assert_eq!(calm.at(60).does(), "cancel");
}

/// Proves: P-clock
#[test]
fn a_step_forward_shortens_no_patience_with_a_cancellation() {
    let cancelling = running()
        .deleting()
        .cancelled(Ok(view("cancelling")))
        .got(Ok(view("cancelling")))
        .settle();
    let seen = |second| {
        let case = cancelling.clone().at(second).wall_steps(3600);
        case.got(Ok(view("cancelling"))).does()
    };
    assert_eq!(seen(200), "nothing");
    assert_eq!(seen(301), "release");
}

/// Proves: P-clock
#[test]
fn a_deadline_is_never_early_though_times_are_rounded() {
    let case = running()
        .spec(|s| s.active_deadline_seconds = Some(1))
        .status(|s| s.submission_time = Some(Time(at(0))));
    // Submitted at the very end of second 0.
    let mut case = case.at(1);
    case.now += SignedDuration::from_millis(998);
    assert_ne!(case.does(), "cancel");
    let again = case.decide().requeue_at;
    assert_eq!(again, Some(at(2)), "it is seen the moment it passes");
    assert_eq!(case.clone().restarted().at(2).settle().does(), "cancel");
    assert_eq!(case.at(2).does(), "cancel");
}

/// Proves: P-clock
#[test]
fn a_ttl_is_never_early_though_times_are_rounded() {
    let mut case = running()
        .spec(|s| s.ttl_seconds_after_finished = Some(5))
        .got(Ok(view("succeeded")))
        .settle();
    case.run.metadata.finalizers = None;
    assert_eq!(case.clone().at(5).does(), "nothing");
    assert_eq!(case.clone().at(5).decide().requeue_at, Some(at(6)));
    assert_eq!(case.at(6).does(), "delete");
}

/// Proves: P-clock
#[test]
fn deadline_and_ttl_follow_the_wall_clock() {
    let deadline = running().spec(|s| s.active_deadline_seconds = Some(1800));
    let forward = deadline.clone().wall_steps(3600);
    assert_eq!(forward.does(), "cancel");
    let mut ended = running()
        .spec(|s| s.ttl_seconds_after_finished = Some(1800))
        .got(Ok(view("succeeded")))
        .settle();
    ended.run.metadata.finalizers = None;
    assert_eq!(ended.clone().wall_steps(3600).does(), "delete");
    let again = |case: &Case| case.decide().requeue_at;
    assert_eq!(again(&ended), Some(at(1801)));
    // The wall clock shows an hour less, and so the wait is an hour longer.
    let back = ended.clone().wall_steps(-3600);
    assert_eq!(again(&back), Some(at(3600 + 1801)));
    assert_eq!(again(&ended.at(100).wall_steps(1000)), Some(at(801)));
}

/// Proves: P-clock
#[test]
fn the_age_of_a_key_is_by_the_wall_clock() {
    let doubted = Case::new().taken_over().posted(Err(lost()));
    assert_eq!(doubted.clone().at(3600).does(), "submit");
    let aged = doubted.wall_steps(86_400).at(3600);
    assert_eq!(aged.does(), "nothing");
    assert_eq!(aged.stalled().as_deref(), Some("SubmissionUnknown"));
}

/// Proves: P-clock
#[test]
fn what_is_stored_is_a_time_of_the_wall_clock() {
    let case = Case::new().wall_steps(-3600).mine();
    let case = case.posted(Ok(view("running"))).settle();
    let status = case.got(Ok(view("succeeded"))).settled();
    let hour_ago = Some(Time(at(-3600)));
    assert_eq!(status.submission_time, hour_ago);
    assert_eq!(status.start_time, hour_ago);
    assert_eq!(status.completion_time, hour_ago);
    assert_eq!(status.last_sync_time, hour_ago);
    let transitions = status.conditions.iter().map(|c| &c.last_transition_time);
    assert!(transitions.into_iter().all(|t| t.0 == at(-3600)));
    let stalled = Case::new()
        .wall_steps(-3600)
        .mine()
        .posted(Err(lost()))
        .settled();
    let error = stalled.last_error.expect("an error");
    assert_eq!(error.time, Time(at(-3600)));
    let next = error.next_attempt_time.expect("another attempt").0;
    assert!(next >= at(-3600) && next <= at(-3598), "{next}");
    assert_eq!(stalled.idempotency_key.as_deref(), Some(UID));
}

/// What happens in both passes of an hour that the wall clock shows twice has an Event in each.
/// Proves: P-clock
#[test]
fn an_hour_that_the_clock_shows_twice_has_its_events_twice() {
    let trouble = |case: Case| {
        let mut case = case;
        for _ in 0..4 {
            case = case.got(Err(lost()));
        }
        case.settle().got(Ok(view("running"))).settle()
    };
    let case = trouble(running());
    let told = |case: &Case| {
        let retrying = case.events.iter();
        retrying.filter(|n| n.reason.as_str() == "Retrying").count()
    };
    assert_eq!(told(&case), 1);
    let again = trouble(case.at(3700).wall_steps(-3600));
    assert_eq!(told(&again), 2);
    assert_ne!(
        again.stalled(),
        Some(Reason::ServiceUnavailable.as_str().to_owned())
    );
}
