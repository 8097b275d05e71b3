//! The reference service of the demo and of the measurements.

use std::ops::Deref;

use serde::Deserialize;
use serde_json::{Value, json};

use test_cluster::ReferenceService;
pub(crate) use test_cluster::{Recipe, ServiceError, Tls};

/// A running reference service.
pub(crate) struct Service(ReferenceService);

/// A run, as the service's control API shows it.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ServiceRun {
    pub(crate) run_id: String,
    pub(crate) idempotency_key: String,
    pub(crate) state: String,
    /// The time of its creation, RFC 3339 with milliseconds.
    pub(crate) created_at: String,
    /// The states that it entered, in order.
    pub(crate) entered: Vec<Entered>,
    /// POSTs that were answered with this run, or would have been.
    pub(crate) posts: u64,
    pub(crate) cancels: u64,
}

/// A state that a run entered.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Entered {
    pub(crate) state: String,
    /// RFC 3339 with milliseconds.
    pub(crate) at: String,
}

impl Service {
    /// Starts one on a free port.
    pub(crate) async fn start(recipe: Recipe<'_>) -> Result<Self, ServiceError> {
        ReferenceService::start(recipe, &[]).await.map(Self)
    }

    /// Every run that the service ever created.
    pub(crate) async fn runs(&self) -> Result<Vec<ServiceRun>, ServiceError> {
        let answer = self.read("runs").await?;
        serde_json::from_value(answer).map_err(|error| ServiceError::Steer {
            path: "runs".to_owned(),
            answer: error.to_string(),
        })
    }

    /// The service's counts.
    pub(crate) async fn stats(&self) -> Result<Value, ServiceError> {
        self.read("stats").await
    }

    /// Lets a token expire now.
    pub(crate) async fn expire(&self, token: &str) -> Result<(), ServiceError> {
        let path = format!("tokens/{token}");
        let expired = json!({"expiresAfterMs": 0});
        self.send(http::Method::PATCH, &path, expired).await?;
        Ok(())
    }
}

impl Deref for Service {
    type Target = ReferenceService;

    fn deref(&self) -> &ReferenceService {
        &self.0
    }
}
