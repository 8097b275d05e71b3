//! Problem Details, the body of an error (rule 8).

use std::collections::HashMap;
use std::time::Duration;

use serde_json::value::RawValue;

use crate::api::limits::MAX_CODE;

use super::head::Head;
use super::redact::Redactor;
use super::text::{MESSAGE_BYTES, lossy, one_line, request_id};

/// Bytes of a problem body; a larger one is not the service's.
pub(super) const PROBLEM_BYTES: usize = 64 * 1024;
const MEDIA_TYPE: &str = "application/problem+json";

/// An error as the service describes it (rule 8). No field holds the token.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the service answered HTTP {status} with the code {code:?}")]
pub struct Problem {
    /// The answer's status, 400 to 599.
    pub status: u16,
    /// Stable and machine-readable: policy branches on it. One line of at most 128 bytes.
    pub code: String,
    /// For a person; never branched on. One line of at most 512 bytes.
    pub title: Option<String>,
    /// The same request may succeed later, by the service's answer (rule 10).
    pub retryable: Option<bool>,
    /// `X-Request-ID`, else the body's `requestId` (rule 11).
    pub request_id: Option<String>,
    /// The answer's `Retry-After`, unclamped.
    pub retry_after: Option<Duration>,
}

impl Problem {
    /// Whether an answer declares its body a problem. Only the media type decides (rule 8): an `application/json` body
    /// with a `code` in it is a proxy's own.
    pub(super) fn is_named_by(head: &Head) -> bool {
        head.is_media_type(MEDIA_TYPE)
    }

    /// Reads a body. `None` if it is no JSON object with a `code`: then it is not the service's, despite its media
    /// type. All other fields may be absent or of the wrong type.
    pub(super) fn read(head: &Head, body: &[u8], redactor: &Redactor) -> Option<Self> {
        let body = lossy(body);
        // Fields that are not read, such as `params`, may be of any depth.
        let fields: HashMap<String, &RawValue> = serde_json::from_str(&body).ok()?;
        let string = |field: &str| serde_json::from_str::<String>(fields.get(field)?.get()).ok();
        let text = |field: &str, max: usize| {
            let text = one_line(&redactor.text(&string(field)?), max);
            (!text.is_empty()).then_some(text)
        };
        Some(Self {
            status: head.status.as_u16(),
            code: text("code", MAX_CODE)?,
            title: text("title", MESSAGE_BYTES),
            retryable: fields
                .get("retryable")
                .and_then(|value| serde_json::from_str(value.get()).ok()),
            request_id: head.request_id.clone().or_else(|| {
                let id = string("requestId")?;
                request_id(id.as_bytes()).filter(|id| !redactor.is_in(id))
            }),
            retry_after: head.retry_after,
        })
    }
}
