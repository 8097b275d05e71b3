//! How long to wait, by the statements of docs/design.md that the constants name, and arithmetic on points in time that
//! never fails. The same attempt of the same object always waits equally long.

use std::time::Duration;

use backon::{BackoffBuilder, ExponentialBuilder};
use jiff::Timestamp;

/// F-retried: does not overload a restarting service, and a lost packet goes unnoticed.
const BACKOFF_FIRST: Duration = Duration::from_millis(500);
/// F-retried: once the service is repaired, nothing waits longer, unless it asked for it.
const BACKOFF_LONGEST: Duration = Duration::from_mins(5);
/// After so many the longest is reached.
const BACKOFF_DOUBLINGS: usize = 10;
/// F-retried: the bounds of a `Retry-After`.
const RETRY_AFTER: (Duration, Duration) = (Duration::from_secs(1), Duration::from_mins(10));

/// P-events-hint: the GETs that hints cause for one run.
pub(crate) const HINTS: Bounds = Bounds {
    burst: 3,
    refill: Duration::from_secs(1),
};
/// P-stream-places: a Run without a place is read every 30 s, with up to a tenth of jitter.
pub(crate) const UNSTREAMED: Duration = Duration::from_secs(27);
/// P-pause: over this time the Runs of a Workspace go on.
pub(crate) const AFTER_PAUSE_MILLIS: u64 = 2000;
/// F-404, in seconds: a service that loses its index for a moment must not fail every Run.
pub(crate) const NOT_FOUND_APART: i64 = 60;
/// D-cancelling: a run seen cancelling for so long may be released.
pub(crate) const CANCEL_GRACE: Duration = Duration::from_mins(5);
/// B-writes: between writes of only what the service says beside the state.
pub(crate) const DETAIL_WRITES_APART: Duration = Duration::from_secs(30);
/// B-writes: between writes of only events, or of only another attempt of a failed call.
pub(crate) const EVENT_WRITES_APART: Duration = Duration::from_secs(10);
/// P-last-events: so long the finalizer waits.
pub(crate) const LAST_EVENTS: Duration = Duration::from_secs(10);
/// P-last-events: the longest pause between streams meanwhile, unless the service asked for a longer one.
pub(crate) const LAST_EVENTS_APART: Duration = Duration::from_millis(500);
/// F-reads: after a stream that ended normally, usually with its run.
pub(crate) const AFTER_STREAM: Duration = Duration::from_secs(1);
/// P-last-events: after the last one. Amid thousands of Runs the API server takes its time to store the end.
pub(crate) const AFTER_LAST_STREAM: Duration = Duration::from_secs(30);
/// P-events: so long another process still publishes the Event of a change; the API server keeps it for an hour.
pub(crate) const RECENT: Duration = Duration::from_mins(5);
/// P-refused-writes: a policy, a role or the CRD must be changed first.
pub(crate) const AFTER_REFUSAL: Duration = Duration::from_mins(1);
/// F-retried: the longest `Retry-After` of an answer that may be a proxy's.
pub(crate) const RETRY_AFTER_OF_A_PROXY: Duration = Duration::from_secs(30);

/// P-workspace-check: a change of version or of the token's workspace is noticed so soon though no call fails.
const CHECKS_APART: Duration = Duration::from_mins(5);
/// P-workspace-check: at most, of a Workspace that is not Ready.
const CHECKS_APART_UNREADY: Duration = Duration::from_secs(30);
/// P-one-failure: 1 to 2 s after an ignored failure.
const CHECK_AGAIN: Duration = Duration::from_secs(1);
const CHECK_AGAIN_MILLIS: u64 = 1000;
/// P-one-failure: 5 to 15 s after it began, its Runs show a Workspace's failure.
const WORKSPACE_FAILURE_SHOWN: Duration = Duration::from_secs(5);
const WORKSPACE_FAILURE_SHOWN_MILLIS: u64 = 10_000;

/// `at` plus `wait`, or the end of time.
pub fn later(at: Timestamp, wait: Duration) -> Timestamp {
    at.checked_add(wait).unwrap_or(Timestamp::MAX)
}

/// `seconds` after a stored time, never earlier: the time itself may have been up to a second later than stored.
pub fn after_stored(at: Timestamp, seconds: u64) -> Timestamp {
    let rounded = u64::from(seconds > 0);
    later(at, Duration::from_secs(seconds.saturating_add(rounded)))
}

/// The delay after the `attempt`th failure in a row (from 1): between the exponential step and twice that.
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

pub fn asked(retry_after: Option<Duration>) -> Duration {
    retry_after.map_or(Duration::ZERO, |d| d.clamp(RETRY_AFTER.0, RETRY_AFTER.1))
}

/// The delay before the next poll: doubles from `min` to `max` while nothing changes. Jitter lets Runs drift apart.
pub fn poll_interval(quiet_polls: u32, min: Duration, max: Duration, seed: u64) -> Duration {
    let base = min.saturating_mul(1 << quiet_polls.min(16)).min(max);
    let tenth = base / 10;
    let spread = u32::try_from(seed % 1000).unwrap_or_default();
    base + tenth * spread / 1000
}

/// The delay after the `attempt`th refusal in a row (from 1) of a call that is repeated all the same.
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

pub fn check_again(uid: &str, retry_after: Option<Duration>) -> Duration {
    let jitter = Duration::from_millis(seed(uid, 0) % CHECK_AGAIN_MILLIS);
    (CHECK_AGAIN + jitter).max(asked(retry_after))
}

pub fn next_check(ready: bool, uid: &str, failed: u32, retry_after: Option<Duration>) -> Duration {
    if ready {
        return CHECKS_APART;
    }
    let own = backoff(failed, None, seed(uid, failed)).min(CHECKS_APART_UNREADY);
    own.max(asked(retry_after))
}

pub(crate) fn workspace_failure_shown_at(uid: &str, since: Timestamp) -> Timestamp {
    let spread = Duration::from_millis(seed(uid, 1) % WORKSPACE_FAILURE_SHOWN_MILLIS);
    later(since, WORKSPACE_FAILURE_SHOWN + spread)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bounds {
    pub(crate) burst: u32,
    pub(crate) refill: Duration,
}

/// A bucket that starts full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TokenBucket {
    full_at: Option<Timestamp>,
}

impl TokenBucket {
    pub(crate) fn next(self, bounds: Bounds, now: Timestamp) -> Timestamp {
        let full_at = self.full_at.map_or(now, |at| at.max(now));
        let spare = bounds.refill * bounds.burst.saturating_sub(1);
        full_at.checked_sub(spare).map_or(now, |at| at.max(now))
    }

    pub(crate) fn take(&mut self, bounds: Bounds, now: Timestamp) -> bool {
        let enough = self.next(bounds, now) <= now;
        if enough {
            let full_at = self.full_at.map_or(now, |at| at.max(now));
            self.full_at = Some(later(full_at, bounds.refill));
        }
        enough
    }

    #[cfg(feature = "controller")]
    pub(crate) fn give_back(&mut self, bounds: Bounds) {
        let full_at = self.full_at;
        self.full_at = full_at.and_then(|at| at.checked_sub(bounds.refill).ok());
    }
}
