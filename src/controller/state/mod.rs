//! Tables of this process's state. No I/O, and no [`Context`](super::context::Context).
//!
//! Imports the API server's plain types and the metrics' labels.

pub(crate) mod call_limiter;
#[cfg(test)]
pub(crate) mod fixtures;
pub(crate) mod keys;
pub(crate) mod places;
pub(crate) mod run_store;
pub(crate) mod runs;
pub(crate) mod secrets;
pub(crate) mod workspaces;
