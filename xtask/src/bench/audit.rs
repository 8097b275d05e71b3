//! The operator's requests to the API server, as its audit log has them.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use serde::Deserialize;
use serde_json::Value;

use super::error::BenchError;

/// The beginning of the operator's user agent at the API server.
const OPERATOR: &str = "run-operator/";

/// A line of the audit log.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Entry {
    pub(super) stage: String,
    pub(super) verb: String,
    #[serde(rename = "requestURI")]
    pub(super) request_uri: String,
    user_agent: String,
    pub(super) object_ref: ObjectRef,
    /// The body of the request, where bodies are audited.
    pub(super) request_object: Value,
}

/// The object of a request.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct ObjectRef {
    pub(super) resource: String,
    pub(super) subresource: String,
    pub(super) namespace: String,
}

/// The operator's requests until now, in their order.
pub(super) fn of_operator(log: &Path) -> Result<Vec<Entry>, BenchError> {
    let failed = |source| BenchError::ReadFile {
        path: log.to_owned(),
        source,
    };
    let mut lines = BufReader::new(File::open(log).map_err(failed)?);
    let (mut entries, mut line) = (Vec::new(), String::new());
    // The last line may be half written.
    while lines.read_line(&mut line).map_err(failed)? > 0 && line.ends_with('\n') {
        let entry: Entry = serde_json::from_str(&line).map_err(BenchError::Decode)?;
        if entry.user_agent.starts_with(OPERATOR) {
            entries.push(entry);
        }
        line.clear();
    }
    Ok(entries)
}
