//! Stored Runs for the tests beside it.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};

use crate::api::{
    ConditionType, Phase, Reason, RunStatus,
    conditions::{self, ConditionUpdate},
};

use super::stored::Stored;

/// A Run's metadata and status.
pub(super) struct Example {
    pub(super) meta: ObjectMeta,
    status: Option<RunStatus>,
}

/// Some time, in seconds after an arbitrary start.
pub(super) fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_700_000_000 + seconds).unwrap()
}

impl Example {
    /// One that no operator has seen.
    pub(super) fn new() -> Self {
        let meta = ObjectMeta {
            name: Some("train".to_owned()),
            namespace: Some("team".to_owned()),
            uid: Some("uid-1".to_owned()),
            generation: Some(1),
            creation_timestamp: Some(Time(at(0))),
            ..ObjectMeta::default()
        };
        Self { meta, status: None }
    }

    fn with(phase: Phase, conditions: &[(ConditionType, bool, Reason)]) -> Self {
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
        Self {
            status: Some(status),
            ..Self::new()
        }
    }

    /// One whose run is at the service.
    pub(super) fn active() -> Self {
        Self::with(
            Phase::Active,
            &[
                (ConditionType::Synced, true, Reason::Mirrored),
                (ConditionType::Ready, false, Reason::Active),
            ],
        )
        .submitted()
    }

    fn submitted(mut self) -> Self {
        let status = self.status_mut();
        status.run_id = Some("run-1".to_owned());
        status.state = Some("running".to_owned());
        status.submission_time = Some(Time(at(30)));
        self
    }

    pub(super) fn status_mut(&mut self) -> &mut RunStatus {
        self.status.get_or_insert_default()
    }

    pub(super) fn annotate(&mut self, name: &str, value: &str) {
        let annotations = self.meta.annotations.get_or_insert_default();
        annotations.insert(name.to_owned(), value.to_owned());
    }

    pub(super) fn stored(&self) -> Stored<'_> {
        Stored {
            meta: &self.meta,
            spec: None,
            status: self.status.as_ref(),
        }
    }
}

/// One that waits for something.
pub(super) fn pending(reason: Reason) -> Example {
    let ready = (ConditionType::Ready, false, reason);
    Example::with(Phase::Pending, &[ready])
}

/// One that waits for a person.
pub(super) fn stalled(reason: Reason) -> Example {
    let ready = (ConditionType::Ready, false, reason);
    let stalled = (ConditionType::Stalled, true, reason);
    Example::with(Phase::Pending, &[ready, stalled])
}

/// One at the service, whose mirror is old.
pub(super) fn synced_false(reason: Reason) -> Example {
    let ready = (ConditionType::Ready, false, Reason::Active);
    let synced = (ConditionType::Synced, false, reason);
    Example::with(Phase::Active, &[synced, ready]).submitted()
}

/// One that has ended.
pub(super) fn ended(phase: Phase, reason: Reason) -> Example {
    let failed = phase == Phase::Failed || reason == Reason::CancelledElsewhere;
    let mut conditions = vec![
        (ConditionType::Finished, true, reason),
        (ConditionType::Ready, !failed, reason),
    ];
    if failed {
        conditions.push((ConditionType::Stalled, true, reason));
    }
    let mut example = Example::with(phase, &conditions).submitted();
    example.status_mut().completion_time = Some(Time(at(90)));
    example
}
