//! `/_control`: what tests and the demo see and steer. Without authentication, for callers on the
//! same machine only.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use axum::body::Body;
use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderValue};
use http::request::Parts;
use http::{Method, Response, StatusCode};
use percent_encoding::percent_decode_str;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::access::{Token, is_legal_token};
use crate::api::{JSON, PROBLEM};
use crate::app::{App, Inner, WORKSPACE};
use crate::faults::{Action, Fault};
use crate::plan::Millis;
use crate::problem::Problem;
use crate::run::{Event, Run, timestamp};

const PREFIX: &str = "/_control";

type Done = Result<(StatusCode, Value), Problem>;

pub(crate) fn owns(path: &str) -> bool {
    path.strip_prefix(PREFIX)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

pub(crate) fn handle(
    app: &Arc<App>,
    peer: SocketAddr,
    parts: &Parts,
    body: Result<Bytes, Problem>,
) -> Response<Body> {
    let done = if peer.ip().to_canonical().is_loopback() {
        body.and_then(|body| dispatch(app, &parts.method, parts.uri.path(), &body))
    } else {
        let title = "The control API answers callers on its own machine only";
        Err(Problem::new(StatusCode::FORBIDDEN, "not_local", title))
    };
    let (status, kind, body) = match done {
        Ok((status, body)) => (status, JSON, body),
        Err(problem) => {
            let request_id = app.with(|inner, _| inner.request_id());
            (problem.status, PROBLEM, problem.body(&request_id))
        }
    };
    let mut response = Response::new(Body::from(format!("{body}\n")));
    *response.status_mut() = status;
    response
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

fn dispatch(app: &App, method: &Method, path: &str, body: &[u8]) -> Done {
    let decoded: Vec<String> = path
        .split('/')
        .skip(2)
        .map(|segment| percent_decode_str(segment).decode_utf8_lossy().into_owned())
        .collect();
    let segments: Vec<&str> = decoded.iter().map(String::as_str).collect();
    match (method.as_str(), segments.as_slice()) {
        ("GET", ["stats"]) => ok(app.with(|inner, _| stats(app, inner))),
        ("DELETE", ["stats"]) => {
            app.gauges.max_in_flight.store(0, Ordering::Relaxed);
            ok(json!({}))
        }
        ("GET", ["runs"]) => ok(app.with(|inner, _| runs(inner))),
        ("GET", ["requests"]) => {
            ok(app.with(|inner, _| json!(inner.ledger.entries().collect::<Vec<_>>())))
        }
        ("DELETE", ["requests"]) => {
            app.with(|inner, _| inner.ledger.clear_entries());
            ok(json!({}))
        }
        ("GET", ["faults"]) => ok(app.with(|inner, _| json!(inner.faults.rules()))),
        ("POST", ["faults"]) => add_fault(app, parse(body)?),
        ("DELETE", ["faults"]) => remove_faults(app, None),
        ("DELETE", ["faults", id]) => remove_faults(app, Some(id.parse().unwrap_or(0))),
        ("POST", ["tokens"]) => add_token(app, parse(body)?),
        ("PATCH", ["tokens", name]) => {
            let Expiry { expires_after_ms } = parse(body)?;
            change_token(app, name, |token, now| {
                token.expires = expires_after_ms.map(|after| now.saturating_add(after));
            })
        }
        ("DELETE", ["tokens", name]) => change_token(app, name, |token, _| token.revoked = true),
        ("POST", ["hold"]) => {
            app.with(|inner, _| inner.table.hold_all());
            ok(json!({}))
        }
        ("POST", ["runs", id, verb]) => steer(app, id, verb, body),
        ("PUT", ["version"]) => {
            let version: Value = parse(body)?;
            app.with(|inner, _| inner.version = version.clone());
            ok(version)
        }
        ("PUT", ["workspaces", workspace]) => {
            let Announced { id } = parse(body)?;
            app.with(|inner, _| inner.access.announce(workspace, id));
            ok(json!({}))
        }
        ("DELETE", ["streams"]) => ok(json!({"cut": app.cut_streams()})),
        _ => Err(Problem::path_not_found(path)),
    }
}

#[expect(
    clippy::unnecessary_wraps,
    reason = "every arm of the dispatch is a Result"
)]
fn ok(body: Value) -> Done {
    Ok((StatusCode::OK, body))
}

/// Parses a body; an empty one is an empty object.
fn parse<T: DeserializeOwned>(body: &[u8]) -> Result<T, Problem> {
    let body = if body.is_empty() { b"{}" } else { body };
    serde_json::from_slice(body)
        .map_err(|error| Problem::bad_request("invalid_control_body", error.to_string()))
}

fn stats(app: &App, inner: &Inner) -> Value {
    let mut by_state: BTreeMap<&str, u64> = BTreeMap::new();
    for run in inner.table.runs() {
        *by_state.entry(run.state.as_str()).or_default() += 1;
    }
    json!({
        "requests": inner.ledger.counts(),
        "runsCreated": inner.table.runs().count(),
        "runsByState": by_state,
        "idempotencyKeysSeen": inner.table.keys_seen(),
        "cancels": inner.table.runs().map(|run| run.received.cancels).sum::<u64>(),
        "unauthenticated": inner.ledger.count_of_status("401"),
        "authorizationOnVersion": inner.ledger.authorization_on_version,
        "openStreams": app.gauges.open_streams.load(Ordering::Relaxed),
        "openConnections": app.gauges.open_connections.load(Ordering::Relaxed),
        "maxInFlight": app.gauges.max_in_flight.load(Ordering::Relaxed),
    })
}

fn runs(inner: &Inner) -> Value {
    let mut runs: Vec<&Run> = inner.table.runs().collect();
    runs.sort_by_key(|run| run.number);
    runs.into_iter()
        .map(|run| {
            json!({
                "runId": run.id,
                "workspace": run.workspace,
                "idempotencyKey": run.key,
                "state": run.state,
                "body": run.body,
                "createdAt": timestamp(run.created),
                "entered": run.entered.iter().map(|(state, at)| json!({"state": state, "at": timestamp(*at)})).collect::<Vec<_>>(),
                "events": run.events.len(),
                "lastEventId": run.events.last().map(|event| &event.id),
                "posts": run.received.posts,
                "gets": run.received.gets,
                "cancels": run.received.cancels,
                "streams": run.received.streams,
            })
        })
        .collect()
}

fn token_json(token: &Token) -> Value {
    json!({
        "fingerprint": token.fingerprint,
        "workspace": token.workspace,
        "expiresAt": token.expires.map(timestamp),
        "revoked": token.revoked,
    })
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct NewToken {
    token: Option<String>,
    workspace: Option<String>,
    expires_after_ms: Option<Millis>,
}

/// Answers with the token only when it was made here.
fn add_token(app: &App, new: NewToken) -> Done {
    if new
        .token
        .as_deref()
        .is_some_and(|token| !is_legal_token(token))
    {
        return Err(Problem::invalid_field("token", "can't be sent in a header"));
    }
    let workspace = new.workspace.unwrap_or_else(|| WORKSPACE.to_owned());
    app.with(|inner, now| {
        let made = new.token.is_none();
        let token = new.token.unwrap_or_else(|| {
            format!(
                "tok_{:016x}{:016x}",
                inner.random.u64(..),
                inner.random.u64(..)
            )
        });
        let expires = new.expires_after_ms.map(|after| now.saturating_add(after));
        let mut body = token_json(&inner.access.add_token(&token, &workspace, expires));
        if made {
            body["token"] = token.into();
        }
        Ok((StatusCode::CREATED, body))
    })
}

fn change_token(app: &App, name: &str, change: impl FnOnce(&mut Token, Millis)) -> Done {
    app.with(|inner, now| {
        let token = inner.access.token_mut(name).ok_or_else(|| {
            Problem::new(
                StatusCode::NOT_FOUND,
                "token_not_found",
                "There is no such token",
            )
        })?;
        change(token, now);
        ok(token_json(token))
    })
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Expiry {
    /// Absent: it does not expire.
    expires_after_ms: Option<Millis>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Announced {
    id: String,
}

fn add_fault(app: &App, fault: Fault) -> Done {
    if let Action::Stream(script) = &fault.action {
        script.pieces()?;
    }
    let id = app.with(|inner, _| inner.faults.add(fault));
    Ok((StatusCode::CREATED, json!({"id": id})))
}

fn remove_faults(app: &App, id: Option<u64>) -> Done {
    ok(json!({"removed": app.with(|inner, _| inner.faults.remove(id))}))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewState {
    state: String,
    /// False: the state changes without an event.
    #[serde(default = "yes")]
    event: bool,
}

fn yes() -> bool {
    true
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct NewEvent {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    data: Value,
    /// Absent: the next id.
    id: Option<String>,
}

fn steer(app: &App, id: &str, verb: &str, body: &[u8]) -> Done {
    app.with(|inner, now| {
        let table = &mut inner.table;
        match verb {
            "advance" => {
                if !table.change(id, |run| run.step(now))? {
                    return Err(Problem::conflict(
                        "no_next_step",
                        "This run has no next step",
                    ));
                }
            }
            "state" => {
                let new: NewState = parse(body)?;
                table.set_state(now, id, &new.state, !new.event)?;
            }
            "events" => {
                let new: NewEvent = parse(body)?;
                let next = table.get(id).map(Run::next_event_id);
                let data = match new.data {
                    Value::String(text) => text,
                    other => other.to_string(),
                };
                let event = Event {
                    id: new.id.or(next).unwrap_or_default(),
                    kind: new.kind,
                    data,
                };
                table.emit(id, event)?;
            }
            _ => return Err(Problem::path_not_found(verb)),
        }
        let run = table.get(id).ok_or_else(|| Problem::run_not_found(id))?;
        ok(json!({"runId": run.id, "state": run.state, "events": run.events.len()}))
    })
}
