//! Paths and methods: docs/service.md's table of endpoints.

use http::Method;
use percent_encoding::percent_decode_str;
use serde::{Deserialize, Serialize};

use crate::problem::Problem;

pub(crate) const BASE: &str = "/api/v1";

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Operation {
    GetVersion,
    GetWorkspace,
    CreateRun,
    GetRun,
    StreamEvents,
    CancelRun,
    /// No endpoint of the API: a 404 or a 405.
    Unknown,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Route {
    pub(crate) operation: Operation,
    /// Decoded from the path; empty where the path has none.
    pub(crate) run_id: String,
}

impl Route {
    pub(crate) fn of(method: &Method, path: &str) -> Result<Self, Problem> {
        let not_found = || Problem::path_not_found(path);
        let rest = path.strip_prefix(BASE).ok_or_else(not_found)?;
        let segments: Vec<&str> = rest.split('/').skip(1).collect();
        let (operation, id, allow) = match segments.as_slice() {
            ["version"] => (Operation::GetVersion, "", "GET"),
            ["workspaces", "current"] => (Operation::GetWorkspace, "", "GET"),
            ["runs"] => (Operation::CreateRun, "", "POST"),
            ["runs", id, "events"] => (Operation::StreamEvents, *id, "GET"),
            ["runs", last] => match last.strip_suffix(":cancel") {
                Some(id) => (Operation::CancelRun, id, "POST"),
                None => (Operation::GetRun, *last, "GET"),
            },
            _ => return Err(not_found()),
        };
        if segments.first() == Some(&"runs") && segments.len() > 1 && id.is_empty() {
            return Err(not_found());
        }
        if method.as_str() != allow {
            return Err(Problem::method_not_allowed(method, allow));
        }
        let run_id = percent_decode_str(id)
            .decode_utf8()
            .map_err(|_| not_found())?;
        Ok(Self {
            operation,
            run_id: run_id.into_owned(),
        })
    }
}
