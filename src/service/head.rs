//! An answer's status line and headers.

use std::time::Duration;

use http::StatusCode;
use http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use reqwest::Response;

use crate::clock;

use super::redact::Redactor;
use super::retry_after;
use super::text::request_id;

/// The header with the request's id (rule 11).
const REQUEST_ID: &str = "x-request-id";

/// The used parts of an answer's status line and headers.
#[derive(Debug)]
pub(super) struct Head {
    pub(super) status: StatusCode,
    pub(super) request_id: Option<String>,
    pub(super) retry_after: Option<Duration>,
    pub(super) media_type: Option<String>,
    /// The body is compressed, whatever was requested.
    pub(super) compressed: bool,
}

impl Head {
    pub(super) fn read(response: &Response, redactor: &Redactor) -> Self {
        let headers = response.headers();
        let media_type = headers
            .get(CONTENT_TYPE)
            .and_then(|value| value.to_str().ok())
            .and_then(|value| value.split(';').next())
            .map(|name| name.trim().to_ascii_lowercase());
        Self {
            status: response.status(),
            request_id: headers
                .get(REQUEST_ID)
                .and_then(|value| request_id(value.as_bytes()))
                .filter(|id| !redactor.is_in(id)),
            retry_after: retry_after::read(headers, clock::wall()),
            media_type,
            compressed: headers
                .get_all(CONTENT_ENCODING)
                .iter()
                .any(|coding| !coding.as_bytes().eq_ignore_ascii_case(b"identity")),
        }
    }

    /// Whether the body is of this media type, whatever its parameters.
    pub(super) fn is_media_type(&self, name: &str) -> bool {
        self.media_type.as_deref() == Some(name)
    }
}
