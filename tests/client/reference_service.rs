//! The reference service as a process.

use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

use crate::support::{install_tls_provider, within};

/// A running reference service; ends with the test.
pub(super) struct Reference {
    child: Child,
    address: String,
    http: reqwest::Client,
    _scratch: tempfile::TempDir,
}

impl Reference {
    pub(super) async fn start(args: &[&str]) -> Self {
        install_tls_provider();
        let scratch = tempfile::tempdir().unwrap();
        let port_file = scratch.path().join("port");
        let child = Command::new(test_support::programs::reference_service())
            .args(["--listen", "127.0.0.1:0", "--token", "dev", "--port-file"])
            .arg(&port_file)
            .args(args)
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let port = within(async {
            loop {
                let text = std::fs::read_to_string(&port_file).unwrap_or_default();
                if let Ok(port) = text.trim().parse::<u16>() {
                    return port;
                }
                tokio::time::sleep(std::time::Duration::from_millis(10)).await;
            }
        })
        .await;
        Self {
            child,
            address: format!("127.0.0.1:{port}"),
            http: reqwest::Client::builder().no_proxy().build().unwrap(),
            _scratch: scratch,
        }
    }

    pub(super) fn base_url(&self) -> String {
        format!("http://{}/api/v1", self.address)
    }

    /// Every request that matches behaves so from now on.
    pub(super) async fn fault(&self, operation: &str, action: Value) {
        let fault = json!({"match": {"operation": operation}, "action": action, "times": 0});
        let path = format!("http://{}/_control/faults", self.address);
        let request = self.http.post(path).body(fault.to_string());
        let request = request.header("content-type", "application/json");
        let answer = within(request.send()).await.unwrap();
        let status = answer.status();
        let told = answer.text().await.unwrap();
        assert!(status.is_success(), "{status}: {told}");
    }

    /// Every request for the API, oldest first.
    pub(super) async fn requests(&self) -> Vec<Value> {
        let path = format!("http://{}/_control/requests", self.address);
        let answer = within(self.http.get(path).send()).await.unwrap();
        serde_json::from_str(&answer.text().await.unwrap()).unwrap()
    }
}

impl Drop for Reference {
    fn drop(&mut self) {
        // It may already have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
