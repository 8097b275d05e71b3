//! The interface that both kinds of Workspace share.

use kube::Resource;

use super::{
    cluster_workspace::ClusterWorkspace,
    workspace::{Workspace, WorkspaceSpec, WorkspaceStatus},
    workspace_ref::WorkspaceKind,
};

/// The interface that both kinds of Workspace share.
pub trait AnyWorkspace: Resource<DynamicType = ()> {
    /// The kind, as a Run refers to it.
    const KIND: WorkspaceKind;

    /// The fields that both kinds have.
    fn common(&self) -> &WorkspaceSpec;

    /// The stored result of the last check.
    fn stored(&self) -> Option<&WorkspaceStatus>;
}

impl AnyWorkspace for Workspace {
    const KIND: WorkspaceKind = WorkspaceKind::Workspace;

    fn common(&self) -> &WorkspaceSpec {
        &self.spec
    }

    fn stored(&self) -> Option<&WorkspaceStatus> {
        self.status.as_ref()
    }
}

impl AnyWorkspace for ClusterWorkspace {
    const KIND: WorkspaceKind = WorkspaceKind::ClusterWorkspace;

    fn common(&self) -> &WorkspaceSpec {
        &self.spec.workspace
    }

    fn stored(&self) -> Option<&WorkspaceStatus> {
        self.status.as_ref()
    }
}
