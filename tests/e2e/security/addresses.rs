//! Addresses that a Workspace may name, and values that a header may have: only what its own operator allows,
//! and only what is one value.

use std::net::TcpListener;

use serde_json::{Value, json};

use crate::support::{Setup, World, conditions_told, eventually};

/// Addresses that a namespace's user may try. `{service}` is the service's port, `{other}` that of a listener
/// that counts who connects.
const TRIED: [&str; 24] = [
    "http://127.0.0.1:{other}/api/v1",
    "http://127.0.0.2:{service}/api/v1",
    "http://localhost:{service}/api/v1",
    "http://localhost:{other}/api/v1",
    "http://2130706433:{other}/api/v1",
    "http://0x7f.1:{other}/api/v1",
    "http://0177.0.0.1:{other}/api/v1",
    "http://[::1]:{other}/api/v1",
    "http://[::ffff:127.0.0.1]:{other}/api/v1",
    "http://0.0.0.0:{other}/api/v1",
    "http://localhost.:{other}/api/v1",
    "http://localhost.localdomain:{other}/api/v1",
    "http://127.0.0.1.nip.io:{other}/api/v1",
    "http://127.0.0.1:{service}/api",
    "http://127.0.0.1:{service}/api/v1x",
    "http://127.0.0.1:{service}/api/v1/../../_control",
    "http://127.0.0.1:{service}/api/v1/%2e%2e/%2e%2e/_control",
    "http://127.0.0.1:{service}/api/v1/%2f..%2f..%2f_control",
    "http://127.0.0.1:{service}/_control",
    "https://127.0.0.1:{service}/api/v1",
    "http://169.254.169.254/latest/meta-data",
    "https://169.254.169.254/latest/meta-data",
    "http://metadata.google.internal/api/v1",
    "https://kubernetes.default.svc/api/v1",
];

/// Proves: X-allow-list
#[tokio::test]
async fn a_workspace_reaches_only_addresses_on_the_allow_list() {
    let world = World::new().await;
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    other.set_nonblocking(true).unwrap();
    let other_port = other.local_addr().unwrap().port().to_string();
    let service_port = world
        .service
        .address()
        .rsplit(':')
        .next()
        .unwrap()
        .to_owned();
    world.workspace_ready("default", "True", "Verified").await;
    for (number, url) in TRIED.iter().enumerate() {
        let name = format!("tried-{number}");
        let url = url
            .replace("{other}", &other_port)
            .replace("{service}", &service_port);
        world.create_workspace(&name, json!({"baseUrl": url})).await;
        let run = json!({"workspaceRef": {"name": name}});
        world.create_run(&name, run).await;
    }
    for number in 0..TRIED.len() {
        let name = format!("tried-{number}");
        world
            .workspace_ready(&name, "False", "BaseUrlNotAllowed")
            .await;
        world.not_ready(&name, "WorkspaceNotReady").await;
    }
    // An allowed Workspace continues meanwhile, and its calls are all that the service got.
    world.create_run("train", json!({})).await;
    world.heals("train").await;
    let requests = world.service.get("requests").await;
    for request in requests.as_array().unwrap() {
        let path = request["path"].as_str().unwrap();
        assert!(path.starts_with("/api/v1/"), "{request}");
        assert_ne!(request["operation"], "unknown", "{request}");
    }
    assert_eq!(world.service.count("createRun").await, 1);
    let came = other.accept();
    assert!(came.is_err(), "somebody connected: {came:?}");
}

/// Proves: X-token, X-headers
#[tokio::test]
async fn a_token_that_fits_no_single_header_is_reported_and_not_sent() {
    let world = World::with(Setup {
        bare: true,
        ..Setup::default()
    })
    .await;
    let long = "canary-".repeat(1200);
    let illegal = "a character that a header can't carry";
    let tokens = [
        ("canary-1\r\nX-Injected: 1", "more than one line"),
        ("canary-2\nX-Injected: 1", "more than one line"),
        ("canary-3\rX-Injected: 1", "more than one line"),
        ("canary-4\0", illegal),
        ("canary-5\u{1b}[31m", illegal),
        ("canary-6 X-Injected", illegal),
        ("canary-7\tX-Injected", illegal),
        ("canary-8\u{e4}", illegal),
        (&long, "8400 bytes, more than the 8192"),
    ];
    world.token(tokens[0].0).await;
    world.create_workspace("default", json!({})).await;
    for (token, words) in tokens {
        world.token(token).await;
        eventually(&format!("the Workspace says {words}"), async || {
            let told = conditions_told(&world, "default").await;
            let ready = told.iter().find(|c| c.type_ == "Ready");
            match ready {
                Some(c) if c.reason == "TokenMalformed" && c.message.contains(words) => Ok(()),
                other => Err(format!("{other:?}")),
            }
        })
        .await;
    }
    assert_eq!(
        world.service.get("requests").await,
        Value::Array(Vec::new())
    );
    assert!(
        !world.operator_log().contains("canary-"),
        "a token is in the log"
    );
}
