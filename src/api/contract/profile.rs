//! The contract file's form.

use serde::de::Error;
use serde::{Deserialize, Deserializer};

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Profile {
    pub(super) version: Version,
    pub(super) run: RunFields,
    pub(super) event: EventFields,
    pub(super) workspace: WorkspaceFields,
    pub(super) states: States,
    pub(super) codes: Codes,
    pub(super) create: Create,
    pub(super) key_retention_seconds: u64,
    pub(super) limits: Limits,
    pub(super) timeouts: Timeouts,
    #[serde(deserialize_with = "list")]
    pub(super) provider_key_prefixes: Vec<String>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Version {
    #[serde(deserialize_with = "list")]
    pub(super) pointers: Vec<String>,
    #[serde(deserialize_with = "list")]
    pub(super) accepted: Vec<String>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct RunFields {
    #[serde(deserialize_with = "list")]
    pub(super) id_pointers: Vec<String>,
    #[serde(deserialize_with = "list")]
    pub(super) state_pointers: Vec<String>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct EventFields {
    #[serde(deserialize_with = "list")]
    pub(super) state_pointers: Vec<String>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct WorkspaceFields {
    #[serde(deserialize_with = "list")]
    pub(super) identity_pointers: Vec<String>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct States {
    #[serde(deserialize_with = "list")]
    pub(super) pending: Vec<String>,
    #[serde(deserialize_with = "list")]
    pub(super) active: Vec<String>,
    #[serde(deserialize_with = "list")]
    pub(super) cancelling: Vec<String>,
    #[serde(deserialize_with = "list")]
    pub(super) succeeded: Vec<String>,
    #[serde(deserialize_with = "list")]
    pub(super) failed: Vec<String>,
    #[serde(deserialize_with = "list")]
    pub(super) cancelled: Vec<String>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Codes {
    #[serde(deserialize_with = "list")]
    pub(super) approval_conflict: Vec<String>,
    #[serde(deserialize_with = "list")]
    pub(super) version_conflict: Vec<String>,
    #[serde(deserialize_with = "list")]
    pub(super) idempotency_conflict: Vec<String>,
    #[serde(deserialize_with = "list")]
    pub(super) idempotency_in_progress: Vec<String>,
    #[serde(deserialize_with = "list")]
    pub(super) run_not_found: Vec<String>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Create {
    #[serde(deserialize_with = "list")]
    pub(super) refused_for: Vec<u16>,
}

/// Sizes beyond which an answer is not read, and the streams of a connection.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Limits {
    /// Bytes of an answer's body.
    pub body_bytes: usize,
    /// Bytes of a line of the event stream.
    pub event_line_bytes: usize,
    /// Bytes of one event.
    pub event_bytes: usize,
    /// Event streams that a connection of HTTP/2 takes.
    #[serde(default = "streams_per_connection")]
    pub streams_per_connection: u16,
}

/// RFC 9113 recommends that no service allows fewer.
fn streams_per_connection() -> u16 {
    100
}

/// Limits of a call's duration, in seconds.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Timeouts {
    /// To establish a connection.
    pub connect_seconds: u64,
    /// From the request's first byte to the answer's last.
    pub request_seconds: u64,
    /// Silence after which an event stream is reopened.
    pub stream_idle_seconds: u64,
}

/// A list. YAML reads a name without a value as null, which would pass for an empty list.
fn list<'de, D: Deserializer<'de>, T: Deserialize<'de>>(from: D) -> Result<Vec<T>, D::Error> {
    Option::deserialize(from)?
        .ok_or_else(|| Error::custom("a list without a value; write [] for an empty one"))
}
