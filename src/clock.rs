//! The two clocks. Nowhere else is the wall clock read: `clippy.toml` sees to that.
//!
//! # Guarantees
//! - [`now`] never steps, whatever is done to the wall clock. It paces: polls, retries, checks, pauses.
//! - [`wall`] is what people and other machines agree on. It goes into what is stored, and is compared with what
//!   was stored.
//!
//! The two are alike at the start of the process and never compared with each other, except by [`Steps`].

use std::sync::LazyLock;
use std::time::{Duration, Instant};

use jiff::{SignedDuration, Timestamp};

/// Until it differs by so much the wall clock has not stepped: the clocks are read one after the other.
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

/// Process time: what the wall clock showed when the process first asked, and what has passed since by the
/// monotonic clock. Never stored: it means nothing to another process.
pub fn now() -> Timestamp {
    START.process_time(Instant::now())
}

/// The wall clock.
#[allow(
    clippy::disallowed_methods,
    reason = "the one place where the wall clock is read"
)]
pub fn wall() -> Timestamp {
    let shown = Timestamp::now();
    #[cfg(feature = "proofs")]
    let shown = crate::points::clock::shifted(shown);
    shown
}

/// How long to wait, by process time; nothing if it is past.
pub fn until(at: Timestamp) -> Duration {
    Duration::try_from(at.duration_since(now())).unwrap_or_default()
}

/// Notices steps of the wall clock.
#[derive(Debug)]
pub struct Steps {
    /// What the wall clock was ahead of process time.
    ahead: SignedDuration,
}

impl Steps {
    /// Steps are those from these times on.
    pub fn new(now: Timestamp, wall: Timestamp) -> Self {
        Self {
            ahead: wall.duration_since(now),
        }
    }

    /// By how much the wall clock has stepped since it was last asked; negative if it went back.
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
