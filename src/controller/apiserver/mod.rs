//! Objects as the API server gives them: read item by item, so that one that can't be decoded is one bad item and never
//! a failed list, watch or write. Knows no Run.
//!
//! kube's own typed lists and watches decode a page or a line as a whole, through a tree that bounds the depth, and log
//! the text of what they can't decode. Here an item stays text until it is looked at by itself.

mod list;
mod object;
mod request;
mod watcher;

pub use list::list;
#[cfg(test)]
pub use object::decode;
pub use object::{Guarded, Object};
pub use request::{delete, read_status, send};
pub use watcher::{Source, WatchError, watch, watch_once};
