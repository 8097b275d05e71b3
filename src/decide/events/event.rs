//! The Kubernetes Events that a decision publishes, and their texts.

use std::borrow::Cow;

use crate::api::EventReason;
use crate::decide::truncate::escaped;

/// Bytes of an Event's text that the API server takes.
const MAX_NOTE: usize = 1024;
/// Bytes of one identifier in a text.
const MAX_ID: usize = 256;
/// Bytes of a service event's data in a text.
const MAX_DATA: usize = 512;

/// Identity of Events that occur once for an object.
const ONCE_IN_A_LIFE: &str = "";

/// An Event to publish.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventDraft {
    /// Reason of the Event.
    pub reason: EventReason,
    /// One or two sentences, of at most 1 KiB.
    pub message: String,
    /// Drafts with the same object, reason and identity are the same Event, published once.
    pub identity: String,
    /// The stored status shows it already: the process that wrote that has most likely published it.
    pub repeated: bool,
    /// Position of the service's event that it shows, if it shows one.
    pub nth: Option<i64>,
}

/// One of the service's events; it represents those that came with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceEvent {
    /// Its id, if it has one.
    pub id: Option<String>,
    /// Its type.
    pub kind: String,
    /// Its data, as kept in the status.
    pub data: Option<String>,
    /// Its position among the service's events.
    pub nth: i64,
    /// Number of events before it that no Event shows.
    pub more: i64,
}

impl EventDraft {
    /// An Event whose text is cut to the API server's limit.
    pub fn new(reason: EventReason, message: impl AsRef<str>, identity: impl Into<String>) -> Self {
        Self {
            reason,
            message: escaped(message.as_ref(), MAX_NOTE).into_owned(),
            identity: identity.into(),
            repeated: false,
            nth: None,
        }
    }

    /// The service named a state that the contract file doesn't map.
    pub fn unmapped_state(state: &str) -> Self {
        let message = format!(
            "The service names the state {state:?}, which the contract file doesn't map; it counts as active. Add it to the contract file if it is an end."
        );
        Self::new(EventReason::UnmappedState, message, state)
    }

    /// The object is released and its run, if there is one, continues.
    pub fn orphaned(key: Option<&str>, run_id: Option<&str>) -> Self {
        let message = format!(
            "spec.deletionPolicy is Orphan: the finalizer is removed and the run, if there is one, continues (run {}, idempotency key {}).",
            escaped(run_id.unwrap_or("unknown"), MAX_ID),
            escaped(key.unwrap_or("none"), MAX_ID)
        );
        Self::new(EventReason::Orphaned, message, ONCE_IN_A_LIFE)
    }

    /// The finalizer is removed although the run was only seen to be cancelling.
    pub fn cancel_unconfirmed(run_id: &str) -> Self {
        let message = format!(
            "The service accepted the cancellation of the run {} and shows it as cancelling, but not as ended; the finalizer is removed.",
            escaped(run_id, MAX_ID)
        );
        Self::new(EventReason::CancelUnconfirmed, message, ONCE_IN_A_LIFE)
    }

    /// The object has ended and outlives its TTL. One Event, whichever tool tracks the object at that time.
    pub fn ttl_ignored(by: &str) -> Self {
        let message = format!(
            "spec.ttlSecondsAfterFinished doesn't apply: {by} would create this object again, as a new Run. To delete it, remove it there."
        );
        Self::new(EventReason::TtlIgnored, message, ONCE_IN_A_LIFE)
    }

    /// The service's latest event.
    pub fn service_event(event: &ServiceEvent) -> Self {
        let id = event.id.as_deref().map_or_else(
            || Cow::Owned(format!("number {}", event.nth)),
            |id| escaped(id, MAX_ID / 2),
        );
        let kind = escaped(&event.kind, MAX_ID / 2);
        let data = event.data.as_deref().unwrap_or("no data");
        let more = match event.more {
            ..=0 => String::new(),
            1 => " (one came before it)".to_owned(),
            more => format!(" ({more} came before it)"),
        };
        let message = format!(
            "The service's event {id} ({kind}): {}{more}",
            escaped(data, MAX_DATA)
        );
        // Without an id the position is used: a replay counts no event twice.
        let identity = event.id.clone().unwrap_or_else(|| event.nth.to_string());
        Self {
            nth: Some(event.nth),
            ..Self::new(EventReason::ServiceEvent, message, identity)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Proves: P-events-bounded
    #[test]
    fn a_text_is_no_longer_than_the_api_server_takes() {
        let reason = EventReason::ServiceEvent;
        for text in ["x".repeat(5000), "\u{e9}\n".repeat(5000)] {
            let event = EventDraft::new(reason, &text, "");
            let bytes = event.message.len();
            assert!((MAX_NOTE - 10..=MAX_NOTE).contains(&bytes), "{bytes}");
        }
        assert_eq!(EventDraft::new(reason, "short", "").message, "short");
    }
}
