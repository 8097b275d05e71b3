//! The `Workspace` resource: where Runs are submitted and with which token.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{names, status::LastError};

/// Where the Runs of a namespace are submitted, and the Secret that holds the token.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[kube(
    group = "run-operator.dev",
    version = "v1alpha1",
    kind = "Workspace",
    plural = "workspaces",
    namespaced,
    status = "WorkspaceStatus",
    derive = "PartialEq",
    shortname = "rws",
    category = "run-operator"
)]
#[serde(rename_all = "camelCase")]
pub struct WorkspaceSpec {
    /// The service's base URL, version segment included. Unset: the operator's `--base-url`. It must
    /// be on the operator's allow-list. Immutable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base_url: Option<String>,
    /// Sent as `X-Service-Workspace-ID`; the service checks it against the token (rule 4). Immutable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace_id: Option<String>,
    /// The Secret of this namespace that holds the token. Unset: `run-operator-token`, key `token`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_secret_ref: Option<SecretKeyRef>,
    /// A Secret of this namespace with a CA bundle in PEM, for a service with a private CA.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca_secret_ref: Option<SecretKeyRef>,
    /// Bounds the calls made for this Workspace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_limit: Option<RateLimit>,
    /// Holds every submission of this Workspace; runs already submitted go on being mirrored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suspend: Option<bool>,
}

/// A key of a Secret in the same namespace. There is no namespace field, on purpose.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SecretKeyRef {
    /// Name of the Secret.
    pub name: String,
    /// Key in the Secret. Unset: `token` for a token, `ca.crt` for a CA bundle.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
}

/// A bound on the rate of calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RateLimit {
    /// Sustained requests a second. Unset: 20.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests_per_second: Option<i32>,
    /// Requests that may be made at once after a quiet time. Unset: 40.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub burst: Option<i32>,
}

/// What is known of the Workspace.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkspaceStatus {
    /// The generation of the spec that this status speaks of; -1 before the first look.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// The base URL in force.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base_url: Option<String>,
    /// The API version that the service reports.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_version: Option<String>,
    /// Who the service says that the token acts for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity: Option<String>,
    /// The workspace record as the service returned it, compact JSON cut at 1024 bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub record: Option<String>,
    /// The latest error; absent when the last check went well.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_error: Option<LastError>,
    /// The `X-Request-ID` of the latest answer that mattered, for support.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
    /// What holds: VersionVerified, Authenticated, Ready, Reconciling, Stalled.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

impl WorkspaceSpec {
    /// Name and key of the token's Secret, as in force.
    pub fn token_secret(&self) -> (&str, &str) {
        match &self.token_secret_ref {
            Some(r) => (
                &r.name,
                r.key.as_deref().unwrap_or(names::DEFAULT_TOKEN_KEY),
            ),
            None => (names::DEFAULT_TOKEN_SECRET, names::DEFAULT_TOKEN_KEY),
        }
    }

    /// Name and key of the CA bundle's Secret, if there is one.
    pub fn ca_secret(&self) -> Option<(&str, &str)> {
        let r = self.ca_secret_ref.as_ref()?;
        Some((&r.name, r.key.as_deref().unwrap_or(names::DEFAULT_CA_KEY)))
    }
}
