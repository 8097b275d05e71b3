//! News for people, and how it reads as a Kubernetes Event.

use crate::api::EventReason;

use super::{text::escaped, tracked::Tracker};

/// Bytes of an Event's text that the API server takes.
const MAX_NOTE: usize = 1024;
/// Bytes of one identifier in a text.
const MAX_ID: usize = 256;
/// Bytes of a service event's data in a text.
const MAX_HEARD: usize = 512;

/// An object goes once.
const ONCE_IN_A_LIFE: &str = "";

/// News for people, as Kubernetes Events and log lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Note {
    /// The service named a state that the contract file doesn't map.
    UnmappedState {
        /// Verbatim.
        state: String,
    },
    /// The object goes and its run stays.
    Orphaned {
        /// The idempotency key, if one was used.
        key: Option<String>,
        /// The run, if one is known.
        run_id: Option<String>,
    },
    /// The finalizer goes although the run was only seen to be cancelling.
    CancelUnconfirmed {
        /// The run.
        run_id: String,
    },
    /// The object has ended and outlives its TTL.
    TtlIgnored {
        /// Who would create it again.
        by: Tracker,
    },
    /// The status took a turn.
    Turned(News),
    /// The service's latest event.
    Heard(Heard),
}

/// What an Event says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct News {
    /// Why it is published.
    pub reason: EventReason,
    /// One or two sentences, of at most 1 KiB.
    pub message: String,
    /// What makes it this Event: the same object, reason and `once` is the same Event, said once.
    pub once: String,
    /// The stored status has it already: whoever wrote that has published it, most likely.
    pub again: bool,
}

/// One of the service's events, for those that came with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Heard {
    /// Its id, where it has one.
    pub id: Option<String>,
    /// Its type.
    pub kind: String,
    /// What the status keeps of its data.
    pub data: Option<String>,
    /// Its place among the service's events.
    pub nth: i64,
    /// How many came before it that no Event tells of.
    pub more: i64,
}

impl News {
    /// News whose text is cut to what an Event holds.
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
    /// How it reads.
    pub fn news(&self) -> News {
        match self {
            Self::UnmappedState { state } => News::new(
                EventReason::UnmappedState,
                format!(
                    "The service names the state {state:?}, which the contract file doesn't map; it counts as active. Add it to the contract file if it is an end."
                ),
                state,
            ),
            Self::Orphaned { key, run_id } => News::new(
                EventReason::Orphaned,
                format!(
                    "spec.deletionPolicy is Orphan: the object goes and its run, if there is one, goes on (run {}, idempotency key {}).",
                    escaped(run_id.as_deref().unwrap_or("unknown"), MAX_ID),
                    escaped(key.as_deref().unwrap_or("none"), MAX_ID)
                ),
                ONCE_IN_A_LIFE,
            ),
            // Whoever tracks it then.
            Self::TtlIgnored { by } => {
                News::new(EventReason::TtlIgnored, by.sentence(), ONCE_IN_A_LIFE)
            }
            Self::CancelUnconfirmed { run_id } => News::new(
                EventReason::CancelUnconfirmed,
                format!(
                    "The service accepted the cancellation of the run {} and shows it as cancelling, but not as ended; the object goes.",
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
    fn news(&self) -> News {
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
        // Without an id the place is as good: a replay counts no event twice.
        let once = self.id.clone().unwrap_or_else(|| self.nth.to_string());
        News::new(EventReason::ServiceEvent, message, once)
    }
}
