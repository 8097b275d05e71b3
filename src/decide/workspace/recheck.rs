//! Rechecks of a Workspace: the failures that are passed over, the time of the next check, and the time at which a Run
//! shows that its Workspace is not Ready. One failed check is no outage.

use std::time::Duration;

use jiff::Timestamp;

use crate::api::Reason;
use crate::decide::{backoff, time::later};

use super::check::{Check, Obstacle};

/// The delay between the checks of a Ready Workspace. A change of the service's version or of the token's workspace is
/// detected within this time even if no call fails.
const REGULAR: Duration = Duration::from_mins(5);
/// The delay after a check that was passed over, without the jitter.
const SOON: Duration = Duration::from_secs(1);
/// The jitter of that delay, in milliseconds.
const SOON_MILLIS: u64 = 1000;
/// The longest delay between the checks of a Workspace that is not Ready.
const PROBE_MAX: Duration = Duration::from_secs(30);
/// A failure that is over within this time is not worth a write of every Run.
const LASTING: Duration = Duration::from_secs(5);
/// Time over which the Runs of a Workspace are spread when they show its failure, in milliseconds.
const SHOWN_OVER_MILLIS: u64 = 10_000;

/// The standing of a Workspace before a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    /// A check of this same Workspace succeeded, in this process or, by its status, in the previous one; and its status
    /// has not shown not Ready since.
    pub verified: bool,
    /// The check before this one was passed over.
    pub passed_over: bool,
}

/// Whether a check changes only the time of the next one: true for the first failure after a good check, if its cause
/// may pass by then.
pub fn passed_over(check: &Check, standing: Standing) -> bool {
    let passing = check.obstacle.as_ref().is_some_and(Obstacle::may_pass);
    passing && standing.verified && !standing.passed_over
}

/// The delay before the next check after one that was passed over. `asked` is the answer's `Retry-After`.
pub fn soon(uid: &str, asked: Option<Duration>) -> Duration {
    let jitter = Duration::from_millis(backoff::seed(uid, 0) % SOON_MILLIS);
    (SOON + jitter).max(backoff::asked(asked))
}

/// The delay before the next check: the regular one of a Ready Workspace. Of one that is not, it grows with the
/// consecutive failures to at most 30 s, unless the answer's `Retry-After` (`asked`) is longer.
pub fn pause(ready: bool, uid: &str, failures: u32, asked: Option<Duration>) -> Duration {
    if ready {
        return REGULAR;
    }
    let own = backoff::delay(failures, None, backoff::seed(uid, failures)).min(PROBE_MAX);
    own.max(backoff::asked(asked))
}

/// Reason why first submissions stay blocked after a check that was passed over: the one it found, or the earlier one
/// that it did not get to check.
pub fn still_blocked(
    before: Option<(Reason, String)>,
    found: Option<(Reason, String)>,
) -> Option<(Reason, String)> {
    let unchecked = |(reason, _): &(Reason, String)| {
        matches!(reason, Reason::VersionNotAccepted | Reason::SecretNotFound)
    };
    found.or_else(|| before.filter(unchecked))
}

/// Time at which a Run shows that its Workspace is not Ready, if the failure that began at `since` lasts: after 5 to 15
/// s, different for each Run.
pub(crate) fn shown_at(uid: &str, since: Timestamp) -> Timestamp {
    let spread = Duration::from_millis(backoff::seed(uid, 1) % SHOWN_OVER_MILLIS);
    later(since, LASTING + spread)
}
