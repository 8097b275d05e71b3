//! The reasons of the Kubernetes Events that the operator publishes: a closed list, like that of the conditions.

use super::conditions::words;

macro_rules! event_reasons {
    ($($(#[$doc:meta])+ $name:ident: $kind:ident, $action:ident,)+) => {
        words! {
            /// Reason of a Kubernetes Event. A condition with the same meaning has the same reason.
            pub enum EventReason {
                $($(#[$doc])+ $name,)+
            }
        }

        impl EventReason {
            /// The Event's type.
            pub fn kind(self) -> EventKind {
                match self {
                    $(Self::$name => EventKind::$kind,)+
                }
            }

            /// The Event's action.
            pub fn action(self) -> &'static str {
                match self {
                    $(Self::$name => stringify!($action),)+
                }
            }
        }
    };
}

words! {
    /// The two types that an Event can have.
    pub enum EventKind {
        /// Expected.
        Normal,
        /// A person may have to act.
        Warning,
    }
}

event_reasons! {
    /// `spec.suspend` delays the submission.
    Suspended: Normal, Submit,
    /// The Workspace that the Run refers to doesn't exist.
    WorkspaceNotFound: Warning, Submit,
    /// The service returned a runId.
    Submitted: Normal, Submit,
    /// A call failed and is retried.
    Retrying: Warning, Call,
    /// The Workspace is a different one now, so that the run can't be read or cancelled.
    NotSynced: Warning, Mirror,
    /// Nothing more happens until a person acts.
    Stalled: Warning, Reconcile,
    /// The Run is no longer stalled.
    Recovered: Normal, Reconcile,
    /// A cancellation is in progress.
    Cancelling: Normal, Cancel,
    /// The service refused the cancellation.
    CancelRefused: Warning, Cancel,
    /// The run succeeded.
    Succeeded: Normal, Mirror,
    /// The run failed.
    Failed: Warning, Mirror,
    /// The run was cancelled as requested.
    Cancelled: Normal, Cancel,
    /// The run was cancelled, and not by this object.
    CancelledElsewhere: Warning, Mirror,
    /// `activeDeadlineSeconds` passed and the run was cancelled.
    DeadlineExceeded: Warning, Cancel,
    /// The service no longer knows the run.
    RunNotFound: Warning, Mirror,
    /// The service names a state that the contract file doesn't map.
    UnmappedState: Warning, Mirror,
    /// The finalizer is removed and the run continues.
    Orphaned: Warning, Delete,
    /// The finalizer is removed although the run was only seen cancelling.
    CancelUnconfirmed: Warning, Delete,
    /// The object has ended and outlives its TTL: a tool would re-create it.
    TtlIgnored: Normal, Keep,
    /// One of the service's own events.
    ServiceEvent: Normal, Mirror,
    /// The Workspace answered for its token.
    Ready: Normal, Check,
    /// The Workspace can't be used.
    NotReady: Warning, Check,
    /// The service rejected the Workspace's token.
    CredentialsRejected: Warning, Check,
    /// The service's version is not one that the contract file accepts.
    VersionNotAccepted: Warning, Check,
    /// The Workspace is being deleted and waits for its Runs.
    WorkspaceInUse: Normal, Delete,
}
