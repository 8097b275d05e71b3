//! Reconciles Runs: observe, decide, write the status, carry out one effect, record its outcome, repeat.
//!
//! Imports the Workspaces' side, the state's tables and everything below them. Nothing below imports it.

mod calls;
mod effects;
pub(crate) mod garbage_collector;
mod live_read;
mod pass;
pub(crate) mod permits;
mod policy;
pub(crate) mod reconcile;
pub(crate) mod settled;
pub(crate) mod shutdown;
mod steps;
mod stream_reader;
mod streams;
