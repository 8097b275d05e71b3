//! The two clocks. Only this file reads the wall clock: `clippy.toml` forbids it elsewhere.
//!
//! # Guarantees
//! - [`now`] never steps, whatever happens to the wall clock. It paces polls, retries, checks and pauses.
//! - [`wall`] is the time shared with people and other machines. It is stored, and compared with stored times.
//!
//! The two are equal at the start of the process. Only [`Steps`] compares them later.

use std::sync::LazyLock;
use std::time::{Duration, Instant};

use jiff::{SignedDuration, Timestamp};

/// A smaller difference is no step: the clocks are read one after the other.
const TOLERANCE: SignedDuration = SignedDuration::from_millis(500);

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

/// Detects steps of the wall clock.
#[derive(Debug)]
pub struct Steps {
    /// The wall clock's lead over process time.
    ahead: SignedDuration,
}

impl Steps {
    /// Detects the steps after these times.
    pub fn new(now: Timestamp, wall: Timestamp) -> Self {
        Self {
            ahead: wall.duration_since(now),
        }
    }

    /// The wall clock's step since the last call; negative if it went back.
    pub fn taken(&mut self, now: Timestamp, wall: Timestamp) -> Option<SignedDuration> {
        let ahead = wall.duration_since(now);
        let step = ahead.saturating_sub(self.ahead);
        if step.abs() <= TOLERANCE {
            return None;
        }
        self.ahead = ahead;
        Some(step)
    }
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

    /// Proves: P-wall-clock
    #[test]
    fn a_step_of_the_wall_clock_is_noticed_once_whichever_way() {
        let mut steps = Steps::new(at(0), at(0));
        assert_eq!(steps.taken(at(10), at(10)), None);
        let hour = SignedDuration::from_hours(1);
        assert_eq!(steps.taken(at(20), at(20 + 3600)), Some(hour));
        assert_eq!(steps.taken(at(30), at(30 + 3600)), None);
        assert_eq!(steps.taken(at(40), at(40)), Some(-hour));
        assert_eq!(steps.taken(at(50), at(50)), None);
    }

    #[test]
    fn what_is_past_is_not_waited_for() {
        assert_eq!(until(Timestamp::UNIX_EPOCH), Duration::ZERO);
        assert!(until(Timestamp::MAX) > Duration::from_hours(1));
    }
}
