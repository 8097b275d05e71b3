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

#[cfg(test)]
mod tests {
    use http::Method;

    use super::{Operation, Route};

    #[test]
    fn every_endpoint_is_found() {
        for (method, path, operation, run_id) in [
            (Method::GET, "/api/v1/version", Operation::GetVersion, ""),
            (
                Method::GET,
                "/api/v1/workspaces/current",
                Operation::GetWorkspace,
                "",
            ),
            (Method::POST, "/api/v1/runs", Operation::CreateRun, ""),
            (Method::GET, "/api/v1/runs/r1", Operation::GetRun, "r1"),
            (
                Method::GET,
                "/api/v1/runs/r1/events",
                Operation::StreamEvents,
                "r1",
            ),
            (
                Method::POST,
                "/api/v1/runs/r1:cancel",
                Operation::CancelRun,
                "r1",
            ),
            (
                Method::GET,
                "/api/v1/runs/a%2Fb%3Fc%3Acancel",
                Operation::GetRun,
                "a/b?c:cancel",
            ),
        ] {
            let route = Route::of(&method, path).expect(path);
            assert_eq!(
                route,
                Route {
                    operation,
                    run_id: run_id.to_owned()
                },
                "{path}"
            );
        }
    }

    #[test]
    fn what_is_not_in_the_table_is_a_404_or_a_405() {
        for (method, path, status) in [
            (Method::GET, "/", 404),
            (Method::GET, "/api/v1", 404),
            (Method::GET, "/api/v1/version/", 404),
            (Method::GET, "/api/v1/runs/", 404),
            (Method::POST, "/api/v1/runs/:cancel", 404),
            (Method::GET, "/api/v2/version", 404),
            (Method::GET, "/api/v1/runs", 405),
            (Method::DELETE, "/api/v1/runs/r1", 405),
            (Method::GET, "/api/v1/runs/r1:cancel", 405),
        ] {
            let problem = Route::of(&method, path).expect_err(path);
            assert_eq!(problem.status.as_u16(), status, "{path}");
        }
    }
}
