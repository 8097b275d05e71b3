//! The last events of a run. A GET often sees the end before the stream has delivered them.
//!
//! The status with the end is written at once. While the finalizer is there, the stream is read on, reopened
//! from its cursor if need be, until the service has closed it and has nothing more, for at most
//! [`LONGEST`]. What arrived is one more write before the finalizer is removed. Where the stream delivered
//! the end and was closed before the GET was answered, nothing is waited for.

use std::time::Duration;

use jiff::Timestamp;

use super::{Stream, WorkspaceView, facts::Facts, memory::later, place};

/// The finalizer waits this long for the last events.
const LONGEST: Duration = Duration::from_secs(10);

/// How a stream ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamEnd {
    /// The service closed it in good order.
    Closed,
    /// It broke, or the service could not be reached for it.
    Broken,
    /// The service refused it for good.
    Refused,
}

/// How far the streams of a run were read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LastEvents {
    /// Since when the stream is read on after the end.
    since: Option<Timestamp>,
    stream: Reading,
    /// The service closed the stream having nothing more.
    complete: bool,
    /// No stream can be had.
    refused: bool,
}

/// What one stream delivered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Reading {
    /// It was opened when the run was seen to have ended.
    after_end: bool,
    /// It delivered an event that was new.
    news: bool,
    /// It delivered an event that names an end.
    end: bool,
}

impl LastEvents {
    /// The status with the end is stored: the stream is read on from now.
    pub(super) fn begin(&mut self, now: Timestamp) {
        self.since.get_or_insert(now);
    }

    /// A stream was opened; `ended` says whether a GET has shown the end.
    pub(super) fn opened(&mut self, ended: bool) {
        self.stream = Reading {
            after_end: ended || self.since.is_some(),
            ..Reading::default()
        };
    }

    /// A new event arrived; `end` says whether it names an end.
    pub(super) fn received(&mut self, end: bool) {
        self.stream.news = true;
        self.stream.end |= end;
        self.complete = false;
    }

    /// The stream ended. A service closes it in good order too where it only hands out events in portions,
    /// so that counts as the last of them only behind the end itself, or where there was nothing new.
    pub(super) fn stream_ended(&mut self, how: StreamEnd) {
        let Reading {
            after_end,
            news,
            end,
        } = self.stream;
        match how {
            StreamEnd::Closed => self.complete |= end || after_end && !news,
            StreamEnd::Broken => {}
            StreamEnd::Refused => self.refused = self.since.is_some(),
        }
    }

    /// Whether the service has closed the stream having nothing more.
    pub fn complete(&self) -> bool {
        self.complete
    }

    /// Whether the stream is read for the last events only.
    pub fn reading_on(&self) -> bool {
        self.since.is_some()
    }
}

/// Until when the finalizer of a Run that has ended waits for its last events; `None` if it need not. An
/// object that is being deleted waits for nothing: nobody reads its status.
pub(super) fn awaited_until(f: &Facts<'_>) -> Option<Timestamp> {
    let last = &f.memory().last_events;
    let over = f.deleting() || f.run_id().is_none() || last.complete || last.refused;
    if over || matches!(f.o.stream, Stream::Waiting { .. }) || !can_be_had(f) {
        return None;
    }
    let until = later(last.since.unwrap_or(f.o.now), LONGEST);
    (until > f.o.now).then_some(until)
}

/// Whether a stream can be had where the run lives. After a start the Workspace is not known yet.
fn can_be_had(f: &Facts<'_>) -> bool {
    let known = place::pins(f).next().is_some();
    known
        && match f.o.workspace {
            WorkspaceView::Unknown => true,
            WorkspaceView::Ready(session) => place::moved(f, session).is_none(),
            WorkspaceView::Missing | WorkspaceView::NotReady { .. } => false,
        }
}
