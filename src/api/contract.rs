//! The contract file: the names and numbers that docs/service.md leaves open, so that a deployment can
//! correct them without a new build. The default is `contract/profile.yaml`.

use std::collections::HashMap;

use serde_json::value::RawValue;

use super::status::Phase;

mod error;
mod pointer;
mod profile;
mod rules;

pub use error::{ContractError, Misread};
pub use profile::{Limits, Timeouts};

use error::invalid;
use pointer::text_at;
use profile::Profile;
use rules::check;

/// The contract file that is compiled in, with its comments.
pub const BUILTIN: &str = include_str!("../../contract/profile.yaml");

/// Meaning of a state of the service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StateClass {
    /// Waiting to run.
    Pending,
    /// Running.
    Active,
    /// A cancellation is in progress at the service.
    Cancelling,
    /// Ended with success.
    Succeeded,
    /// Ended with a failure.
    Failed,
    /// Cancelled.
    Cancelled,
    /// Not in the contract file: shown verbatim, never guessed to be terminal.
    Unmapped,
}

impl StateClass {
    /// The terminal phase of this state, if it is an end.
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
    /// Not in the contract file.
    Unknown,
}

/// The contract file, checked. Durations are whole seconds, sizes are bytes.
#[derive(Clone, Debug)]
pub struct Contract {
    profile: Profile,
    states: HashMap<String, StateClass>,
    codes: HashMap<String, CodeClass>,
}

impl Contract {
    /// The contract that is compiled in.
    pub fn builtin() -> Result<Self, ContractError> {
        Self::parse(BUILTIN)
    }

    /// Reads and checks a contract file.
    pub fn parse(yaml: &str) -> Result<Self, ContractError> {
        // Without the excerpt of the file that it would print: an error is one line.
        let options = serde_saphyr::options! { with_snippet: false };
        let profile: Profile = serde_saphyr::from_str_with_options(yaml, options)
            .map_err(|error| ContractError::misread(yaml, &error))?;
        check(&profile)?;
        let s = &profile.states;
        let states = index(
            "states",
            [
                (&s.pending, StateClass::Pending),
                (&s.active, StateClass::Active),
                (&s.cancelling, StateClass::Cancelling),
                (&s.succeeded, StateClass::Succeeded),
                (&s.failed, StateClass::Failed),
                (&s.cancelled, StateClass::Cancelled),
            ],
            str::to_lowercase,
        )?;
        let c = &profile.codes;
        let codes = index(
            "codes",
            [
                (&c.approval_conflict, CodeClass::ApprovalConflict),
                (&c.version_conflict, CodeClass::VersionConflict),
                (&c.idempotency_conflict, CodeClass::IdempotencyConflict),
                (&c.idempotency_in_progress, CodeClass::IdempotencyInProgress),
                (&c.run_not_found, CodeClass::RunNotFound),
            ],
            str::to_owned,
        )?;
        Ok(Self {
            profile,
            states,
            codes,
        })
    }

    /// Meaning of a state; compared without case.
    pub fn state(&self, state: &str) -> StateClass {
        self.states
            .get(&state.to_lowercase())
            .copied()
            .unwrap_or(StateClass::Unmapped)
    }

    /// Meaning of a problem's code (rule 8: codes are compared exactly).
    pub fn code(&self, code: &str) -> CodeClass {
        self.codes.get(code).copied().unwrap_or(CodeClass::Unknown)
    }

    /// Whether this status refuses exactly these bytes for good.
    pub fn refuses_create(&self, status: u16) -> bool {
        self.profile.create.refused_for.contains(&status)
    }

    /// Whether the operator was reviewed against this version of the service (rule 13).
    pub fn accepts_version(&self, version: &str) -> bool {
        self.profile
            .version
            .accepted
            .iter()
            .any(|accepted| match accepted.strip_suffix('*') {
                Some(prefix) => version.starts_with(prefix),
                None => version == accepted,
            })
    }

    /// The accepted versions, in the file's order.
    pub fn accepted_versions(&self) -> &[String] {
        &self.profile.version.accepted
    }

    /// Pointers to the version in an answer to `GET /version`.
    pub fn version_pointers(&self) -> &[String] {
        &self.profile.version.pointers
    }

    /// The version that an answer to `GET /version` names.
    pub fn version_of(&self, answer: &RawValue) -> Option<String> {
        text_at(answer, &self.profile.version.pointers)
    }

    /// The run's identifier in an answer.
    pub fn run_id_of(&self, answer: &RawValue) -> Option<String> {
        text_at(answer, &self.profile.run.id_pointers)
    }

    /// The run's state in an answer.
    pub fn run_state_of(&self, answer: &RawValue) -> Option<String> {
        text_at(answer, &self.profile.run.state_pointers)
    }

    /// The run's state in an event's data, if the data is JSON and names one.
    pub fn event_state_of(&self, data: &str) -> Option<String> {
        let value: &RawValue = serde_json::from_str(data).ok()?;
        text_at(value, &self.profile.event.state_pointers)
    }

    /// The workspace that the token acts for, in an answer to `GET /workspaces/current`.
    pub fn identity_of(&self, answer: &RawValue) -> Option<String> {
        text_at(answer, &self.profile.workspace.identity_pointers)
    }

    /// Whether the file has pointers to the workspace's identity.
    pub fn knows_identity(&self) -> bool {
        !self.profile.workspace.identity_pointers.is_empty()
    }

    /// Time for which the service remembers a key, in seconds.
    pub fn key_retention_seconds(&self) -> u64 {
        self.profile.key_retention_seconds
    }

    /// Sizes beyond which an answer is not read.
    pub fn limits(&self) -> Limits {
        self.profile.limits
    }

    /// Limits of a call's duration.
    pub fn timeouts(&self) -> Timeouts {
        self.profile.timeouts
    }

    /// Prefixes of the keys of model providers (rule 6).
    pub fn provider_key_prefixes(&self) -> &[String] {
        &self.profile.provider_key_prefixes
    }
}

fn index<C: Copy + PartialEq, const N: usize>(
    field: &str,
    groups: [(&Vec<String>, C); N],
    normal: impl Fn(&str) -> String,
) -> Result<HashMap<String, C>, ContractError> {
    let mut index = HashMap::new();
    for (words, class) in groups {
        for word in words {
            if index
                .insert(normal(word), class)
                .is_some_and(|earlier| earlier != class)
            {
                return invalid(field, format!("{word:?} is in two lists; keep it in one"));
            }
        }
    }
    Ok(index)
}
