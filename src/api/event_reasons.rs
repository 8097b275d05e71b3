//! The reasons of the Kubernetes Events that the operator publishes: a closed list, as that of the conditions.

macro_rules! event_reasons {
    ($($(#[$doc:meta])+ $name:ident: $kind:ident, $action:ident,)+) => {
        /// Why a Kubernetes Event was published. Where a condition says the same it has the same word.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum EventReason {
            $($(#[$doc])+ $name,)+
        }

        impl EventReason {
            /// Every reason.
            pub const ALL: &'static [Self] = &[$(Self::$name,)+];

            /// The CamelCase word in the Event.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$name => stringify!($name),)+
                }
            }

            /// The Event's type.
            pub fn kind(self) -> EventKind {
                match self {
                    $(Self::$name => EventKind::$kind,)+
                }
            }

            /// The Event's action: what the operator was about.
            pub fn action(self) -> &'static str {
                match self {
                    $(Self::$name => stringify!($action),)+
                }
            }
        }
    };
}

/// The two types that an Event can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EventKind {
    /// As it should be.
    Normal,
    /// Somebody may have to look.
    Warning,
}

impl EventKind {
    /// The word in the Event.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Normal => "Normal",
            Self::Warning => "Warning",
        }
    }
}

event_reasons! {
    /// `spec.suspend` holds the submission.
    Suspended: Normal, Submit,
    /// The Workspace that the Run refers to doesn't exist.
    WorkspaceNotFound: Warning, Submit,
    /// The service gave a runId.
    Submitted: Normal, Submit,
    /// The run was first seen running.
    Active: Normal, Mirror,
    /// A call failed in a way that is tried again.
    Retrying: Warning, Call,
    /// The Workspace is another one than that which the run is at: it can't be read or cancelled.
    NotSynced: Warning, Mirror,
    /// Nothing more happens until somebody acts.
    Stalled: Warning, Reconcile,
    /// What the Run was stalled by is over.
    Recovered: Normal, Reconcile,
    /// A cancellation is under way.
    Cancelling: Normal, Cancel,
    /// The service refused the cancellation.
    CancelRefused: Warning, Cancel,
    /// The run succeeded.
    Succeeded: Normal, Mirror,
    /// The run failed.
    Failed: Warning, Mirror,
    /// The run was cancelled as asked.
    Cancelled: Normal, Cancel,
    /// The run was cancelled, and not by this object.
    CancelledElsewhere: Warning, Mirror,
    /// `activeDeadlineSeconds` passed and the run was cancelled.
    DeadlineExceeded: Warning, Cancel,
    /// The service doesn't know the run any more.
    RunNotFound: Warning, Mirror,
    /// The service names a state that the contract file doesn't map.
    UnmappedState: Warning, Mirror,
    /// The object goes and its run stays.
    Orphaned: Warning, Delete,
    /// The object goes though its run was only seen to be cancelling.
    CancelUnconfirmed: Warning, Delete,
    /// The object has ended and outlives its TTL: it would be created again.
    TtlIgnored: Normal, Keep,
    /// One of the service's own events.
    ServiceEvent: Normal, Mirror,
    /// The Workspace answered for its token.
    Ready: Normal, Check,
    /// The Workspace can't be used as it is.
    NotReady: Warning, Check,
    /// The service rejected the Workspace's token.
    CredentialsRejected: Warning, Check,
    /// The service's version is not one that the contract file accepts.
    VersionNotAccepted: Warning, Check,
    /// The Workspace is being deleted and waits for its Runs.
    WorkspaceInUse: Normal, Delete,
}
