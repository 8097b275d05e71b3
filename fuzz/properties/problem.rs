//! An error, from its head and body to what is done about it and what the object shows of it.

use std::collections::HashMap;
use std::time::Duration;

use serde_json::Value;
use serde_json::value::RawValue;

use super::said::{CONTRACT, REDACTOR, Said, fit, hides_the_token, request_id};
use crate::api::Reason;
use crate::api::contract::CodeClass;
use crate::decide::delays;
use crate::decide::failure::{Call, Class, FailedCall, Failure, FailureKind, classify};
use crate::service::send::{Head, PROBLEM, PROBLEM_BYTES, refused};
use crate::service::text::lossy;

pub fn problem(input: &[u8]) {
    let Some(said) = Said::read(input) else {
        return;
    };
    let call = match said.to {
        "POST" => Call::Create,
        "GET" => Call::Get,
        "CANCEL" => Call::Cancel,
        _ => return,
    };
    let failure_of = |media_type_too, body: &[u8]| {
        let head = said.head(media_type_too)?;
        let refuses = head.status.is_client_error() || head.status.is_server_error();
        refuses.then(|| failure(head, body))
    };
    let Some(failure) = failure_of("", said.body) else {
        return;
    };
    is_fit(&failure);
    waits_within_bounds(&failure);
    let failed = FailedCall::new(call, failure, &CONTRACT);
    is_right(&failed);

    // The title is never branched on (rule 8), and neither are unknown fields or the media type's parameters.
    if let Ok(Value::Object(mut said)) = serde_json::from_str(&lossy(said.body)) {
        said.insert("title".to_owned(), "Already retried; not found".into());
        said.insert("x-unknown".to_owned(), "retryable".into());
        let body = Value::Object(said).to_string();
        let other = failure_of("; charset=utf-8", body.as_bytes()).unwrap();
        // Larger than a problem may be, it is none.
        if body.len() <= PROBLEM_BYTES && failed.failure.code.is_some() {
            assert_eq!(classify(call, &other, &CONTRACT), failed.class);
            assert_eq!(other.request_id, failed.failure.request_id);
        }
    }
}

/// As the client's own reading, which stops before a body that is too large.
fn failure(head: Head, body: &[u8]) -> Failure {
    let named = head.is_media_type(PROBLEM) && body.len() <= PROBLEM_BYTES;
    let failure = refused(head, named.then_some(body), &REDACTOR);
    hides_the_token(&format!("{failure:?}"));
    assert_eq!(failure.code.is_some(), named && has_a_code(body));
    failure
}

/// Whether a body is an object with a code, of which something is left on one line within its bounds.
fn has_a_code(body: &[u8]) -> bool {
    let seen = |c: char| !c.is_control() && !c.is_whitespace();
    let body = lossy(body);
    let fields: Option<HashMap<String, &RawValue>> = serde_json::from_str(&body).ok();
    let code =
        fields.and_then(|fields| serde_json::from_str::<String>(fields.get("code")?.get()).ok());
    code.is_some_and(|code| code.chars().take(129).any(seen))
}

fn is_fit(failure: &Failure) {
    fit(&failure.message, 512);
    request_id(failure.request_id.as_deref());
    assert_eq!(failure.kind, FailureKind::Answered);
    match failure.code.as_deref() {
        Some(code) => {
            assert!(!code.is_empty());
            fit(code, 128);
        }
        None => assert_eq!(failure.retryable, None),
    }
}

/// What rules 9 and 10 allow, said from the other end: of each class, what must have been answered.
fn is_right(failed: &FailedCall) {
    let (call, failure) = (failed.call, &failed.failure);
    let status = failure.http_status.unwrap();
    let problem = failure.code.is_some();
    let code = CONTRACT.code(failure.code.as_deref().unwrap_or_default());
    // Nothing but a problem of the service says that a call is not to be retried.
    let hopeless = failure.retryable == Some(false);
    match failed.class {
        Class::NotSent | Class::NoFile | Class::Unreadable => panic!("the service answered"),
        Class::NoAnswer => assert!(!problem && status >= 500),
        Class::Passing => {
            assert!(!problem || [408, 425].contains(&status) || status >= 500);
            assert!(!hopeless);
        }
        Class::TooMany => assert!(status == 429 && !hopeless),
        Class::InProgress => {
            assert!(call == Call::Create && status == 409);
            assert_eq!(code, CodeClass::IdempotencyInProgress);
        }
        Class::Unauthorized => assert_eq!(status, 401),
        // A proxy's answer ends nothing.
        Class::Refused(reason) => {
            assert!(problem && (status < 500 || hopeless));
            match reason {
                Reason::RunNotFound => {
                    assert!(call != Call::Create && status == 404);
                    assert_eq!(code, CodeClass::RunNotFound);
                }
                Reason::CreateRefused => {
                    assert!(call == Call::Create && CONTRACT.refuses_create(status));
                }
                Reason::IdempotencyConflict => {
                    assert!(status == 409 && code == CodeClass::IdempotencyConflict);
                }
                _ => {}
            }
        }
    }
    // Nothing but a problem proves anything of a run.
    if failed.proves_not_created() {
        assert!(problem && (400..500).contains(&status));
        assert!(![408, 425].contains(&status));
        assert!(status != 409 || code != CodeClass::IdempotencyConflict);
        assert!(call != Call::Create || status != 409 || code != CodeClass::IdempotencyInProgress);
    }
    if failed.refuses_the_bytes() {
        assert!(failed.proves_not_created() && CONTRACT.refuses_create(status));
    }
}

fn waits_within_bounds(failure: &Failure) {
    for attempt in [1, 9, u32::MAX] {
        let wait = delays::backoff(attempt, failure.retry_after, 7);
        assert!(wait >= Duration::from_millis(500) && wait <= Duration::from_mins(10));
        let asked = failure
            .retry_after
            .map_or(Duration::ZERO, |d| d.min(Duration::from_mins(10)));
        assert!(wait >= asked);
    }
}
