//! The contract file's form, the checks of a file before it is used, and its errors, each in one line.

use serde::de::{DeserializeOwned, IgnoredAny};
use serde::{Deserialize, Serialize};
use serde_saphyr::UserMessageFormatter;

use super::overlay::{List, Overlay, ResultPointers, given, part};
use crate::api::limits::{MAX_RESULT_NAME, MAX_RESULTS};
use crate::api::status::Phase;

/// The contract file that is compiled in, with its comments.
pub const BUILTIN: &str = include_str!("../../../contract/profile.yaml");

pub const API_VERSION: &str = "contract.run-operator.dev/v1alpha1";
pub const KIND: &str = "Contract";

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

part! {
    /// What is in force.
    #[derive(Clone)]
    struct Profile over ProfileFile {
        api_version: String,
        kind: String,
        version: Version,
        run: RunFields,
        event: EventFields,
        workspace: WorkspaceFields,
        states: States,
        codes: Codes,
        create: Create,
        key_retention_seconds: u64,
        limits: Limits,
        timeouts: Timeouts,
        provider_key_prefixes: List<String>,
    }

    #[derive(Clone)]
    struct Version over VersionFile {
        pointers: List<String>,
        accepted: List<String>,
    }

    #[derive(Clone)]
    #[allow(clippy::struct_field_names, reason = "the fields have the file's names")]
    struct RunFields over RunFile {
        id_pointers: List<String>,
        state_pointers: List<String>,
        result_pointers: ResultPointers,
        #[serde(rename = "consoleURLPointers")]
        console_url_pointers: List<String>,
        progress_percent_pointers: List<String>,
        progress_message_pointers: List<String>,
        failure_pointers: List<String>,
    }

    #[derive(Clone)]
    struct EventFields over EventFile {
        state_pointers: List<String>,
    }

    #[derive(Clone)]
    struct WorkspaceFields over WorkspaceFile {
        identity_pointers: List<String>,
    }

    #[derive(Clone)]
    struct States over StatesFile {
        pending: List<String>,
        active: List<String>,
        cancelling: List<String>,
        succeeded: List<String>,
        failed: List<String>,
        cancelled: List<String>,
    }

    #[derive(Clone)]
    struct Codes over CodesFile {
        approval_conflict: List<String>,
        version_conflict: List<String>,
        idempotency_conflict: List<String>,
        idempotency_in_progress: List<String>,
        run_not_found: List<String>,
    }

    #[derive(Clone)]
    struct Create over CreateFile {
        refused_for: List<u16>,
    }

    /// Sizes beyond which an answer is not read, and the streams of a connection.
    #[derive(Clone, Copy)]
    struct Limits over LimitsFile {
        body_bytes: usize,
        event_line_bytes: usize,
        event_bytes: usize,
        /// Event streams that a connection of HTTP/2 takes.
        streams_per_connection: u16,
    }

    /// Limits of a call's duration, in seconds.
    #[derive(Clone, Copy)]
    struct Timeouts over TimeoutsFile {
        connect_seconds: u64,
        /// From the request's first byte to the answer's last.
        request_seconds: u64,
        /// Silence after which an event stream is reopened.
        stream_idle_seconds: u64,
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
        self.run.check_details()?;
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

impl RunFields {
    /// The lists of pointers to what an answer says beside the id and the state, by their fields in the file.
    pub fn details(&self) -> impl Iterator<Item = (String, &List<String>)> {
        self.results().chain(self.beside_results())
    }

    fn results(&self) -> impl Iterator<Item = (String, &List<String>)> {
        let results = self.result_pointers.0.iter();
        results.map(|(name, at)| (format!("run.resultPointers.{name}"), at))
    }

    fn beside_results(&self) -> impl Iterator<Item = (String, &List<String>)> {
        let others = [
            ("run.consoleURLPointers", &self.console_url_pointers),
            (
                "run.progressPercentPointers",
                &self.progress_percent_pointers,
            ),
            (
                "run.progressMessagePointers",
                &self.progress_message_pointers,
            ),
            ("run.failurePointers", &self.failure_pointers),
        ];
        others.into_iter().map(|(field, at)| (field.to_owned(), at))
    }

    fn check_details(&self) -> Result<(), ContractError> {
        let (field, results) = ("run.resultPointers", &self.result_pointers.0);
        if results.len() > MAX_RESULTS {
            let count = results.len();
            let problem = format!("it has {count} names; {MAX_RESULTS} are the most");
            return invalid(field, problem);
        }
        if let Some(wrong) = results.keys().find(|name| !is_name(name)) {
            let wrong: String = wrong.chars().take(QUOTED).collect();
            let problem = format!(
                "{wrong:?} is no name of a result; use 1 to {MAX_RESULT_NAME} letters, digits, \"-\", \"_\" and \".\", \
                 the first and the last a letter or digit"
            );
            return invalid(field, problem);
        }
        for (field, pointers) in self.results() {
            check_pointers(&field, pointers, true)?;
        }
        for (field, pointers) in self.beside_results() {
            check_pointers(&field, pointers, false)?;
        }
        Ok(())
    }
}

impl States {
    pub fn lists(&self) -> [(&'static str, &[String], StateClass); 6] {
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
    pub fn lists(&self) -> [(&'static str, &[String], CodeClass); 5] {
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

/// As of a label's value.
fn is_name(name: &str) -> bool {
    let ends = [name.chars().next(), name.chars().last()];
    let inner = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    name.len() <= MAX_RESULT_NAME
        && name.chars().all(inner)
        && ends
            .iter()
            .all(|end| end.is_some_and(|c| c.is_ascii_alphanumeric()))
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
    /// Not YAML, or a field is unknown or of the wrong type.
    #[error("failed to read the contract file: {0}")]
    Parse(String),
    #[error(
        "this is an OpenAPI document, not a contract file: `kubectl runop contract init --openapi FILE` makes one from it"
    )]
    OpenApi,
    #[error(
        "the contract file does not say what it is: begin it with the lines \"apiVersion: {API_VERSION}\" and \
         \"kind: {KIND}\", and keep below them what differs from the built-in values, which \
         `kubectl runop contract show` prints"
    )]
    NoHeader,
    #[error(
        "the contract file has apiVersion {api_version:?} and kind {kind:?}; this version reads {API_VERSION:?} and \
         {KIND:?}"
    )]
    OtherKind { api_version: String, kind: String },
    #[error("the contract file is wrong at {field}: {problem}")]
    Invalid { field: String, problem: String },
}

/// What a file says of itself.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Header {
    api_version: Option<String>,
    kind: Option<String>,
    #[serde(alias = "swagger")]
    openapi: Option<IgnoredAny>,
}

/// Reads a part of a contract file. Without the excerpt of the file that would be printed: an error is one line.
fn read<T: DeserializeOwned>(yaml: &str) -> Result<T, ContractError> {
    let options = serde_saphyr::options! { with_snippet: false };
    serde_saphyr::from_str_with_options(yaml, options)
        .map_err(|error| ContractError::misread(yaml, &error))
}

impl ProfileFile {
    /// A file whose header says that it is one.
    pub(super) fn parse(yaml: &str) -> Result<Self, ContractError> {
        let header: Header = read(yaml)?;
        match (header.api_version, header.kind, header.openapi) {
            (None, _, Some(_)) => Err(ContractError::OpenApi),
            (None, _, None) | (_, None, _) => Err(ContractError::NoHeader),
            (Some(version), Some(kind), _) if version != API_VERSION || kind != KIND => {
                let quoted = |text: String| text.chars().take(QUOTED).collect();
                Err(ContractError::OtherKind {
                    api_version: quoted(version),
                    kind: quoted(kind),
                })
            }
            _ => read(yaml),
        }
    }
}

impl Profile {
    /// The file that is compiled in: it says everything.
    pub(super) fn builtin() -> Result<Self, ContractError> {
        read(BUILTIN)
    }
}

impl ContractError {
    fn misread(yaml: &str, error: &serde_saphyr::Error) -> Self {
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
