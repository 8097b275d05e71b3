//! The script of a faulty event stream: its break, the bytes sent there, and the rest.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::problem::Problem;

/// The break comes after `afterEvents` events.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct StreamScript {
    pub(crate) after_events: u64,
    /// Break in the middle of the event that comes next, not between two.
    pub(crate) inside: bool,
    /// Sent at the break, each as a piece of its own, in base64.
    pub(crate) raw: Vec<String>,
    /// Number of times that `raw` is sent.
    pub(crate) repeat: Option<u32>,
    /// Pause between two pieces of `raw`, in milliseconds.
    pub(crate) gap_ms: u64,
    pub(crate) then: Then,
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
