//! Reconciles Runs. Imports the Workspaces' side, the state's tables and what is below them.

mod calls;
pub(crate) mod reconcile;
pub(crate) mod settled;
mod stream_reader;
mod streams;
mod writes;
