//! Cause of a run's cancellation.

/// Cause of a run's cancellation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CancelCause {
    /// The object is being deleted.
    Deletion,
    /// `spec.cancel`.
    Request,
    /// `spec.activeDeadlineSeconds` has passed.
    Deadline,
}
