//! Failures of the Run's calls, and the time of the next attempt.

use std::time::Duration;

use jiff::Timestamp;

use crate::decide::{
    CallDelay, Session, WorkspaceView, backoff,
    memory::Trouble,
    response::classify::{self, Class},
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
    pub(crate) fn trouble(&self, call: classify::Call) -> Option<&'a Trouble> {
        self.memory().trouble(call)
    }

    /// Time of the next attempt of a failed call, by process time.
    ///
    /// A 401 also waits for another session, see [`Observation::awaits_another_session`]. The first 401 is retried at
    /// once; later ones back off, or a service that verifies a token and then refuses its calls would be asked in a
    /// loop. Refused calls are repeated at the interval of the polls, and so is a create in doubt.
    pub(crate) fn next_attempt(&self, trouble: &Trouble) -> Timestamp {
        let refused = || later(trouble.at, self.after_refusal(trouble));
        match trouble.class {
            Class::Unauthorized if trouble.count <= 1 => trouble.at,
            Class::Refused(_) | Class::Final(_) => refused(),
            Class::Violation if trouble.call == classify::Call::Get => refused(),
            Class::Unauthorized | Class::Retry | Class::InProgress | Class::Violation => {
                trouble.next
            }
        }
    }

    fn after_refusal(&self, trouble: &Trouble) -> Duration {
        let settings = self.o.settings;
        backoff::after_refusal(
            trouble.count,
            (settings.poll_min, settings.poll_max),
            trouble.failure.retry_after,
            backoff::seed(self.uid, trouble.count),
        )
    }

    /// Whether a call got a 401 and waits for another session; the Workspace's status shows the error.
    pub(crate) fn awaits_another_session(&self) -> bool {
        let session = self.session().map_or(0, |s| s.number);
        let refused = |t: &Trouble| t.class == Class::Unauthorized && session <= t.session;
        self.memory().troubles.iter().any(refused)
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
