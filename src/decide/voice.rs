//! What was said of an object already, and how much more may be said: Kubernetes Events cost a write each.

use std::collections::VecDeque;
use std::time::Duration;

use jiff::Timestamp;

use crate::api::EventReason;

use super::{
    allowance::{Allowance, Bounds},
    backoff,
    memory::later,
    notes::{News, Note},
};

/// After the first ones there is one in this time, of each of the two sorts.
const REFILL: Duration = Duration::from_mins(5);
/// Events of one object; as many at once as kubelet allows itself.
const TURNS: Bounds = Bounds {
    burst: 25,
    refill: REFILL,
};
/// Events of the service among them, counted apart.
const HEARD: Bounds = Bounds {
    burst: 5,
    refill: REFILL,
};
/// Two Events about the service's own events are at least this far apart.
const HEARD_APART: Duration = Duration::from_secs(10);
/// What was said last; more than [`TURNS`], so that what may be said again is never forgotten before.
const REMEMBERED: usize = 64;

/// What one process said of one object. Lost with the process: the Events' names, which the API server
/// knows, keep the next one from saying it again.
#[derive(Clone, Debug, Default)]
pub struct Voice {
    said: VecDeque<u64>,
    turns: Allowance,
    heard: Allowance,
    heard_at: Option<Timestamp>,
    heard_count: Option<i64>,
}

/// What is to be published.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Speech {
    /// In this order.
    pub news: Vec<News>,
    /// Those that were too many.
    pub unsaid: u64,
}

impl Voice {
    /// Takes in what deserves an Event, and gives back what is to be published: nothing twice, no more
    /// than the allowance. Ends and what lets an object go are always said.
    pub fn tell(&mut self, notes: &[Note], now: Timestamp) -> Speech {
        let mut speech = Speech::default();
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

    /// Whether this very news was told.
    pub fn said(&self, news: &News) -> bool {
        self.said.contains(&mark(news))
    }

    /// Whether one of the service's events may be told of now.
    pub fn may_hear(&self, now: Timestamp) -> bool {
        self.heard_at.is_none_or(|at| later(at, HEARD_APART) <= now) && { self.heard }
            .take(HEARD, now)
    }

    /// Up to which place the service's events were told of, or else were there before.
    pub fn heard_count(&self) -> Option<i64> {
        self.heard_count
    }

    fn remember(&mut self, news: &News) {
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

fn mark(news: &News) -> u64 {
    backoff::seed(&format!("{}/{}", news.reason.as_str(), news.once), 0)
}

/// What an object comes to once at most.
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
