//! Writes the status: conditions, values in force, latest error.

use crate::api::{RunStatus, conditions::whole_seconds, limits::MAX_REQUEST_ID, status::LastError};
use crate::decide::{
    conditions::{Conditions, apply},
    failure::{CallFailures, Class},
    observation::{Observation, refusal_is_for_this_epoch},
    time::later,
    truncate::cut,
};

use super::ttl;

use std::time::Duration;

use jiff::Timestamp;

impl<'a> Observation<'a> {
    /// The stored status with these conditions and the values in force.
    pub(crate) fn status_with(&self, conditions: &Conditions) -> RunStatus {
        self.with_conditions(self.status().clone(), conditions)
    }

    /// `status` with these conditions and the values in force.
    pub(crate) fn with_conditions(
        &self,
        mut status: RunStatus,
        conditions: &Conditions,
    ) -> RunStatus {
        let spec = self.spec();
        status.provider = Some(spec.provider().to_owned());
        status.region = Some(spec.region().to_owned());
        let intent = self.own_intent();
        status.idempotency_key = Some(intent.map_or_else(|| self.key(), |i| i.key.clone()));
        // At the service there is nothing left to retry, and the annotation counts as handled.
        let retry = intent.and_then(|i| i.retry.as_ref());
        if let Some(retry) = retry.filter(|_| status.run_id.is_none()) {
            status.handled_retry = Some(retry.clone());
        }
        status.refusal = status
            .refusal
            .filter(|r| intent.is_none_or(|i| refusal_is_for_this_epoch(r, i)));
        status.last_error = self.last_error();
        if let Some(id) = self
            .worst()
            .and_then(|t| t.last.failure.request_id.as_ref())
        {
            status.request_id = Some(cut(id, MAX_REQUEST_ID).to_owned());
        }
        if matches!(conditions, Conditions::Ended { .. }) {
            status.completion_time = status
                .completion_time
                .or_else(|| Some(whole_seconds(self.o.wall)));
        }
        apply(
            &mut status,
            conditions,
            spec.ready_when(),
            self.generation(),
            self.o.wall,
        );
        ttl::record_keeper(self, &mut status);
        status
    }

    /// The latest failure that is worth showing.
    fn worst(&self) -> Option<&'a CallFailures> {
        self.memory()
            .failures
            .iter()
            .filter(|t| !t.passing())
            .max_by_key(|t| t.at)
    }

    /// The next attempt by the wall clock as it was at the failure, so that the text is the same in each reconcile.
    fn next_attempt_shown(&self, failed: &CallFailures) -> Timestamp {
        let wait = self.next_attempt(failed).duration_since(failed.at);
        later(failed.wall, Duration::try_from(wait).unwrap_or_default())
    }

    fn last_error(&self) -> Option<LastError> {
        // Memory is empty after a restart: the error in the status stays until a call succeeds.
        let Some(failed) = self.worst() else {
            let keeps = self.memory().seen.is_none() && self.memory().run_id.is_none();
            return self.status().last_error.clone().filter(|_| keeps);
        };
        let retries = failed.last.is_repeated();
        Some(LastError {
            next_attempt: (retries && failed.last.class != Class::Unauthorized)
                .then(|| whole_seconds(self.next_attempt_shown(failed))),
            ..failed.last.last_error(failed.count, failed.wall)
        })
    }
}
