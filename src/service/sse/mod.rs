//! Server-sent events, decoded without I/O: bytes in, items out.
//!
//! # Why not a crate
//! `sse-stream` 0.3.0 was compared, by its source, with the requirements of the operator for a stream that may be
//! broken or hostile:
//!
//! | row | sse-stream | this decoder |
//! |---|---|---|
//! | BOM at the start | yes | yes |
//! | CR, LF, CRLF, also split across chunks | yes | yes |
//! | UTF-8 split across chunks | yes | yes |
//! | invalid UTF-8 becomes U+FFFD | **no**: `Error::Utf8Parse`, and the stream ends | yes |
//! | multi-line data | yes | yes |
//! | comments | yes | yes |
//! | id-only blocks advance the id | yes: it returns raw blocks | yes |
//! | an id with NUL is ignored | yes | yes |
//! | an empty id resets | yes: `Some("")` | yes |
//! | `retry:` digits only, clamped 1 s to 5 min | digits; no clamp, and an overflow is lost | yes |
//! | the stream's end drops a partial event | yes | yes |
//! | a cap on a line and on an event | **no**: buffers grow without bound | yes |
//! | after a cap: discard, continue, report | **no** | yes |
//! | idle timeout | no, it is the caller's | in `EventStream` |
//!
//! The two rows about caps can't be added around it: the line is buffered inside.

mod decoder;
#[cfg(test)]
mod tests;

pub use decoder::Decoder;

use std::time::Duration;

/// One event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// The id in this same block. Not inherited from earlier ones, so that it can be used to drop duplicates;
    /// [`Decoder::last_event_id`] resumes a stream (rule 2).
    pub id: Option<String>,
    /// The kind, `message` if the block names none.
    pub kind: String,
    /// The data, its lines joined by LF.
    pub data: String,
}

/// Item of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StreamItem {
    /// A complete event. A hint: the state of the run is known only after a `GET`.
    Event(Event),
    /// An event or a line was larger than its cap and is lost: refresh by `GET`. Reported as soon as that is certain,
    /// once for each.
    Discarded,
}

/// Sizes above which an event is discarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caps {
    /// Bytes of one line, its end not counted.
    pub line: usize,
    /// Bytes of one event: all its lines but comments, each with one byte for its end.
    pub event: usize,
}

/// The shortest delay that `retry:` can ask for.
pub const RETRY_MIN: Duration = Duration::from_secs(1);
/// The longest delay that `retry:` can ask for.
pub const RETRY_MAX: Duration = Duration::from_mins(5);
/// Bytes of an id that can be kept and sent back as `Last-Event-ID`; a longer one is ignored, like one with a control
/// character.
pub const ID_BYTES: usize = 256;
