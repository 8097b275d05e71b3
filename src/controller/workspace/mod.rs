//! Reconciles Workspaces. Imports the state's tables and what is below them; nothing of [`run`](super::run).

mod check;
pub(crate) mod kind;
pub(crate) mod reconcile;
pub(crate) mod secrets;
