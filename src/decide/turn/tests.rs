use serde_json::json;

use super::*;
use crate::api::{Contract, Intent, WorkspaceKind, status::ResolvedWorkspace};

fn run(version: u64, status: &serde_json::Value) -> Arc<Run> {
    let run = json!({
        "apiVersion": "run-operator.dev/v1alpha1", "kind": "Run",
        "metadata": {"name": "train", "namespace": "team", "uid": "u", "resourceVersion": version.to_string()},
        "spec": {"workload": {"image": "i"}}, "status": status,
    });
    Arc::new(serde_json::from_value(run).unwrap())
}

fn tracked(status: &serde_json::Value) -> TrackedRun<Run> {
    let mut tracked = TrackedRun::new(Memory::default());
    tracked.observe(run(1, status));
    tracked
}

/// The next step, where policy decides this.
fn step(tracked: &mut TrackedRun<Run>, lacking: bool, decision: Decision) -> Step {
    tracked.next(lacking, None, |_, _, _| decision).step
}

fn nothing(tracked: &mut TrackedRun<Run>, lacking: bool) -> Step {
    step(tracked, lacking, Decision::quiet())
}

fn with<T>(learn: impl FnOnce(ReportContext<'_>) -> T) -> T {
    learn(ReportContext {
        contract: &Contract::builtin().unwrap(),
        uid: "u",
        session: 1,
        now: jiff::Timestamp::UNIX_EPOCH,
        wall: jiff::Timestamp::UNIX_EPOCH,
    })
}

fn took(tracked: &mut TrackedRun<Run>, step: &Step, outcome: Outcome<Run>) {
    with(|with| tracked.took(step, outcome, with));
}

fn release() -> Step {
    Step::Act(Effect::Release { end: None })
}

fn intent() -> Intent {
    Intent {
        uid: "u".to_owned(),
        workspace: ResolvedWorkspace {
            kind: WorkspaceKind::Workspace,
            name: "default".to_owned(),
            uid: "w".to_owned(),
            base_url: "https://runs.example.com".to_owned(),
            identity: None,
        },
        run_defaults: None,
        key: "u".to_owned(),
        sha256: String::new(),
        serializer: 1,
        time: jiff::Timestamp::UNIX_EPOCH,
        owner: "me".to_owned(),
        epoch: 1,
        retry: None,
        end: None,
    }
}

/// Proves: F-stale
#[test]
fn the_newest_version_stands_whoever_read_or_wrote_it() {
    let mut tracked = tracked(&json!({}));
    let written = Outcome::Written(run(3, &json!({"runID": "r"})));
    took(&mut tracked, &Step::Act(Effect::Delete), written);
    assert_eq!(
        *tracked.observe(run(2, &json!({}))),
        *run(3, &json!({"runID": "r"}))
    );
    assert_eq!(*tracked.observe(run(4, &json!({}))), *run(4, &json!({})));
    // The answer to a write may come after the watch has shown a later version.
    took(
        &mut tracked,
        &Step::Act(Effect::Delete),
        Outcome::Written(run(3, &json!({}))),
    );
    assert_eq!(tracked.latest(), Some(&run(4, &json!({}))));
}

/// Proves: D-vanished
#[test]
fn nothing_is_decided_while_a_call_is_in_flight() {
    let mut tracked = tracked(&json!({}));
    with(|with| tracked.sent(Call::Create, with));
    for lacking in [false, true] {
        let turn = tracked.next(lacking, None, |_, _, _| unreachable!());
        assert!(matches!(turn.step, Step::Rest(None)));
    }
    assert!(!tracked.unprocessed());
    tracked.given_up();
    assert!(tracked.unprocessed());
    assert!(matches!(nothing(&mut tracked, true), Step::Forget));
    assert!(!tracked.unprocessed());
}

/// Proves: D-vanished
#[test]
fn a_missing_object_is_read_live_before_its_run_is_cancelled() {
    let mut missed = tracked(&json!({"runID": "r"}));
    let asked = missed.next(true, None, |_, _, _| unreachable!());
    assert!(matches!(asked.step, Step::ReadLive));
    // It exists after all: it is an ordinary Run, and asked about again if the watch still lacks it.
    let seen = missed.next(false, None, |_, _, vanished| {
        assert!(!vanished);
        Decision::quiet()
    });
    assert!(matches!(seen.step, Step::Rest(None)));
    took(&mut missed, &Step::ReadLive, Outcome::Gone);
    let cancel = Decision::act(Effect::Cancel {
        run_id: "r".to_owned(),
    });
    // Whatever the watch shows.
    for lacking in [true, false] {
        let turn = missed.next(lacking, None, |_, _, vanished| {
            assert!(vanished);
            cancel.clone()
        });
        assert!(matches!(turn.step, Step::Act(Effect::Cancel { .. })));
        assert_eq!(turn.follow, Follow::Close);
    }
}

/// Proves: D-vanished
#[test]
fn a_deleted_run_is_forgotten_once_it_is_released_and_the_watch_lacks_it() {
    let release = || Decision::act(Effect::Release { end: None });
    let mut gone = tracked(&json!({"runID": "r"}));
    took(&mut gone, &Step::ReadLive, Outcome::Gone);
    assert!(gone.deleted() && !gone.done());
    assert!(matches!(
        step(&mut gone, false, release()),
        Step::Rest(None)
    ));
    assert!(gone.done());
    assert!(matches!(nothing(&mut gone, false), Step::Rest(None)));
    assert!(matches!(nothing(&mut gone, true), Step::Forget));
    let mut lacked = tracked(&json!({"runID": "r"}));
    took(&mut lacked, &Step::ReadLive, Outcome::Gone);
    assert!(matches!(step(&mut lacked, true, release()), Step::Forget));
}

#[test]
fn the_result_of_a_release_is_kept() {
    let deleting = |finalizers: &[&str]| {
        let mut run = Run::clone(&run(2, &json!({"runID": "r"})));
        let time =
            k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(jiff::Timestamp::UNIX_EPOCH);
        run.metadata.deletion_timestamp = Some(time);
        run.metadata.finalizers = Some(finalizers.iter().map(|f| (*f).to_owned()).collect());
        Outcome::Written(Arc::new(run))
    };
    for (answer, deleted) in [
        (Outcome::Removed, true),
        (deleting(&[]), true),
        (deleting(&["another"]), false),
        (Outcome::Written(run(2, &json!({"runID": "r"}))), false),
        (Outcome::Gone, false),
    ] {
        let mut tracked = tracked(&json!({"runID": "r"}));
        assert!(tracked.owes());
        took(&mut tracked, &release(), answer);
        assert_eq!((tracked.deleted, tracked.released), (deleted, true));
        assert!(!tracked.owes());
        assert!(matches!(nothing(&mut tracked, true), Step::Forget));
    }
}

/// The object was removed by force while its POST was under way: no version of it has the runID.
/// Proves: D-vanished
#[test]
fn a_run_that_only_memory_knows_is_owed_its_cancellation() {
    let mut memory = Memory::default();
    memory.run_id = Some("r".to_owned());
    let mut tracked = TrackedRun::new(memory);
    tracked.observe(run(1, &json!({})));
    assert!(matches!(nothing(&mut tracked, true), Step::ReadLive));
}

/// A list from the past lacked it; then its intent is stripped, and it looks as if it had never been submitted.
/// Proves: D-vanished
#[test]
fn a_run_whose_post_may_be_on_its_way_is_read_live_before_it_is_forgotten() {
    let mut posted = tracked(&json!({}));
    posted.memory.intent = Some(intent());
    assert!(matches!(nothing(&mut posted, true), Step::ReadLive));
    took(&mut posted, &Step::ReadLive, Outcome::Gone);
    assert!(matches!(nothing(&mut posted, true), Step::Forget));
}

#[test]
fn a_status_goes_before_the_effect_and_is_not_written_twice() {
    let status = RunStatus {
        state: Some("queued".to_owned()),
        ..RunStatus::default()
    };
    let decision = Decision {
        status: Some(status.clone()),
        ..Decision::act(Effect::Delete)
    };
    let mut tracked = tracked(&json!({}));
    let first = step(&mut tracked, false, decision.clone());
    assert!(matches!(first, Step::WriteStatus { .. }));
    let stored = tracked.next(false, Some(&status), |_, _, _| decision);
    assert!(matches!(stored.step, Step::Act(Effect::Delete)));
}

#[test]
fn an_intent_that_was_written_is_remembered() {
    let intent = intent();
    let write = Step::Act(Effect::WriteIntent {
        intent: Box::new(intent.clone()),
        finalizer: true,
        clean: true,
    });
    let mut tracked = tracked(&json!({}));
    took(&mut tracked, &write, Outcome::Gone);
    assert_eq!(tracked.memory.intent, None);
    took(&mut tracked, &write, Outcome::Written(run(2, &json!({}))));
    assert_eq!(tracked.memory.intent, Some(intent));
}
