//! The contract file's form, the checks of a file before it is used, and its errors, each in one line.

use std::ops::Deref;

use serde::de::{Error, IgnoredAny};
use serde::{Deserialize, Deserializer};
use serde_saphyr::UserMessageFormatter;

use crate::api::status::Phase;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StateClass {
    Pending,
    Active,
    Cancelling,
    Succeeded,
    Failed,
    Cancelled,
    /// Not in the contract file: shown verbatim, never guessed to be terminal.
    Unmapped,
}

impl StateClass {
    pub fn terminal(self) -> Option<Phase> {
        match self {
            Self::Succeeded => Some(Phase::Succeeded),
            Self::Failed => Some(Phase::Failed),
            Self::Cancelled => Some(Phase::Cancelled),
            Self::Pending | Self::Active | Self::Cancelling | Self::Unmapped => None,
        }
    }
}

/// Meaning of a problem's code (rules 8 and 9).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CodeClass {
    /// 409: an approval is missing.
    ApprovalConflict,
    /// 409: a version differs.
    VersionConflict,
    /// 409: the key was used for another request.
    IdempotencyConflict,
    /// 409: an earlier request with the key is still in progress.
    IdempotencyInProgress,
    /// 404: this run does not exist.
    RunNotFound,
    Unknown,
}

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
    pub(super) provider_key_prefixes: List<String>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Version {
    pub(super) pointers: List<String>,
    pub(super) accepted: List<String>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct RunFields {
    pub(super) id_pointers: List<String>,
    pub(super) state_pointers: List<String>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct EventFields {
    pub(super) state_pointers: List<String>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct WorkspaceFields {
    pub(super) identity_pointers: List<String>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct States {
    pub(super) pending: List<String>,
    pub(super) active: List<String>,
    pub(super) cancelling: List<String>,
    pub(super) succeeded: List<String>,
    pub(super) failed: List<String>,
    pub(super) cancelled: List<String>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Codes {
    pub(super) approval_conflict: List<String>,
    pub(super) version_conflict: List<String>,
    pub(super) idempotency_conflict: List<String>,
    pub(super) idempotency_in_progress: List<String>,
    pub(super) run_not_found: List<String>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Create {
    pub(super) refused_for: List<u16>,
}

/// Sizes beyond which an answer is not read, and the streams of a connection.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Limits {
    pub body_bytes: usize,
    pub event_line_bytes: usize,
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
    pub connect_seconds: u64,
    /// From the request's first byte to the answer's last.
    pub request_seconds: u64,
    /// Silence after which an event stream is reopened.
    pub stream_idle_seconds: u64,
}

/// A list. YAML reads a name without a value as null, which would pass for an empty list.
#[derive(Clone, Debug)]
pub(super) struct List<T>(Vec<T>);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for List<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let items = Option::deserialize(from)?;
        let unset = || Error::custom("a list without a value; write [] for an empty one");
        items.map(Self).ok_or_else(unset)
    }
}

impl<T> Deref for List<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.0
    }
}

impl Profile {
    pub(super) fn check(&self) -> Result<(), ContractError> {
        for (field, pointers, required) in [
            ("version.pointers", &self.version.pointers, true),
            ("run.idPointers", &self.run.id_pointers, true),
            ("run.statePointers", &self.run.state_pointers, true),
            ("event.statePointers", &self.event.state_pointers, false),
            (
                "workspace.identityPointers",
                &self.workspace.identity_pointers,
                false,
            ),
        ] {
            check_pointers(field, pointers, required)?;
        }
        check_versions(&self.version.accepted)?;
        for (name, words, class) in self.states.lists() {
            let field = format!("states.{name}");
            if class.terminal().is_some() && words.is_empty() {
                let problem = "without a state here no Run could ever end this way";
                return invalid(&field, problem.to_owned());
            }
            check_words(&field, words)?;
        }
        for (name, words, _) in self.codes.lists() {
            check_words(&format!("codes.{name}"), words)?;
        }
        check_words("providerKeyPrefixes", &self.provider_key_prefixes)?;
        check_statuses(&self.create.refused_for)?;
        self.check_numbers()
    }

    fn check_numbers(&self) -> Result<(), ContractError> {
        let (l, t) = (self.limits, self.timeouts);
        let streams = l.streams_per_connection.into();
        for (field, number, least) in [
            ("keyRetentionSeconds", self.key_retention_seconds, 60),
            ("limits.bodyBytes", l.body_bytes as u64, 1024),
            ("limits.eventLineBytes", l.event_line_bytes as u64, 1024),
            ("limits.eventBytes", l.event_bytes as u64, 1024),
            ("limits.streamsPerConnection", streams, 1),
            ("timeouts.connectSeconds", t.connect_seconds, 1),
            ("timeouts.requestSeconds", t.request_seconds, 1),
            ("timeouts.streamIdleSeconds", t.stream_idle_seconds, 1),
        ] {
            if number < least {
                let problem = format!("{number} is too small; the least is {least}");
                return invalid(field, problem);
            }
        }
        Ok(())
    }
}

impl States {
    pub(super) fn lists(&self) -> [(&'static str, &[String], StateClass); 6] {
        [
            ("pending", &self.pending, StateClass::Pending),
            ("active", &self.active, StateClass::Active),
            ("cancelling", &self.cancelling, StateClass::Cancelling),
            ("succeeded", &self.succeeded, StateClass::Succeeded),
            ("failed", &self.failed, StateClass::Failed),
            ("cancelled", &self.cancelled, StateClass::Cancelled),
        ]
    }
}

impl Codes {
    pub(super) fn lists(&self) -> [(&'static str, &[String], CodeClass); 5] {
        use CodeClass::{
            ApprovalConflict, IdempotencyConflict, IdempotencyInProgress, RunNotFound,
            VersionConflict,
        };
        let in_progress = &self.idempotency_in_progress;
        [
            (
                "approvalConflict",
                &self.approval_conflict,
                ApprovalConflict,
            ),
            ("versionConflict", &self.version_conflict, VersionConflict),
            (
                "idempotencyConflict",
                &self.idempotency_conflict,
                IdempotencyConflict,
            ),
            ("idempotencyInProgress", in_progress, IdempotencyInProgress),
            ("runNotFound", &self.run_not_found, RunNotFound),
        ]
    }
}

fn check_pointers(field: &str, pointers: &[String], required: bool) -> Result<(), ContractError> {
    if required && pointers.is_empty() {
        return invalid(field, "name at least one JSON pointer".to_owned());
    }
    for pointer in pointers {
        let mut escapes = pointer.split('~').skip(1);
        let remedy = if !pointer.starts_with('/') {
            "it must begin with \"/\""
        } else if !escapes.all(|rest| rest.starts_with(['0', '1'])) {
            "write ~0 for \"~\" and ~1 for \"/\" in a name"
        } else {
            continue;
        };
        return invalid(field, format!("{pointer:?} is no JSON pointer; {remedy}"));
    }
    Ok(())
}

/// An accepted version is a literal, or a prefix with a `*` behind it.
fn check_versions(accepted: &[String]) -> Result<(), ContractError> {
    let field = "version.accepted";
    if accepted.is_empty() {
        return invalid(field, "name at least one version".to_owned());
    }
    for version in accepted {
        let prefix = version.strip_suffix('*').unwrap_or(version);
        let problem = if version == "*" {
            "it accepts every version, so none would be reviewed; name the part that you reviewed, such as \"2.*\""
        } else if prefix.contains('*') {
            "a * matches the rest of a version and nothing before its end; write it last, such as \"1.*\""
        } else if blank(version) {
            "no version has white space; remove it, or the whole entry"
        } else {
            continue;
        };
        return invalid(field, format!("{version:?}: {problem}"));
    }
    Ok(())
}

fn check_words(field: &str, words: &[String]) -> Result<(), ContractError> {
    let wrong = words.iter().find(|word| blank(word));
    wrong.map_or(Ok(()), |word| {
        let problem = "is empty or has white space around it; correct or remove it";
        invalid(field, format!("{word:?} {problem}"))
    })
}

fn blank(word: &str) -> bool {
    word.is_empty() || word.trim() != word
}

fn check_statuses(refused_for: &[u16]) -> Result<(), ContractError> {
    let may_pass = [401, 403, 408, 409, 425, 429];
    let final_answer = |status: &&u16| (400..500).contains(*status) && !may_pass.contains(*status);
    let wrong = refused_for.iter().find(|status| !final_answer(status));
    wrong.map_or(Ok(()), |status| {
        let problem =
            "can't refuse a create for good; use 4xx other than 401, 403, 408, 409, 425 and 429";
        invalid("create.refusedFor", format!("{status} {problem}"))
    })
}

/// Characters of a line that are repeated.
const QUOTED: usize = 80;

#[derive(Debug, thiserror::Error)]
pub enum ContractError {
    /// Not YAML, a field is missing, unknown or of the wrong type.
    #[error("failed to read the contract file: {0}")]
    Parse(String),
    #[error(
        "this is an OpenAPI document, not a contract file: copy its names and numbers into one; \
         `kubectl runop contract show` prints one to begin from"
    )]
    OpenApi,
    #[error("the contract file is wrong at {field}: {problem}")]
    Invalid { field: String, problem: String },
}

#[derive(Deserialize)]
struct OpenApi {
    #[serde(alias = "swagger")]
    #[expect(dead_code, reason = "only its presence counts")]
    openapi: IgnoredAny,
}

impl ContractError {
    pub(super) fn misread(yaml: &str, error: &serde_saphyr::Error) -> Self {
        if serde_saphyr::from_str::<OpenApi>(yaml).is_ok() {
            return Self::OpenApi;
        }
        let what = error.render_with_formatter(&UserMessageFormatter);
        let line = error.location().and_then(|location| {
            let above = usize::try_from(location.line()).ok()?.checked_sub(1)?;
            let line = yaml.lines().nth(above)?.trim();
            (!line.is_empty()).then(|| line.chars().take(QUOTED).collect::<String>())
        });
        Self::Parse(match line {
            Some(line) => format!("{what}, which reads {line:?}"),
            None => what,
        })
    }
}

pub(super) fn invalid<T>(field: &str, problem: String) -> Result<T, ContractError> {
    Err(ContractError::Invalid {
        field: field.to_owned(),
        problem,
    })
}
