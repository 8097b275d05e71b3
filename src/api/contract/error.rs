//! Why a contract file is refused, in one line.

use std::fmt;

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_saphyr::UserMessageFormatter;

/// Characters of a line that are repeated.
const QUOTED: usize = 80;

/// Why a contract file is refused.
#[derive(Debug, thiserror::Error)]
pub enum ContractError {
    /// Not YAML, a field is missing, unknown or of the wrong type.
    #[error("failed to read the contract file")]
    Parse(#[source] Misread),
    /// The transcription of the API, not the file of names and numbers beside it.
    #[error(
        "this is an OpenAPI document, not a contract file: take its names and numbers over into one; \
         `run-operator contract show` prints one to begin from"
    )]
    OpenApi,
    /// Readable, but what it says can't be meant.
    #[error("the contract file is wrong at {field}: {problem}")]
    Invalid {
        /// Path of the field.
        field: String,
        /// What is wrong, and what would be right.
        problem: String,
    },
}

/// What the YAML reader met, and the line that it stands in.
#[derive(Debug)]
pub struct Misread {
    said: String,
    line: Option<String>,
}

impl fmt::Display for Misread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.line {
            Some(line) => write!(f, "{}, which reads {line:?}", self.said),
            None => f.write_str(&self.said),
        }
    }
}

impl std::error::Error for Misread {}

/// Whether a text is an `OpenAPI` document.
#[derive(Deserialize)]
struct OpenApi {
    #[serde(alias = "swagger")]
    #[expect(dead_code, reason = "that it is there is all that counts")]
    openapi: IgnoredAny,
}

impl ContractError {
    pub(super) fn misread(yaml: &str, error: &serde_saphyr::Error) -> Self {
        if serde_saphyr::from_str::<OpenApi>(yaml).is_ok() {
            return Self::OpenApi;
        }
        let line = error.location().and_then(|location| {
            let above = usize::try_from(location.line()).ok()?.checked_sub(1)?;
            let line = yaml.lines().nth(above)?.trim();
            (!line.is_empty()).then(|| line.chars().take(QUOTED).collect())
        });
        Self::Parse(Misread {
            said: error.render_with_formatter(&UserMessageFormatter),
            line,
        })
    }
}

pub(super) fn invalid<T>(field: &str, problem: String) -> Result<T, ContractError> {
    Err(ContractError::Invalid {
        field: field.to_owned(),
        problem,
    })
}
