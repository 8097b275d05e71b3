//! Stored objects for the tests.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use serde_json::{Value, json};

use run_operator::api::conditions::{self, ConditionUpdate};
use run_operator::api::{ConditionType, Phase, Reason, RunStatus};

use crate::run::Run;

/// Some time, in seconds after an arbitrary start.
pub(crate) fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_700_000_000 + seconds).unwrap()
}

/// One that no operator has seen.
pub(crate) fn new() -> Run {
    let mut run = Run::default();
    run.status = Some(RunStatus::initial());
    run.metadata = ObjectMeta {
        name: Some("train".to_owned()),
        namespace: Some("team".to_owned()),
        uid: Some("uid-1".to_owned()),
        generation: Some(1),
        creation_timestamp: Some(Time(at(0))),
        ..ObjectMeta::default()
    };
    run
}

fn with(phase: Phase, conditions: &[(ConditionType, bool, Reason)]) -> Run {
    let mut status = RunStatus {
        phase: Some(phase),
        observed_generation: Some(1),
        ..RunStatus::default()
    };
    for (kind, holds, reason) in conditions {
        let update = ConditionUpdate {
            kind: *kind,
            status: Some(*holds),
            reason: *reason,
            message: format!("the message of {reason}."),
        };
        conditions::set(&mut status.conditions, update, 1, at(60));
    }
    let mut run = new();
    run.status = Some(status);
    run
}

fn submitted(mut run: Run) -> Run {
    let status = run.status.get_or_insert_default();
    status.run_id = Some("run-1".to_owned());
    status.state = Some("running".to_owned());
    status.submission_time = Some(Time(at(30)));
    run
}

/// One whose run is at the service.
pub(crate) fn active() -> Run {
    at_the_service(true, Reason::Mirrored)
}

fn at_the_service(is_synced: bool, why: Reason) -> Run {
    let accepted = (ConditionType::Accepted, true, Reason::Submitted);
    let synced = (ConditionType::Synced, is_synced, why);
    let ready = (ConditionType::Ready, false, Reason::Active);
    submitted(with(Phase::Active, &[accepted, synced, ready]))
}

/// One that waits for something.
pub(crate) fn pending(reason: Reason) -> Run {
    let ready = (ConditionType::Ready, false, reason);
    with(Phase::Pending, &[ready])
}

/// One that `spec.suspend` holds.
pub(crate) fn suspended() -> Run {
    let kinds = [
        (ConditionType::Suspended, true),
        (ConditionType::Ready, false),
    ];
    let conditions = kinds.map(|(kind, holds)| (kind, holds, Reason::Suspended));
    with(Phase::Pending, &conditions)
}

/// One that waits for a person.
pub(crate) fn stalled(reason: Reason) -> Run {
    let ready = (ConditionType::Ready, false, reason);
    let stalled = (ConditionType::Stalled, true, reason);
    with(Phase::Pending, &[ready, stalled])
}

/// One at the service, whose mirror is old.
pub(crate) fn synced_false(reason: Reason) -> Run {
    at_the_service(false, reason)
}

/// One that has ended.
pub(crate) fn ended(phase: Phase, reason: Reason) -> Run {
    let failed = phase == Phase::Failed || reason == Reason::CancelledElsewhere;
    let kinds = [
        (ConditionType::Finished, true),
        (ConditionType::Complete, phase == Phase::Succeeded),
        (ConditionType::Failed, failed),
        (ConditionType::Cancelled, phase == Phase::Cancelled),
        (ConditionType::Ready, !failed),
        (ConditionType::Stalled, failed),
    ];
    let conditions = kinds.map(|(kind, holds)| (kind, holds, reason));
    let mut run = submitted(with(phase, &conditions));
    run.status.get_or_insert_default().completion_time = Some(Time(at(90)));
    run
}

/// A RunSchedule with a tick at the arbitrary start and one active Run, as JSON.
pub(crate) fn schedule() -> Value {
    json!({
        "apiVersion": "run-operator.dev/v1alpha1", "kind": "RunSchedule",
        "metadata": {
            "name": "nightly", "namespace": "team", "uid": "uid-s", "generation": 1,
            "creationTimestamp": at(-86_400).to_string(),
        },
        "spec": {"schedules": ["17 2 * * *"], "template": {"spec": {"workload": {"image": "i"}}}},
        "status": {
            "observedGeneration": 1,
            "active": [{"name": "nightly-202311142213", "uid": "uid-1"}],
            "lastScheduleTime": at(0).to_string(),
            "nextScheduleTime": "2023-11-15T01:17:00Z",
            "conditions": [{
                "type": "Ready", "status": "True", "reason": "Scheduled", "message": "It goes on.",
                "observedGeneration": 1, "lastTransitionTime": at(0).to_string(),
            }],
        },
    })
}
