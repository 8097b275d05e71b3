//! Errors of lists and watches.

use std::io;

use kube::core::Status;

/// Error of a list or a watch.
#[derive(Debug, thiserror::Error)]
pub enum WatchError {
    /// A page could not be read.
    #[error("failed to list")]
    List(#[source] kube::Error),
    /// A streamed list ended before all of it was there.
    #[error("the list ended before it was complete")]
    Incomplete,
    /// Something was deleted while it was streamed.
    #[error("the list changed before it was complete")]
    Changed,
    /// The watch was refused.
    #[error("failed to begin the watch")]
    Begin(#[source] kube::Error),
    /// The API server ended the watch with an error.
    #[error("the watch was ended")]
    Ended(#[source] Box<Status>),
    /// The connection broke.
    #[error("failed to read the watch")]
    Read(#[source] io::Error),
    /// A line was no watch event.
    #[error("failed to read a line of the watch")]
    Line(#[source] serde_json::Error),
}

impl WatchError {
    /// HTTP status of the API server's answer, if there was one.
    pub fn code(&self) -> Option<u16> {
        match self {
            Self::List(kube::Error::Api(status))
            | Self::Begin(kube::Error::Api(status))
            | Self::Ended(status) => Some(status.code),
            _ => None,
        }
    }

    /// Whether the requested version is no longer available.
    pub(super) fn is_gone(&self) -> bool {
        self.code() == Some(410)
    }

    /// Whether the resource doesn't exist: a list or a watch is then answered with a bare 404.
    pub(super) fn is_unknown_kind(&self) -> bool {
        self.code() == Some(404) && !matches!(self, Self::Ended(_))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(status: Status) -> WatchError {
        WatchError::List(kube::Error::Api(Box::new(status)))
    }

    #[test]
    fn a_404_to_a_list_or_watch_means_an_unknown_kind() {
        // The actual answer: a bare 404, which has no Status of its own.
        let bare = Status::failure("404 page not found", "").with_code(404);
        assert!(listed(bare.clone()).is_unknown_kind());
        assert!(WatchError::Begin(kube::Error::Api(Box::new(bare))).is_unknown_kind());
        let forbidden = Status::failure("forbidden", "Forbidden").with_code(403);
        assert!(!listed(forbidden).is_unknown_kind());
    }
}
