//! Policy of one Workspace: the result of a check, the time of the next one, and the Runs that it must outlive.
//!
//! Imports the observation of a Run, conditions, messages and responses; nothing of [`run`](super::run).

pub mod cached_token;
pub mod check;
pub mod in_use;
pub mod probe;
pub mod recheck;
pub mod verdict;
