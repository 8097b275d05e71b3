//! Deduplication and rate limit of an object's Kubernetes Events: each costs a write.

use std::collections::VecDeque;
use std::time::Duration;

use jiff::Timestamp;

use crate::api::EventReason;
use crate::decide::{
    backoff,
    time::later,
    token_bucket::{Bounds, TokenBucket},
};

use super::event::EventDraft;

/// Time in which one more Event is allowed after the burst, for each of the two kinds.
const REFILL: Duration = Duration::from_mins(5);
/// Limit of the Events of one object; the burst is that of kubelet.
const EVENTS: Bounds = Bounds {
    burst: 25,
    refill: REFILL,
};
/// Limit of those that show the service's events, counted separately.
const SERVICE_EVENTS: Bounds = Bounds {
    burst: 5,
    refill: REFILL,
};
/// Minimum interval between two Events that show the service's events.
const SERVICE_EVENTS_APART: Duration = Duration::from_secs(10);
/// Number of last Events remembered; more than [`EVENTS`], so that none is forgotten before it may be published again.
const REMEMBERED: usize = 64;

/// Events published by one process for one object. Lost with the process: after a restart the API server rejects a
/// repeated Event by its name.
#[derive(Clone, Debug, Default)]
pub struct Correlator {
    published: VecDeque<u64>,
    events: TokenBucket,
    service_events: TokenBucket,
    service_event_at: Option<Timestamp>,
    service_events_shown: Option<i64>,
}

/// Events to publish.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Batch {
    /// In this order.
    pub events: Vec<EventDraft>,
    /// Number of Events dropped by the limit.
    pub dropped: u64,
}

impl Correlator {
    /// Records these Events and returns those to publish: none twice, and no more than the limit. Ends and the
    /// release of an object are always published.
    pub fn correlate(&mut self, events: &[EventDraft], now: Timestamp) -> Batch {
        let mut batch = Batch::default();
        for event in events {
            if self.published(event) {
                continue;
            }
            self.remember(event);
            if self.allows(event, now) {
                batch.events.push(event.clone());
            } else {
                batch.dropped += 1;
            }
        }
        batch
    }

    /// Whether this same Event was published before.
    pub fn published(&self, event: &EventDraft) -> bool {
        self.knows(event.reason, &event.identity)
    }

    /// Whether an Event of this reason and identity was published before.
    pub fn knows(&self, reason: EventReason, identity: &str) -> bool {
        !self.published.is_empty() && self.published.contains(&mark(reason, identity))
    }

    /// Whether an Event for one of the service's events is allowed now.
    pub fn allows_service_event(&self, now: Timestamp) -> bool {
        let apart = |at| later(at, SERVICE_EVENTS_APART) <= now;
        self.service_event_at.is_none_or(apart) && { self.service_events }.take(SERVICE_EVENTS, now)
    }

    /// Number of the service's events up to the latest one that an Event showed; `None` before the first.
    pub fn service_events_shown(&self) -> Option<i64> {
        self.service_events_shown
    }

    fn remember(&mut self, event: &EventDraft) {
        if self.published.len() >= REMEMBERED {
            self.published.pop_front();
        }
        self.published
            .push_back(mark(event.reason, &event.identity));
    }

    fn allows(&mut self, event: &EventDraft, now: Timestamp) -> bool {
        let Some(nth) = event.nth else {
            return once_in_a_life(event.reason) || self.events.take(EVENTS, now);
        };
        if !self.allows_service_event(now) {
            return false;
        }
        self.service_event_at = Some(now);
        self.service_events_shown = Some(nth);
        self.service_events.take(SERVICE_EVENTS, now)
    }
}

fn mark(reason: EventReason, identity: &str) -> u64 {
    backoff::seed(&format!("{}/{identity}", reason.as_str()), 0)
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
