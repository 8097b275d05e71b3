//! `contract/openapi.yaml` and what the client sends say the same.

use std::collections::BTreeSet;

use bytes::Bytes;
use run_operator::service::Operation;
use serde_json::Value;

use crate::support::*;

fn document() -> Value {
    serde_saphyr::from_str(include_str!("../../contract/openapi.yaml")).unwrap()
}

/// Follows a `$ref` within the document.
fn resolve<'a>(document: &'a Value, value: &'a Value) -> &'a Value {
    match value.get("$ref").and_then(Value::as_str) {
        Some(reference) => document
            .pointer(reference.trim_start_matches('#'))
            .unwrap_or_else(|| panic!("{reference} leads nowhere")),
        None => value,
    }
}

/// Every operation as (method, path template, operation).
fn operations(document: &Value) -> Vec<(String, String, Value)> {
    let mut all = Vec::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            all.push((method.to_uppercase(), path.clone(), operation.clone()));
        }
    }
    all
}

#[test]
fn the_document_names_the_client_s_operations_and_no_other() {
    let document = document();
    let named: BTreeSet<_> = operations(&document)
        .iter()
        .map(|(_, _, operation)| operation["operationId"].as_str().unwrap().to_owned())
        .collect();
    let known: BTreeSet<_> = Operation::ALL.map(|op| op.as_str().to_owned()).into();
    assert_eq!(named, known);
}

#[test]
fn every_answer_carries_a_request_id_and_every_error_is_a_problem() {
    let document = document();
    for (method, path, operation) in operations(&document) {
        let responses = operation["responses"].as_object().unwrap();
        assert!(responses.contains_key("default"), "{method} {path}");
        for (status, response) in responses {
            let response = resolve(&document, response);
            let id = resolve(&document, &response["headers"]["X-Request-ID"]);
            assert_eq!(id["required"], true, "{method} {path} {status}");
            if status != "2XX" {
                let types: Vec<_> = response["content"].as_object().unwrap().keys().collect();
                assert_eq!(types, ["application/problem+json"], "{method} {path}");
            }
        }
    }
}

/// Makes each call once, with everything that it can carry.
async fn all_requests() -> Vec<Arrived> {
    let run = r#"{"runId":"run-1"}"#;
    let mut scripts = vec![vec![ok(run)]; 5];
    scripts.push(vec![stream_head(), Step::Close]);
    let server = Server::start(scripts).await;
    let (client, who) = (client(&server), credentials_for("ws-1"));
    let (id, body) = (run_id("run-1"), Bytes::from_static(b"{}"));
    within(client.version()).await.unwrap();
    within(client.current_workspace(&who)).await.unwrap();
    within(client.create_run(&who, &key("k"), body))
        .await
        .unwrap();
    within(client.get_run(&who, &id)).await.unwrap();
    within(client.cancel_run(&who, &id)).await.unwrap();
    within(client.run_events(&who, &id, Some("1")))
        .await
        .unwrap();
    server.requests()
}

#[tokio::test]
async fn the_client_sends_what_the_document_declares_and_nothing_else() {
    let document = document();
    let mut declared = operations(&document);
    let common = [
        "accept",
        "accept-encoding",
        "content-length",
        "host",
        "user-agent",
    ];
    for request in all_requests().await {
        let mut line = request.line().split(' ');
        let method = line.next().unwrap();
        let path = line.next().unwrap().strip_prefix("/api/v1").unwrap();
        let template = path.replace("run-1", "{runId}");
        let at = declared
            .iter()
            .position(|(m, p, _)| m == method && *p == template)
            .unwrap_or_else(|| panic!("{method} {template} is not declared"));
        let (_, _, operation) = declared.remove(at);

        let mut expected: BTreeSet<String> = operation["parameters"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|parameter| resolve(&document, parameter))
            .filter(|parameter| parameter["in"] == "header")
            .map(|parameter| parameter["name"].as_str().unwrap().to_lowercase())
            .collect();
        let public = operation["security"].as_array().is_some_and(Vec::is_empty);
        if !public {
            expected.insert("authorization".to_owned());
        }
        if let Some(body) = operation.get("requestBody") {
            expected.insert("content-type".to_owned());
            let types: Vec<_> = body["content"].as_object().unwrap().keys().collect();
            assert_eq!(request.headers("content-type"), types[..]);
        }
        let sent: BTreeSet<String> = request
            .names()
            .into_iter()
            .filter(|name| !common.contains(&name.as_str()))
            .collect();
        assert_eq!(sent, expected, "{method} {template}");
    }
    assert!(declared.is_empty(), "never called: {declared:?}");
}
