//! The pause between two event streams of a Run.

use std::time::Duration;

use super::{backoff, failure::FailedCall, last_events::LastEvents};

/// Pause after a stream ended normally and the service named no pause. Usually the run has ended, and the stream is not
/// reopened.
const AFTER_END: Duration = Duration::from_secs(1);
/// The same if no stream has anything more to tell: the next `GET` ends the Run, or its finalizer is removed. Long: amid
/// thousands of Runs the API server takes its time to store the end.
const AFTER_LAST: Duration = Duration::from_secs(30);
/// Longest pause while the last events are read, unless the service asked for a longer one.
const LAST_EVENTS_APART: Duration = Duration::from_millis(500);

/// How a stream ended.
pub struct Ended<'a> {
    /// Why it broke or could not be opened; none if the service closed it.
    pub failed: Option<&'a FailedCall>,
    /// The pause that the service asked for in the stream.
    pub asked: Option<Duration>,
    /// Streams in a row without a new event, with this one.
    pub failures: u32,
    /// What the run's streams have told.
    pub last: &'a LastEvents,
    /// The shortest and the longest interval of polls.
    pub polls: (Duration, Duration),
    /// Spreads the pauses of Runs.
    pub seed: u64,
}

/// The pause before the next stream is opened. It grows until a new event arrives, even if streams open and are closed
/// at once. Once the last events have arrived there is no hurry, however long the writes of the end take.
pub fn pause(ended: &Ended<'_>) -> Duration {
    let first = ended.failures <= 1;
    let retry_after = ended.failed.and_then(FailedCall::retry_after);
    let growing = backoff::delay(ended.failures, retry_after, ended.seed);
    let own = match ended.failed {
        None if ended.last.complete() => AFTER_LAST.max(growing),
        None if first => AFTER_END,
        Some(failed) if failed.class.refusal().is_some() => {
            backoff::after_refusal(ended.failures, ended.polls, retry_after, ended.seed)
        }
        _ => growing,
    };
    let demanded = backoff::asked(retry_after).max(ended.asked.unwrap_or_default());
    if ended.last.reading_on() && !ended.last.over() {
        own.min(LAST_EVENTS_APART).max(demanded)
    } else if first && ended.failed.is_none() {
        ended.asked.unwrap_or(own)
    } else {
        own.max(demanded)
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;
    use crate::api::Reason;
    use crate::decide::failure::{Call, Class, Failure, FailureKind};
    use crate::decide::last_events::StreamEnd;

    const POLLS: (Duration, Duration) = (Duration::from_secs(5), Duration::from_mins(5));

    /// The streams of a run whose end is stored, after one that delivered the end or not.
    fn reading_on(end: bool) -> LastEvents {
        let mut last = LastEvents::default();
        last.begin(Timestamp::UNIX_EPOCH);
        last.opened(true);
        last.received(end);
        last.stream_ended(StreamEnd::Closed);
        last
    }

    fn closed(last: &LastEvents, failures: u32) -> Duration {
        ended(None, last, failures)
    }

    /// The service closed the stream, or refused it with this answer.
    fn ended(failed: Option<&FailedCall>, last: &LastEvents, failures: u32) -> Duration {
        pause(&of(failed, last, failures))
    }

    fn of<'a>(failed: Option<&'a FailedCall>, last: &'a LastEvents, failures: u32) -> Ended<'a> {
        Ended {
            failed,
            asked: None,
            failures,
            last,
            polls: POLLS,
            seed: 1,
        }
    }

    #[test]
    fn last_events_that_are_awaited_are_asked_for_soon() {
        for failures in 1..10 {
            assert!(closed(&reading_on(false), failures) <= LAST_EVENTS_APART);
        }
    }

    #[test]
    fn a_stream_that_told_everything_is_not_reopened_soon() {
        for failures in 1..10 {
            assert!(closed(&reading_on(true), failures) >= AFTER_LAST);
        }
    }

    fn failed(class: Class) -> FailedCall {
        FailedCall {
            call: Call::Get,
            class,
            failure: Failure::new(FailureKind::Answered, ""),
        }
    }

    /// Proves: R10a, F-reads
    #[test]
    fn a_refused_stream_is_opened_again_at_the_interval_of_polls() {
        let refusal = failed(Class::Refused(Reason::Forbidden));
        let (shortest, longest) = (POLLS.0, POLLS.1 + POLLS.1 / 10);
        for failures in [1, 2, 10, u32::MAX] {
            let pause = ended(Some(&refusal), &LastEvents::default(), failures);
            assert!(shortest <= pause && pause <= longest, "{pause:?}");
        }
        assert!(ended(Some(&refusal), &LastEvents::default(), 10) >= POLLS.1);
    }

    /// Proves: P-stream-places, F-reads
    #[test]
    fn the_pause_grows_while_nothing_new_is_told() {
        let last = LastEvents::default();
        assert_eq!(closed(&last, 1), AFTER_END);
        assert!(closed(&last, 9) > closed(&last, 4));
        assert!(closed(&last, 100) <= Duration::from_mins(5));
    }

    #[test]
    fn a_broken_stream_is_opened_again_with_backoff() {
        let last = LastEvents::default();
        let broken = failed(Class::NoAnswer);
        for failures in [1, 2, 10] {
            let paused = ended(Some(&broken), &last, failures);
            assert_eq!(paused, backoff::delay(failures, None, 1));
        }
    }

    #[test]
    fn an_asked_pause_is_the_first_and_the_shortest() {
        let last = LastEvents::default();
        let asked = |asked, failures| {
            pause(&Ended {
                asked: Some(asked),
                ..of(None, &last, failures)
            })
        };
        let (short, long) = (Duration::from_millis(1), Duration::from_hours(1));
        assert_eq!(asked(short, 1), short);
        assert_eq!(asked(long, 1), long);
        assert_eq!(asked(short, 9), closed(&last, 9));
        assert_eq!(asked(long, 9), long);
    }
}
