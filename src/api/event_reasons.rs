//! The reasons of the Kubernetes Events that the operator publishes: a closed list, like that of the conditions.

use super::conditions::words;

macro_rules! event_reasons {
    ($($(#[$doc:meta])* $name:ident: $kind:ident, $action:ident,)+) => {
        words! {
            /// Reason of a Kubernetes Event. A condition with the same meaning has the same reason. docs/events.md has them all.
            pub enum EventReason {
                $($(#[$doc])* $name,)+
            }
        }

        impl EventReason {
            pub fn kind(self) -> EventKind {
                match self {
                    $(Self::$name => EventKind::$kind,)+
                }
            }

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
        Normal,
        /// A person may have to act.
        Warning,
    }
}

event_reasons! {
    Suspended: Normal, Submit,
    WorkspaceNotFound: Warning, Submit,
    Submitted: Normal, Submit,
    Retrying: Warning, Call,
    /// The Workspace is a different one now, so that the run can't be read or cancelled.
    NotSynced: Warning, Mirror,
    Stalled: Warning, Reconcile,
    Recovered: Normal, Reconcile,
    Cancelling: Normal, Cancel,
    CancelRefused: Warning, Cancel,
    Succeeded: Normal, Mirror,
    Failed: Warning, Mirror,
    Cancelled: Normal, Cancel,
    CancelledElsewhere: Warning, Mirror,
    DeadlineExceeded: Warning, Cancel,
    RunNotFound: Warning, Mirror,
    UnmappedState: Warning, Mirror,
    /// The address of the run's page is at no origin of `--console-origin`.
    ConsoleURLRefused: Warning, Mirror,
    /// The API server refuses what the operator writes.
    WriteRefused: Warning, Write,
    /// The finalizer is removed and the run continues.
    Orphaned: Warning, Delete,
    /// The finalizer is removed although the run was only seen cancelling.
    CancelUnconfirmed: Warning, Delete,
    /// The object has ended and outlives its TTL: a tool would re-create it.
    TtlIgnored: Normal, Keep,
    ServiceEvent: Normal, Mirror,
    Ready: Normal, Check,
    NotReady: Warning, Check,
    CredentialsRejected: Warning, Check,
    VersionNotAccepted: Warning, Check,
    WorkspaceInUse: Normal, Delete,
    /// A tick's Run was created.
    RunCreated: Normal, Create,
    /// A tick was left out by `concurrencyPolicy`, by a suspension or by a change of the schedule.
    TickSkipped: Normal, Create,
    /// A tick's Run could not be created in time.
    TickMissed: Warning, Create,
    /// `concurrencyPolicy: Replace` cancels a Run.
    RunReplaced: Normal, Cancel,
}
