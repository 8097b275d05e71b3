//! Errors of a contract file, each in one line.

use std::fmt;

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_saphyr::UserMessageFormatter;

/// Characters of a line that are repeated.
const QUOTED: usize = 80;

/// Reason why a contract file is refused.
#[derive(Debug, thiserror::Error)]
pub enum ContractError {
    /// Not YAML, a field is missing, unknown or of the wrong type.
    #[error("failed to read the contract file")]
    Parse(#[source] Misread),
    /// The `OpenAPI` document of the API, not the file of names and numbers.
    #[error(
        "this is an OpenAPI document, not a contract file: copy its names and numbers into one; \
         `kubectl runop contract show` prints one to begin from"
    )]
    OpenApi,
    /// Readable, but meaningless.
    #[error("the contract file is wrong at {field}: {problem}")]
    Invalid {
        /// Path of the field.
        field: String,
        /// The mistake, and its correction.
        problem: String,
    },
}

/// The YAML reader's error, and its line.
#[derive(Debug)]
pub struct Misread {
    error: String,
    line: Option<String>,
}

impl fmt::Display for Misread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.line {
            Some(line) => write!(f, "{}, which reads {line:?}", self.error),
            None => f.write_str(&self.error),
        }
    }
}

impl std::error::Error for Misread {}

/// Whether a text is an `OpenAPI` document.
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
        let line = error.location().and_then(|location| {
            let above = usize::try_from(location.line()).ok()?.checked_sub(1)?;
            let line = yaml.lines().nth(above)?.trim();
            (!line.is_empty()).then(|| line.chars().take(QUOTED).collect())
        });
        Self::Parse(Misread {
            error: error.render_with_formatter(&UserMessageFormatter),
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
