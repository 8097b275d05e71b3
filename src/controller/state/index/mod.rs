//! Indexes of the objects in the stores, updated with each watch event. They provide lookups and counts without a scan
//! of all objects.
//!
//! # Guarantees
//! - An index changes right after its store, never before.
//! - The cost of an operation depends only on the objects that it concerns.

mod counts;
mod keys;
mod record;
mod runs;
mod staged;
mod workspaces;

#[cfg(test)]
pub(crate) mod tests;

pub use counts::RunCounts;
pub use record::Record;
pub use runs::{Change, RunIndex, RunRef};
pub use workspaces::{WorkspaceCounts, WorkspaceIndex};
