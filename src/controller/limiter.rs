//! The rate limit of a Workspace, `spec.rateLimit`.

use std::num::NonZeroU32;
use std::time::Duration;

use governor::{DefaultDirectRateLimiter, Quota, RateLimiter, clock::Clock, clock::DefaultClock};

use tokio::time::Instant;

use crate::api::workspace::RateLimit;

/// What an unset half of `spec.rateLimit` means.
const DEFAULT_RATE: NonZeroU32 = NonZeroU32::new(20).unwrap();
const DEFAULT_BURST: NonZeroU32 = NonZeroU32::new(40).unwrap();

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

    /// Takes the right to one call, or says how long to wait before asking again.
    pub fn take(&self) -> Result<(), Duration> {
        self.calls
            .check()
            .map_err(|refused| refused.wait_time_from(self.clock.now()))
    }
}

/// The rate limit as a Workspace has it: it can have none, and another one later.
#[derive(Default)]
pub(super) struct Pace {
    limiter: Option<Limiter>,
    /// It has no call to give before.
    not_before: Option<Instant>,
}

impl Pace {
    /// Keeps the limiter as long as it is the one for this limit, so that a check resets nothing.
    pub(super) fn limit(&mut self, limit: Option<RateLimit>) {
        let kept = self.limiter.take();
        self.limiter = limit.map(|limit| match kept.filter(|l| l.is_for(limit)) {
            Some(same) => same,
            None => Limiter::new(limit),
        });
        self.not_before = None;
    }

    /// Takes the right to one call.
    pub(super) fn take(&mut self, now: Instant) -> bool {
        if self.held_until(now).is_some() {
            return false;
        }
        let taken = self.limiter.as_ref().map_or(Ok(()), Limiter::take);
        self.not_before = taken.err().map(|wait| now + wait);
        self.not_before.is_none()
    }

    /// Until when it has no call to give, as far as is known.
    pub(super) fn held_until(&self, now: Instant) -> Option<Instant> {
        self.not_before.filter(|at| *at > now)
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
        let answers: Vec<_> = (0..4).map(|_| limiter.take().is_ok()).collect();
        assert_eq!(answers, [true, true, true, false]);
        assert!(limiter.take().is_err_and(|wait| wait > Duration::ZERO));
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
        let allowed = (0..100).take_while(|_| limiter.take().is_ok()).count();
        assert!((40..100).contains(&allowed), "{allowed} calls at once");
    }
}
