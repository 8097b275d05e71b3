//! The fields of the contract file by name.

macro_rules! fields {
    ($($name:ident = $path:literal,)+) => {
        /// A field of the contract file, in the file's order.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Field {
            $(#[doc = concat!("`", $path, "`")] $name,)+
        }

        impl Field {
            /// Its path in the file.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$name => $path,)+
                }
            }
        }
    };
}

fields! {
    VersionPointers = "version.pointers",
    VersionAccepted = "version.accepted",
    RunIdPointers = "run.idPointers",
    RunStatePointers = "run.statePointers",
    EventStatePointers = "event.statePointers",
    WorkspaceIdentityPointers = "workspace.identityPointers",
    Pending = "states.pending",
    Active = "states.active",
    Cancelling = "states.cancelling",
    Succeeded = "states.succeeded",
    Failed = "states.failed",
    Cancelled = "states.cancelled",
    ApprovalConflict = "codes.approvalConflict",
    VersionConflict = "codes.versionConflict",
    IdempotencyConflict = "codes.idempotencyConflict",
    IdempotencyInProgress = "codes.idempotencyInProgress",
    RunNotFound = "codes.runNotFound",
    RefusedFor = "create.refusedFor",
    KeyRetentionSeconds = "keyRetentionSeconds",
    BodyBytes = "limits.bodyBytes",
    EventLineBytes = "limits.eventLineBytes",
    EventBytes = "limits.eventBytes",
    ConnectSeconds = "timeouts.connectSeconds",
    RequestSeconds = "timeouts.requestSeconds",
    StreamIdleSeconds = "timeouts.streamIdleSeconds",
    ProviderKeyPrefixes = "providerKeyPrefixes",
}
