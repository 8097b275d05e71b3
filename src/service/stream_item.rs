//! Items of a stream.

use super::sse::Event;

/// Item of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StreamItem {
    /// An event. A hint: the state of the run is known only after a `GET`.
    Event(Event),
    /// An event or a line was larger than the contract file allows and is lost: refresh by `GET`.
    Discarded,
}
