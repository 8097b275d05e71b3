//! The sides of each condition that no other test distinguishes: without these tests a change of one operator
//! in src/decide would not be noticed (`make mutants`).

use rstest::rstest;
use run_operator::api::contract::BUILTIN;
use run_operator::api::{
    ConditionType as Type, Contract, EventReason, Reason, RunStatus, WorkspaceStatus, conditions,
    status::ResolvedWorkspace,
};
use run_operator::decide::conditions::Why;
use run_operator::decide::event_buffer::{EventBuffer, Received};
use run_operator::decide::failure::Failure;
use run_operator::decide::workspace::{Assessment, Check, Obstacle, assess};
use run_operator::decide::{Follow, Session, WorkspaceView};

use crate::support::{
    CONTRACT, Case, UID, at, condition, hopeless, identity_failed, intent_of, lost, place, problem,
    session, version_failed, view,
};

const DAY: i64 = 86_400;

/// Epoch and `clean` of the intent that is written next.
fn next_intent(case: &Case) -> (i64, bool) {
    let (intent, _, clean) = intent_of(case);
    (intent.epoch, clean)
}

fn without_finalizer(mut case: Case) -> Case {
    case.run.metadata.finalizers = None;
    case
}

#[test]
fn restoring_the_finalizer_proves_nothing_of_a_post_in_doubt() {
    let announced = without_finalizer(Case::new().mine());
    assert_eq!(next_intent(&announced), (1, true));
    let doubted = without_finalizer(Case::new().mine().posted(Err(lost()))).at(301);
    assert_eq!(next_intent(&doubted), (1, false));
}

#[test]
fn a_takeover_is_not_clean_despite_an_earlier_epochs_refusal() {
    let case = Case::new()
        .intent("other", 2)
        .refused(Reason::Forbidden, true, 1);
    assert_eq!(next_intent(&case), (3, false));
}

#[test]
fn a_twice_rejected_token_is_awaited_without_a_timer() {
    let refused = problem(401, "token_expired");
    let case = Case::new()
        .mine()
        .posted(Err(refused.clone()))
        .posted(Err(refused));
    let next = case.tracked.memory.failures[0].next;
    let mut due = case.settle();
    due.now = next;
    let decision = due.decide();
    assert_eq!((decision.effect, decision.requeue_at), (None, None));
}

#[test]
fn a_lone_conflict_after_another_refusal_is_asked_again() {
    let stalled = Case::new().mine().posted(Err(hopeless())).settle();
    assert_eq!(stalled.stalled().as_deref(), Some("ServerError"));
    let retried = stalled.retry("once");
    assert_eq!(next_intent(&retried), (2, false));
    let mut intent = retried.an_intent("me", 2);
    intent.retry = Some("once".into());
    let conflict = retried
        .stands(&intent)
        .intent_written(intent, false)
        .posted(Err(problem(409, "approval_required")));
    assert_eq!(conflict.stalled(), None);
    assert_eq!(conflict.at(61).does(), "submit");
}

#[test]
fn an_intent_of_another_object_in_memory_counts_for_nothing() {
    let mut case = Case::new();
    let mut other = case.an_intent("me", 1);
    other.uid = "another".into();
    other.workspace.identity = Some("ws-other".into());
    case.tracked.memory.intent = Some(other.clone());
    assert_eq!(case.does(), "intent");
    assert_eq!(next_intent(&case), (1, true));

    // Beside one of its own, too: it pins nothing.
    let mut case = Case::new().mine();
    case.tracked.memory.intent = Some(other);
    assert_eq!(case.does(), "submit");
    assert_eq!(case.run.metadata.uid.as_deref(), Some(UID));
}

#[test]
fn an_epoch_that_made_no_run_does_not_pin_the_next() {
    let elsewhere = ResolvedWorkspace {
        identity: Some("ws-other".into()),
        ..place()
    };
    let case = Case::new().mine();
    let mut next = case.an_intent("me", 2);
    next.workspace = elsewhere.clone();
    let there = WorkspaceView::Ready(Session {
        resolved: elsewhere,
        ..session(1)
    });
    // Another process moved the submission, which was proved to have made none, to another place.
    let case = case.stands(&next).view(there);
    assert_eq!(case.stalled(), None);
    assert_eq!(next_intent(&case).0, 3);

    // In the same epoch the writer's knowledge supplements the object's.
    let case = Case::new().mine();
    let mut edited = case.an_intent("me", 1);
    edited.workspace.identity = Some("ws-other".into());
    let moved = case.stands(&edited).at(DAY / 2);
    assert_eq!(moved.stalled().as_deref(), Some("IdentityChanged"));
    assert_eq!(condition(&moved.settled(), "Ready").unwrap().0, "False");
    assert_eq!(moved.now, at(DAY / 2));
}

#[test]
fn an_accepted_run_shows_its_run_id() {
    let run = Case::new()
        .submitted("queued")
        .got(Ok(view("running")))
        .settled();
    let accepted = conditions::find(&run.conditions, Type::Accepted).expect("a condition");
    assert_eq!(
        (&*accepted.status, &*accepted.reason),
        ("True", "Submitted")
    );
    assert!(accepted.message.contains("run-1"), "{}", accepted.message);
}

#[test]
fn stored_events_are_not_shown_again_with_or_without_an_id() {
    let mut feed = EventBuffer::default();
    let mut status = RunStatus::default();
    for id in [Some("1"), None] {
        let event = Received {
            id: id.map(str::to_owned),
            kind: "log".into(),
            data: "line".into(),
        };
        feed.receive(&event, Some("running"), Some("running"), at(0));
    }
    let shown = feed.shown();
    assert_eq!(shown, 2);
    feed.fold(&mut status);
    feed.written(shown);
    assert_eq!(feed.shown(), 0);
    let stored = status.clone();
    feed.fold(&mut status);
    assert_eq!(status, stored);
}

/// A check that stopped at an answer.
fn failed(obstacle: Obstacle) -> Check {
    Check {
        base_url: Some(place().base_url),
        version: Some(Some("1.4.0".into())),
        obstacle: Some(obstacle),
        ..Check::default()
    }
}

fn after(current: &WorkspaceStatus, check: &Check, generation: i64) -> Assessment {
    assess(Some(current), check, generation, 2, &CONTRACT, at(60))
}

#[rstest]
#[case::the_same(failed(identity_failed(problem(503, "a"))), 1, true)]
#[case::another_generation(failed(identity_failed(problem(503, "a"))), 2, false)]
#[case::another_code(failed(identity_failed(problem(503, "b"))), 1, false)]
#[case::another_status(failed(identity_failed(problem(502, "a"))), 1, false)]
#[case::another_message(failed(identity_failed(Failure { message: "else".into(), ..problem(503, "a") })), 1, false)]
#[case::at_another_call(Check { version: None, ..failed(version_failed(problem(503, "a"))) }, 1, false)]
fn a_repeated_probe_failure_costs_no_write_but_a_new_one_does(
    #[case] check: Check,
    #[case] generation: i64,
    #[case] same: bool,
) {
    let earlier = failed(identity_failed(problem(503, "a")));
    let told = assess(None, &earlier, 1, 1, &CONTRACT, at(0)).status;
    assert_eq!(after(&told, &check, generation).status == told, same);
}

#[test]
fn a_workspace_keeps_the_request_that_made_it_ready() {
    let good = |request: &str| Check {
        base_url: Some(place().base_url),
        version: Some(Some("1.4.0".into())),
        identity: Some(place().identity),
        request_id: Some(request.into()),
        ..Check::default()
    };
    let ready = assess(None, &good("req-1"), 1, 1, &CONTRACT, at(0)).status;
    assert_eq!(ready.request_id.as_deref(), Some("req-1"));
    let again = after(&ready, &good("req-2"), 1).status;
    assert_eq!(again.request_id.as_deref(), Some("req-1"));
}

#[rstest]
#[case(2, "run-0, run-1. Delete them")]
#[case(3, "run-0, run-1, run-2. Delete them")]
#[case(4, "run-0, run-1, run-2 and others. Delete them")]
fn a_workspace_that_waits_for_its_runs_names_three(#[case] runs: usize, #[case] said: &str) {
    let check = Check {
        base_url: Some(place().base_url),
        version: Some(Some("1.4.0".into())),
        identity: Some(place().identity),
        waits_for: Some((0..runs).map(|n| format!("run-{n}")).collect()),
        ..Check::default()
    };
    let assessment = assess(None, &check, 1, 1, &CONTRACT, at(0));
    let message = assessment.message();
    assert!(message.contains(said), "{message}");
    let ready = conditions::find(&assessment.status.conditions, Type::Ready).expect("Ready");
    assert_eq!(message, ready.message);
}

#[test]
fn an_unmapped_state_is_an_event_even_if_the_run_disappears() {
    let gone = || Err(problem(404, "run_not_found"));
    let mut case = Case::new().submitted("running").got(Ok(view("weird")));
    for minute in 1..=4 {
        case = case.at(61 * minute).got(gone());
    }
    let decision = case.decide();
    let mut events = decision.events.iter();
    let event = events.find(|event| event.reason == EventReason::UnmappedState);
    let event = event.expect("the state is reported");
    assert!(event.message.contains("the state \"weird\""), "{event:?}");
}

#[test]
fn the_stream_of_a_run_that_has_ended_is_closed() {
    let ended = Case::new()
        .submitted("running")
        .got(Ok(view("succeeded")))
        .settle();
    assert_eq!(ended.decide().follow, Follow::Finish);
    assert_eq!(ended.read_on().decide().follow, Follow::Close);
}

#[test]
fn a_run_that_the_service_denied_follows_its_generation_too() {
    let mut case = Case::new().submitted("running");
    for minute in 1..=4 {
        case = case
            .at(61 * minute)
            .got(Err(problem(404, "run_not_found")))
            .settle();
    }
    assert_eq!(case.stalled().as_deref(), Some("RunNotFound"));
    case.run.metadata.generation = Some(2);
    assert_eq!(case.settled().observed_generation, Some(2));
}

/// Proves: P-conditions
#[test]
fn a_run_with_two_run_ids_has_a_stale_mirror_with_the_reason() {
    let mut case = Case::new().submitted("running");
    case.tracked.memory.run_id = Some("run-2".into());
    let stalled = case.stalled().expect("a person must look");
    let synced = condition(&case.settled(), "Synced");
    assert_eq!(synced, Some(("False".to_owned(), stalled)));
}

#[test]
fn where_the_contract_file_names_no_identity_none_is_asked_for() {
    let unknown = Check {
        base_url: Some(place().base_url),
        version: Some(Some("1.4.0".into())),
        identity: Some(None),
        ..Check::default()
    };
    let knows = "identityPointers: [/id, /workspaceId]";
    let without = BUILTIN.replace(knows, "identityPointers: []");
    let without = Contract::parse(&without).expect("a contract");
    assert!(CONTRACT.knows_identity() && !without.knows_identity());
    assert!(
        assess(None, &unknown, 1, 1, &CONTRACT, at(0))
            .usable
            .is_err()
    );
    assert_eq!(assess(None, &unknown, 1, 1, &without, at(0)).usable, Ok(()));
}

#[test]
fn only_a_probe_that_could_not_read_its_secret_is_inconclusive() {
    let config = |reason| failed(Obstacle::Config(Why::new(reason, "")));
    assert!(config(Reason::Checking).inconclusive());
    assert!(!config(Reason::SecretNotFound).inconclusive());
    assert!(!failed(version_failed(lost())).inconclusive());
    assert!(!Check::default().inconclusive());
}

#[test]
fn a_lasting_failure_of_the_workspace_is_shown_when_it_is_due() {
    let outage = WorkspaceView::NotReady {
        reason: Reason::ServiceUnavailable,
        message: "no answer".into(),
        since: at(100),
    };
    let mut case = Case::new()
        .submitted("running")
        .got(Ok(view("running")))
        .settle()
        .view(outage)
        .at(100);
    assert_eq!(case.decide().status, case.run.status);
    case.now = case.decide().requeue_at.expect("it is shown later");
    let (_, reason) = condition(&case.settled(), "Synced").unwrap();
    assert_eq!(reason, "WorkspaceNotReady");
}
