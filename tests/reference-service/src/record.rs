//! Every request of the API in a file, as it came: for tests that hold a client to the API's description.
//! Unlike the ledger it holds the bodies, and outlives the process, however that ends.

use std::fs::File;
use std::io::{self, Write as _};
use std::path::Path;
use std::sync::Arc;

use serde::Serialize;

use crate::access::Access;
use crate::ledger::Entry;

/// A file that lines are appended to, each by a single write.
#[derive(Debug, Clone)]
pub(crate) struct Record(Arc<File>);

/// A request before it is answered. Known tokens are replaced in every part (rule 7).
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Line<'a> {
    at: &'a str,
    method: &'a str,
    path: &'a str,
    headers: &'a std::collections::BTreeMap<String, String>,
    /// Absent where the body is no text, or did not come whole.
    body: Option<String>,
}

impl Record {
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let file = File::options().create(true).append(true).open(path)?;
        Ok(Self(Arc::new(file)))
    }

    /// Appends a request.
    pub(crate) fn keep(&self, access: &Access, entry: &Entry, body: Option<&[u8]>) {
        let line = Line {
            at: &entry.at,
            method: &entry.method,
            path: &entry.path,
            headers: &entry.headers,
            body: body
                .and_then(|bytes| std::str::from_utf8(bytes).ok())
                .map(|text| access.redact(text)),
        };
        let written = serde_json::to_vec(&line)
            .map_err(io::Error::from)
            .and_then(|mut line| {
                line.push(b'\n');
                (&*self.0).write_all(&line)
            });
        if let Err(error) = written {
            tracing::error!(error = %error, "recording a request failed");
        }
    }
}
