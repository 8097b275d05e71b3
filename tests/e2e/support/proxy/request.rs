//! One request of the operator or of a command, as the API server understands it. The service's paths are read in the
//! same way: `POST /api/v1/runs` is `create runs`, `GET /api/v1/runs/ID/events` is `get runs/events`.

use axum::body::Bytes;
use axum::http::request::Parts;
use axum::http::{Method, header};
use url::form_urlencoded;

/// A request, or an event of a stream, of which only the verb is known.
#[derive(Clone, Debug, Default)]
pub(crate) struct Asked {
    /// `get`, `list`, `watch`, `create`, `patch`, `update` or `delete`; `event`.
    pub(crate) verb: &'static str,
    /// `runs`, or with a subresource `runs/status`.
    pub(crate) resource: String,
    /// The object; of a list or a watch the one that its field selector names.
    pub(crate) name: Option<String>,
    /// The forms of the answer that it takes.
    pub(crate) accept: String,
    /// Its body.
    pub(crate) body: String,
    /// The answer's status; none while there is none.
    pub(crate) status: Option<u16>,
}

impl Asked {
    /// One that is not answered yet.
    pub(crate) fn of(parts: &Parts, body: &Bytes) -> Self {
        let uri = &parts.uri;
        let mut segments: Vec<&str> = uri.path().trim_matches('/').split('/').collect();
        // /api/v1/… and /apis/GROUP/VERSION/…
        let prefix = if segments[0] == "api" { 2 } else { 3 };
        segments.drain(..prefix.min(segments.len()));
        if segments.len() > 2 && segments[0] == "namespaces" {
            segments.drain(..2);
        }
        let mut segments = segments.into_iter();
        let mut resource = segments.next().unwrap_or_default().to_owned();
        let named = segments.next().map(str::to_owned);
        if let Some(sub) = segments.next() {
            resource = format!("{resource}/{sub}");
        }
        let query = |key: &str| {
            let pairs = form_urlencoded::parse(uri.query().unwrap_or_default().as_bytes());
            let mut found = pairs.filter(|(k, _)| k == key);
            found.next().map(|(_, value)| value.into_owned())
        };
        let selected = query("fieldSelector")
            .and_then(|selector| selector.strip_prefix("metadata.name=").map(str::to_owned));
        let watches = query("watch").is_some_and(|value| value == "true" || value == "1");
        let verb = match parts.method {
            Method::GET if watches => "watch",
            Method::GET if named.is_some() => "get",
            Method::GET => "list",
            Method::POST => "create",
            Method::PATCH => "patch",
            Method::PUT => "update",
            Method::DELETE => "delete",
            _ => "other",
        };
        let accept = parts.headers.get(header::ACCEPT);
        let accept = accept.and_then(|value| value.to_str().ok());
        Self {
            verb,
            resource,
            name: named.or(selected),
            accept: accept.unwrap_or_default().to_owned(),
            body: String::from_utf8_lossy(body).into_owned(),
            status: None,
        }
    }

    /// An event of a stream.
    pub(super) fn event() -> Self {
        Self {
            verb: "event",
            ..Self::default()
        }
    }

    /// True if it is this kind of request.
    pub(crate) fn is(&self, verb: &str, resource: &str) -> bool {
        self.verb == verb && self.resource == resource
    }

    /// True if it is for a whole collection, from which a cache is filled.
    pub(crate) fn fills(&self) -> bool {
        self.verb == "list" && (self.name.is_none() || self.resource == "secrets")
    }
}
