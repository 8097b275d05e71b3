//! The two clocks. Only this file reads the wall clock: `clippy.toml` forbids it elsewhere.
//!
//! # Guarantees
//! - [`now`] never steps, whatever happens to the wall clock. It paces polls, retries, checks and pauses.
//! - [`wall`] is the time shared with people and other machines. It is stored, and compared with stored times.
//!
//! The two are equal at the start of the process.

use std::sync::LazyLock;
use std::time::{Duration, Instant};

use jiff::Timestamp;

static START: LazyLock<Start> = LazyLock::new(|| Start {
    wall: wall(),
    at: Instant::now(),
});

/// Both clocks at one moment.
struct Start {
    wall: Timestamp,
    at: Instant,
}

impl Start {
    fn process_time(&self, at: Instant) -> Timestamp {
        let elapsed = at.saturating_duration_since(self.at);
        self.wall.checked_add(elapsed).unwrap_or(Timestamp::MAX)
    }
}

/// Process time: the wall clock at the first call, plus the time since by the monotonic clock. Never stored: it means
/// nothing to another process.
pub fn now() -> Timestamp {
    START.process_time(Instant::now())
}

/// The wall clock.
#[allow(
    clippy::disallowed_methods,
    reason = "the one place where the wall clock is read"
)]
pub fn wall() -> Timestamp {
    Timestamp::now()
}

/// Time left until `at` by process time; zero if it is past.
pub fn until(at: Timestamp) -> Duration {
    Duration::try_from(at.duration_since(now())).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + seconds).unwrap()
    }

    /// Proves: P-clock
    #[test]
    fn process_time_follows_only_the_monotonic_clock() {
        let start = Start {
            wall: at(0),
            at: Instant::now(),
        };
        let minute = Duration::from_mins(1);
        assert_eq!(start.process_time(start.at + minute), at(60));
        assert_eq!(start.process_time(start.at), at(0));
        let before = start.at.checked_sub(minute).unwrap();
        assert_eq!(start.process_time(before), at(0), "never before the start");
        assert!(now() <= now());
    }

    #[test]
    fn what_is_past_is_not_waited_for() {
        assert_eq!(until(Timestamp::UNIX_EPOCH), Duration::ZERO);
        assert!(until(Timestamp::MAX) > Duration::from_hours(1));
    }
}
