//! What was found when the objects beside a Run were looked at.

use jiff::Timestamp;

use crate::api::{WorkspaceSpec, WorkspaceStatus};

/// What is known of an object beside the Run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Look<T> {
    /// It is no part of the cause.
    NotNeeded,
    /// It is there.
    Found(T),
    /// It doesn't exist.
    Missing,
    /// The user may not read it.
    NotAllowed,
    /// It could not be read, for this reason.
    Failed(String),
}

/// A Workspace of either kind.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkspaceLook {
    /// What both kinds have.
    pub spec: WorkspaceSpec,
    /// Its stored status.
    pub status: Option<WorkspaceStatus>,
}

/// A Secret's metadata.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SecretLook {
    /// When it was last changed, as far as its metadata says.
    pub changed: Option<Timestamp>,
}

/// The Secret that a Workspace's state is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecretName {
    /// Its name.
    pub name: String,
    /// The key in it.
    pub key: String,
}
