//! What a situation comes to in the status: conditions, what is in force, the latest error.

use std::time::Duration;

use jiff::Timestamp;

use crate::api::{
    RunStatus,
    limits::MAX_REQUEST_ID,
    status::{LastError, whole_seconds},
};

use super::{
    answer::FailureKind,
    classify::Class,
    facts::{Facts, answers},
    memory::{Trouble, later},
    situation::{self, Situation},
    text::{MAX_ERROR, cut},
    tracked,
};

impl<'a> Facts<'a> {
    /// The stored status with `situation` in it, and what is in force.
    pub(super) fn say(&self, situation: &Situation) -> RunStatus {
        self.say_from(self.status().clone(), situation)
    }

    pub(super) fn say_from(&self, mut status: RunStatus, situation: &Situation) -> RunStatus {
        let spec = self.spec();
        status.provider = Some(spec.provider().to_owned());
        status.region = Some(spec.region().to_owned());
        let intent = self.own_intent();
        status.idempotency_key = Some(intent.map_or_else(|| self.key(), |i| i.key.clone()));
        // At the service nothing is left to be retried, and the annotation counts as handled.
        let retry = intent.and_then(|i| i.retry.as_ref());
        if let Some(retry) = retry.filter(|_| status.run_id.is_none()) {
            status.handled_retry = Some(retry.clone());
        }
        status.refusal = status
            .refusal
            .filter(|r| intent.is_none_or(|i| answers(r, i)));
        status.last_error = self.last_error();
        if let Some(id) = self.worst().and_then(|t| t.failure.request_id.as_ref()) {
            status.request_id = Some(cut(id, MAX_REQUEST_ID).to_owned());
        }
        if matches!(situation, Situation::Ended { .. }) {
            status.completion_time = status
                .completion_time
                .or_else(|| Some(whole_seconds(self.o.wall)));
        }
        situation::apply(
            &mut status,
            situation,
            spec.ready_when(),
            self.generation(),
            self.o.wall,
        );
        tracked::tell(self, &mut status);
        status
    }

    /// The latest failure that is worth showing.
    fn worst(&self) -> Option<&'a Trouble> {
        self.memory()
            .troubles
            .iter()
            .filter(|t| !t.passing())
            .max_by_key(|t| t.at)
    }

    /// The next attempt, by the wall clock as it was at the failure: the same words at each look.
    fn next_attempt_shown(&self, trouble: &Trouble) -> Timestamp {
        let wait = self.next_attempt(trouble).duration_since(trouble.at);
        later(trouble.wall, Duration::try_from(wait).unwrap_or_default())
    }

    fn last_error(&self) -> Option<LastError> {
        // After a restart nothing is remembered: what the status says stays until a call goes well.
        let Some(trouble) = self.worst() else {
            let keeps = self.memory().seen.is_none() && self.memory().run_id.is_none();
            return self.status().last_error.clone().filter(|_| keeps);
        };
        let retries = !matches!(trouble.class, Class::Final(_));
        let failure = &trouble.failure;
        Some(LastError {
            code: failure
                .code
                .as_deref()
                .map_or_else(|| own_code(trouble), |c| cut(c, 128).to_owned()),
            http_status: failure.http_status.map(i32::from),
            request_id: failure
                .request_id
                .as_ref()
                .map(|id| cut(id, MAX_REQUEST_ID).to_owned()),
            retryable: failure.retryable.unwrap_or(retries),
            message: cut(&failure.message, MAX_ERROR).to_owned(),
            time: whole_seconds(trouble.wall),
            attempts: i64::from(trouble.count),
            next_attempt: (retries && trouble.class != Class::Unauthorized)
                .then(|| whole_seconds(self.next_attempt_shown(trouble))),
        })
    }
}

/// The operator's word for an error to which the service gave no code.
fn own_code(trouble: &Trouble) -> String {
    match trouble.failure.kind {
        FailureKind::NotSent => "not_sent",
        FailureKind::NoFile => "no_file",
        FailureKind::Transport => "no_answer",
        FailureKind::Problem | FailureKind::Bare => "no_problem_body",
        FailureKind::Unreadable => "unreadable_answer",
    }
    .to_owned()
}
