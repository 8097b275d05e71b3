//! A success: what the client believes of it, and how much it keeps. The first word says what it answers.

use bytes::Bytes;

use super::said::{CONTRACT, REDACTOR, Said, fit, hides_the_token, request_id};
use crate::api::contract::StateClass;
use crate::api::limits::{MAX_RECORD, MAX_RUN_ID, MAX_SERVICE_VERSION, MAX_STATE};
use crate::decide::failure::{Call, Class, Failure, RunView, classify};
use crate::service::RunId;
use crate::service::client::Answer;
use crate::service::excerpt::Shown;

/// The run that every GET and cancellation asks for.
const ASKED: &str = "run-1";

pub fn answer(input: &[u8]) {
    let Some(said) = Said::read(input) else {
        return;
    };
    let Some(head) = said.head("").filter(|head| head.status.is_success()) else {
        return;
    };
    let mut shown = Shown::new(["/state", "/error/message", "/metrics/0"]);
    shown.read(said.body);
    let answer = Answer {
        head,
        body: Bytes::copy_from_slice(said.body),
        shown,
        contract: CONTRACT.clone(),
        redactor: REDACTOR.clone(),
    };
    let asked = RunId::parse(ASKED).unwrap();
    match said.to {
        "VERSION" => known(answer.version(), |reply| {
            if let Some(version) = &reply.version {
                fit(version, MAX_SERVICE_VERSION);
            }
            request_id(reply.request_id.as_deref());
        }),
        "WORKSPACE" => known(answer.workspace(), |reply| {
            fit(&reply.record, MAX_RECORD);
            hides_the_token(reply.identity.as_deref().unwrap_or_default());
            assert_ne!(reply.identity.as_deref(), Some(""));
            request_id(reply.request_id.as_deref());
        }),
        "POST" => known(answer.created(), |view| {
            assert!(view.run_id.is_some(), "a run without a name");
            is_fit(view);
        }),
        "GET" => known(answer.run(&asked), |view| is_of(view, ASKED)),
        "CANCEL" => known(answer.cancelled(&asked), |view| is_of(view, ASKED)),
        // An event's data, which is no answer of its own.
        "EVENT" => {
            let data = String::from_utf8_lossy(said.body);
            if let Some(state) = CONTRACT.event_state_of(&data) {
                assert!(!state.is_empty());
                judged(&state);
            }
        }
        _ => {}
    }
}

/// An answer that can't be read is a violation of the contract, and shows nothing of its body.
fn known<T>(read: Result<T, Failure>, holds: impl FnOnce(&T)) {
    match read {
        Ok(reply) => holds(&reply),
        Err(failure) => {
            for call in [Call::Create, Call::Get, Call::Cancel] {
                assert_eq!(classify(call, &failure, &CONTRACT), Class::Unreadable);
            }
            fit(&failure.message, 512);
            request_id(failure.request_id.as_deref());
            hides_the_token(&format!("{failure:?}"));
        }
    }
}

fn is_of(view: &RunView, asked: &str) {
    assert!(view.run_id.as_deref().is_none_or(|id| id == asked));
    is_fit(view);
}

fn is_fit(view: &RunView) {
    if let Some(id) = &view.run_id {
        fit(id, MAX_RUN_ID);
        RunId::parse(id).unwrap();
    }
    if let Some(state) = &view.state {
        fit(state, MAX_STATE);
        judged(state);
    }
    request_id(view.request_id.as_deref());
}

/// A state is an end only by the contract file's own words.
fn judged(state: &str) {
    let class = CONTRACT.state(state);
    assert_eq!(class, CONTRACT.state(&state.to_ascii_uppercase()));
    if class.terminal().is_some() {
        assert!(state.chars().all(|c| c.is_alphanumeric() || c == '_'));
    }
    assert_eq!(CONTRACT.state(&format!("{state} ")), StateClass::Unmapped);
}
