//! Layer 1: the custom resources and the contract file. Plain data, no I/O and no Kubernetes client.

pub mod any_workspace;
pub mod cluster_workspace;
pub mod conditions;
pub mod contract;
pub mod crd;
pub mod event_reasons;
pub mod finalizer;
pub mod intent;
pub mod kubernetes;
pub mod limits;
pub mod names;
pub mod policy;
pub mod run;
mod schema;
pub mod status;
pub mod time;
pub mod workload;
pub mod workspace;
pub mod workspace_ref;

pub use cluster_workspace::{ClusterWorkspace, ClusterWorkspaceSpec};
pub use conditions::{ConditionType, Reason};
pub use contract::Contract;
pub use event_reasons::{EventKind, EventReason};
pub use intent::Intent;
pub use run::{Run, RunSpec};
pub use status::{Phase, RunStatus};
pub use workload::Workload;
pub use workspace::{Workspace, WorkspaceSpec, WorkspaceStatus};
pub use workspace_ref::{WorkspaceKey, WorkspaceKind, WorkspaceRef};
