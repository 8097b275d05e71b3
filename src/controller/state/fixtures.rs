//! Objects that several tests of this layer use.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::api::{Contract, Run, WorkspaceKey, WorkspaceKind, names};
use crate::controller::apiserver::{Maybe, decode};
use crate::service::{AllowList, BaseUrl, Client, ClientConfig};

pub(crate) const URL: &str = "http://localhost:1/api/v1";

pub(crate) fn key_in(namespace: &str) -> WorkspaceKey {
    WorkspaceKey {
        kind: WorkspaceKind::Workspace,
        namespace: namespace.to_owned(),
        name: "default".to_owned(),
    }
}

pub(crate) fn key() -> WorkspaceKey {
    key_in("team")
}

pub(crate) fn client() -> Client {
    // Another test of this process may have installed it.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let allowed = AllowList::parse([URL], false).unwrap();
    let config = ClientConfig {
        base_url: BaseUrl::parse(URL, &allowed).unwrap(),
        ca_pem: None,
        h2c: false,
        proxy: None,
        contract: Arc::new(Contract::builtin().unwrap()),
        user_agent: "test".to_owned(),
        observer: Arc::new(()),
    };
    Client::new(config).unwrap()
}

/// Both JSON objects in one; where they differ, the second.
pub(crate) fn merged(mut into: Value, from: Value) -> Value {
    match (&mut into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (field, value) in from {
                let old = into.remove(&field).unwrap_or(Value::Null);
                into.insert(field, merged(old, value));
            }
        }
        (into, from) => *into = from,
    }
    into
}

/// A Run with its name as its uid, and with these fields.
pub(crate) fn run(name: &str, fields: Value) -> Maybe<Run> {
    let run = json!({
        "apiVersion": "run-operator.dev/v1alpha1", "kind": "Run",
        "metadata": {"name": name, "namespace": "team", "uid": name},
        "spec": {"workload": {"image": "a"}},
    });
    let raw = serde_json::value::to_raw_value(&merged(run, fields)).unwrap();
    decode(&raw)
}

pub(crate) fn intent(uid: &str, year: u16) -> Value {
    let workspace =
        json!({"kind": "Workspace", "name": "default", "uid": "w", "baseURL": "https://a"});
    let intent = json!({
        "uid": uid, "workspace": workspace, "key": uid, "sha256": "", "serializer": 1,
        "time": format!("{year}-01-01T00:00:00Z"), "owner": "p", "epoch": 1,
    });
    json!({"metadata": {"annotations": {names::INTENT_ANNOTATION: intent.to_string()}}})
}

pub(crate) fn phase(phase: &str) -> Value {
    json!({"status": {"phase": phase}})
}

pub(crate) fn keyed(year: u16) -> Value {
    let at = format!("{year}-01-01T00:00:00Z");
    json!({"metadata": {"creationTimestamp": at}, "spec": {"idempotencyKey": "k"}})
}
