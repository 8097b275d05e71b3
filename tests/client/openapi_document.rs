//! `contract/openapi.yaml` agrees with the client's requests.

use std::collections::BTreeSet;

use bytes::Bytes;
use run_operator::service::Operation;
use serde_json::Value;

use crate::support::*;
use test_support::openapi::{Document, Place, Request};

/// Proves: E-getVersion, R13
#[test]
fn the_document_names_the_client_s_operations_and_no_other() {
    let operations = Document::pinned().operations.iter();
    let named: BTreeSet<_> = operations.map(|operation| operation.id.clone()).collect();
    let known: BTreeSet<_> = Operation::ALL.map(|op| op.as_str().to_owned()).into();
    assert_eq!(named, known);
}

/// Proves: R13
#[test]
fn the_document_is_one_of_openapi_3_0() {
    let version = Document::pinned().value["openapi"].as_str().unwrap();
    assert!(version.starts_with("3.0."), "{version}");
}

/// Proves: R11
#[test]
fn every_response_has_a_request_id_and_every_error_is_a_problem() {
    let document = Document::pinned();
    for operation in &document.operations {
        let (method, path) = (&operation.method, &operation.template);
        let responses = &document.value["paths"][path][method.to_lowercase()]["responses"];
        let responses = responses.as_object().unwrap();
        assert!(responses.contains_key("default"), "{method} {path}");
        for (status, response) in responses {
            let response = document.resolve(response);
            let id = document.resolve(&response["headers"]["X-Request-ID"]);
            assert_eq!(id["required"], true, "{method} {path} {status}");
            if status != "2XX" {
                let types: Vec<_> = response["content"].as_object().unwrap().keys().collect();
                assert_eq!(types, ["application/problem+json"], "{method} {path}");
            }
        }
    }
}

/// What a schema of `OpenAPI` 3.0 has otherwise than JSON Schema, or means nothing to its validator.
const OF_OPENAPI: [&str; 8] = [
    "discriminator",
    "exclusiveMaximum",
    "exclusiveMinimum",
    "format",
    "nullable",
    "readOnly",
    "writeOnly",
    "xml",
];

/// Every key, however deep.
fn keys<'a>(value: &'a Value, found: &mut BTreeSet<&'a str>) {
    match value {
        Value::Object(members) => {
            for (name, member) in members {
                found.insert(name);
                keys(member, found);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| keys(item, found)),
        _ => {}
    }
}

/// Else tests/support/src/openapi has to be taught what they mean.
/// Proves: L-contract
#[test]
fn the_schemas_use_only_keywords_shared_with_json_schema() {
    let mut used = BTreeSet::new();
    keys(&Document::pinned().value, &mut used);
    assert!(used.contains("minLength") && used.contains("allOf"));
    let other: Vec<_> = OF_OPENAPI.iter().filter(|w| used.contains(*w)).collect();
    assert!(other.is_empty(), "{other:?}");
}

const CREATE: &str = r#"{"workload":{"image":"x"},"provider":"auto","region":"auto"}"#;

/// Makes each call once, with everything that it can carry.
async fn all_requests() -> Vec<Arrived> {
    let run = r#"{"runId":"run-1"}"#;
    let mut scripts = vec![vec![ok(run)]; 5];
    scripts.push(vec![stream_head(), Step::Close]);
    let server = Server::start(scripts).await;
    let (client, who) = (client(&server), credentials_for("ws-1"));
    let (id, body) = (run_id("run-1"), Bytes::from_static(CREATE.as_bytes()));
    within(client.version()).await.unwrap();
    within(client.current_workspace(&who)).await.unwrap();
    let created = within(client.create_run(&who, &key("k"), body)).await;
    created.unwrap();
    within(client.get_run(&who, &id)).await.unwrap();
    within(client.cancel_run(&who, &id)).await.unwrap();
    let opened = within(client.run_events(&who, &id, Some("1"))).await;
    opened.unwrap();
    server.requests()
}

/// A received request, as the document's check takes it.
fn request(arrived: &Arrived) -> Request {
    let mut line = arrived.line().split(' ').map(str::to_owned);
    let named = |name: String| {
        let values = arrived.headers(&name).join(", ");
        (name, values)
    };
    Request {
        method: line.next().unwrap(),
        target: line.next().unwrap(),
        headers: arrived.names().into_iter().map(named).collect(),
        body: String::from_utf8(arrived.body.clone()).ok(),
    }
}

/// Proves: S-paths, E-getCurrentWorkspace, E-createRun, R3, R5, L-contract
#[tokio::test]
async fn the_client_sends_what_the_document_declares_and_nothing_else() {
    let document = Document::pinned();
    let mut called = BTreeSet::new();
    for arrived in all_requests().await {
        let request = request(&arrived);
        assert_eq!(request.violations(document), [""; 0], "{arrived:?}");
        let operation = request.operation(document).unwrap();
        // It was given everything that it can send; so nothing of the document may be missing.
        for parameter in &operation.parameters {
            let sent = request.headers.contains_key(&parameter.name);
            let header = parameter.place == Place::Header;
            assert_eq!(sent, header, "{} {}", operation.id, parameter.name);
        }
        called.insert(operation.id.as_str());
    }
    assert_eq!(called.len(), document.operations.len(), "{called:?}");
}
