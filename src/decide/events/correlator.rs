//! Deduplication and rate limit of an object's Kubernetes Events: each costs a write.

use std::collections::VecDeque;
use std::time::Duration;

use jiff::Timestamp;

use crate::api::EventReason;
use crate::decide::{
    backoff,
    time::later,
    token_bucket::{Allowance, Bounds},
};

use super::event::{Draft, Note};

/// Time in which one more Event is allowed after the burst, for each of the two kinds.
const REFILL: Duration = Duration::from_mins(5);
/// Limit of the Events of one object; the burst is that of kubelet.
const TURNS: Bounds = Bounds {
    burst: 25,
    refill: REFILL,
};
/// Limit of those that show the service's events, counted separately.
const HEARD: Bounds = Bounds {
    burst: 5,
    refill: REFILL,
};
/// Minimum interval between two Events that show the service's events.
const HEARD_APART: Duration = Duration::from_secs(10);
/// Number of last Events remembered; more than [`TURNS`], so that none is forgotten before it may be published again.
const REMEMBERED: usize = 64;

/// Events published by one process for one object. Lost with the process: after a restart the API server rejects a
/// repeated Event by its name.
#[derive(Clone, Debug, Default)]
pub struct Correlator {
    said: VecDeque<u64>,
    turns: Allowance,
    heard: Allowance,
    heard_at: Option<Timestamp>,
    heard_count: Option<i64>,
}

/// Events to publish.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Batch {
    /// In this order.
    pub news: Vec<Draft>,
    /// Number of Events dropped by the limit.
    pub unsaid: u64,
}

impl Correlator {
    /// Records the notes and returns the Events to publish: none twice, and no more than the limit. Ends and the
    /// release of an object are always published.
    pub fn tell(&mut self, notes: &[Note], now: Timestamp) -> Batch {
        let mut speech = Batch::default();
        for note in notes {
            let news = note.news();
            if self.said(&news) {
                continue;
            }
            self.remember(&news);
            if self.may_say(note, news.reason, now) {
                speech.news.push(news);
            } else {
                speech.unsaid += 1;
            }
        }
        speech
    }

    /// Whether this same Event was published before.
    pub fn said(&self, news: &Draft) -> bool {
        self.said.contains(&mark(news))
    }

    /// Whether an Event for one of the service's events is allowed now.
    pub fn may_hear(&self, now: Timestamp) -> bool {
        self.heard_at.is_none_or(|at| later(at, HEARD_APART) <= now) && { self.heard }
            .take(HEARD, now)
    }

    /// Number of the service's events up to the latest one that an Event showed; `None` before the first.
    pub fn heard_count(&self) -> Option<i64> {
        self.heard_count
    }

    fn remember(&mut self, news: &Draft) {
        if self.said.len() >= REMEMBERED {
            self.said.pop_front();
        }
        self.said.push_back(mark(news));
    }

    fn may_say(&mut self, note: &Note, reason: EventReason, now: Timestamp) -> bool {
        if let Note::Heard(heard) = note {
            if !self.may_hear(now) {
                return false;
            }
            self.heard_at = Some(now);
            self.heard_count = Some(heard.nth);
            return self.heard.take(HEARD, now);
        }
        once_in_a_life(reason) || self.turns.take(TURNS, now)
    }
}

fn mark(news: &Draft) -> u64 {
    backoff::seed(&format!("{}/{}", news.reason.as_str(), news.once), 0)
}

/// Reasons that occur at most once for an object.
fn once_in_a_life(reason: EventReason) -> bool {
    matches!(
        reason,
        EventReason::Submitted
            | EventReason::Succeeded
            | EventReason::Failed
            | EventReason::Cancelled
            | EventReason::CancelledElsewhere
            | EventReason::DeadlineExceeded
            | EventReason::RunNotFound
            | EventReason::TtlIgnored
            | EventReason::Orphaned
            | EventReason::CancelUnconfirmed
    )
}
