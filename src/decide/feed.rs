//! The service's events on their way into the status (rule 2). Events are hints, GET is truth: an event
//! that may change the state is shown only once a GET has seen what it did, so that the cursor is never
//! ahead of what was mirrored.

use std::collections::VecDeque;

use jiff::Timestamp;

use crate::api::status::{EventRecord, MAX_EVENT_DATA, MAX_EVENTS, RunStatus, whole_seconds};

use super::text::cut;

/// Bytes of an event's id that are kept; a longer one can't be a cursor.
const MAX_ID: usize = 256;
/// Bytes of an event's type that are kept.
const MAX_KIND: usize = 128;
/// Ids remembered to tell a replayed event from a new one.
const REMEMBERED: usize = 64;

/// Events received and not yet written.
#[derive(Clone, Debug, Default)]
pub struct Feed {
    waiting: VecDeque<Waiting>,
    /// Events dropped from `waiting` because only the last few are shown; they still count.
    dropped: i64,
    /// Numbers what was received.
    received: u64,
    /// The number up to which hints are answered by a GET.
    covered: u64,
    /// The number when the GET under way was started.
    marked: u64,
    /// The number of the latest hint.
    hinted: u64,
    recent: VecDeque<String>,
    /// The cursor that the stream gave last; empty after an id was reset.
    cursor: Option<String>,
}

#[derive(Clone, Debug)]
struct Waiting {
    number: u64,
    record: EventRecord,
    cursor: Option<String>,
}

/// An event as the stream gave it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Received {
    /// The id in force.
    pub id: Option<String>,
    /// Its type.
    pub kind: String,
    /// Its data.
    pub data: String,
}

impl Feed {
    /// Takes in an event. `state` is the state that it names, `mirrored` the one last read.
    /// Returns whether the event is new.
    pub fn receive(
        &mut self,
        event: &Received,
        state: Option<&str>,
        mirrored: Option<&str>,
        now: Timestamp,
    ) -> bool {
        let id = event
            .id
            .as_deref()
            .filter(|id| !id.is_empty() && cut(id, MAX_ID).len() == id.len());
        if let Some(id) = id {
            if self.recent.iter().any(|r| r == id) {
                return false;
            }
            if self.recent.len() >= REMEMBERED {
                self.recent.pop_front();
            }
            self.recent.push_back(id.to_owned());
            self.cursor = Some(id.to_owned());
        }
        self.received += 1;
        if state.is_none() || state != mirrored {
            self.hinted = self.received;
        }
        if self.waiting.len() >= MAX_EVENTS {
            self.waiting.pop_front();
            self.dropped += 1;
        }
        let data = cut(&event.data, MAX_EVENT_DATA);
        self.waiting.push_back(Waiting {
            number: self.received,
            record: EventRecord {
                id: id.map(str::to_owned),
                kind: cut(&event.kind, MAX_KIND).to_owned(),
                time: whole_seconds(now),
                data: (!data.is_empty()).then(|| data.to_owned()),
            },
            cursor: id.map(str::to_owned),
        });
        true
    }

    /// Something other than an event says that the state may have changed: an event too large to read,
    /// a reconnect, the answer to a cancel.
    pub fn hint(&mut self) {
        self.received += 1;
        self.hinted = self.received;
    }

    /// A GET starts: it will cover the hints received until now.
    pub fn mark(&mut self) {
        self.marked = self.received;
    }

    /// The GET was answered.
    pub fn covered(&mut self) {
        self.covered = self.marked;
    }

    /// Whether a hint waits for a GET.
    pub fn refresh_wanted(&self) -> bool {
        self.hinted > self.covered
    }

    /// Whether there is something that [`Feed::fold`] would show.
    pub fn presentable(&self) -> bool {
        self.waiting.front().is_some_and(|w| self.may_show(w))
    }

    /// Makes the ids that the status already shows known, so that a replay after a restart is not
    /// counted twice.
    pub fn remember(&mut self, status: &RunStatus) {
        for id in status
            .events
            .iter()
            .filter_map(|e| e.id.as_ref())
            .chain(&status.last_event_id)
        {
            if !self.recent.contains(id) {
                self.recent.push_back(id.clone());
            }
        }
    }

    /// Where the stream resumes: the last received id (rule 2), else the mirrored one.
    pub fn cursor(&self) -> Option<&str> {
        self.cursor.as_deref()
    }

    /// Shows in `status` what may be shown. [`Feed::written`] says later that it was stored.
    pub fn fold(&self, status: &mut RunStatus) {
        let mut count = status.event_count.unwrap_or_default();
        let mut any = false;
        for event in self.waiting.iter().take_while(|w| self.may_show(w)) {
            if !any {
                count += self.dropped;
            }
            any = true;
            count += 1;
            status.events.push(event.record.clone());
            if event.cursor.is_some() {
                status.last_event_id.clone_from(&event.cursor);
            }
        }
        if any {
            let surplus = status.events.len().saturating_sub(MAX_EVENTS);
            status.events.drain(..surplus);
            status.event_count = Some(count);
        }
    }

    /// What [`Feed::fold`] put into the status is stored: forgets it. `count` is the stored event count
    /// before and after.
    pub fn written(&mut self, shown: usize) {
        if shown > 0 {
            self.dropped = 0;
        }
        self.waiting.drain(..shown.min(self.waiting.len()));
    }

    /// How many waiting events [`Feed::fold`] shows now.
    pub fn shown(&self) -> usize {
        self.waiting.iter().take_while(|w| self.may_show(w)).count()
    }

    fn may_show(&self, event: &Waiting) -> bool {
        !self.refresh_wanted() || event.number <= self.covered
    }
}
