//! Reconciles Runs: observe, decide, write the status or carry out one effect, record its outcome, repeat.
//!
//! Imports the Workspaces' side, the state's tables and everything below them. Nothing below imports it.

mod calls;
pub(crate) mod reconcile;
pub(crate) mod settled;
mod stream_reader;
mod streams;
mod writes;
