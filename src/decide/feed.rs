//! The service's events on their way into the status (rule 2). Events are hints, GET is truth: an event
//! that may change the state is shown only once a GET has seen what it did, so that the cursor is never
//! ahead of what was mirrored.

use std::collections::VecDeque;

use jiff::Timestamp;

use crate::api::{
    limits::{MAX_EVENT_DATA, MAX_EVENT_ID, MAX_EVENT_TYPE, MAX_EVENTS, MAX_STATE},
    status::{EventRecord, RunStatus, whole_seconds},
};

use super::{
    rules::{Rule, holds},
    text::cut,
};

/// Ids remembered to tell a replayed event from a new one.
const REMEMBERED: usize = 64;

/// Events received and not yet written.
#[derive(Clone, Debug, Default)]
pub struct Feed {
    /// The last few; those that fell out at the front still count.
    waiting: VecDeque<Waiting>,
    /// Counts the events.
    events: usize,
    /// How many of them are stored.
    stored: usize,
    /// Numbers what was received, hints without an event included.
    received: u64,
    /// The number up to which hints are answered by a GET.
    covered: u64,
    /// The number when the GET under way was started.
    marked: u64,
    /// The number of the latest hint.
    hinted: u64,
    /// The state that an event named last.
    named: Option<String>,
    /// Ids of late, and the place of their events; 0 for those of an earlier process.
    recent: VecDeque<(String, usize)>,
    /// Where the stream resumes.
    cursor: Option<String>,
}

#[derive(Clone, Debug)]
struct Waiting {
    number: u64,
    /// Its place among the events, from 1.
    nth: usize,
    record: EventRecord,
}

/// An event as the stream gave it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Received {
    /// The id that stands in this very event: an inherited one would make it look like a replay.
    pub id: Option<String>,
    /// Its type.
    pub kind: String,
    /// Its data.
    pub data: String,
}

impl Feed {
    /// Takes in an event. `state` is the state that it names, `mirrored` the one last read; `wall` is when it came.
    /// Returns whether the event is new.
    pub fn receive(
        &mut self,
        event: &Received,
        state: Option<&str>,
        mirrored: Option<&str>,
        wall: Timestamp,
    ) -> bool {
        let id = event
            .id
            .as_deref()
            .filter(|id| !id.is_empty() && cut(id, MAX_EVENT_ID).len() == id.len());
        if let Some(id) = id {
            if self.place(id).is_some() && holds(Rule::ReplayOnce) {
                return false;
            }
            if self.recent.len() >= REMEMBERED {
                self.recent.pop_front();
            }
            self.recent.push_back((id.to_owned(), self.events + 1));
            self.cursor = Some(id.to_owned());
        }
        self.received += 1;
        self.events += 1;
        if state.is_none() || state != mirrored {
            self.hinted = self.received;
        }
        if let Some(state) = state {
            self.named = Some(cut(state, MAX_STATE).to_owned());
        }
        if self.waiting.len() >= MAX_EVENTS {
            self.waiting.pop_front();
        }
        let data = cut(&event.data, MAX_EVENT_DATA);
        self.waiting.push_back(Waiting {
            number: self.received,
            nth: self.events,
            record: EventRecord {
                id: id.map(str::to_owned),
                kind: cut(&event.kind, MAX_EVENT_TYPE).to_owned(),
                time: whole_seconds(wall),
                data: (!data.is_empty()).then(|| data.to_owned()),
            },
        });
        true
    }

    /// Something other than an event says that the state may have changed: an event too large to read
    /// or the answer to a cancel.
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

    /// Nothing that was read before counts: what waits is shown after the next GET alone.
    pub fn uncover(&mut self) {
        self.covered = 0;
        self.marked = 0;
        self.hint();
    }

    /// Whether a hint waits for a GET.
    pub fn refresh_wanted(&self) -> bool {
        self.hinted > self.covered
    }

    /// Whether a hint came since a GET was last started.
    pub fn fresh_hint(&self) -> bool {
        self.hinted > self.marked
    }

    /// The state that the latest event that names one names.
    pub fn named(&self) -> Option<&str> {
        self.named.as_deref()
    }

    /// Takes over from the status where the stream resumes, and the ids that it already shows, so that a
    /// replay after a restart is not counted twice.
    pub fn remember(&mut self, status: &RunStatus) {
        for id in status
            .events
            .iter()
            .filter_map(|e| e.id.as_ref())
            .chain(&status.last_event_id)
        {
            if self.place(id).is_none() {
                self.recent.push_back((id.clone(), 0));
            }
        }
        if self.cursor.is_none() {
            self.cursor.clone_from(&status.last_event_id);
        }
    }

    /// Where the stream resumes: the last received id (rule 2), else the mirrored one.
    pub fn cursor(&self) -> Option<&str> {
        self.cursor.as_deref()
    }

    /// Shows in `status` what may be shown. [`Feed::written`] says later that it was stored.
    pub fn fold(&self, status: &mut RunStatus) {
        self.fold_up_to(self.shown(), status);
    }

    /// Shows all that was received, for a Run that has ended.
    pub fn fold_all(&self, status: &mut RunStatus) {
        self.fold_up_to(self.received(), status);
    }

    fn fold_up_to(&self, shown: usize, status: &mut RunStatus) {
        let stored = self.stored_in(status);
        if shown <= stored {
            return;
        }
        for event in self
            .waiting
            .iter()
            .filter(|w| w.nth > stored && w.nth <= shown)
        {
            status.events.push(event.record.clone());
            if event.record.id.is_some() {
                status.last_event_id.clone_from(&event.record.id);
            }
        }
        let surplus = status.events.len().saturating_sub(MAX_EVENTS);
        status.events.drain(..surplus);
        let news = i64::try_from(shown - stored).unwrap_or(i64::MAX);
        let count = status.event_count.unwrap_or_default();
        status.event_count = Some(count.saturating_add(news));
    }

    /// How many events are stored, also if the answer to the write that stored them was lost.
    fn stored_in(&self, status: &RunStatus) -> usize {
        let last = status.last_event_id.as_deref();
        let place = last.and_then(|id| self.place(id)).unwrap_or_default();
        place.max(self.stored)
    }

    fn place(&self, id: &str) -> Option<usize> {
        let known = self.recent.iter().rfind(|(r, _)| r == id);
        known.map(|(_, nth)| *nth)
    }

    /// What [`Feed::fold`] put into the status is stored: forgets it. `shown` is what [`Feed::shown`]
    /// said when the status was decided; what arrived since stays, whatever fell out meanwhile.
    pub fn written(&mut self, shown: usize) {
        self.stored = self.stored.max(shown.min(self.events));
        let stored = self.stored;
        self.waiting.retain(|w| w.nth > stored);
    }

    /// Up to which event, counted from the first, [`Feed::fold`] shows now; 0 if nothing new.
    pub fn shown(&self) -> usize {
        let last = self.waiting.iter().take_while(|w| self.may_show(w)).last();
        last.map_or(0, |w| w.nth)
    }

    /// How many events were received.
    pub fn received(&self) -> usize {
        self.events
    }

    fn may_show(&self, event: &Waiting) -> bool {
        !self.refresh_wanted() || event.number <= self.covered || !holds(Rule::CursorWaits)
    }
}
