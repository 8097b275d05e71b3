//! The reference service as a process.

use std::path::Path;

use serde_json::{Value, json};
use test_cluster::{Recipe, ReferenceService, Scratch, Tls};

/// A running reference service; ends with the test.
pub(crate) struct Reference {
    service: ReferenceService,
    _scratch: Scratch,
}

impl Reference {
    pub(crate) async fn start(args: &[&str]) -> Self {
        Self::start_with(None, args).await
    }

    /// One with the certificate of this folder, which speaks HTTP/2.
    pub(crate) async fn start_with_tls(args: &[&str]) -> Self {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/client/tls");
        let tls = Tls {
            certificate: &folder.join("server.pem"),
            key: &folder.join("server.key"),
            ca: &folder.join("ca.pem"),
        };
        Self::start_with(Some(tls), args).await
    }

    async fn start_with(tls: Option<Tls<'_>>, args: &[&str]) -> Self {
        let scratch = Scratch::new("client").unwrap();
        let recipe = Recipe {
            program: test_support::programs::reference_service(),
            folder: scratch.path(),
            token: "dev",
            record: false,
            tls,
        };
        Self {
            service: ReferenceService::start(recipe, args).await.unwrap(),
            _scratch: scratch,
        }
    }

    pub(crate) fn base_url(&self) -> String {
        self.service.base_url()
    }

    /// Every request that matches behaves so from now on.
    pub(crate) async fn fault(&self, operation: &str, action: Value) {
        let fault = json!({"match": {"operation": operation}, "action": action, "times": 0});
        self.service.steer("faults", fault).await.unwrap();
    }

    /// The service's counts.
    pub(crate) async fn stats(&self) -> Value {
        self.service.read("stats").await.unwrap()
    }
}
