//! The event streams of a run. A GET often shows the end before the stream has delivered the last events. The end is
//! written at once; then the stream is read, from its cursor if necessary, until the service has closed it without more
//! events, for at most 10 s. What arrives meanwhile is one more write before the finalizer is removed.

use std::time::Duration;

use jiff::Timestamp;

use super::{
    delays::{self, AFTER_LAST_STREAM, AFTER_STREAM, LAST_EVENTS_APART},
    failure::FailedCall,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamEnd {
    Closed,
    /// It broke, or the service could not be reached for it.
    Broken,
    /// The service refused it for good.
    Refused,
    /// The service has none for this run as it is now.
    Missing,
}

impl StreamEnd {
    /// The end of a stream that could not be opened. At a 204 a client stops, by the HTML standard; the others refuse what
    /// every such request is.
    pub fn unopened(failed: &FailedCall) -> Self {
        match failed.failure.http_status {
            Some(204 | 405 | 406 | 501) => Self::Missing,
            _ if failed.class.refusal().is_some() => Self::Refused,
            _ => Self::Broken,
        }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LastEvents {
    /// Time since which the stream is read for the last events.
    pub(crate) since: Option<Timestamp>,
    stream: Delivered,
    /// The service closed the stream without more events.
    complete: bool,
    /// No stream can be opened.
    refused: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Delivered {
    /// It was opened when the run was seen to have ended.
    after_end: bool,
    new_events: bool,
    /// It delivered an event that names an end.
    end: bool,
}

impl LastEvents {
    /// The status with the end is stored: from now on the stream is read for the last events.
    pub(crate) fn begin(&mut self, now: Timestamp) {
        self.since.get_or_insert(now);
    }

    /// A stream was opened; `ended`: a GET has shown the end.
    pub(crate) fn opened(&mut self, ended: bool) {
        self.stream = Delivered {
            after_end: ended || self.since.is_some(),
            ..Delivered::default()
        };
    }

    /// A new event arrived; `end`: it names an end.
    pub(crate) fn received(&mut self, end: bool) {
        self.stream.new_events = true;
        self.stream.end |= end;
        self.complete = false;
    }

    /// The stream ended. A service also closes it between portions of events: only a close after an event with the end,
    /// or of a stream opened after the end that had nothing new, is the last.
    pub(crate) fn stream_ended(&mut self, how: StreamEnd) {
        let told = self.stream;
        match how {
            StreamEnd::Closed => self.complete |= told.end || told.after_end && !told.new_events,
            StreamEnd::Broken => {}
            StreamEnd::Refused | StreamEnd::Missing => self.refused = self.since.is_some(),
        }
    }

    pub fn complete(&self) -> bool {
        self.complete
    }

    /// Whether the wait is over: the service has no more events, or no stream can be opened.
    pub(crate) fn over(&self) -> bool {
        self.complete || self.refused
    }

    pub fn reading_on(&self) -> bool {
        self.since.is_some()
    }
}

pub struct Ended<'a> {
    /// Why it broke or could not be opened; none if the service closed it.
    pub failed: Option<&'a FailedCall>,
    /// The pause that the service asked for in the stream.
    pub asked: Option<Duration>,
    /// Streams in a row without a new event, with this one.
    pub failures: u32,
    pub last: &'a LastEvents,
    /// The shortest and the longest interval of polls.
    pub polls: (Duration, Duration),
    pub seed: u64,
}

/// It grows until a new event arrives, even if streams open and are closed at once.
pub fn pause(ended: &Ended<'_>) -> Duration {
    let first = ended.failures <= 1;
    let retry_after = ended.failed.and_then(FailedCall::retry_after);
    let growing = delays::backoff(ended.failures, retry_after, ended.seed);
    let own = match ended.failed {
        None if ended.last.complete() => AFTER_LAST_STREAM.max(growing),
        None if first => AFTER_STREAM,
        Some(failed) if failed.class.refusal().is_some() => {
            delays::after_refusal(ended.failures, ended.polls, retry_after, ended.seed)
        }
        _ => growing,
    };
    let demanded = delays::asked(retry_after).max(ended.asked.unwrap_or_default());
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
    use rstest::rstest;

    use super::*;
    use crate::api::Reason;
    use crate::decide::failure::{Call, Class, Failure, FailureKind};

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
            assert!(closed(&reading_on(true), failures) >= AFTER_LAST_STREAM);
        }
    }

    fn failed(class: Class) -> FailedCall {
        FailedCall {
            call: Call::Get,
            class,
            failure: Failure::new(FailureKind::Answered, ""),
        }
    }

    /// Proves: P-stream-places, F-reads
    #[rstest]
    #[case(204, Class::Unreadable, StreamEnd::Missing)]
    #[case(405, Class::Refused(Reason::Refused), StreamEnd::Missing)]
    #[case(406, Class::Passing, StreamEnd::Missing)]
    #[case(501, Class::Passing, StreamEnd::Missing)]
    #[case(403, Class::Refused(Reason::Forbidden), StreamEnd::Refused)]
    #[case(404, Class::Refused(Reason::RunNotFound), StreamEnd::Refused)]
    #[case(404, Class::Passing, StreamEnd::Broken)]
    #[case(503, Class::NoAnswer, StreamEnd::Broken)]
    fn a_stream_is_missing_only_by_an_answer_that_says_so(
        #[case] status: u16,
        #[case] class: Class,
        #[case] end: StreamEnd,
    ) {
        let mut failed = failed(class);
        failed.failure.http_status = Some(status);
        assert_eq!(StreamEnd::unopened(&failed), end);
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
        assert_eq!(closed(&last, 1), AFTER_STREAM);
        assert!(closed(&last, 9) > closed(&last, 4));
        assert!(closed(&last, 100) <= Duration::from_mins(5));
    }

    #[test]
    fn a_broken_stream_is_opened_again_with_backoff() {
        let last = LastEvents::default();
        let broken = failed(Class::NoAnswer);
        for failures in [1, 2, 10] {
            let paused = ended(Some(&broken), &last, failures);
            assert_eq!(paused, delays::backoff(failures, None, 1));
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

    #[rstest]
    #[case::the_end_is_stored(true, false, true)]
    #[case::a_get_has_shown_the_end(false, true, true)]
    #[case::before_the_end(false, false, false)]
    fn a_close_without_events_is_the_last_one_after_the_end(
        #[case] stored: bool,
        #[case] shown: bool,
        #[case] complete: bool,
    ) {
        let mut last = LastEvents::default();
        if stored {
            last.begin(Timestamp::UNIX_EPOCH);
        }
        last.opened(shown);
        last.stream_ended(StreamEnd::Closed);
        assert_eq!(last.complete(), complete);
    }
}
