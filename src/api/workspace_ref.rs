//! The Workspace that a Run refers to, and its name in the process.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{limits, schema};

/// Names the Workspace of a Run.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-map-type" = "atomic"))]
pub struct WorkspaceRef {
    /// `Workspace`, the default: one in the Run's own namespace. `ClusterWorkspace`: one that namespaces share.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "WorkspaceKind")]
    pub kind: Option<WorkspaceKind>,
    /// Name of the Workspace.
    #[schemars(length(min = 1, max = limits::MAX_NAME), regex(pattern = schema::DNS_SUBDOMAIN))]
    pub name: String,
}

/// The kinds that a Run can refer to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Deserialize, Serialize, JsonSchema)]
pub enum WorkspaceKind {
    /// A Workspace in the Run's namespace.
    #[default]
    Workspace,
    /// A `ClusterWorkspace`, shared by namespaces.
    ClusterWorkspace,
}

impl WorkspaceRef {
    /// The kind in force.
    pub fn kind(&self) -> WorkspaceKind {
        self.kind.unwrap_or_default()
    }
}

impl WorkspaceKind {
    /// The kind's name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Workspace => "Workspace",
            Self::ClusterWorkspace => "ClusterWorkspace",
        }
    }
}

impl std::fmt::Display for WorkspaceKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Names a Workspace.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct WorkspaceKey {
    /// Its kind.
    pub kind: WorkspaceKind,
    /// Its namespace; empty for a cluster-scoped one.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

impl WorkspaceKey {
    /// Name of an object of `namespace` in a message about this Workspace: with its namespace if several use it.
    pub fn naming(&self, namespace: &str, name: &str) -> String {
        if self.namespace.is_empty() {
            format!("{namespace}/{name}")
        } else {
            name.to_owned()
        }
    }

    /// The Workspace that a Run in `namespace` refers to.
    pub fn of(reference: &WorkspaceRef, namespace: &str) -> Self {
        let namespace = match reference.kind() {
            WorkspaceKind::Workspace => namespace.to_owned(),
            WorkspaceKind::ClusterWorkspace => String::new(),
        };
        Self {
            kind: reference.kind(),
            namespace,
            name: reference.name.clone(),
        }
    }
}
