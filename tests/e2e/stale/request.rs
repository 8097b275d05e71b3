//! One request of the operator, as the API server understands it.

use axum::http::{Method, Uri};
use url::form_urlencoded;

/// A request to the API server.
#[derive(Clone, Debug, Default)]
pub(super) struct Asked {
    /// `get`, `list`, `watch`, `create`, `patch`, `update` or `delete`.
    pub(super) verb: &'static str,
    /// `runs`, or with a subresource `runs/status`.
    pub(super) resource: String,
    /// The object; of a list or a watch the one that its field selector names.
    pub(super) name: Option<String>,
    /// Its body.
    pub(super) body: String,
    /// The answer's status; none while there is none.
    pub(super) status: Option<u16>,
}

impl Asked {
    pub(super) fn of(method: &Method, uri: &Uri) -> Self {
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
        let verb = match *method {
            Method::GET if watches => "watch",
            Method::GET if named.is_some() => "get",
            Method::GET => "list",
            Method::POST => "create",
            Method::PATCH => "patch",
            Method::PUT => "update",
            Method::DELETE => "delete",
            _ => "other",
        };
        Self {
            verb,
            resource,
            name: named.or(selected),
            body: String::new(),
            status: None,
        }
    }

    /// True if it is this kind of request.
    pub(super) fn is(&self, verb: &str, resource: &str) -> bool {
        self.verb == verb && self.resource == resource
    }

    /// True if it is for a whole collection, from which a cache is filled.
    pub(super) fn fills(&self) -> bool {
        self.verb == "list" && (self.name.is_none() || self.resource == "secrets")
    }
}
