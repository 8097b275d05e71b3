//! Objects of the API server, decoded item by item: one that can't be decoded never fails a list, watch or write.
//! Uses leadership and metrics of the controller, and none of its other state.
//!
//! kube's types decode a line as a whole, through a tree with limited depth, and log the text of an answer that they
//! can't decode. Here an item stays text until it is decoded separately ([`Maybe`]).

pub(crate) mod event_recorder;
mod layers;
mod list;
#[cfg(test)]
mod loopback;
mod object;
pub(crate) mod patch;
pub(crate) mod reconciled;
pub(crate) mod reconciler;
pub(crate) mod scope;
mod secret;
mod watch;

pub use layers::{BoundedRetry, CountRequests, ThrottleWatches};
pub use list::{ListError, list};
#[cfg(test)]
pub use loopback::{answer, loopback, silent};
#[cfg(test)]
pub use object::decode;
pub use object::{BadObject, Maybe, Object, find, read_status};
pub use patch::ObjectVersion;
pub use secret::{read_entry, read_metadata};
pub use watch::{http_status, watch};
