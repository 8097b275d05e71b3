//! The script of a faulty event stream: its break, the bytes sent there, and the rest.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::problem::Problem;

const MAX_REPEAT: u32 = 1_000_000;
const MAX_GAP: u64 = 60_000;

/// The break comes after `afterEvents` events.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct StreamScript {
    pub(crate) after_events: u64,
    /// Break within the event that comes next, not between two.
    pub(crate) inside: Option<Inside>,
    /// Sent at the break, each as a piece of its own, in base64.
    pub(crate) raw: Vec<String>,
    /// Number of times that `raw` is sent.
    pub(crate) repeat: Option<u32>,
    /// Pause between two pieces of `raw`, in milliseconds.
    pub(crate) gap_ms: u64,
    pub(crate) then: Then,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Inside {
    /// In the middle of the event.
    Event,
    /// Within its first character of more than one byte; without one, in the middle.
    Character,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Then {
    /// The connection is closed, in the middle of the body.
    #[default]
    Cut,
    /// The body ends as it should.
    End,
    /// Nothing comes any more, not even a comment.
    Hang,
    /// The stream continues where it was.
    Continue,
}

impl StreamScript {
    pub(crate) fn check(&self) -> Result<(), Problem> {
        let refuse = |field: &str, reason: &str| Err(Problem::invalid_field(field, reason));
        if self.repeat.is_some_and(|repeat| repeat > MAX_REPEAT) {
            return refuse("action.repeat", "must be 1000000 at most");
        }
        if self.gap_ms > MAX_GAP {
            return refuse("action.gapMs", "must be 60000 at most");
        }
        self.pieces().map(|_| ())
    }

    pub(crate) fn pieces(&self) -> Result<Vec<Bytes>, Problem> {
        self.raw
            .iter()
            .map(|text| STANDARD.decode(text).map(Bytes::from))
            .collect::<Result<_, _>>()
            .map_err(|error| {
                Problem::invalid_field("action.raw", format!("is not base64: {error}"))
            })
    }
}

impl Inside {
    /// The number of an event's bytes that are still sent.
    pub(crate) fn part(self, block: &Bytes) -> usize {
        let wide = block.iter().position(|byte| *byte >= 0x80);
        match (self, wide) {
            (Self::Character, Some(first)) => first + 1,
            _ => block.len() / 2,
        }
    }
}
