//! What goes into a URL or a header, a line each: base URL, runID, idempotency key, workspace's id, token, event's
//! id (which may have more lines).

use percent_encoding::percent_decode_str;

use super::said::CONTRACT;
use crate::service::send::{Request, can_be_sent};
use crate::service::{AllowList, BaseUrl, Credentials, IdempotencyKey, RunId, Token, WorkspaceId};

pub fn identifiers(input: &[u8]) {
    let mut lines = input.splitn(6, |b| *b == b'\n');
    let mut bytes = || lines.next().unwrap_or_default();
    let mut text = || String::from_utf8_lossy(bytes());
    let (url, run_id, key, workspace, token, event) =
        (text(), text(), text(), text(), text(), text());
    let Some(base) = base_url(&url) else { return };
    let Some(who) = credentials(&workspace, &token) else {
        return;
    };
    if let Ok(run_id) = RunId::parse(&run_id) {
        one_segment(&base, &who, &run_id, &event);
    }
    if let Ok(key) = IdempotencyKey::parse(&key) {
        let body = bytes::Bytes::from_static(b"{}");
        let create = Request::create_run(&base, &who, &key, body).unwrap();
        assert_eq!(create.http.headers()["idempotency-key"], key.as_str());
        stays_at(&base, &create, "/runs");
    }
}

/// An allowed address reads the same once it is normalised, and allows nothing beside itself.
fn base_url(text: &str) -> Option<BaseUrl> {
    let other = AllowList::parse(["https://elsewhere.example"], true).unwrap();
    if let Ok(base) = BaseUrl::parse(text, &other) {
        let rest = base.as_str().strip_prefix("https://elsewhere.example");
        assert!(rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/')));
    }
    let allowed = AllowList::parse([text], true).ok()?;
    let base = BaseUrl::parse(text, &allowed).unwrap();
    assert_eq!(BaseUrl::parse(base.as_str(), &allowed).as_ref(), Ok(&base));
    if let Ok(strict) = AllowList::parse([text], false) {
        let host = url::Url::parse(base.as_str()).unwrap();
        let host = host.host_str().unwrap().to_owned();
        let here = ["localhost", "[::1]"].contains(&&*host) || host.starts_with("127.");
        assert!(
            base.is_https() || here,
            "{base} would send a token readable"
        );
        assert_eq!(BaseUrl::parse(text, &strict).as_ref(), Ok(&base));
    }
    Some(base)
}

fn credentials(workspace: &str, token: &str) -> Option<Credentials> {
    let token = Token::parse(token.as_bytes(), &CONTRACT).ok()?;
    let header = token.header().unwrap();
    assert!(header.is_sensitive() && header.as_bytes().starts_with(b"Bearer "));
    assert_eq!(&header.as_bytes()[7..], token.exposed().as_bytes());
    Some(Credentials {
        token,
        workspace_id: WorkspaceId::parse(workspace).ok(),
    })
}

/// A runID is one segment wherever it goes, and can be read back out of it.
fn one_segment(base: &BaseUrl, who: &Credentials, run_id: &RunId, event: &str) {
    let segment = run_id.segment().to_string();
    assert!(
        segment
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"-._~%".contains(&b))
    );
    assert_eq!(run_id.to_string(), run_id.as_str());
    let back: Vec<u8> = percent_decode_str(&segment).collect();
    assert_eq!(back, run_id.as_str().as_bytes());

    let get = Request::get_run(base, who, run_id).unwrap();
    stays_at(base, &get, &format!("/runs/{segment}"));
    let cancel = Request::cancel_run(base, who, run_id).unwrap();
    stays_at(base, &cancel, &format!("/runs/{segment}:cancel"));
    let resumed = Some(event).filter(|id| can_be_sent(id));
    let events = Request::run_events(base, who, run_id, resumed).unwrap();
    stays_at(base, &events, &format!("/runs/{segment}/events"));
    let sent = events.http.headers().get("last-event-id");
    assert_eq!(
        sent.map(http::HeaderValue::as_bytes),
        resumed.filter(|id| !id.is_empty()).map(str::as_bytes)
    );
}

/// A request leads below the base URL, to this path and nowhere else, and carries what it must.
fn stays_at(base: &BaseUrl, request: &Request, path: &str) {
    let url = request.http.url();
    assert_eq!(url.as_str(), format!("{base}{path}"));
    assert!(url.username().is_empty() && url.query().is_none());
    assert!(request.http.headers()["authorization"].is_sensitive());
}
