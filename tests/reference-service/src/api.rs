//! The six operations: from a request that has been read to a reply.

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use serde_json::Value;

use crate::access::Caller;
use crate::app::{App, Inner};
use crate::checks;
use crate::plan::{Millis, is_terminal};
use crate::problem::Problem;
use crate::route::{Operation, Route};
use crate::table::Create;

pub(crate) const JSON: &str = "application/json";
pub(crate) const PROBLEM: &str = "application/problem+json";

/// A request of the API, whole.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) request_id: String,
    pub(crate) route: Result<Route, Problem>,
    pub(crate) query: Option<String>,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Result<Bytes, Problem>,
}

#[derive(Debug)]
pub(crate) enum Content {
    Bytes(&'static str, Bytes),
    /// The events of a run, from this position on.
    Events {
        run_id: String,
        position: usize,
    },
}

#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) content: Content,
}

impl Reply {
    fn json(status: StatusCode, body: &Value) -> Self {
        Self {
            status,
            headers: HeaderMap::new(),
            content: Content::Bytes(JSON, Bytes::from(body.to_string())),
        }
    }

    pub(crate) fn problem(problem: &Problem, request_id: &str) -> Self {
        let mut headers = HeaderMap::new();
        if let Some((name, value)) = problem.header {
            headers.insert(name, HeaderValue::from_static(value));
        }
        Self {
            status: problem.status,
            headers,
            content: Content::Bytes(PROBLEM, Bytes::from(problem.body(request_id).to_string())),
        }
    }
}

impl Call {
    pub(crate) fn operation(&self) -> Operation {
        let route = self.route.as_ref();
        route.map_or(Operation::Unknown, |route| route.operation)
    }

    pub(crate) fn run_id(&self) -> Option<&str> {
        let id = self.route.as_ref().ok()?.run_id.as_str();
        (!id.is_empty()).then_some(id)
    }

    /// Does what the request asks for, at once and as a whole.
    pub(crate) fn execute(&self, app: &App) -> Reply {
        app.with(|inner, now| self.answer(inner, now))
            .unwrap_or_else(|problem| Reply::problem(&problem, &self.request_id))
    }

    /// The order of the checks: path, token, workspace, then what the operation needs.
    fn answer(&self, inner: &mut Inner, now: Millis) -> Result<Reply, Problem> {
        let route = self.route.as_ref().map_err(Clone::clone)?;
        if route.operation == Operation::GetVersion {
            checks::no_query(self.query.as_deref())?;
            checks::no_body(self.body()?)?;
            return Ok(Reply::json(StatusCode::OK, &inner.version));
        }
        let caller = inner
            .access
            .authenticate(checks::bearer(&self.headers)?, now)?;
        checks::workspace(&self.headers, &caller)?;
        checks::no_query(self.query.as_deref())?;
        if route.operation != Operation::CreateRun {
            checks::no_body(self.body()?)?;
        }
        match route.operation {
            Operation::GetWorkspace => {
                let workspace = inner.access.workspace_resource(&caller.workspace);
                Ok(Reply::json(StatusCode::OK, &workspace))
            }
            Operation::CreateRun => self.create(inner, now, &caller),
            Operation::GetRun => {
                let run = inner.table.find(&caller.workspace, &route.run_id)?;
                run.received.gets += 1;
                Ok(Reply::json(
                    StatusCode::OK,
                    &run.resource(&caller.workspace_id),
                ))
            }
            Operation::StreamEvents => self.stream(inner, &caller, &route.run_id),
            Operation::CancelRun => {
                let run = inner.table.find(&caller.workspace, &route.run_id)?;
                let status = if is_terminal(&run.state) {
                    StatusCode::OK
                } else {
                    StatusCode::ACCEPTED
                };
                let run = inner.table.cancel(now, &caller.workspace, &route.run_id)?;
                Ok(Reply::json(status, &run.resource(&caller.workspace_id)))
            }
            Operation::GetVersion | Operation::Unknown => Err(Problem::path_not_found("")),
        }
    }

    fn body(&self) -> Result<&Bytes, Problem> {
        self.body.as_ref().map_err(Clone::clone)
    }

    fn create(&self, inner: &mut Inner, now: Millis, caller: &Caller) -> Result<Reply, Problem> {
        let key = checks::idempotency_key(&self.headers)?;
        checks::content_type(&self.headers)?;
        let create = Create {
            workspace: &caller.workspace,
            key,
            body: checks::create_body(self.body()?)?,
        };
        let created = inner.table.create(now, create)?;
        let run = created.run.resource(&caller.workspace_id);
        if !created.replayed {
            return Ok(Reply::json(StatusCode::CREATED, &run));
        }
        let mut reply = Reply::json(StatusCode::OK, &run);
        let replayed = HeaderName::from_static("idempotency-replayed");
        let yes = HeaderValue::from_static("true");
        reply.headers.insert(replayed, yes);
        Ok(reply)
    }

    fn stream(&self, inner: &mut Inner, caller: &Caller, run_id: &str) -> Result<Reply, Problem> {
        checks::accepts_events(&self.headers)?;
        let last_event_id = checks::last_event_id(&self.headers)?;
        let run = inner.table.find(&caller.workspace, run_id)?;
        run.received.streams += 1;
        let position = run.position_after(last_event_id);
        Ok(Reply {
            status: StatusCode::OK,
            headers: HeaderMap::new(),
            content: Content::Events {
                run_id: run_id.to_owned(),
                position,
            },
        })
    }
}
