//! Notes for people, and their text as Kubernetes Events.

use crate::api::EventReason;
use crate::decide::{gitops::Tracker, truncate::escaped};

/// Bytes of an Event's text that the API server takes.
const MAX_NOTE: usize = 1024;
/// Bytes of one identifier in a text.
const MAX_ID: usize = 256;
/// Bytes of a service event's data in a text.
const MAX_HEARD: usize = 512;

/// For Events that occur once for an object.
const ONCE_IN_A_LIFE: &str = "";

/// Notes for people, as Kubernetes Events and log lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Note {
    /// The service named a state that the contract file doesn't map.
    UnmappedState {
        /// Verbatim.
        state: String,
    },
    /// The object is released and its run stays.
    Orphaned {
        /// The idempotency key, if one was used.
        key: Option<String>,
        /// The run, if one is known.
        run_id: Option<String>,
    },
    /// The finalizer is removed although the run was only seen to be cancelling.
    CancelUnconfirmed {
        /// The run.
        run_id: String,
    },
    /// The object has ended and outlives its TTL.
    TtlIgnored {
        /// The tool that would re-create it.
        by: Tracker,
    },
    /// The status changed in a way that deserves an Event.
    Turned(Draft),
    /// The service's latest event.
    Heard(Heard),
}

/// Content of an Event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Draft {
    /// Reason of the Event.
    pub reason: EventReason,
    /// One or two sentences, of at most 1 KiB.
    pub message: String,
    /// Identity of the Event: the same object, reason and `once` is the same Event, published once.
    pub once: String,
    /// The stored status shows it already: the process that wrote that has most likely published it.
    pub again: bool,
}

/// One of the service's events; it represents those that came with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Heard {
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

impl Draft {
    /// An Event whose text is cut to the API server's limit.
    pub fn new(reason: EventReason, message: impl AsRef<str>, once: impl Into<String>) -> Self {
        Self {
            reason,
            message: escaped(message.as_ref(), MAX_NOTE),
            once: once.into(),
            again: false,
        }
    }
}

impl Note {
    /// Text of the note as an Event.
    pub fn news(&self) -> Draft {
        match self {
            Self::UnmappedState { state } => Draft::new(
                EventReason::UnmappedState,
                format!(
                    "The service names the state {state:?}, which the contract file doesn't map; it counts as active. Add it to the contract file if it is an end."
                ),
                state,
            ),
            Self::Orphaned { key, run_id } => Draft::new(
                EventReason::Orphaned,
                format!(
                    "spec.deletionPolicy is Orphan: the finalizer is removed and the run, if there is one, continues (run {}, idempotency key {}).",
                    escaped(run_id.as_deref().unwrap_or("unknown"), MAX_ID),
                    escaped(key.as_deref().unwrap_or("none"), MAX_ID)
                ),
                ONCE_IN_A_LIFE,
            ),
            // One Event, whichever tool tracks the object at that time.
            Self::TtlIgnored { by } => {
                Draft::new(EventReason::TtlIgnored, by.sentence(), ONCE_IN_A_LIFE)
            }
            Self::CancelUnconfirmed { run_id } => Draft::new(
                EventReason::CancelUnconfirmed,
                format!(
                    "The service accepted the cancellation of the run {} and shows it as cancelling, but not as ended; the finalizer is removed.",
                    escaped(run_id, MAX_ID)
                ),
                ONCE_IN_A_LIFE,
            ),
            Self::Turned(news) => news.clone(),
            Self::Heard(heard) => heard.news(),
        }
    }
}

impl Heard {
    fn news(&self) -> Draft {
        let id = self.id.as_deref().map_or_else(
            || format!("number {}", self.nth),
            |id| escaped(id, MAX_ID / 2),
        );
        let kind = escaped(&self.kind, MAX_ID / 2);
        let data = self.data.as_deref().unwrap_or("no data");
        let more = match self.more {
            ..=0 => String::new(),
            1 => " (one came before it)".to_owned(),
            more => format!(" ({more} came before it)"),
        };
        let message = format!(
            "The service's event {id} ({kind}): {}{more}",
            escaped(data, MAX_HEARD)
        );
        // Without an id the position is used: a replay counts no event twice.
        let once = self.id.clone().unwrap_or_else(|| self.nth.to_string());
        Draft::new(EventReason::ServiceEvent, message, once)
    }
}
