//! Delays: pure, so that the same attempt of the same object always waits equally long.

use std::time::Duration;

use backon::{BackoffBuilder, ExponentialBuilder};

/// The first delay. Long enough not to overload a restarting service, short enough for a lost packet to go unnoticed.
const FIRST: Duration = Duration::from_millis(500);
/// The longest delay without a `Retry-After`: after the service is repaired, nothing should wait longer.
const LONGEST: Duration = Duration::from_mins(5);
/// After this many doublings the delay no longer grows.
const DOUBLINGS: usize = 10;
/// `Retry-After` is honoured within these bounds (docs/design.md, failure rules).
const RETRY_AFTER: (Duration, Duration) = (Duration::from_secs(1), Duration::from_mins(10));

/// The delay after the `attempt`th consecutive failure (from 1), jittered by `seed`: between the exponential step and
/// twice that, and never shorter than the answer's `Retry-After`.
pub fn delay(attempt: u32, retry_after: Option<Duration>, seed: u64) -> Duration {
    let nth = usize::try_from(attempt.saturating_sub(1))
        .unwrap_or(DOUBLINGS)
        .min(DOUBLINGS);
    let own = ExponentialBuilder::new()
        .with_min_delay(FIRST)
        .with_max_delay(LONGEST)
        .without_max_times()
        .with_jitter()
        .with_jitter_seed(seed)
        .build()
        .nth(nth)
        .unwrap_or(LONGEST)
        .min(LONGEST);
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
