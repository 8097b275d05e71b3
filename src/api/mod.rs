//! Layer 1: the custom resources and the contract file. Plain data, no I/O and no Kubernetes client.

pub mod conditions;
pub mod contract;
pub mod crd;
pub mod event_reasons;
pub mod finalizer;
pub mod intent;
pub mod limits;
pub mod names;
pub mod run;
pub mod schedule;
mod schema;
pub mod status;
pub mod template;
pub mod workspace;

pub use conditions::{ConditionType, Reason};
pub use contract::Contract;
pub use event_reasons::{EventKind, EventReason};
pub use intent::Intent;
pub use run::{Run, RunSpec, Workload};
pub use schedule::{RunSchedule, RunScheduleSpec, RunScheduleStatus};
pub use status::{Phase, RunStatus};
pub use template::{RunTemplate, RunTemplateSpec};
pub use workspace::{
    AnyWorkspace, ClusterWorkspace, ClusterWorkspaceSpec, RunDefaults, Workspace, WorkspaceKey,
    WorkspaceKind, WorkspaceRef, WorkspaceSpec, WorkspaceStatus,
};
