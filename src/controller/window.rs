//! How many calls of one Workspace may be under way, and when none may start: a window that grows with
//! every answer, a pause after a 429 (rule 10), and a short one where nobody answers. Pure: whoever asks
//! brings the time.

use std::time::Duration;

use tokio::time::Instant;

use crate::decide::{
    answer::{Failure, FailureKind},
    backoff,
};

/// Calls of one Workspace that are under way at the same time, at most. Enough for some hundred calls a
/// second at usual latencies, few enough that a Workspace that hangs holds few connections.
pub(super) const WIDEST: u32 = 32;
/// A pause shorter than this is not worth a word in every Run that waits.
const SILENT: Duration = Duration::from_secs(5);

/// So many calls in a row without an answer look like an outage; the Workspace's check will say.
const OUTAGE: u32 = 3;
/// The longest pause after calls without an answer, as an attempt of the backoff: 1 to 2 s. It only
/// bridges the time until the check: where that goes well, other calls may be fine.
const OUTAGE_ATTEMPTS: u32 = 2;

/// What the end of a call says about the service's capacity.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Outcome {
    /// Nothing: it was not sent, or its answer says that something else is wrong.
    #[default]
    Untold,
    /// The service serves.
    Served,
    /// No answer, or a proxy's: the service may be down.
    Lost,
    /// 429 (rule 10), with what its `Retry-After` asks for, unclamped.
    TooMany(Option<Duration>),
}

/// Why a pause begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    /// A 429.
    TooMany,
    /// Several calls in a row got no answer.
    Lost,
}

impl Outcome {
    /// What an answer says. A 429 marked `retryable: false` speaks of its own request alone.
    pub(super) fn of<T>(answer: Result<&T, &Failure>) -> Self {
        let Err(failure) = answer else {
            return Self::Served;
        };
        match (failure.kind, failure.http_status) {
            (FailureKind::Transport, _) | (FailureKind::Bare, Some(500..=599)) => Self::Lost,
            (FailureKind::Problem | FailureKind::Bare, Some(429)) => match failure.retryable {
                Some(false) => Self::Served,
                Some(true) | None => Self::TooMany(failure.retry_after),
            },
            (FailureKind::Problem, Some(400 | 402..=499)) => Self::Served,
            _ => Self::Untold,
        }
    }
}

/// Goes with a call from its start to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Started {
    /// The pauses before it.
    pauses: u64,
}

/// The calls under way and the bound on them.
#[derive(Debug)]
pub(super) struct Window {
    size: u32,
    under_way: u32,
    /// Those of them that were started since the last pause began.
    fresh: u32,
    pauses: u64,
    /// After a pause one call goes first, until one was served.
    one_first: bool,
    /// 429s in a row that began a pause.
    refusals: u32,
    /// Calls in a row without an answer.
    losses: u32,
    pause: Option<Pause>,
    /// Spreads the pauses of different Workspaces.
    seed: u64,
}

#[derive(Clone, Copy, Debug)]
struct Pause {
    until: Instant,
    long: bool,
}

impl Window {
    /// Wide open: a service is expected to serve until it says otherwise.
    pub(super) fn new(seed: u64) -> Self {
        Self {
            size: WIDEST,
            under_way: 0,
            fresh: 0,
            pauses: 0,
            one_first: false,
            refusals: 0,
            losses: 0,
            pause: None,
            seed,
        }
    }

    /// The service is back after an outage: one call, then one more with each answer.
    pub(super) fn start_slowly(&mut self) {
        self.size = 1;
    }

    /// How many calls may start now.
    pub(super) fn room(&self, now: Instant) -> u32 {
        if self.paused_until(now).is_some() {
            return 0;
        }
        if self.one_first {
            1_u32.saturating_sub(self.fresh)
        } else {
            self.size.saturating_sub(self.under_way)
        }
    }

    /// Until when no call starts, if that is so.
    pub(super) fn paused_until(&self, now: Instant) -> Option<Instant> {
        self.pause.map(|p| p.until).filter(|until| *until > now)
    }

    /// The same, where the pause is long enough to be told of.
    pub(super) fn long_pause(&self, now: Instant) -> Option<Instant> {
        let until = self.paused_until(now)?;
        self.pause.filter(|pause| pause.long).map(|_| until)
    }

    /// A call starts.
    pub(super) fn start(&mut self) -> Started {
        self.under_way = self.under_way.saturating_add(1);
        self.fresh = self.fresh.saturating_add(1);
        Started {
            pauses: self.pauses,
        }
    }

    /// A call ended. Returns why a pause begins, if one does.
    pub(super) fn end(&mut self, call: Started, outcome: Outcome, now: Instant) -> Option<Cause> {
        self.under_way = self.under_way.saturating_sub(1);
        // What becomes of a call from before the pause says nothing of the time after it.
        let fresh = call.pauses == self.pauses;
        if fresh {
            self.fresh = self.fresh.saturating_sub(1);
        }
        match outcome {
            Outcome::Served if fresh => {
                self.one_first = false;
                self.refusals = 0;
                self.losses = 0;
                self.size = self.size.saturating_add(1).min(WIDEST);
                None
            }
            Outcome::TooMany(asked) if fresh => {
                self.refusals = self.refusals.saturating_add(1);
                self.size = (self.size / 2).max(1);
                self.begin_pause(self.refusals, asked, now);
                Some(Cause::TooMany)
            }
            // Its pause has begun already; at most it takes longer.
            Outcome::TooMany(asked) => {
                self.pause_for(backoff::asked(asked), now);
                None
            }
            Outcome::Lost if fresh => {
                self.losses = self.losses.saturating_add(1);
                if self.losses < OUTAGE {
                    return None;
                }
                self.size = 1;
                let attempt = self.losses - OUTAGE + 1;
                self.begin_pause(attempt.min(OUTAGE_ATTEMPTS), None, now);
                Some(Cause::Lost)
            }
            Outcome::Untold | Outcome::Served | Outcome::Lost => None,
        }
    }

    fn begin_pause(&mut self, attempt: u32, asked: Option<Duration>, now: Instant) {
        self.pauses += 1;
        self.fresh = 0;
        self.one_first = true;
        let seed = self.seed.wrapping_add(self.pauses);
        self.pause_for(backoff::delay(attempt, asked, seed), now);
    }

    fn pause_for(&mut self, wait: Duration, now: Instant) {
        let until = now + wait;
        if self.pause.is_none_or(|pause| pause.until < until) {
            self.pause = Some(Pause {
                until,
                long: wait >= SILENT,
            });
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test stops at what it did not expect")]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_mins(1);

    fn too_many(seconds: u64) -> Outcome {
        Outcome::TooMany(Some(Duration::from_secs(seconds)))
    }

    fn start_all(window: &mut Window, now: Instant) -> Vec<Started> {
        (0..window.room(now)).map(|_| window.start()).collect()
    }

    #[test]
    fn the_window_is_full_at_its_width_and_a_call_that_ends_makes_room_for_one() {
        let now = Instant::now();
        let mut window = Window::new(1);
        let calls = start_all(&mut window, now);
        assert_eq!((calls.len(), window.room(now)), (WIDEST as usize, 0));
        assert_eq!(window.end(calls[0], Outcome::Untold, now), None);
        assert_eq!(window.room(now), 1);
    }

    #[test]
    fn after_an_outage_it_starts_with_one_call_and_grows_by_one_an_answer() {
        let now = Instant::now();
        let mut window = Window::new(1);
        window.start_slowly();
        let mut widths = Vec::new();
        for _ in 0..6 {
            let calls = start_all(&mut window, now);
            widths.push(calls.len());
            for call in calls {
                window.end(call, Outcome::Served, now);
            }
        }
        assert_eq!(widths, [1, 2, 4, 8, 16, 32]);
        let call = window.start();
        window.end(call, Outcome::Served, now);
        assert_eq!(window.room(now), WIDEST, "it grows no further");
    }

    #[test]
    fn what_gets_no_answer_does_not_widen_it() {
        let now = Instant::now();
        let mut window = Window::new(1);
        window.start_slowly();
        let call = window.start();
        window.end(call, Outcome::Untold, now);
        assert_eq!(window.room(now), 1);
    }

    #[test]
    fn a_429_pauses_all_calls_for_as_long_as_it_asks_and_then_one_goes_first() {
        let now = Instant::now();
        let mut window = Window::new(1);
        let call = window.start();
        assert_eq!(window.end(call, too_many(60), now), Some(Cause::TooMany));
        let end = now + MINUTE;
        assert_eq!(window.paused_until(now), Some(end));
        assert_eq!(window.long_pause(now), Some(end));
        let before = end.checked_sub(Duration::from_millis(1)).unwrap();
        assert_eq!((window.room(before), window.room(end)), (0, 1));
        let first = window.start();
        assert_eq!(window.room(end), 0, "a second call beside the first one");
        window.end(first, Outcome::Served, end);
        assert_eq!(window.room(end), WIDEST / 2 + 1);
    }

    #[test]
    fn a_first_call_without_an_answer_is_followed_by_one_more_alone() {
        let now = Instant::now();
        let mut window = Window::new(1);
        let call = window.start();
        window.end(call, too_many(60), now);
        let first = window.start();
        window.end(first, Outcome::Untold, now + MINUTE);
        assert_eq!(window.room(now + MINUTE), 1);
    }

    #[test]
    fn all_the_429s_of_one_burst_halve_the_window_once() {
        let now = Instant::now();
        let mut window = Window::new(1);
        let calls = start_all(&mut window, now);
        let begun = calls.into_iter().map(|c| window.end(c, too_many(1), now));
        assert_eq!(begun.flatten().count(), 1);
        let later = now + MINUTE;
        let first = window.start();
        window.end(first, Outcome::Served, later);
        assert_eq!(window.room(later), WIDEST / 2 + 1);
    }

    #[test]
    fn a_later_429_of_the_burst_that_asks_for_more_is_given_it() {
        let now = Instant::now();
        let mut window = Window::new(1);
        let calls = [window.start(), window.start(), window.start()];
        window.end(calls[0], too_many(10), now);
        window.end(calls[1], too_many(60), now);
        window.end(calls[2], too_many(2), now);
        assert_eq!(window.paused_until(now), Some(now + MINUTE));
    }

    #[test]
    fn calls_from_before_the_pause_neither_end_it_nor_widen_the_window() {
        let now = Instant::now();
        let mut window = Window::new(1);
        let calls = [window.start(), window.start()];
        window.end(calls[0], too_many(60), now);
        window.end(calls[1], Outcome::Served, now);
        assert_eq!(window.room(now), 0);
        assert_eq!(window.room(now + MINUTE), 1);
    }

    #[test]
    fn a_429_that_names_no_time_pauses_longer_each_time_within_bounds() {
        let mut now = Instant::now();
        let mut window = Window::new(7);
        let mut waits = Vec::new();
        for _ in 0..14 {
            let call = window.start();
            window.end(call, Outcome::TooMany(None), now);
            let until = window.paused_until(now).unwrap();
            waits.push(until - now);
            now = until;
        }
        assert!(waits[0] < SILENT && waits[6] > waits[0] && waits[13] > waits[6]);
        assert!(waits.iter().all(|wait| *wait <= Duration::from_mins(5)));
        assert_eq!(window.size, 1, "it never closes");
        let call = window.start();
        window.end(call, Outcome::Served, now);
        let call = window.start();
        window.end(call, Outcome::TooMany(None), now);
        let again = window.paused_until(now).unwrap() - now;
        assert!(again < SILENT, "what was served is not forgotten");
        assert_eq!(window.long_pause(now), None);
    }

    #[test]
    fn three_calls_in_a_row_without_an_answer_pause_all_for_a_moment_and_then_one_goes_first() {
        let mut now = Instant::now();
        let mut window = Window::new(1);
        let calls = start_all(&mut window, now);
        let begun: Vec<_> = calls
            .into_iter()
            .map(|call| window.end(call, Outcome::Lost, now))
            .collect();
        assert_eq!(begun[..3], [None, None, Some(Cause::Lost)]);
        assert!(begun[3..].iter().all(Option::is_none), "of one burst");
        for _ in 0..20 {
            let until = window.paused_until(now).unwrap();
            assert!(until - now <= Duration::from_secs(2));
            assert_eq!(window.long_pause(now), None);
            now = until;
            assert_eq!(window.room(now), 1);
            let first = window.start();
            assert_eq!(
                window.end(first, Outcome::Lost, now),
                Some(Cause::Lost),
                "the first one again"
            );
        }
        now = window.paused_until(now).unwrap();
        let first = window.start();
        window.end(first, Outcome::Served, now);
        assert_eq!(window.room(now), 2, "it starts slowly");
    }

    #[test]
    fn calls_without_an_answer_among_others_that_have_one_pause_nothing() {
        let now = Instant::now();
        let mut window = Window::new(1);
        for _ in 0..20 {
            for outcome in [Outcome::Lost, Outcome::Lost, Outcome::Served] {
                let call = window.start();
                assert_eq!(window.end(call, outcome, now), None);
            }
        }
        assert_eq!(window.room(now), WIDEST);
    }

    #[test]
    fn an_absurd_retry_after_is_clamped() {
        let now = Instant::now();
        let mut window = Window::new(1);
        let call = window.start();
        window.end(call, too_many(u64::MAX), now);
        assert_eq!(
            window.paused_until(now),
            Some(now + Duration::from_mins(10))
        );
    }

    #[test]
    fn an_answer_is_judged_by_kind_status_and_the_word_retryable() {
        let failure = |kind, http_status, retryable| Failure {
            kind,
            http_status,
            code: None,
            request_id: None,
            retryable,
            retry_after: Some(MINUTE),
            message: String::new(),
        };
        let of = |f: Failure| Outcome::of::<()>(Err(&f));
        let (problem, bare) = (FailureKind::Problem, FailureKind::Bare);
        let paused = Outcome::TooMany(Some(MINUTE));
        assert_eq!(Outcome::of(Ok(&())), Outcome::Served);
        assert_eq!(of(failure(problem, Some(429), Some(true))), paused);
        assert_eq!(of(failure(bare, Some(429), None)), paused);
        assert_eq!(
            of(failure(problem, Some(429), Some(false))),
            Outcome::Served
        );
        assert_eq!(of(failure(problem, Some(422), None)), Outcome::Served);
        for (kind, status) in [
            (problem, Some(401)),
            (problem, Some(503)),
            (bare, Some(404)),
            (FailureKind::Unreadable, Some(200)),
            (FailureKind::NotSent, None),
        ] {
            assert_eq!(of(failure(kind, status, None)), Outcome::Untold);
        }
        for (kind, status) in [(bare, Some(502)), (FailureKind::Transport, None)] {
            assert_eq!(of(failure(kind, status, None)), Outcome::Lost);
        }
    }
}
