//! An error, from its head and body to what is done about it and what the object shows of it.

use std::collections::HashMap;
use std::time::Duration;

use serde_json::Value;
use serde_json::value::RawValue;

use super::said::{CONTRACT, REDACTOR, Said, fit, hides_the_token, request_id};
use crate::api::Reason;
use crate::api::contract::CodeClass;
use crate::decide::backoff;
use crate::decide::failure::{Call, Class, answers_not_created, classify, refuses_the_bytes};
use crate::decide::failure::{Failure, FailureKind};
use crate::service::attempt::refused;
use crate::service::head::Head;
use crate::service::problem::{PROBLEM_BYTES, Problem};
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
    let class = classify(&failure, call, &CONTRACT);
    is_right(class, &failure, call);
    waits_within_bounds(&failure);

    // The title is never branched on (rule 8), and neither are unknown fields or the media type's parameters.
    if let Ok(Value::Object(mut said)) = serde_json::from_str(&lossy(said.body)) {
        said.insert("title".to_owned(), "Already retried; not found".into());
        said.insert("x-unknown".to_owned(), "retryable".into());
        let body = Value::Object(said).to_string();
        let other = failure_of("; charset=utf-8", body.as_bytes()).unwrap();
        // Larger than a problem may be, it is none.
        if body.len() <= PROBLEM_BYTES && failure.kind == FailureKind::Problem {
            assert_eq!(classify(&other, call, &CONTRACT), class);
            assert_eq!(other.request_id, failure.request_id);
        }
    }
}

/// As the client's own reading, which stops before a body that is too large.
fn failure(head: Head, body: &[u8]) -> Failure {
    let named = Problem::is_named_by(&head) && body.len() <= PROBLEM_BYTES;
    let error = refused(head, named.then_some(body), &REDACTOR);
    hides_the_token(&format!("{error:?} {error}"));
    let failure = Failure::from(&error);
    let is_problem = failure.kind == FailureKind::Problem;
    assert_eq!(is_problem, named && has_a_code(body));
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
    match failure.kind {
        FailureKind::Problem => {
            let code = failure.code.as_deref().unwrap();
            assert!(!code.is_empty());
            fit(code, 128);
        }
        FailureKind::Bare => assert_eq!((&failure.code, failure.retryable), (&None, None)),
        other => panic!("an answer with an error status is no {other:?}"),
    }
}

/// What rules 9 and 10 allow, said from the other end: of each class, what must have been answered.
fn is_right(class: Class, failure: &Failure, call: Call) {
    let status = failure.http_status.unwrap();
    let problem = failure.kind == FailureKind::Problem;
    let code = CONTRACT.code(failure.code.as_deref().unwrap_or_default());
    match class {
        Class::Retry => {
            let passing = [408, 425, 429].contains(&status) || status >= 500;
            assert!(!problem || passing);
            assert_ne!(failure.retryable, Some(false));
        }
        Class::InProgress => {
            assert!(call == Call::Create && status == 409);
            assert_eq!(code, CodeClass::IdempotencyInProgress);
        }
        Class::Unauthorized => assert_eq!(status, 401),
        Class::Violation => panic!("an error is no violation"),
        Class::Refused(Reason::RunNotFound) => {
            assert!(status == 404 && code == CodeClass::RunNotFound);
        }
        Class::Refused(_) => assert_ne!(call, Call::Create),
        Class::Final(Reason::CreateRefused) => {
            assert!(call == Call::Create && CONTRACT.refuses_create(status));
        }
        Class::Final(Reason::IdempotencyConflict) => {
            assert!(status == 409 && code == CodeClass::IdempotencyConflict);
        }
        Class::Final(_) => assert!(status < 500 || failure.retryable == Some(false)),
    }
    // A proxy's answer ends nothing.
    let ends = matches!(class, Class::Final(_));
    assert!(!ends || problem && call == Call::Create);
    // Nothing but a problem proves anything of a run.
    if answers_not_created(failure, class) {
        assert!(problem && (400..500).contains(&status));
        assert!(![408, 425].contains(&status));
        assert!(status != 409 || code != CodeClass::IdempotencyConflict);
        assert!(status != 409 || code != CodeClass::IdempotencyInProgress);
    }
    if refuses_the_bytes(failure, class) {
        assert!(answers_not_created(failure, class) && CONTRACT.refuses_create(status));
    }
}

fn waits_within_bounds(failure: &Failure) {
    for attempt in [1, 9, u32::MAX] {
        let wait = backoff::delay(attempt, failure.retry_after, 7);
        assert!(wait >= Duration::from_millis(500) && wait <= Duration::from_mins(10));
        let asked = failure
            .retry_after
            .map_or(Duration::ZERO, |d| d.min(Duration::from_mins(10)));
        assert!(wait >= asked);
    }
}
