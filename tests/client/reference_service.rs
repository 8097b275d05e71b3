//! The reference service as a process.

use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

use crate::support::{install_tls_provider, within};

/// A running reference service; ends with the test.
pub(crate) struct Reference {
    child: Child,
    origin: String,
    http: reqwest::Client,
    _scratch: tempfile::TempDir,
}

impl Reference {
    pub(crate) async fn start(args: &[&str]) -> Self {
        Self::start_at("http", args).await
    }

    /// One with the certificate of this folder, which speaks HTTP/2.
    pub(crate) async fn start_with_tls(args: &[&str]) -> Self {
        let file = |name: &str| format!("{}/tests/client/tls/{name}", env!("CARGO_MANIFEST_DIR"));
        let (certificate, key) = (file("server.pem"), file("server.key"));
        let tls = ["--tls-cert", &certificate, "--tls-key", &key];
        Self::start_at("https", &[&tls[..], args].concat()).await
    }

    async fn start_at(scheme: &str, args: &[&str]) -> Self {
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
            origin: format!("{scheme}://127.0.0.1:{port}"),
            http: reqwest::Client::builder()
                .no_proxy()
                .tls_certs_only([reqwest::Certificate::from_pem(crate::tls::CA).unwrap()])
                .build()
                .unwrap(),
            _scratch: scratch,
        }
    }

    pub(crate) fn base_url(&self) -> String {
        format!("{}/api/v1", self.origin)
    }

    /// Every request that matches behaves so from now on.
    pub(crate) async fn fault(&self, operation: &str, action: Value) {
        let fault = json!({"match": {"operation": operation}, "action": action, "times": 0});
        let path = format!("{}/_control/faults", self.origin);
        let request = self.http.post(path).body(fault.to_string());
        let request = request.header("content-type", "application/json");
        let answer = within(request.send()).await.unwrap();
        let status = answer.status();
        let told = answer.text().await.unwrap();
        assert!(status.is_success(), "{status}: {told}");
    }

    /// Every request for the API, oldest first.
    pub(crate) async fn requests(&self) -> Vec<Value> {
        let requests = self.read("requests").await;
        requests.as_array().cloned().unwrap()
    }

    /// The service's counts.
    pub(crate) async fn stats(&self) -> Value {
        self.read("stats").await
    }

    async fn read(&self, what: &str) -> Value {
        let path = format!("{}/_control/{what}", self.origin);
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
