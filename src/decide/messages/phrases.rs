//! Phrases shared by several messages.

/// Bytes of a quote from the service in a message.
pub(crate) const MAX_QUOTE: usize = 256;

/// Instruction for a retry.
pub(crate) const RETRY: &str = "set the annotation run-operator.dev/retry to a new value";
/// Instruction to delete the object without its run.
pub(crate) const ORPHAN: &str = "set spec.deletionPolicy: Orphan to let the object be deleted";
