//! Every type of fault of the reference service, each with an echo wherever it has room for one.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

/// A fault by its name, which is the name of the Run that it meets too.
pub(super) struct Echo {
    pub(super) name: String,
    pub(super) action: Value,
    /// A create that is answered so needs a person's retry.
    pub(super) is_final: bool,
}

/// Refusals after which a request is not repeated automatically.
const FINAL: [&str; 3] = ["refusal", "conflict", "invalid"];

/// The faults of every operation. `mark` is repeated beside the secret: it shows that an echo got through.
pub(super) fn of_any_answer(mark: &str, secret: &str, elsewhere: u16) -> Vec<Echo> {
    let echo = format!("{mark} got Bearer {secret}!");
    let word = format!("{mark}.{secret}");
    let coded = STANDARD.encode(format!("Bearer {secret}"));
    let refused = |status: u16| {
        json!({
            "type": "answer", "status": status, "code": word, "title": format!("{echo} {coded}"),
            "params": {"token": secret},
            "headers": {
                "X-Request-ID": word, "X-Debug": echo, "Set-Cookie": format!("token={secret}"),
                "WWW-Authenticate": format!("Bearer realm=\"{secret}\""),
                "Location": format!("http://127.0.0.1:{elsewhere}/{secret}"),
            },
        })
    };
    let problem = json!({"code": word, "title": coded, "requestId": word, "retryable": true});
    let actions = [
        ("refusal", refused(403)),
        ("conflict", refused(409)),
        ("invalid", refused(418)),
        ("unauthorized", refused(401)),
        ("throttled", refused(429)),
        ("failing", refused(503)),
        (
            "problem",
            json!({
                "type": "answer", "status": 500, "body": problem.to_string(),
                "contentType": "application/problem+json",
            }),
        ),
        (
            "page",
            json!({"type": "answer", "status": 502, "body": echo}),
        ),
        (
            "nonsense",
            json!({"type": "answer", "status": 200, "body": echo}),
        ),
        (
            "odd-wait",
            json!({"type": "answer", "status": 503, "headers": {"Retry-After": echo}}),
        ),
        (
            "packed",
            json!({
                "type": "answer", "status": 200, "body": echo,
                "headers": {"Content-Encoding": secret},
            }),
        ),
        ("lost-after", json!({"type": "doThenLose"})),
        ("lost-before", json!({"type": "loseBefore"})),
        (
            "silent",
            json!({"type": "hang", "forMs": 60_000, "execute": true}),
        ),
        ("late", json!({"type": "delay", "forMs": 300})),
        ("huge", json!({"type": "hugeBody", "bytes": 2_000_000})),
        ("truncated", json!({"type": "truncatedBody"})),
        ("no-json", json!({"type": "invalidJson"})),
        (
            "media-type",
            json!({"type": "wrongContentType", "contentType": secret}),
        ),
        (
            "merged-id",
            json!({"type": "mergeBody", "merge": {"runId": word, "id": word}}),
        ),
        (
            "merged-texts",
            json!({
                "type": "mergeBody",
                "merge": {"state": echo, "version": echo, "name": echo, coded: "sk-proj-0a1b2c3d4e5f6g7h"},
            }),
        ),
        (
            "redirected",
            json!({
                "type": "redirect", "status": 307,
                "location": format!("http://127.0.0.1:{elsewhere}/?token={secret}"),
            }),
        ),
        (
            "dripping",
            json!({"type": "slowDrip", "chunkBytes": 16, "everyMs": 5}),
        ),
    ];
    named(actions)
}

/// The faults of an open stream.
pub(super) fn of_a_stream(mark: &str, secret: &str) -> Vec<Echo> {
    let coded = STANDARD.encode(format!("Bearer {secret}"));
    let event = format!(
        ": {secret}\nretry: {secret}\nid: {mark}.{secret}\nevent: {secret}\ndata: {mark} {secret}\n\
         data: {coded}\n{secret}: x\n\n"
    );
    let stream = |then: &str, bytes: &[u8]| {
        let raw = STANDARD.encode(bytes);
        json!({"type": "stream", "afterEvents": 1, "raw": [raw], "then": then})
    };
    let half = format!("data: {secret}");
    named([
        ("stream-cut", stream("cut", event.as_bytes())),
        ("stream-cut-within", stream("cut", half.as_bytes())),
        ("stream-ended", stream("end", event.as_bytes())),
        ("stream-hanging", stream("hang", event.as_bytes())),
        ("stream-going-on", stream("continue", event.as_bytes())),
    ])
}

fn named<const N: usize>(actions: [(&str, Value); N]) -> Vec<Echo> {
    let echo = |(name, action): (&str, Value)| Echo {
        name: name.to_owned(),
        action,
        is_final: FINAL.contains(&name),
    };
    actions.into_iter().map(echo).collect()
}
