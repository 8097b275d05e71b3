//! Problem Details, the one shape of every error (rule 8).

use http::{Method, StatusCode};
use serde_json::{Map, Value, json};

/// The part of a request that broke a rule, and the problem that the client is sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Problem {
    pub(crate) status: StatusCode,
    pub(crate) code: String,
    pub(crate) title: String,
    pub(crate) retryable: bool,
    pub(crate) params: Map<String, Value>,
    /// A header that belongs to the status.
    pub(crate) header: Option<(&'static str, &'static str)>,
}

impl Problem {
    pub(crate) fn new(status: StatusCode, code: &str, title: impl Into<String>) -> Self {
        Self {
            status,
            code: code.to_owned(),
            title: title.into(),
            retryable: false,
            params: Map::new(),
            header: None,
        }
    }

    pub(crate) fn param(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.params.insert(name.to_owned(), value.into());
        self
    }

    fn header(mut self, name: &'static str, value: &'static str) -> Self {
        self.header = Some((name, value));
        self
    }

    /// The body as it is sent: the five members of docs/service.md and no others.
    pub(crate) fn body(&self, request_id: &str) -> Value {
        let mut body = json!({
            "code": self.code,
            "requestId": request_id,
            "retryable": self.retryable,
            "title": self.title,
        });
        if !self.params.is_empty() {
            body["params"] = Value::Object(self.params.clone());
        }
        body
    }

    pub(crate) fn unauthenticated(title: &str) -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "unauthenticated", title)
            .header("www-authenticate", "Bearer")
    }

    pub(crate) fn workspace_mismatch(sent: &str) -> Self {
        Self::new(
            StatusCode::FORBIDDEN,
            "workspace_mismatch",
            "The token is bound to another workspace than X-Service-Workspace-ID names",
        )
        .param("sent", sent)
    }

    pub(crate) fn run_not_found(run_id: &str) -> Self {
        Self::new(
            StatusCode::NOT_FOUND,
            "run_not_found",
            "There is no such run in this workspace",
        )
        .param("runId", run_id)
    }

    pub(crate) fn path_not_found(path: &str) -> Self {
        Self::new(
            StatusCode::NOT_FOUND,
            "path_not_found",
            "There is no such path",
        )
        .param("path", path)
    }

    pub(crate) fn method_not_allowed(method: &Method, allow: &'static str) -> Self {
        Self::new(
            StatusCode::METHOD_NOT_ALLOWED,
            "method_not_allowed",
            format!("{method} is not allowed here; allowed: {allow}"),
        )
        .header("allow", allow)
    }

    pub(crate) fn body_too_large(limit: usize) -> Self {
        Self::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            "body_too_large",
            format!("The request body is larger than {limit} bytes"),
        )
        .param("limitBytes", limit)
    }

    pub(crate) fn bad_request(code: &str, title: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, code, title)
    }

    /// A 422 that names the field, as a dotted path from the body's root.
    pub(crate) fn invalid_field(field: &str, reason: impl Into<String>) -> Self {
        let reason = reason.into();
        Self::new(
            StatusCode::UNPROCESSABLE_ENTITY,
            "validation_failed",
            format!("{field}: {reason}"),
        )
        .param("field", field)
        .param("reason", reason)
    }

    pub(crate) fn conflict(code: &str, title: &str) -> Self {
        Self::new(StatusCode::CONFLICT, code, title)
    }
}
