//! One failed check of a Workspace is no outage: which failures are passed over, when the next check is due,
//! and when a Run says that its Workspace is not Ready.

use std::time::Duration;

use jiff::Timestamp;

use crate::api::Reason;

use super::{
    answer::{Failure, FailureKind},
    backoff,
    memory::later,
    workspace::{Check, Obstacle},
};

/// The pause after a check that was passed over, without the jitter.
const SOON: Duration = Duration::from_secs(1);
/// The jitter of that pause, in milliseconds.
const SOON_MILLIS: u64 = 1000;
/// The longest pause between the checks of a Workspace that is not Ready.
const PROBE_MAX: Duration = Duration::from_secs(30);
/// A trouble that is over within this time is not worth a write of every Run.
const LASTING: Duration = Duration::from_secs(5);
/// The Runs of a Workspace say its trouble over this time, in milliseconds.
const SAID_OVER_MILLIS: u64 = 10_000;

/// The standing of a Workspace before a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    /// A check of this very Workspace went well, in this process or, by its status, in the one before; and it is
    /// not said to be not Ready since.
    pub verified: bool,
    /// The check before this one was passed over.
    pub passed_over: bool,
}

/// Whether a check changes nothing but the time of the next one: the first failure after a good check, if
/// its cause may be gone by then.
pub fn passed_over(check: &Check, standing: Standing) -> bool {
    let passing = check.obstacle.as_ref().is_some_and(Obstacle::may_pass);
    passing && standing.verified && !standing.passed_over
}

/// The pause before the next check after one that was passed over. `asked` is the answer's `Retry-After`, unclamped.
pub fn soon(uid: &str, asked: Option<Duration>) -> Duration {
    let jitter = Duration::from_millis(backoff::seed(uid, 0) % SOON_MILLIS);
    (SOON + jitter).max(backoff::asked(asked))
}

/// The pause before the next check of a Workspace that is not Ready, after so many failures in a row; at most
/// 30 s unless the answer's `Retry-After` (`asked`, unclamped) says otherwise.
pub fn pause(uid: &str, failures: u32, asked: Option<Duration>) -> Duration {
    let own = backoff::delay(failures, None, backoff::seed(uid, failures)).min(PROBE_MAX);
    own.max(backoff::asked(asked))
}

/// What holds first submissions after a check that was passed over: what it found, or what it did not get to look
/// at.
pub fn holds(
    before: Option<(Reason, String)>,
    found: Option<(Reason, String)>,
) -> Option<(Reason, String)> {
    let unseen = |(reason, _): &(Reason, String)| {
        matches!(reason, Reason::VersionNotAccepted | Reason::SecretNotFound)
    };
    found.or_else(|| before.filter(unseen))
}

/// When a Run says that its Workspace is not Ready, if the trouble that began at `since` lasts: after 5 to 15 s,
/// each Run at a time of its own.
pub(super) fn said_at(uid: &str, since: Timestamp) -> Timestamp {
    let spread = Duration::from_millis(backoff::seed(uid, 1) % SAID_OVER_MILLIS);
    later(since, LASTING + spread)
}

impl Obstacle {
    /// Whether the obstacle may be gone at the next check. What is wrong with the Workspace's own fields or its
    /// Secret is not: an edit mends it, and is seen.
    pub fn may_pass(&self) -> bool {
        match self {
            Self::Config(_) => false,
            Self::Version(failure) | Self::Identity(failure) => failure_may_pass(failure),
        }
    }
}

/// An answer without a problem body is not the service's, whatever its status.
fn failure_may_pass(failure: &Failure) -> bool {
    match failure.kind {
        FailureKind::Transport
        | FailureKind::NoFile
        | FailureKind::Bare
        | FailureKind::Unreadable => true,
        FailureKind::Problem => {
            matches!(failure.http_status, Some(401 | 408 | 425 | 429 | 500..=599))
        }
        FailureKind::NotSent => false,
    }
}
