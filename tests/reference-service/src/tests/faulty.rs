//! The API as a fault spoils it.

use serde_json::{Value, json};

use crate::tests::{AUTH, Service, body, create_headers, endless, request};

async fn inject(service: &Service, operation: &str, action: Value) {
    let fault = json!({"match": {"operation": operation}, "action": action});
    service.control("POST /_control/faults", &fault).await;
}

/// A service with one run, and the request line of an operation on it.
async fn with_run(verb: &str, suffix: &str) -> (Service, String) {
    let service = Service::start().await;
    let (_, run) = service.create("k", endless()).await;
    let line = format!(
        "{verb} /api/v1/runs/{}{suffix}",
        run["runId"].as_str().expect("an id")
    );
    (service, line)
}

#[tokio::test]
async fn a_lost_answer_has_no_bytes_but_its_effect() {
    let service = Service::start().await;
    inject(&service, "createRun", json!({"type": "loseBefore"})).await;
    inject(&service, "createRun", json!({"type": "doThenLose"})).await;
    let create = request("POST /api/v1/runs", &create_headers("k"), &body(endless()));
    for runs in [0, 1] {
        assert!(service.exchange(&create).await.is_empty());
        service
            .stats_until(|stats| stats["runsCreated"] == runs)
            .await;
    }
    assert_eq!(
        service.create("k", endless()).await.0,
        200,
        "the retry finds the run"
    );
    let stats = service.stats_until(|_| true).await;
    assert_eq!(stats["requests"]["createRun"], json!({"200": 1, "cut": 2}));
}

#[tokio::test]
async fn a_delayed_create_takes_effect_without_its_client() {
    let service = Service::start().await;
    inject(&service, "createRun", json!({"type": "delay", "forMs": 50})).await;
    let create = request("POST /api/v1/runs", &create_headers("k"), &body(endless()));
    let stream = service.open(&create).await;
    let fired = async {
        while service.control("GET /_control/faults", &json!({})).await[0]["fired"] != 1 {}
    };
    tokio::time::timeout(crate::tests::LIMIT, fired)
        .await
        .expect("the fault fired");
    drop(stream);
    service.stats_until(|stats| stats["runsCreated"] == 1).await;
}

#[tokio::test]
async fn a_stream_breaks_at_the_place_in_its_script() {
    let (service, line) = with_run("GET", "/events").await;
    for (action, wanted, not_wanted) in [
        (
            json!({"type": "stream", "afterEvents": 1, "then": "end"}),
            "\r\n0\r\n\r\n",
            "-00002",
        ),
        (
            json!({"type": "stream", "afterEvents": 1, "then": "cut"}),
            "-00001",
            "\r\n0\r\n\r\n",
        ),
        (
            json!({"type": "stream", "afterEvents": 0, "inside": true}),
            "id: run_",
            "\n\n\r\n",
        ),
        (
            json!({"type": "stream", "raw": ["OiBoaQoK"], "repeat": 2, "then": "end"}),
            ": hi\n\n\r\n6\r\n: hi",
            "id:",
        ),
    ] {
        inject(&service, "streamEvents", action.clone()).await;
        let (status, _, got) = service.call(&line, AUTH, "").await;
        assert_eq!(status, 200);
        assert!(
            got.contains(wanted) && !got.contains(not_wanted),
            "{action}: {got:?}"
        );
    }
}

#[tokio::test]
async fn open_streams_can_be_cut_at_any_time() {
    use tokio::io::AsyncReadExt as _;
    let (service, line) = with_run("GET", "/events").await;
    let mut stream = service.open(&request(&line, AUTH, "")).await;
    service.stats_until(|stats| stats["openStreams"] == 1).await;
    service
        .control("DELETE /_control/streams", &json!({}))
        .await;
    let mut rest = Vec::new();
    let read = tokio::time::timeout(crate::tests::LIMIT, stream.read_to_end(&mut rest)).await;
    read.expect("closed in time").expect("closed");
    assert!(!rest.ends_with(b"\r\n0\r\n\r\n"));
}
