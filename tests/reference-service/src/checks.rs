//! Checks of requests. Strict, so that a client's mistake is found here and not at the real service.

use std::collections::BTreeMap;

use http::StatusCode;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::access::Caller;
use crate::problem::Problem;

pub(crate) const IDEMPOTENCY_KEY: &str = "idempotency-key";
pub(crate) const WORKSPACE_ID: &str = "x-service-workspace-id";
pub(crate) const LAST_EVENT_ID: &str = "last-event-id";
const MAX_KEY_LENGTH: usize = 255;

/// The one value of a header, as text. Two values, or bytes that are no text, are a 400.
pub(crate) fn single<'a>(headers: &'a HeaderMap, name: &str) -> Result<Option<&'a str>, Problem> {
    let mut values = headers.get_all(name).iter();
    let Some(value) = values.next() else {
        return Ok(None);
    };
    let problem = |what: &str| {
        Problem::bad_request("invalid_header", format!("{name} {what}")).param("header", name)
    };
    if values.next().is_some() {
        return Err(problem("was sent more than once"));
    }
    std::str::from_utf8(value.as_bytes())
        .map(Some)
        .map_err(|_| problem("is not text"))
}

/// The Bearer token (rule 3).
pub(crate) fn bearer(headers: &HeaderMap) -> Result<&str, Problem> {
    let value = single(headers, AUTHORIZATION.as_str())?
        .ok_or_else(|| Problem::unauthenticated("There is no Authorization header"))?;
    value
        .split_once(' ')
        .filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"))
        .map(|(_, token)| token)
        .ok_or_else(|| Problem::unauthenticated("The Authorization header is not a Bearer token"))
}

/// The workspace header may be left out; when it is sent it must be the token's (rule 4).
pub(crate) fn workspace(headers: &HeaderMap, caller: &Caller) -> Result<(), Problem> {
    match single(headers, WORKSPACE_ID)? {
        Some(sent) if sent != caller.workspace_id => Err(Problem::workspace_mismatch(sent)),
        _ => Ok(()),
    }
}

/// The key that every create must carry (rule 1).
pub(crate) fn idempotency_key(headers: &HeaderMap) -> Result<&str, Problem> {
    let key = single(headers, IDEMPOTENCY_KEY)?.ok_or_else(|| {
        Problem::bad_request("idempotency_key_missing", "Idempotency-Key is required")
    })?;
    if key.is_empty()
        || key.len() > MAX_KEY_LENGTH
        || !key.bytes().all(|byte| byte.is_ascii_graphic())
    {
        let title =
            format!("Idempotency-Key must be 1 to {MAX_KEY_LENGTH} visible ASCII characters");
        return Err(Problem::bad_request("idempotency_key_invalid", title));
    }
    Ok(key)
}

/// `application/json`, with no parameter but `charset=utf-8`.
pub(crate) fn content_type(headers: &HeaderMap) -> Result<(), Problem> {
    let sent = single(headers, CONTENT_TYPE.as_str())?.unwrap_or_default();
    let mut parts = sent.split(';').map(str::trim);
    let is_json = parts
        .next()
        .is_some_and(|kind| kind.eq_ignore_ascii_case("application/json"));
    if is_json && parts.all(|parameter| parameter.eq_ignore_ascii_case("charset=utf-8")) {
        return Ok(());
    }
    Err(Problem::new(
        StatusCode::UNSUPPORTED_MEDIA_TYPE,
        "unsupported_media_type",
        "Content-Type must be application/json",
    )
    .param("sent", sent))
}

/// The id of the last event that came (rule 2). With none there is nothing to resume from, and no header.
pub(crate) fn last_event_id(headers: &HeaderMap) -> Result<Option<&str>, Problem> {
    match single(headers, LAST_EVENT_ID)? {
        Some("") => Err(
            Problem::bad_request("invalid_header", "Last-Event-ID must not be empty")
                .param("header", LAST_EVENT_ID),
        ),
        id => Ok(id),
    }
}

/// A client that sends `Accept` must accept an event stream.
pub(crate) fn accepts_events(headers: &HeaderMap) -> Result<(), Problem> {
    let accepted = headers.get_all(ACCEPT).iter().any(|value| {
        value.to_str().is_ok_and(|value| {
            value.split(',').any(|range| {
                let kind = range.split(';').next().unwrap_or_default().trim();
                ["text/event-stream", "text/*", "*/*"].contains(&kind)
            })
        })
    });
    if accepted || !headers.contains_key(ACCEPT) {
        return Ok(());
    }
    Err(Problem::new(
        StatusCode::NOT_ACCEPTABLE,
        "not_acceptable",
        "This is a text/event-stream, which Accept does not allow",
    ))
}

/// Nothing is known to be sent in a body here, or in any query (rule 7: a token in a URL leaks).
pub(crate) fn no_query(query: Option<&str>) -> Result<(), Problem> {
    if query.is_none() {
        return Ok(());
    }
    Err(Problem::bad_request(
        "unexpected_query",
        "This API takes no query parameters",
    ))
}

pub(crate) fn no_body(body: &[u8]) -> Result<(), Problem> {
    if body.is_empty() {
        return Ok(());
    }
    Err(Problem::bad_request(
        "unexpected_body",
        "This request takes no body",
    ))
}

/// The body of a create: `workload` with at least an `image`, `provider` and `region`.
pub(crate) fn create_body(bytes: &[u8]) -> Result<Value, Problem> {
    let raw: &RawValue = serde_json::from_slice(bytes).map_err(|error| {
        Problem::bad_request("invalid_json", format!("The body is not JSON: {error}"))
    })?;
    let body = tree(raw, 2);
    let Some(object) = body.as_object() else {
        return Err(Problem::invalid_field("", "the body must be an object"));
    };
    if let Some(unknown) = object
        .keys()
        .find(|name| !["workload", "provider", "region"].contains(&name.as_str()))
    {
        return Err(Problem::invalid_field(
            unknown,
            "is not a field of this request",
        ));
    }
    if !body["workload"].is_object() {
        return Err(Problem::invalid_field("workload", "must be an object"));
    }
    text(&body["workload"]["image"], "workload.image")?;
    text(&body["provider"], "provider")?;
    text(&body["region"], "region")?;
    Ok(body)
}

/// A value as a tree. What nests too deep for one is stood for by its text, in objects of so many levels.
fn tree(raw: &RawValue, levels: u32) -> Value {
    if let Ok(value) = serde_json::from_str(raw.get()) {
        return value;
    }
    match serde_json::from_str::<BTreeMap<String, &RawValue>>(raw.get()) {
        Ok(members) if levels > 0 => members
            .into_iter()
            .map(|(name, member)| (name, tree(member, levels - 1)))
            .collect(),
        _ => raw.get().into(),
    }
}

fn text(value: &Value, field: &str) -> Result<(), Problem> {
    match value.as_str() {
        Some(text) if !text.trim().is_empty() => Ok(()),
        Some(_) => Err(Problem::invalid_field(field, "must not be empty")),
        None if value.is_null() => Err(Problem::invalid_field(field, "is required")),
        None => Err(Problem::invalid_field(field, "must be a string")),
    }
}
