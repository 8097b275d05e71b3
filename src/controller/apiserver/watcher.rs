//! A list and then an endless watch. Errors are logged and retried with backoff; if the watch makes no progress the
//! list begins again.
//!
//! # Flow
//! The list arrives as the first events of a watch, so that neither side holds a page of it in memory. If such a
//! streamed list is refused or fails, read pages, and watch from their version. When a watch ends, watch again from the
//! last version seen. The API server answers 410 if it no longer has that version, in a watch or as its HTTP status:
//! then list again.

mod error;
mod lines;
mod retried;
mod source;
mod states;

use futures::{Stream, stream};
use kube::runtime::watcher::Event;

use super::object::{Maybe, Object};

pub use error::WatchError;
use retried::Retried;
pub use source::Source;
use states::Watcher;

/// Watches endlessly.
pub fn watch<K: Object>(source: Source<K>) -> impl Stream<Item = Event<Maybe<K>>> + Send {
    stream::unfold(Retried::new(source), |mut retried| async move {
        let event = retried.next().await;
        Some((event, retried))
    })
}

/// Watches until something fails; the error is the last item.
pub fn watch_once<K: Object>(
    source: Source<K>,
) -> impl Stream<Item = Result<Event<Maybe<K>>, WatchError>> + Send {
    stream::unfold(Some(Watcher::new(source)), |watcher| async move {
        let mut watcher = watcher?;
        match watcher.next().await {
            Ok(event) => Some((Ok(event), Some(watcher))),
            Err(error) => Some((Err(error), None)),
        }
    })
}

#[cfg(test)]
mod tests;
