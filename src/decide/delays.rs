//! How long to wait: every pause, backoff, grace time and limit of time of the policy, and the arithmetic on points in
//! time, which never fails. Pure, so that the same attempt of the same object always waits equally long.

use std::time::Duration;

use backon::{BackoffBuilder, ExponentialBuilder};
use jiff::Timestamp;

/// The first delay. Long enough not to overload a restarting service, short enough for a lost packet to go unnoticed.
const BACKOFF_FIRST: Duration = Duration::from_millis(500);
/// The longest delay without a `Retry-After`: after the service is repaired, nothing should wait longer.
const BACKOFF_LONGEST: Duration = Duration::from_mins(5);
/// After this many doublings the delay no longer grows.
const BACKOFF_DOUBLINGS: usize = 10;
/// `Retry-After` is honoured within these bounds (docs/design.md, failure rules).
const RETRY_AFTER: (Duration, Duration) = (Duration::from_secs(1), Duration::from_mins(10));

/// Limit of the GETs that hints cause for one run.
pub(crate) const HINTS: Bounds = Bounds {
    burst: 3,
    refill: Duration::from_secs(1),
};
/// A Run that has no stream because all places are taken is read at least this often, up to a tenth of jitter included.
pub(crate) const UNSTREAMED: Duration = Duration::from_secs(27);
/// Time over which the Runs of a Workspace are spread when its pause ends, in milliseconds.
pub(crate) const AFTER_PAUSE_MILLIS: u64 = 2000;
/// Minimum seconds between two 404s that count: a service that loses its index for a moment must not fail every Run.
pub(crate) const NOT_FOUND_APART: i64 = 60;
/// Time an accepted cancellation may take to show before the finalizer is removed all the same.
pub(crate) const CANCEL_GRACE: Duration = Duration::from_mins(5);
/// Minimum interval between writes that carry only events, or only another attempt of a failed call.
pub(crate) const EVENT_WRITES_APART: Duration = Duration::from_secs(10);
/// The finalizer waits this long for the last events.
pub(crate) const LAST_EVENTS: Duration = Duration::from_secs(10);
/// Longest pause between streams while the last events are read, unless the service asked for a longer one.
pub(crate) const LAST_EVENTS_APART: Duration = Duration::from_millis(500);
/// Pause after a stream ended normally and the service named no pause. Usually the run has ended, and the stream is not
/// reopened.
pub(crate) const AFTER_STREAM: Duration = Duration::from_secs(1);
/// The same if no stream has anything more to tell: the next `GET` ends the Run, or its finalizer is removed. Long: amid
/// thousands of Runs the API server takes its time to store the end.
pub(crate) const AFTER_LAST_STREAM: Duration = Duration::from_secs(30);
/// Time after a change in which another process still publishes its Event. Far less than the hour for which the API
/// server keeps an Event.
pub(crate) const RECENT: Duration = Duration::from_mins(5);
/// Maximum `Retry-After` of an answer that may not be the service's.
pub(crate) const RETRY_AFTER_OF_A_PROXY: Duration = Duration::from_secs(30);

/// The delay between the checks of a Ready Workspace. A change of the service's version or of the token's workspace is
/// detected within this time even if no call fails.
const CHECKS_APART: Duration = Duration::from_mins(5);
/// The longest delay between the checks of a Workspace that is not Ready.
const CHECKS_APART_UNREADY: Duration = Duration::from_secs(30);
/// The delay after a check that was passed over, without the jitter.
const CHECK_AGAIN: Duration = Duration::from_secs(1);
/// The jitter of that delay, in milliseconds.
const CHECK_AGAIN_MILLIS: u64 = 1000;
/// A failure of a Workspace that is over within this time is not worth a write of every Run.
const WORKSPACE_FAILURE_SHOWN: Duration = Duration::from_secs(5);
/// Time over which the Runs of a Workspace are spread when they show its failure, in milliseconds.
const WORKSPACE_FAILURE_SHOWN_MILLIS: u64 = 10_000;

/// Whole seconds from `then` to `now`.
pub fn seconds_since(then: Timestamp, now: Timestamp) -> i64 {
    now.as_second() - then.as_second()
}

/// `at` plus `wait`, or the end of time.
pub fn later(at: Timestamp, wait: Duration) -> Timestamp {
    at.checked_add(wait).unwrap_or(Timestamp::MAX)
}

/// `seconds` after a time stored in whole seconds, never earlier: the time itself may have been up to a second later
/// than stored.
pub fn after_stored(at: Timestamp, seconds: u64) -> Timestamp {
    let rounded = u64::from(seconds > 0);
    later(at, Duration::from_secs(seconds.saturating_add(rounded)))
}

/// The delay after the `attempt`th consecutive failure (from 1), jittered by `seed`: between the exponential step and
/// twice that, and never shorter than the answer's `Retry-After`.
pub fn backoff(attempt: u32, retry_after: Option<Duration>, seed: u64) -> Duration {
    let nth = usize::try_from(attempt.saturating_sub(1))
        .unwrap_or(BACKOFF_DOUBLINGS)
        .min(BACKOFF_DOUBLINGS);
    let own = ExponentialBuilder::new()
        .with_min_delay(BACKOFF_FIRST)
        .with_max_delay(BACKOFF_LONGEST)
        .without_max_times()
        .with_jitter()
        .with_jitter_seed(seed)
        .build()
        .nth(nth)
        .unwrap_or(BACKOFF_LONGEST)
        .min(BACKOFF_LONGEST);
    own.max(asked(retry_after))
}

/// The delay that an answer requests, within bounds; zero without a `Retry-After`.
pub fn asked(retry_after: Option<Duration>) -> Duration {
    retry_after.map_or(Duration::ZERO, |d| d.clamp(RETRY_AFTER.0, RETRY_AFTER.1))
}

/// The delay before the next poll: doubles from `min` to `max` while nothing changes, with up to a tenth of jitter so
/// that Runs applied together drift apart.
pub fn poll_interval(quiet_polls: u32, min: Duration, max: Duration, seed: u64) -> Duration {
    let base = min.saturating_mul(1 << quiet_polls.min(16)).min(max);
    let tenth = base / 10;
    let spread = u32::try_from(seed % 1000).unwrap_or_default();
    base + tenth * spread / 1000
}

/// The delay after the `attempt`th consecutive refusal (from 1) of a call that is repeated all the same: from `min`,
/// doubling to `max`, jittered by `seed`, and never shorter than the answer's `Retry-After`.
pub fn after_refusal(
    attempt: u32,
    (min, max): (Duration, Duration),
    retry_after: Option<Duration>,
    seed: u64,
) -> Duration {
    poll_interval(attempt.saturating_sub(1), min, max, seed).max(asked(retry_after))
}

/// A seed from the object's uid, stable over restarts.
pub fn seed(uid: &str, salt: u32) -> u64 {
    // FNV-1a: std's hasher is allowed to change between releases, and a decision must not.
    uid.bytes()
        .chain(salt.to_le_bytes())
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        })
}

/// The delay before the next check after one that was passed over.
pub fn check_again(uid: &str, retry_after: Option<Duration>) -> Duration {
    let jitter = Duration::from_millis(seed(uid, 0) % CHECK_AGAIN_MILLIS);
    (CHECK_AGAIN + jitter).max(asked(retry_after))
}

/// The delay before the next check: the regular one of a Ready Workspace. Of one that is not, it grows with the
/// consecutive failures to at most 30 s, unless the answer's `Retry-After` is longer.
pub fn next_check(
    ready: bool,
    uid: &str,
    failures: u32,
    retry_after: Option<Duration>,
) -> Duration {
    if ready {
        return CHECKS_APART;
    }
    let own = backoff(failures, None, seed(uid, failures)).min(CHECKS_APART_UNREADY);
    own.max(asked(retry_after))
}

/// Time at which a Run shows that its Workspace is not Ready, if the failure that began at `since` lasts: after 5 to 15
/// s, different for each Run.
pub(crate) fn workspace_failure_shown_at(uid: &str, since: Timestamp) -> Timestamp {
    let spread = Duration::from_millis(seed(uid, 1) % WORKSPACE_FAILURE_SHOWN_MILLIS);
    later(since, WORKSPACE_FAILURE_SHOWN + spread)
}

/// Limit: `burst` at once, then one per `refill`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bounds {
    pub(crate) burst: u32,
    pub(crate) refill: Duration,
}

/// A bucket that starts full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TokenBucket {
    /// Time at which it is full again.
    full_at: Option<Timestamp>,
}

impl TokenBucket {
    /// Time at which a token is available; `now` or later.
    pub(crate) fn next(self, bounds: Bounds, now: Timestamp) -> Timestamp {
        let full_at = self.full_at.map_or(now, |at| at.max(now));
        let spare = bounds.refill * bounds.burst.saturating_sub(1);
        full_at.checked_sub(spare).map_or(now, |at| at.max(now))
    }

    /// Takes a token; false if there is none.
    pub(crate) fn take(&mut self, bounds: Bounds, now: Timestamp) -> bool {
        let enough = self.next(bounds, now) <= now;
        if enough {
            let full_at = self.full_at.map_or(now, |at| at.max(now));
            self.full_at = Some(later(full_at, bounds.refill));
        }
        enough
    }

    /// Puts back a token that was not used.
    pub(crate) fn give_back(&mut self, bounds: Bounds) {
        let full_at = self.full_at;
        self.full_at = full_at.and_then(|at| at.checked_sub(bounds.refill).ok());
    }
}
