//! Tables of this process's state, without I/O.

pub(crate) mod call_limiter;
#[cfg(test)]
pub(crate) mod fixtures;
pub(crate) mod keys;
pub(crate) mod places;
pub(crate) mod run_store;
pub(crate) mod runs;
pub(crate) mod schedules;
pub(crate) mod secrets;
pub(crate) mod workspaces;
