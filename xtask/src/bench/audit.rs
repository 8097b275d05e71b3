//! The operator's requests to the API server, as its audit log has them.

use std::path::Path;

use serde::Deserialize;
use serde_json::Value;

use crate::common::{Outcome, read};

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
pub(super) fn of_operator(log: &Path) -> Outcome<Vec<Entry>> {
    let text = read(log)?;
    // The last line may be half written.
    let (whole, _) = text.rsplit_once('\n').unwrap_or_default();
    let lines = whole.lines().map(serde_json::from_str);
    let entries: Vec<Entry> = lines.collect::<Result<_, _>>()?;
    let of_operator = |entry: &Entry| entry.user_agent.starts_with(OPERATOR);
    Ok(entries.into_iter().filter(of_operator).collect())
}
