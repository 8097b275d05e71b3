//! What both kinds of Workspace have in common.

use kube::Resource;

use super::{
    cluster_workspace::ClusterWorkspace,
    workspace::{Workspace, WorkspaceSpec, WorkspaceStatus},
    workspace_ref::WorkspaceKind,
};

/// What both kinds of Workspace have in common.
pub trait AnyWorkspace: Resource<DynamicType = ()> {
    /// The kind, as a Run refers to it.
    const KIND: WorkspaceKind;

    /// The fields that both kinds have.
    fn common(&self) -> &WorkspaceSpec;

    /// What is stored of the last check.
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
