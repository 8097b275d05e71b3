//! Puts many objects straight into etcd, through its JSON gateway: a hundred thousand take a minute.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::common::Outcome;

/// Objects of one transaction; etcd takes 128.
const BATCH: usize = 100;

/// etcd of a control plane.
pub(super) struct Etcd {
    url: String,
    http: reqwest::Client,
}

impl Etcd {
    /// At this URL.
    pub(super) fn new(url: String) -> Self {
        let http = reqwest::Client::new();
        Self { url, http }
    }

    /// The stored form of a Run.
    pub(super) async fn run(&self, namespace: &str, name: &str) -> Outcome<Value> {
        let found = self
            .ask("range", &json!({"key": key(namespace, name)}))
            .await?;
        let value = found["kvs"][0]["value"].as_str().unwrap_or_default();
        let text = STANDARD.decode(value);
        let text = text.map_err(|error| format!("the stored form of {name}: {error}"))?;
        Ok(serde_json::from_slice(&text)?)
    }

    /// Stores so many copies of a Run under new names and uids. The uid is in its intent too.
    pub(super) async fn copy(&self, run: &Value, count: usize) -> Outcome<()> {
        let text = |field: &str| run["metadata"][field].as_str().unwrap_or_default();
        let (namespace, uid) = (text("namespace"), text("uid"));
        let old_name = json!(text("name")).to_string();
        let stored = run.to_string();
        let numbers: Vec<usize> = (0..count).collect();
        for batch in numbers.chunks(BATCH) {
            let puts = batch.iter().map(|number| {
                let name = format!("ended-{number:06}");
                let own = format!("00000000-0000-4000-8000-{number:012}");
                let one = stored.replace(uid, &own);
                let one = one.replace(&old_name, &json!(name).to_string());
                let value = STANDARD.encode(one);
                json!({"requestPut": {"key": key(namespace, &name), "value": value}})
            });
            let puts: Vec<Value> = puts.collect();
            self.ask("txn", &json!({"success": puts})).await?;
        }
        Ok(())
    }

    /// Forgets every revision but the present one.
    pub(super) async fn compact(&self) -> Outcome<()> {
        let nothing = STANDARD.encode("/nothing");
        let range = self.ask("range", &json!({"key": nothing})).await?;
        let present = &range["header"]["revision"];
        let compaction = json!({"revision": present, "physical": true});
        self.ask("compaction", &compaction).await.map(drop)
    }

    async fn ask(&self, path: &str, body: &Value) -> Outcome<Value> {
        let url = format!("{}/v3/kv/{path}", self.url);
        let answer = self.http.post(url).body(body.to_string()).send().await?;
        let text = answer.error_for_status()?.text().await?;
        Ok(serde_json::from_str(&text)?)
    }
}

/// The key of a Run, as the gateway wants it.
fn key(namespace: &str, name: &str) -> String {
    STANDARD.encode(format!(
        "/registry/run-operator.dev/runs/{namespace}/{name}"
    ))
}
