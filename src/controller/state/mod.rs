//! Tables of this process's state. No I/O, and no [`Context`](super::context::Context).
//!
//! Imports flow control, the API server's plain types and the metrics' catalogue.

#[cfg(test)]
pub(crate) mod fixtures;
pub(crate) mod keys;
pub(crate) mod probes;
pub(crate) mod run_store;
pub(crate) mod runs;
pub(crate) mod secrets;
pub(crate) mod stream_task;
pub(crate) mod workspaces;
