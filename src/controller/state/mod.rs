//! Tables of this process's state. No I/O, and no [`Context`](super::context::Context).
//!
//! Imports the API server's plain types and the metrics' labels.

pub(crate) mod call_limiter;
pub(crate) mod fair_places;
#[cfg(test)]
pub(crate) mod fixtures;
pub(crate) mod keys;
pub(crate) mod run_store;
pub(crate) mod runs;
pub(crate) mod secrets;
pub(crate) mod stream_places;
pub(crate) mod stream_task;
pub(crate) mod workspaces;
