//! Puts many objects straight into etcd, through its JSON gateway: a hundred thousand take a minute.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::{Value, json};

use super::error::BenchError;

/// Objects of one transaction; etcd takes 128.
const BATCH: usize = 100;

/// etcd of a control plane.
pub(super) struct Etcd {
    url: String,
    http: reqwest::Client,
}

#[derive(Deserialize)]
struct Range {
    #[serde(default)]
    kvs: Vec<KeyValue>,
}

#[derive(Deserialize)]
struct KeyValue {
    value: String,
}

/// What every answer begins with.
#[derive(Deserialize)]
struct Header {
    header: Revision,
}

#[derive(Deserialize)]
struct Revision {
    revision: String,
}

impl Etcd {
    /// At this URL.
    pub(super) fn new(url: String) -> Self {
        Self {
            url,
            http: reqwest::Client::new(),
        }
    }

    /// The stored form of a Run.
    pub(super) async fn run(&self, namespace: &str, name: &str) -> Result<Value, BenchError> {
        let key = key(namespace, name);
        let found: Range = self
            .ask("range", "read a Run", &json!({"key": key}))
            .await?;
        let [one] = found.kvs.as_slice() else {
            let what = format!("the stored form of {name}");
            return Err(BenchError::Unexpected(what));
        };
        let text = STANDARD.decode(&one.value);
        let text = text.map_err(|error| BenchError::Unexpected(format!("base64: {error}")))?;
        serde_json::from_slice(&text).map_err(BenchError::Decode)
    }

    /// Stores so many copies of a Run under new names and uids. The uid is in its intent too.
    pub(super) async fn copy(&self, run: &Value, count: usize) -> Result<(), BenchError> {
        let text = |field: &str| run["metadata"][field].as_str().unwrap_or_default();
        let (namespace, uid) = (text("namespace"), text("uid"));
        let numbers: Vec<usize> = (0..count).collect();
        let stored = run.to_string();
        for batch in numbers.chunks(BATCH) {
            let puts = batch.iter().map(|number| {
                let name = format!("ended-{number:06}");
                let own = format!("00000000-0000-4000-8000-{number:012}");
                let one = stored
                    .replace(uid, &own)
                    .replace(&json!(text("name")).to_string(), &json!(name).to_string());
                let value = STANDARD.encode(one);
                json!({"requestPut": {"key": key(namespace, &name), "value": value}})
            });
            let puts: Vec<Value> = puts.collect();
            let _: Value = self
                .ask("txn", "store Runs", &json!({"success": puts}))
                .await?;
        }
        Ok(())
    }

    /// Forgets every revision but the present one.
    pub(super) async fn compact(&self) -> Result<(), BenchError> {
        let nothing = STANDARD.encode("/nothing");
        let range: Header = self
            .ask("range", "read its revision", &json!({"key": nothing}))
            .await?;
        let revision = json!({"revision": range.header.revision, "physical": true});
        let _: Value = self.ask("compaction", "compact", &revision).await?;
        Ok(())
    }

    async fn ask<T: serde::de::DeserializeOwned>(
        &self,
        path: &str,
        action: &'static str,
        body: &Value,
    ) -> Result<T, BenchError> {
        let failed = |source| BenchError::Etcd { action, source };
        let url = format!("{}/v3/kv/{path}", self.url);
        let answer = self.http.post(url).body(body.to_string()).send().await;
        let answer = answer.and_then(reqwest::Response::error_for_status);
        let text = answer.map_err(failed)?.text().await.map_err(failed)?;
        serde_json::from_str(&text).map_err(BenchError::Decode)
    }
}

/// The key of a Run, as the gateway wants it.
fn key(namespace: &str, name: &str) -> String {
    STANDARD.encode(format!(
        "/registry/run-operator.dev/runs/{namespace}/{name}"
    ))
}
