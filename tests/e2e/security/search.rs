//! The places that a secret may have got into, and the search for it.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use serde_json::Value;

use crate::support::World;

/// A place and all its text.
pub(crate) type Place = (&'static str, String);

/// The encodings of a secret: as it is, percent-encoded, escaped in JSON, and in base64 with nothing,
/// `Bearer` or one byte before it. Written without the operator's own code for it.
pub(super) fn spellings(secret: &str) -> Vec<String> {
    let percent: String = secret
        .chars()
        .map(|c| match c {
            c if c.is_ascii_alphanumeric() || "-._~".contains(c) => c.to_string(),
            c => format!("%{:02X}", u32::from(c)),
        })
        .collect();
    let mut all = vec![
        secret.to_owned(),
        percent.to_lowercase(),
        percent,
        secret.replace('/', "\\/"),
    ];
    for before in ["", "x", "Bearer "] {
        // Whole groups of three bytes have the same four characters whatever follows.
        let text = format!("{before}{secret}");
        let groups = text.len() / 3 * 3;
        let skipped = before.len().div_ceil(3) * 4;
        for code in [
            STANDARD.encode(&text[..groups]),
            URL_SAFE_NO_PAD.encode(&text[..groups]),
        ] {
            all.push(code[skipped..].to_owned());
        }
    }
    all
}

/// The hits: the place, the encoding, and the line.
pub(crate) fn hits(places: &[Place], secret: &str) -> Vec<String> {
    let spellings = spellings(secret);
    let mut hits = Vec::new();
    for (place, text) in places {
        for spelling in spellings.iter().filter(|s| text.contains(s.as_str())) {
            let line = text.lines().find(|line| line.contains(spelling.as_str()));
            let at = line.and_then(|line| line.find(spelling.as_str()));
            let line = line.unwrap_or_default();
            let from = at.unwrap_or_default().saturating_sub(200);
            let shown: String = line.bytes().skip(from).take(500).map(char::from).collect();
            hits.push(format!("{place}: {spelling} in {shown}"));
        }
    }
    hits
}

/// The bodies of all requests that changed something, as the API server saw them.
fn audited_bodies(world: &World) -> String {
    let log = world.control_plane.audit_log().unwrap();
    let text = std::fs::read_to_string(log).unwrap();
    let ours = |line: &&str| {
        let entry: Value = serde_json::from_str(line).unwrap();
        let agent = entry["userAgent"].as_str().unwrap_or_default();
        agent.starts_with("run-operator/") && !entry["requestObject"].is_null()
    };
    text.lines().filter(ours).collect::<Vec<_>>().join("\n")
}

/// The service's record of the requests, except for the two headers that may have the token: the one that is
/// made for it, and the id of an event that the service itself named by it. The service replaces a token by
/// its fingerprint wherever it was, so none may be left.
async fn requested(world: &World) -> String {
    let mut all = world.service.get("requests").await;
    for request in all.as_array_mut().unwrap() {
        request["token"] = Value::Null;
        request["lastEventId"] = Value::Null;
        let headers = request["headers"].as_object_mut().unwrap();
        headers.remove("authorization");
        headers.remove("last-event-id");
        assert!(
            !request.to_string().contains("sha256:"),
            "a token beside its header: {request}"
        );
    }
    all.to_string()
}

/// Everything that a person or a program can read of an operator, and what it sent beside its token.
pub(super) async fn everywhere(world: &World) -> Vec<Place> {
    let mut places = vec![
        ("log", world.operator_log()),
        ("audit log", audited_bodies(world)),
        ("requests to the service", requested(world).await),
    ];
    for (place, kind) in [
        ("Runs", "runs.run-operator.dev"),
        ("Workspaces", "workspaces.run-operator.dev"),
        ("Events", "events.events.k8s.io"),
    ] {
        let get = ["get", kind, "--output=json", "--show-managed-fields"];
        places.push((place, world.kubectl(&get, "").await.unwrap()));
    }
    for path in ["metrics", "healthz", "readyz"] {
        places.push((path, world.operator().fetch(path).await.unwrap().1));
    }
    places
}

#[test]
fn a_planted_secret_is_found_however_it_is_written() {
    let secret = "canary/1+6f0c8a~9e==";
    let standard = STANDARD.encode(format!("Bearer {secret}, they said"));
    for planted in [
        "got canary/1+6f0c8a~9e==!",
        "token=canary%2F1%2B6f0c8a~9e%3D%3D&",
        r"canary\/1+6f0c8a~9e==",
        &URL_SAFE_NO_PAD.encode(format!("y{secret}z")),
        &standard,
    ] {
        let places = [("log", format!("a line\nand {planted} here\n"))];
        assert!(!hits(&places, secret).is_empty(), "{planted} was not found");
    }
    assert_eq!(
        hits(&[("log", "canary/1+6f0c8a".to_owned())], secret),
        [""; 0]
    );
}
