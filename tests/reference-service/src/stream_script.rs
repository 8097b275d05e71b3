//! The script of a faulty event stream: its break, the bytes sent there, and the rest.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::problem::Problem;

const MAX_REPEAT: u32 = 1_000_000;
const MAX_GAP: u64 = 60_000;

/// The break comes after `afterEvents` events or `afterBytes` bytes; with neither, at once.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct StreamScript {
    pub(crate) after_events: Option<u64>,
    pub(crate) after_bytes: Option<usize>,
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
        if self.after_events.is_some() && self.after_bytes.is_some() {
            return refuse("action.afterBytes", "can't be given along with afterEvents");
        }
        if self.after_bytes.is_some() && self.inside.is_some() {
            return refuse("action.inside", "goes with afterEvents");
        }
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
    /// The part of an event's bytes that is still sent.
    pub(crate) fn part(self, block: &Bytes) -> Bytes {
        let wide = block.iter().position(|byte| *byte >= 0x80);
        let end = match (self, wide) {
            (Self::Character, Some(first)) => first + 1,
            _ => block.len() / 2,
        };
        block.slice(..end)
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::Inside;

    #[test]
    fn a_break_within_a_character_leaves_half_of_it() {
        let block = Bytes::from("data: é!\n\n");
        assert_eq!(
            Inside::Character.part(&block),
            Bytes::from_static(b"data: \xC3")
        );
        assert_eq!(Inside::Event.part(&Bytes::from("abcd")), Bytes::from("ab"));
    }
}
