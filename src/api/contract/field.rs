//! The fields of the contract file by name.

/// A field of the contract file, in the file's order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Field {
    /// `version.pointers`
    VersionPointers,
    /// `version.accepted`
    VersionAccepted,
    /// `run.idPointers`
    RunIdPointers,
    /// `run.statePointers`
    RunStatePointers,
    /// `event.statePointers`
    EventStatePointers,
    /// `workspace.identityPointers`
    WorkspaceIdentityPointers,
    /// `states.pending`
    Pending,
    /// `states.active`
    Active,
    /// `states.cancelling`
    Cancelling,
    /// `states.succeeded`
    Succeeded,
    /// `states.failed`
    Failed,
    /// `states.cancelled`
    Cancelled,
    /// `codes.approvalConflict`
    ApprovalConflict,
    /// `codes.versionConflict`
    VersionConflict,
    /// `codes.idempotencyConflict`
    IdempotencyConflict,
    /// `codes.idempotencyInProgress`
    IdempotencyInProgress,
    /// `codes.runNotFound`
    RunNotFound,
    /// `create.refusedFor`
    RefusedFor,
    /// `keyRetentionSeconds`
    KeyRetentionSeconds,
    /// `limits.bodyBytes`
    BodyBytes,
    /// `limits.eventLineBytes`
    EventLineBytes,
    /// `limits.eventBytes`
    EventBytes,
    /// `timeouts.connectSeconds`
    ConnectSeconds,
    /// `timeouts.requestSeconds`
    RequestSeconds,
    /// `timeouts.streamIdleSeconds`
    StreamIdleSeconds,
    /// `providerKeyPrefixes`
    ProviderKeyPrefixes,
}

impl Field {
    /// Its path in the file.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::VersionPointers => "version.pointers",
            Self::VersionAccepted => "version.accepted",
            Self::RunIdPointers => "run.idPointers",
            Self::RunStatePointers => "run.statePointers",
            Self::EventStatePointers => "event.statePointers",
            Self::WorkspaceIdentityPointers => "workspace.identityPointers",
            Self::Pending => "states.pending",
            Self::Active => "states.active",
            Self::Cancelling => "states.cancelling",
            Self::Succeeded => "states.succeeded",
            Self::Failed => "states.failed",
            Self::Cancelled => "states.cancelled",
            Self::ApprovalConflict => "codes.approvalConflict",
            Self::VersionConflict => "codes.versionConflict",
            Self::IdempotencyConflict => "codes.idempotencyConflict",
            Self::IdempotencyInProgress => "codes.idempotencyInProgress",
            Self::RunNotFound => "codes.runNotFound",
            Self::RefusedFor => "create.refusedFor",
            Self::KeyRetentionSeconds => "keyRetentionSeconds",
            Self::BodyBytes => "limits.bodyBytes",
            Self::EventLineBytes => "limits.eventLineBytes",
            Self::EventBytes => "limits.eventBytes",
            Self::ConnectSeconds => "timeouts.connectSeconds",
            Self::RequestSeconds => "timeouts.requestSeconds",
            Self::StreamIdleSeconds => "timeouts.streamIdleSeconds",
            Self::ProviderKeyPrefixes => "providerKeyPrefixes",
        }
    }
}
