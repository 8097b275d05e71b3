//! The contract file's form, and what is checked before it is used.

use serde::Deserialize;

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
    pub(super) provider_key_prefixes: Vec<String>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Version {
    pub(super) pointers: Vec<String>,
    pub(super) accepted: Vec<String>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct RunFields {
    pub(super) id_pointers: Vec<String>,
    pub(super) state_pointers: Vec<String>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct EventFields {
    pub(super) state_pointers: Vec<String>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct WorkspaceFields {
    pub(super) identity_pointers: Vec<String>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct States {
    pub(super) pending: Vec<String>,
    pub(super) active: Vec<String>,
    pub(super) cancelling: Vec<String>,
    pub(super) succeeded: Vec<String>,
    pub(super) failed: Vec<String>,
    pub(super) cancelled: Vec<String>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Codes {
    pub(super) approval_conflict: Vec<String>,
    pub(super) version_conflict: Vec<String>,
    pub(super) idempotency_conflict: Vec<String>,
    pub(super) run_not_found: Vec<String>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Create {
    pub(super) refused_for: Vec<u16>,
}

/// Sizes beyond which an answer is not read.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Limits {
    /// Bytes of an answer's body.
    pub body_bytes: usize,
    /// Bytes of a line of the event stream.
    pub event_line_bytes: usize,
    /// Bytes of one event.
    pub event_bytes: usize,
}

/// Bounds of a call's length, in seconds.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Timeouts {
    /// To establish a connection.
    pub connect_seconds: u64,
    /// From the request's first byte to the answer's last.
    pub request_seconds: u64,
    /// Silence after which an event stream is opened anew.
    pub stream_idle_seconds: u64,
}

/// Why a contract file is refused.
#[derive(Debug, thiserror::Error)]
pub enum ContractError {
    /// Not YAML, a field is missing, unknown or of the wrong type.
    #[error("failed to read the contract file")]
    Parse(#[source] serde_saphyr::Error),
    /// Readable, but what it says can't be meant.
    #[error("the contract file is wrong at {field}: {problem}")]
    Invalid {
        /// Path of the field.
        field: String,
        /// What is wrong, and what would be right.
        problem: String,
    },
}

pub(super) fn check(p: &Profile) -> Result<(), ContractError> {
    for (field, pointers, required) in [
        ("version.pointers", &p.version.pointers, true),
        ("run.idPointers", &p.run.id_pointers, true),
        ("run.statePointers", &p.run.state_pointers, true),
        ("event.statePointers", &p.event.state_pointers, false),
        (
            "workspace.identityPointers",
            &p.workspace.identity_pointers,
            false,
        ),
    ] {
        if required && pointers.is_empty() {
            return invalid(field, "name at least one JSON pointer".to_owned());
        }
        if let Some(bad) = pointers.iter().find(|p| !p.starts_with('/')) {
            return invalid(
                field,
                format!("{bad:?} is no JSON pointer; it must begin with \"/\""),
            );
        }
    }
    if p.version.accepted.is_empty() {
        return invalid("version.accepted", "name at least one version".to_owned());
    }
    for (field, states) in [
        ("states.succeeded", &p.states.succeeded),
        ("states.failed", &p.states.failed),
        ("states.cancelled", &p.states.cancelled),
    ] {
        if states.is_empty() {
            return invalid(
                field,
                "without a state here no Run could ever end this way".to_owned(),
            );
        }
    }
    if let Some(status) = p
        .create
        .refused_for
        .iter()
        .find(|s| !(400..500).contains(*s) || [401, 403, 409, 429].contains(*s))
    {
        return invalid(
            "create.refusedFor",
            format!(
                "{status} can't refuse a create for good; use 4xx other than 401, 403, 409 and 429"
            ),
        );
    }
    for (field, number, least) in [
        ("keyRetentionSeconds", p.key_retention_seconds, 60),
        ("limits.bodyBytes", p.limits.body_bytes as u64, 1024),
        (
            "limits.eventLineBytes",
            p.limits.event_line_bytes as u64,
            1024,
        ),
        ("limits.eventBytes", p.limits.event_bytes as u64, 1024),
        ("timeouts.connectSeconds", p.timeouts.connect_seconds, 1),
        ("timeouts.requestSeconds", p.timeouts.request_seconds, 1),
        (
            "timeouts.streamIdleSeconds",
            p.timeouts.stream_idle_seconds,
            1,
        ),
    ] {
        if number < least {
            return invalid(
                field,
                format!("{number} is too small; the least is {least}"),
            );
        }
    }
    Ok(())
}

pub(super) fn invalid<T>(field: &str, problem: String) -> Result<T, ContractError> {
    Err(ContractError::Invalid {
        field: field.to_owned(),
        problem,
    })
}
