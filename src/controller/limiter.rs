//! The rate limit of a Workspace. A Run that is held back gives its place in the loop to others and
//! comes back, so that one Workspace's limit never slows another's Runs.

use std::num::NonZeroU32;
use std::time::Duration;

use governor::{DefaultDirectRateLimiter, Quota, RateLimiter, clock::Clock, clock::DefaultClock};

use crate::api::workspace::RateLimit;
use crate::decide::backoff;

/// What an unset half of `spec.rateLimit` means.
const DEFAULT_RATE: NonZeroU32 = NonZeroU32::new(20).unwrap();
const DEFAULT_BURST: NonZeroU32 = NonZeroU32::new(40).unwrap();
/// What is held back is spread over this time, so that it doesn't come back all at once.
const SPREAD: Duration = Duration::from_secs(1);

/// Bounds the calls made for one Workspace.
pub struct Limiter {
    limit: RateLimit,
    calls: DefaultDirectRateLimiter,
    clock: DefaultClock,
}

impl Limiter {
    /// A limiter that has made no call yet.
    pub fn new(limit: RateLimit) -> Self {
        let positive = |n: Option<i32>| {
            n.and_then(|n| u32::try_from(n).ok())
                .and_then(NonZeroU32::new)
        };
        let rate = positive(limit.requests_per_second).unwrap_or(DEFAULT_RATE);
        let burst = positive(limit.burst).unwrap_or(DEFAULT_BURST);
        let quota = Quota::per_second(rate).allow_burst(burst);
        Self {
            limit,
            calls: RateLimiter::direct(quota),
            clock: DefaultClock::default(),
        }
    }

    /// Whether it still is the one that a Workspace asks for.
    pub fn is_for(&self, limit: RateLimit) -> bool {
        self.limit == limit
    }

    /// Takes the right to one call, or says how long to wait before asking again; `who` spreads those
    /// who wait.
    pub fn take(&self, who: &str) -> Result<(), Duration> {
        self.calls.check().map_err(|refused| {
            let spread = u32::try_from(backoff::seed(who, 0) % 1000).unwrap_or_default();
            refused.wait_time_from(self.clock.now()) + SPREAD * spread / 1000
        })
    }

    /// Waits for the right to one call.
    pub async fn wait(&self, who: &str) {
        while let Err(wait) = self.take(who) {
            tokio::time::sleep(wait).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_burst_is_let_through_and_the_next_call_is_told_to_wait() {
        let limit = RateLimit {
            requests_per_second: Some(1),
            burst: Some(3),
        };
        let limiter = Limiter::new(limit);
        let answers: Vec<_> = (0..4).map(|_| limiter.take("uid").is_ok()).collect();
        assert_eq!(answers, [true, true, true, false]);
        assert!(limiter.take("uid").is_err_and(|wait| wait > Duration::ZERO));
        assert!(
            limiter.is_for(limit)
                && !limiter.is_for(RateLimit {
                    burst: Some(4),
                    ..limit
                })
        );
    }

    #[test]
    fn an_unset_half_of_the_limit_has_its_default() {
        let limiter = Limiter::new(RateLimit {
            requests_per_second: None,
            burst: None,
        });
        let allowed = (0..100).take_while(|_| limiter.take("uid").is_ok()).count();
        assert!((40..100).contains(&allowed), "{allowed} calls at once");
    }
}
