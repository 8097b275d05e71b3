//! The last events of a run. A GET often shows the end before the stream has delivered them.
//!
//! The status with the end is written at once. While the finalizer is there, the stream is still read, and reopened
//! from its cursor if necessary, until the service has closed it without more events, for at most 10 s. Events that
//! arrive meanwhile are one more write before the finalizer is removed. There is no wait if the stream delivered the
//! end and was closed before the GET was answered.

use jiff::Timestamp;

/// End of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamEnd {
    /// The service closed it normally.
    Closed,
    /// It broke, or the service could not be reached for it.
    Broken,
    /// The service refused it for good.
    Refused,
}

/// Progress of the streams of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LastEvents {
    /// Time since which the stream is read for the last events.
    since: Option<Timestamp>,
    stream: Reading,
    /// The service closed the stream without more events.
    complete: bool,
    /// No stream can be opened.
    refused: bool,
}

/// Events delivered by one stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Reading {
    /// It was opened when the run was seen to have ended.
    after_end: bool,
    /// It delivered a new event.
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
        self.stream = Reading {
            after_end: ended || self.since.is_some(),
            ..Reading::default()
        };
    }

    /// A new event arrived; `end`: it names an end.
    pub(crate) fn received(&mut self, end: bool) {
        self.stream.new_events = true;
        self.stream.end |= end;
        self.complete = false;
    }

    /// The stream ended. A service also closes it normally between portions of events, so a close counts as complete
    /// only after an event with the end, or on a stream that was opened after the end and had nothing new.
    pub(crate) fn stream_ended(&mut self, how: StreamEnd) {
        let Reading {
            after_end,
            new_events,
            end,
        } = self.stream;
        match how {
            StreamEnd::Closed => self.complete |= end || after_end && !new_events,
            StreamEnd::Broken => {}
            StreamEnd::Refused => self.refused = self.since.is_some(),
        }
    }

    /// Whether the service has closed the stream without more events.
    pub fn complete(&self) -> bool {
        self.complete
    }

    /// Whether the wait is over: the service has no more events, or no stream can be opened.
    pub(crate) fn over(&self) -> bool {
        self.complete || self.refused
    }

    /// Time since which the stream is read for the last events.
    pub(crate) fn since(&self) -> Option<Timestamp> {
        self.since
    }

    /// Whether the stream is read only for the last events.
    pub fn reading_on(&self) -> bool {
        self.since.is_some()
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

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
