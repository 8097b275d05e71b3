//! Failures of the Run's calls, and the time of the next attempt.

use std::time::Duration;

use jiff::Timestamp;

use crate::decide::{
    CallDelay, Session, WorkspaceView, backoff,
    failure::{Call, CallFailures, Class, Repeats},
    time::later,
};

use super::Observation;

/// Time over which the Runs of a Workspace are spread when its pause ends.
const AFTER_PAUSE_MILLIS: u64 = 2000;

impl<'a> Observation<'a> {
    pub(crate) fn session(&self) -> Option<&'a Session> {
        match self.o.workspace {
            WorkspaceView::Ready(session) => Some(session),
            WorkspaceView::Unknown | WorkspaceView::Missing | WorkspaceView::NotReady { .. } => {
                None
            }
        }
    }

    /// The consecutive failures of `call`.
    pub(crate) fn failures_of(&self, call: Call) -> Option<&'a CallFailures> {
        self.memory().failures_of(call)
    }

    /// Time of the next attempt of a failed call, by process time. A 401 also waits for another session, see
    /// [`Observation::awaits_another_session`].
    pub(crate) fn next_attempt(&self, failed: &CallFailures) -> Timestamp {
        let settings = self.o.settings;
        match failed.repeats() {
            Repeats::AtOnce => failed.at,
            Repeats::Backoff => failed.next,
            Repeats::AtPolls => {
                let pause = backoff::after_refusal(
                    failed.count,
                    (settings.poll_min, settings.poll_max),
                    failed.last.retry_after(),
                    backoff::seed(self.uid, failed.count),
                );
                later(failed.at, pause)
            }
        }
    }

    /// Whether a call got a 401 and waits for another session; the Workspace's status shows the error.
    pub(crate) fn awaits_another_session(&self) -> bool {
        let session = self.session().map_or(0, |s| s.number);
        let refused = |failed: &CallFailures| {
            failed.last.class == Class::Unauthorized && session <= failed.session
        };
        self.memory().failures.iter().any(refused)
    }

    /// Requeue time while the Workspace's calls are paused: spread, so that its Runs don't all start at the same
    /// moment.
    pub(crate) fn pause_over(&self) -> Option<Timestamp> {
        let Some(CallDelay::Paused { until }) = self.o.call_delay else {
            return None;
        };
        let spread = backoff::seed(self.uid, 0) % AFTER_PAUSE_MILLIS;
        Some(later(until, Duration::from_millis(spread)))
    }
}
