use super::*;
use crate::api::{
    conditions::{self, ConditionUpdate},
    status::LastError,
};

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_700_000_000 + seconds).unwrap()
}

fn with(conditions: &[(Type, bool, Reason, &str)]) -> RunStatus {
    let mut status = RunStatus::default();
    for (kind, holds, reason, message) in conditions {
        let update = ConditionUpdate {
            kind: *kind,
            status: Some(*holds),
            reason: *reason,
            message: (*message).to_owned(),
        };
        conditions::set(&mut status.conditions, update, 1, at(0));
    }
    status
}

fn error(http_status: i32) -> LastError {
    LastError {
        code: "broken".to_owned(),
        http_status: Some(http_status),
        request_id: None,
        retryable: true,
        message: String::new(),
        time: Time(at(0)),
        attempts: 1,
        next_attempt_time: None,
    }
}

fn published(before: &RunStatus, after: &RunStatus) -> Vec<EventDraft> {
    of_run(
        before,
        after,
        &Contract::builtin().unwrap(),
        at(3600),
        at(3600),
    )
}

#[test]
fn a_pause_is_published_by_the_run_whose_call_was_answered_429() {
    let waiting = |reason, error| RunStatus {
        last_error: error,
        ..with(&[(Type::Reconciling, true, reason, "waits")])
    };
    let count = |after: &RunStatus| published(&RunStatus::default(), after).len();
    assert_eq!(count(&waiting(Reason::RateLimited, Some(error(429)))), 1);
    assert_eq!(count(&waiting(Reason::RateLimited, Some(error(503)))), 0);
    assert_eq!(count(&waiting(Reason::RateLimited, None)), 0);
    assert_eq!(
        count(&waiting(Reason::WorkspaceNotReady, Some(error(429)))),
        0
    );
}
