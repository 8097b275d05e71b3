//! Reconciles Workspaces: reads the Secret, checks version and identity, updates the session that the Runs use, and
//! releases a Workspace that no Run needs.
//!
//! Imports the state's tables and everything below them; nothing of [`run`](super::run).

mod check;
pub(crate) mod finalizer;
pub(crate) mod kind;
pub(crate) mod reconcile;
pub(crate) mod secrets;
