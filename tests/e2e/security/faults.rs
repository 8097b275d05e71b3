//! Faults of the reference service, each with an echo wherever it has room for one.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

/// A fault by its name, which is the name of the Run that it meets too.
pub(super) struct Echo {
    pub(super) name: &'static str,
    pub(super) action: Value,
}

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
    let answered = |status: u16, body: &str, headers: Value| json!({"type": "answer", "status": status, "body": body, "headers": headers});
    let merged = |merge: Value| json!({"type": "mergeBody", "merge": merge});
    let coding = json!({"Content-Encoding": secret});
    let location = format!("http://127.0.0.1:{elsewhere}/?token={secret}");
    named([
        ("refusal", refused(403)),
        ("unauthorized", refused(401)),
        ("failing", refused(503)),
        ("page", answered(502, &echo, json!({}))),
        ("nonsense", answered(200, &echo, json!({}))),
        ("odd-wait", answered(503, "", json!({"Retry-After": echo}))),
        ("packed", answered(200, &echo, coding)),
        (
            "silent",
            json!({"type": "hang", "forMs": 60_000, "execute": true}),
        ),
        ("lost-after", json!({"type": "doThenLose"})),
        ("huge", json!({"type": "hugeBody", "bytes": 2_000_000})),
        (
            "media-type",
            json!({"type": "wrongContentType", "contentType": secret}),
        ),
        ("merged-id", merged(json!({"runId": word, "id": word}))),
        (
            "merged-texts",
            merged(json!({
                "state": echo, "version": echo, "name": echo, coded: "sk-proj-0a1b2c3d4e5f6g7h",
            })),
        ),
        (
            "redirected",
            json!({"type": "redirect", "status": 307, "location": location}),
        ),
    ])
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
        ("stream-going-on", stream("continue", event.as_bytes())),
    ])
}

fn named<const N: usize>(actions: [(&'static str, Value); N]) -> Vec<Echo> {
    let actions = actions.into_iter();
    actions
        .map(|(name, action)| Echo { name, action })
        .collect()
}
