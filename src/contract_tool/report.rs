//! Result of a command.

/// Result of a command: its output, and whether no difference or failure was found.
pub(super) struct Report {
    pub(super) text: String,
    pub(super) good: bool,
}
