//! The requests that a reference service has recorded, all held to the document.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde::Deserialize;

use super::document::Document;
use super::request::Request;

/// The result of checking a record.
#[derive(Debug, Default)]
pub struct Record {
    /// Number of its requests.
    pub requests: usize,
    /// The document's names of the operations among them.
    pub operations: BTreeSet<String>,
    /// A line for each difference from the document.
    pub violations: Vec<String>,
}

/// A line of the reference service's `--record`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Line {
    at: String,
    method: String,
    path: String,
    headers: BTreeMap<String, String>,
    body: Option<String>,
}

impl Record {
    /// Checks every request of a record. Where no request came there is no file.
    pub fn read(path: &Path) -> Self {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        let mut record = Self::default();
        for line in text.lines() {
            match serde_json::from_str(line) {
                Ok(line) => record.check(line),
                Err(error) => record.violations.push(format!("{error} in {line}")),
            }
        }
        record
    }

    fn check(&mut self, line: Line) {
        let document = Document::pinned();
        let shown = format!("{} {} {}", line.at, line.method, line.path);
        let request = Request {
            method: line.method,
            target: line.path,
            headers: line.headers,
            body: line.body,
        };
        self.requests += 1;
        if let Ok(operation) = request.operation(document) {
            self.operations.insert(operation.id.clone());
        }
        let found = request.violations(document).into_iter();
        self.violations
            .extend(found.map(|violation| format!("{shown}: {violation}")));
    }
}
