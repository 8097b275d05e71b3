//! Phrases shared by several messages.

/// Instruction for a retry.
pub(crate) const RETRY: &str = "set the annotation run-operator.dev/retry to a new value";
/// Instruction to delete the object without its run.
pub(crate) const ORPHAN: &str = "set spec.deletionPolicy: Orphan to let the object be deleted";
