//! The rate limit of a Workspace, `spec.rateLimit`.

use std::num::NonZeroU32;
use std::time::Duration;

use governor::{DefaultDirectRateLimiter, Quota, RateLimiter, clock::Clock, clock::DefaultClock};

use tokio::time::Instant;

use crate::api::workspace::RateLimit;

/// Defaults for an unset half of `spec.rateLimit`.
const DEFAULT_RATE: NonZeroU32 = NonZeroU32::new(20).unwrap();
const DEFAULT_BURST: NonZeroU32 = NonZeroU32::new(40).unwrap();

/// Limiter of the calls for one Workspace.
struct Limiter {
    limit: RateLimit,
    calls: DefaultDirectRateLimiter,
    clock: DefaultClock,
}

impl Limiter {
    /// A limiter before its first call.
    fn new(limit: RateLimit) -> Self {
        let rate = positive(limit.requests_per_second).unwrap_or(DEFAULT_RATE);
        let quota = Quota::per_second(rate).allow_burst(burst(limit));
        Self {
            limit,
            calls: RateLimiter::direct(quota),
            clock: DefaultClock::default(),
        }
    }

    /// Takes permission for one call, or returns the wait before the next attempt.
    fn take(&self) -> Result<(), Duration> {
        self.calls
            .check()
            .map_err(|refused| refused.wait_time_from(self.clock.now()))
    }
}

fn positive(n: Option<i32>) -> Option<NonZeroU32> {
    n.and_then(|n| u32::try_from(n).ok())
        .and_then(NonZeroU32::new)
}

/// Calls that may start at once.
fn burst(limit: RateLimit) -> NonZeroU32 {
    positive(limit.burst).unwrap_or(DEFAULT_BURST)
}

/// A Workspace's rate limit. It may be unset, and may change.
#[derive(Default)]
pub(crate) struct Rate {
    limiter: Option<Limiter>,
    /// Time before which it has no call to give.
    not_before: Option<Instant>,
    /// Calls that were taken and returned unused.
    given_back: u32,
}

impl Rate {
    /// Sets the limit. An unchanged limit keeps its limiter, so that a check resets nothing.
    pub(crate) fn limit(&mut self, limit: Option<RateLimit>) {
        self.not_before = None;
        if self.limiter.as_ref().map(|kept| kept.limit) != limit {
            self.limiter = limit.map(Limiter::new);
            self.given_back = 0;
        }
    }

    /// Takes permission for one call.
    pub(crate) fn take(&mut self, now: Instant) -> bool {
        if self.given_back > 0 {
            self.given_back -= 1;
            return true;
        }
        if self.held_until(now).is_some() {
            return false;
        }
        let taken = self.limiter.as_ref().map_or(Ok(()), Limiter::take);
        self.not_before = taken.err().map(|wait| now + wait);
        self.not_before.is_none()
    }

    /// Returns unused permission for a call.
    pub(crate) fn give_back(&mut self) {
        if let Some(limiter) = &self.limiter {
            self.given_back = (self.given_back + 1).min(burst(limiter.limit).get());
            self.not_before = None;
        }
    }

    /// Time before which it has no call to give, as far as is known.
    pub(crate) fn held_until(&self, now: Instant) -> Option<Instant> {
        self.not_before.filter(|at| *at > now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Proves: P-rate-limit
    #[test]
    fn the_burst_is_admitted_and_the_next_call_has_to_wait() {
        let limit = RateLimit {
            requests_per_second: Some(1),
            burst: Some(3),
        };
        let limiter = Limiter::new(limit);
        let answers: Vec<_> = (0..4).map(|_| limiter.take().is_ok()).collect();
        assert_eq!(answers, [true, true, true, false]);
        let long = Duration::from_millis(100);
        assert!(limiter.take().is_err_and(|wait| wait > long));
    }

    /// Proves: P-rate-limit
    #[test]
    fn an_unset_half_of_the_limit_has_its_default() {
        let limiter = Limiter::new(RateLimit {
            requests_per_second: None,
            burst: None,
        });
        let allowed = (0..100).take_while(|_| limiter.take().is_ok()).count();
        assert!((40..100).contains(&allowed), "{allowed} calls at once");
    }
}
