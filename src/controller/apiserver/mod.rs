//! Objects of the API server, decoded item by item: one that can't be decoded never fails a list, watch or write.
//! kube's types decode a line as a whole, through a tree with limited depth, and log the text of an answer that they
//! can't decode. Here an item stays text until it is decoded separately ([`Maybe`]).

pub(crate) mod event_recorder;
#[cfg(test)]
mod fixtures;
mod layers;
mod object;
pub(crate) mod patch;
mod read;
pub(crate) mod reconciler;
mod watch;

#[cfg(test)]
pub use fixtures::{answer, loopback, silent};
pub use layers::{BoundedRetry, CountRequests, throttle_watches};
#[cfg(test)]
pub use object::decode;
pub use object::{BadObject, Maybe, Object, find, read_status};
pub use patch::ObjectVersion;
pub use read::{ListError, list, read_entry, read_metadata, read_named};
pub use watch::{Scope, http_status, watch};
