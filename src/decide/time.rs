//! Arithmetic on points in time that never fails.

use std::time::Duration;

use jiff::Timestamp;

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
