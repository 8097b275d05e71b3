//! The `Run` resource: what a user asks for.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{names, status::RunStatus};

/// What to run, where, and what to do when it ends or is deleted.
///
/// No field has a schema default: GitOps tools would report it as drift. [`RunSpec`]'s methods supply
/// what an unset field means, and the status shows what is in force.
#[derive(CustomResource, Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[kube(
    group = "run-operator.dev",
    version = "v1alpha1",
    kind = "Run",
    plural = "runs",
    namespaced,
    status = "RunStatus",
    derive = "PartialEq",
    shortname = "rn",
    category = "run-operator"
)]
#[serde(rename_all = "camelCase")]
pub struct RunSpec {
    /// The Workspace whose token and base URL this Run uses. Unset: the Workspace `default` of the
    /// same namespace. Immutable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace_ref: Option<WorkspaceRef>,
    /// What to run, handed to the service unchanged. `image` is required; other fields are the
    /// service's. Immutable.
    pub workload: Map<String, Value>,
    /// The provider to run on. Unset: `auto`. Immutable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// The region to run in. Unset: `auto`. Immutable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub region: Option<String>,
    /// Holds the submission. Once the Run is submitted it can't be set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suspend: Option<bool>,
    /// Cancels the run and keeps the object. One-way: it can't be taken back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cancel: Option<bool>,
    /// Seconds after the submission at which the run is cancelled and the Run fails with
    /// `DeadlineExceeded`. Unset: no deadline.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub active_deadline_seconds: Option<i64>,
    /// Seconds after its end at which the object is deleted. Unset: never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl_seconds_after_finished: Option<i32>,
    /// What a deletion of the object does to its run: `Cancel` (what unset means) or `Orphan`, which
    /// leaves it running.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deletion_policy: Option<DeletionPolicy>,
    /// What the Ready condition, and so GitOps health, waits for: `Succeeded` (what unset means) or
    /// `Accepted` by the service.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready_when: Option<ReadyWhen>,
    /// The idempotency key, scoped by namespace. Unset: the object's uid. With a key of one's own an
    /// object that is recreated finds its earlier run again. Immutable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotency_key: Option<String>,
}

/// Names the Workspace of a Run.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkspaceRef {
    /// `Workspace` (what unset means), of the Run's own namespace, or `ClusterWorkspace`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<WorkspaceKind>,
    /// Name of the Workspace.
    pub name: String,
}

/// The kinds that a Run can refer to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Deserialize, Serialize, JsonSchema)]
pub enum WorkspaceKind {
    /// A Workspace in the Run's namespace.
    #[default]
    Workspace,
    /// A ClusterWorkspace, shared by namespaces.
    ClusterWorkspace,
}

/// What happens to the run when its object is deleted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub enum DeletionPolicy {
    /// The run is cancelled, and the object stays until it is seen to have ended.
    #[default]
    Cancel,
    /// The object goes at once and the run goes on.
    Orphan,
}

/// What the Ready condition waits for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub enum ReadyWhen {
    /// Ready when the run has succeeded.
    #[default]
    Succeeded,
    /// Ready when the service has accepted the run.
    Accepted,
}

impl RunSpec {
    /// The Workspace in force.
    pub fn workspace_ref(&self) -> WorkspaceRef {
        self.workspace_ref.clone().unwrap_or_else(|| WorkspaceRef {
            kind: None,
            name: names::DEFAULT_WORKSPACE.to_owned(),
        })
    }

    /// The provider in force.
    pub fn provider(&self) -> &str {
        self.provider.as_deref().unwrap_or(names::AUTO)
    }

    /// The region in force.
    pub fn region(&self) -> &str {
        self.region.as_deref().unwrap_or(names::AUTO)
    }

    /// Whether the submission is held.
    pub fn suspended(&self) -> bool {
        self.suspend.unwrap_or_default()
    }

    /// Whether the user asked for the run's cancellation.
    pub fn cancelled(&self) -> bool {
        self.cancel.unwrap_or_default()
    }

    /// What a deletion does, as in force.
    pub fn deletion_policy(&self) -> DeletionPolicy {
        self.deletion_policy.unwrap_or_default()
    }

    /// What Ready waits for, as in force.
    pub fn ready_when(&self) -> ReadyWhen {
        self.ready_when.unwrap_or_default()
    }
}

impl WorkspaceRef {
    /// The kind in force.
    pub fn kind(&self) -> WorkspaceKind {
        self.kind.unwrap_or_default()
    }
}

impl std::fmt::Display for WorkspaceKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Workspace => "Workspace",
            Self::ClusterWorkspace => "ClusterWorkspace",
        })
    }
}
