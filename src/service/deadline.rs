//! Time limits from the contract file, bounded.

use std::time::Duration;

use tokio::time::Instant;

/// The longest time limit, 30 days: a contract file may name any number of seconds.
const FAR: Duration = Duration::from_hours(720);

/// End of a time limit.
#[derive(Clone, Copy)]
pub(super) struct Deadline {
    pub(super) at: Instant,
    /// The whole limit, for messages.
    pub(super) seconds: u64,
}

impl Deadline {
    /// The instant so many seconds from now, 30 days at most.
    pub(super) fn after(seconds: u64) -> Self {
        Self {
            at: Instant::now() + Duration::from_secs(seconds).min(FAR),
            seconds,
        }
    }
}
