//! The service's events on their way into the status (rule 2). Events are hints, the GET is the truth: an event that
//! may change the state is shown only after a GET that started later. So the cursor is never ahead of the mirror.

use std::collections::VecDeque;

use jiff::Timestamp;

use crate::api::{
    conditions::whole_seconds,
    limits::{MAX_EVENT_DATA, MAX_EVENT_ID, MAX_EVENT_TYPE, MAX_EVENTS, MAX_STATE},
    status::{EventRecord, RunStatus},
};

use super::truncate::{cut, fits};

/// Ids remembered to distinguish a replayed event from a new one.
const REMEMBERED: usize = 64;

#[derive(Clone, Debug, Default)]
pub struct EventBuffer {
    /// The last few; those dropped at the front still count.
    waiting: VecDeque<Waiting>,
    pub(super) events: usize,
    stored: usize,
    /// Number of events and other hints received.
    received: u64,
    /// Hints 1..=covered were followed by a GET that began after them.
    covered: u64,
    /// Hints 1..=marked came before the GET in flight.
    marked: u64,
    hinted: u64,
    pub(super) named: Option<String>,
    /// Recent ids with the position of their events; 0 for those of an earlier process.
    recent: VecDeque<(String, usize)>,
    cursor: Option<String>,
    /// The latest id that is stored, as far as this process knows.
    last_stored: Option<String>,
}

#[derive(Clone, Debug)]
struct Waiting {
    number: u64,
    /// Its position among the events, from 1.
    nth: usize,
    record: EventRecord,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Received {
    /// The id in this same event: an inherited one would make it look like a replay.
    pub id: Option<String>,
    pub kind: String,
    pub data: String,
}

impl EventBuffer {
    /// Records an event that names `state`; `mirrored` was read last. Returns whether it is new.
    pub fn receive(
        &mut self,
        event: &Received,
        state: Option<&str>,
        mirrored: Option<&str>,
        wall: Timestamp,
    ) -> bool {
        let usable = |id: &&str| !id.is_empty() && fits(id, MAX_EVENT_ID);
        let id = event.id.as_deref().filter(usable);
        if let Some(id) = id {
            // A replay: an event is shown and counted once.
            if self.position(id).is_some() {
                return false;
            }
            self.know(id, self.events + 1);
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
        // Most Runs have one event waiting at a time: no room for more.
        self.waiting.reserve_exact(1);
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

    /// Records a hint without a readable event: one too large, or the answer to a cancel.
    pub fn hint(&mut self) {
        self.received += 1;
        self.hinted = self.received;
    }

    /// A GET starts: it will cover the hints received until now.
    pub fn mark(&mut self) {
        self.marked = self.received;
    }

    pub fn covered(&mut self) {
        self.covered = self.marked;
    }

    /// Discards earlier reads: waiting events are shown only after the next GET.
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

    /// Takes cursor and ids from the status, so that a replay after a restart is not counted twice.
    pub fn remember(&mut self, status: &RunStatus) {
        let shown = status.events.iter().filter_map(|e| e.id.as_ref());
        for id in shown.chain(&status.last_event_id) {
            if self.position(id).is_none() {
                self.know(id, 0);
            }
        }
        self.last_stored.clone_from(&status.last_event_id);
        if self.cursor.is_none() {
            self.cursor.clone_from(&status.last_event_id);
        }
    }

    /// Takes in a status that another writer stored: the events that it shows are counted there. If its latest is not
    /// known here, this process's stream has still to deliver that: all that it delivered until now came before.
    pub fn overtaken(&mut self, status: &RunStatus) {
        let latest = status.last_event_id.as_deref();
        let ahead = latest.is_some_and(|id| {
            self.position(id).is_none() && self.last_stored.as_deref() != Some(id)
        });
        let shown = status.events.iter().filter_map(|event| event.id.as_deref());
        let known = shown.chain(latest).filter_map(|id| self.position(id)).max();
        let counted = if ahead {
            self.events
        } else {
            known.unwrap_or_default()
        };
        self.written(counted);
        self.remember(status);
    }

    fn know(&mut self, id: &str, nth: usize) {
        if self.recent.len() >= REMEMBERED {
            self.recent.pop_front();
        }
        self.recent.push_back((id.to_owned(), nth));
    }

    /// The id at which the stream resumes: the last received one (rule 2), else the mirrored one.
    pub fn cursor(&self) -> Option<&str> {
        self.cursor.as_deref()
    }

    /// Adds the events that may be shown to `status`. [`EventBuffer::written`] is called once it is stored.
    pub fn fold(&self, status: &mut RunStatus) {
        self.fold_up_to(self.shown(), status);
    }

    /// Adds all received events, for a Run that has ended.
    pub fn fold_all(&self, status: &mut RunStatus) {
        self.fold_up_to(self.events, status);
    }

    fn fold_up_to(&self, shown: usize, status: &mut RunStatus) {
        let stored = self.stored_in(status);
        if shown <= stored {
            return;
        }
        let new = |w: &&Waiting| w.nth > stored && w.nth <= shown;
        for event in self.waiting.iter().filter(new) {
            status.events.push(event.record.clone());
            if event.record.id.is_some() {
                status.last_event_id.clone_from(&event.record.id);
            }
        }
        let surplus = status.events.len().saturating_sub(MAX_EVENTS);
        status.events.drain(..surplus);
        let added = i64::try_from(shown - stored).unwrap_or(i64::MAX);
        let count = status.event_count.unwrap_or_default();
        status.event_count = Some(count.saturating_add(added));
    }

    /// Number of events stored, also if the answer to the write that stored them was lost.
    fn stored_in(&self, status: &RunStatus) -> usize {
        let last = status.last_event_id.as_deref();
        let position = last.and_then(|id| self.position(id)).unwrap_or_default();
        position.max(self.stored)
    }

    fn position(&self, id: &str) -> Option<usize> {
        let (_, nth) = self.recent.iter().rfind(|(known, _)| known == id)?;
        Some(*nth)
    }

    /// Forgets the first `shown` events: a status with them is stored. Later ones stay, whatever was dropped meanwhile.
    pub fn written(&mut self, shown: usize) {
        self.stored = self.stored.max(shown.min(self.events));
        let stored = self.stored;
        self.waiting.retain(|w| w.nth > stored);
        if self.waiting.is_empty() {
            // Hours may pass until the next one.
            self.waiting = VecDeque::new();
        }
        let mut recent = self.recent.iter();
        if let Some((id, _)) = recent.rfind(|(_, nth)| (1..=stored).contains(nth)) {
            self.last_stored = Some(id.clone());
        }
    }

    /// Number of the last event that [`EventBuffer::fold`] shows now, from 1; 0 if there is nothing new.
    pub fn shown(&self) -> usize {
        let wanted = self.refresh_wanted();
        // One that may change the state waits for a GET.
        let may_show = |w: &&Waiting| !wanted || w.number <= self.covered;
        let last = self.waiting.iter().take_while(may_show).last();
        last.map_or(0, |w| w.nth)
    }
}
