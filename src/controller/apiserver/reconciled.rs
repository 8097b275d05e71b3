//! Result of a reconcile: when the object is reconciled again, and why a reconcile failed.

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures::FutureExt;

use crate::controller::metrics::{ReconcileResult, labels::PANIC};
use crate::util::error_chain;

use super::{list::ListError, patch::WriteError};

/// Time of an object's next reconcile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Action {
    again: Option<Duration>,
}

impl Action {
    /// Reconciles after this time, or earlier if something changes.
    pub const fn requeue(after: Duration) -> Self {
        Self { again: Some(after) }
    }

    /// Reconciles when something changes.
    pub const fn await_change() -> Self {
        Self { again: None }
    }

    /// The pause before the next reconcile, if there is one.
    pub const fn pause(self) -> Option<Duration> {
        self.again
    }
}

/// Error of a reconcile. Its variant is the label `reason` of `controller_runtime_reconcile_errors_total`.
#[derive(Debug, thiserror::Error)]
pub enum ReconcileError {
    /// The object can't be decoded; it is not reconciled until it changes.
    #[error("the object can't be decoded: {0}")]
    Undecodable(String),
    /// A write to the API server failed.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// The Runs that may need a Workspace could not be listed.
    #[error("failed to list the Runs of a Workspace that is being deleted")]
    List(#[from] ListError),
    /// The API server did not answer a read.
    #[error("the API server did not answer a read")]
    NoAnswer,
    /// The limit of open files is reached.
    #[error("the process can open no more files")]
    NoFile,
    /// The code panicked: a bug of the operator.
    #[error("the reconcile panicked")]
    Panicked,
}

impl ReconcileError {
    /// The label's value, or `None` for a conflict: the object changed meanwhile, which is no failure.
    pub const fn reason(&self) -> Option<&'static str> {
        match self {
            Self::Undecodable(_) => Some("undecodable"),
            Self::Write(WriteError::Conflict | WriteError::Gone) => None,
            Self::Write(WriteError::Refused(_)) => Some("write_refused"),
            Self::Write(WriteError::Failed(_)) => Some("write_failed"),
            Self::Write(WriteError::Timeout) => Some("write_timeout"),
            Self::Write(WriteError::Serialize(_)) => Some("write_invalid"),
            Self::List(_) => Some("list_failed"),
            Self::NoAnswer => Some("no_answer"),
            Self::NoFile => Some("no_file"),
            Self::Panicked => Some(PANIC),
        }
    }

    /// Fails the reconcile, and determines when the object is reconciled again.
    pub fn again(self, again: Action) -> Failed {
        Failed { error: self, again }
    }
}

/// A failed reconcile.
#[derive(Debug)]
pub struct Failed {
    /// Why it failed.
    pub error: ReconcileError,
    /// When the object is reconciled again.
    pub again: Action,
}

impl Failed {
    /// Logs the failure of an object's reconcile.
    pub(crate) fn log(&self, kind: &str, namespace: Option<&str>, name: &str) {
        let requeue_after = self.again.pause().map(|pause| pause.as_secs_f64());
        let reason = self.error.reason();
        let error = error_chain(&self.error);
        // The level of an event must be constant.
        macro_rules! log {
            ($level:ident, $message:literal) => {
                tracing::$level!(
                    k8s.kind = kind,
                    k8s.namespace.name = namespace,
                    k8s.name = name,
                    requeue_after,
                    reason,
                    error,
                    $message
                )
            };
        }
        match (&self.error, reason) {
            (_, None) => log!(debug, "the object changed during its reconcile; requeueing"),
            (ReconcileError::Undecodable(_), _) => {
                log!(
                    error,
                    "failed to decode an object; it is not reconciled until it changes"
                );
            }
            (ReconcileError::Panicked, _) => {
                log!(
                    error,
                    "the reconcile panicked; the object is not reconciled until it changes or is requeued"
                );
            }
            (_, Some(_)) => log!(warn, "reconcile failed; requeueing"),
        }
    }
}

/// Result of a reconcile.
pub type Reconciled = Result<Action, Failed>;

/// Carries out one object's steps. A panic in them, a bug of the operator, ends nothing else.
pub(crate) fn caught<T>(
    steps: impl Future<Output = T>,
) -> impl Future<Output = Result<T, ReconcileError>> {
    // Not `async`: that would hold the steps twice, as an argument and while they run.
    let ended = AssertUnwindSafe(steps).catch_unwind();
    ended.map(|ended| ended.map_err(|_| ReconcileError::Panicked))
}

/// The time of the next reconcile, after success or failure.
pub(crate) const fn again(result: &Reconciled) -> Action {
    match result {
        Ok(again) => *again,
        Err(failed) => failed.again,
    }
}

/// The result as the metrics count it.
pub(crate) const fn counted(result: &Reconciled) -> ReconcileResult {
    match result {
        Ok(again) if again.pause().is_none() => ReconcileResult::Success,
        Ok(_) => ReconcileResult::RequeueAfter,
        Err(failed) => match failed.error.reason() {
            None => ReconcileResult::Conflict,
            Some(reason) => ReconcileResult::Error(reason),
        },
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::Arc;

    use super::*;
    use crate::controller::metrics::labels::REASONS;

    fn errors() -> Vec<ReconcileError> {
        let refused = || kube::Error::LinesCodecMaxLineLengthExceeded;
        vec![
            ReconcileError::Undecodable("spec".into()),
            WriteError::Refused(refused()).into(),
            WriteError::Failed(refused()).into(),
            WriteError::Timeout.into(),
            WriteError::Serialize(serde::ser::Error::custom("no")).into(),
            ListError::Page(refused()).into(),
            ReconcileError::NoAnswer,
            ReconcileError::NoFile,
            ReconcileError::Panicked,
        ]
    }

    #[test]
    fn every_error_has_a_reason_that_the_metric_knows() {
        let reasons: BTreeSet<_> = errors().iter().filter_map(ReconcileError::reason).collect();
        assert_eq!(reasons, REASONS.iter().copied().collect());
    }

    /// Proves: F-undecodable
    #[tokio::test]
    async fn a_panic_is_caught_counted_as_one_and_logged_with_the_object_s_name() {
        assert!(matches!(caught(async { 7 }).await, Ok(7)));
        let caught = caught::<()>(async { panic!("the test's own") });
        let error = caught.await.unwrap_err();
        assert_eq!(error.reason(), Some(PANIC));
        let failed = error.again(Action::await_change());
        assert!(matches!(failed.error, ReconcileError::Panicked));
        let result = Err(failed);
        assert_eq!(counted(&result), ReconcileResult::Error(PANIC));
        let Err(failed) = result else { unreachable!() };
        let log = tempfile::NamedTempFile::new().unwrap();
        let lines = tracing_subscriber::fmt().with_writer(Arc::new(log.reopen().unwrap()));
        tracing::subscriber::with_default(lines.finish(), || {
            failed.log("Run", Some("team"), "odd");
        });
        let log = std::fs::read_to_string(log.path()).unwrap();
        for part in ["ERROR", "the reconcile panicked;", "team", "odd"] {
            assert!(log.contains(part), "{log}");
        }
    }

    #[test]
    fn a_conflict_is_no_error_and_keeps_its_pause() {
        let again = Action::requeue(Duration::from_secs(1));
        for error in [WriteError::Conflict, WriteError::Gone] {
            let result = Err(ReconcileError::from(error).again(again));
            assert_eq!(counted(&result), ReconcileResult::Conflict);
            assert_eq!(super::again(&result), again);
        }
        assert_eq!(counted(&Ok(again)), ReconcileResult::RequeueAfter);
        assert_eq!(
            counted(&Ok(Action::await_change())),
            ReconcileResult::Success
        );
    }
}
