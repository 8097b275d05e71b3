//! Runs for which nothing is left to do: what a process may drop from its cache, and from when.

use rstest::rstest;
use run_operator::{
    api::{RunStatus, finalizer, names},
    decide::run::{Settled, settled},
};

use crate::{support::Case, world::World};

/// A Run that has ended and was released, as its process knows it.
fn ended() -> Case {
    let mut world = World::new(Case::new()).script(&["running", "succeeded"]);
    world.play(100_000);
    assert!(
        !finalizer::present(&world.case.run.metadata),
        "{:?}",
        world.log
    );
    world.case
}

fn ask(case: &Case) -> Option<Settled> {
    case.observe(settled)
}

fn of_generation(generation: i64) -> Case {
    let mut case = ended();
    case.run.metadata.generation = Some(generation);
    case
}

fn completed(case: &Case) -> jiff::Timestamp {
    let status = case.run.status.as_ref().unwrap();
    status.completion_time.as_ref().unwrap().0
}

/// Proves: B-ended
#[test]
fn a_released_run_is_settled_at_once_for_every_process() {
    for case in [ended(), ended().restarted()] {
        let settled = ask(&case).unwrap();
        assert_eq!(settled.expires, None);
    }
}

/// Proves: B-ended, P-ttl
#[test]
fn a_ttl_is_known_and_gone_with_the_marks_of_a_gitops_tool() {
    let case = ended().spec(|s| s.ttl_seconds_after_finished = Some(60));
    let expires = ask(&case).unwrap().expires.unwrap();
    // A stored time is cut to its second.
    assert_eq!(expires.duration_since(completed(&case)).as_secs(), 61);
    let overdue = case.clone().at(100_000);
    assert_eq!(ask(&overdue).unwrap().expires, Some(expires), "it is due");
    let kept = case.annotate("argocd.argoproj.io/tracking-id", "app:Run:team/train");
    assert_eq!(ask(&kept), None, "its status doesn't say so yet");
    let told = kept.settle();
    assert_eq!(ask(&told).unwrap().expires, None);
}

/// Whatever policy still has to do keeps the Run where it can be done.
/// Proves: B-ended
#[rstest]
#[case::fresh(Case::new())]
#[case::running(Case::new().submitted("running").settle())]
#[case::not_released(Case::new().submitted("succeeded").finalizer().settle())]
#[case::deleting(ended().deleting())]
#[case::another_generation(of_generation(2))]
#[case::status_lost(ended().status(|s| *s = RunStatus::default()))]
fn a_run_with_something_left_to_do_is_not_settled(#[case] case: Case) {
    assert_eq!(ask(&case), None);
}

/// Proves: B-ended
#[test]
fn what_is_settled_stays_so_unless_its_object_changes() {
    let case = ended();
    for second in [100, 1000, 1_000_000, 100_000_000] {
        let case = case.clone().at(second);
        let decision = case.decide();
        assert!(decision.effect.is_none() && decision.status.is_none());
        assert!(case.news().is_empty() && decision.requeue_at.is_none());
    }
    assert!(ask(&case.annotate(names::RETRY_ANNOTATION, "1")).is_some());
}
