//! The reference service of the demo and of the measurements.

use std::cell::RefCell;
use std::ops::Deref;
use std::time::Duration;

use http::Method;
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};

use test_cluster::ReferenceService;
pub(crate) use test_cluster::{Recipe, Tls};

use crate::common::{Outcome, until};

/// A running reference service.
pub(crate) struct Service(ReferenceService);

/// A run, as the service's control API shows it.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ServiceRun {
    pub(crate) run_id: String,
    pub(crate) idempotency_key: String,
    pub(crate) state: String,
    pub(crate) created_at: Timestamp,
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
    pub(crate) at: Timestamp,
}

impl ServiceRun {
    /// True when it changes no more.
    pub(crate) fn ended(&self) -> bool {
        matches!(self.state.as_str(), "succeeded" | "failed" | "cancelled")
    }
}

impl Service {
    /// Starts one on a free port.
    pub(crate) async fn start(recipe: Recipe<'_>) -> Outcome<Self> {
        Ok(Self(ReferenceService::start(recipe, &[]).await?))
    }

    /// Every run that the service ever created.
    pub(crate) async fn runs(&self) -> Outcome<Vec<ServiceRun>> {
        Ok(serde_json::from_value(self.read("runs").await?)?)
    }

    /// The service's counts.
    pub(crate) async fn stats(&self) -> Outcome<Value> {
        Ok(self.read("stats").await?)
    }

    /// Waits until `wanted` is true of the service's runs, and returns them.
    pub(crate) async fn until(
        &self,
        what: &str,
        patience: Duration,
        wanted: impl Fn(&[ServiceRun]) -> bool,
    ) -> Outcome<Vec<ServiceRun>> {
        let seen = RefCell::default();
        let shown = || format!("{:#?}", seen.borrow());
        until(what, patience, shown, async || {
            seen.replace(self.runs().await?);
            Ok(wanted(&seen.borrow()).then_some(()))
        })
        .await?;
        Ok(seen.into_inner())
    }

    /// Lets the next create of this image take effect, and keeps the answer back.
    pub(crate) async fn withhold_answer(&self, image: &str) -> Outcome<()> {
        let fault = json!({
            "match": {"operation": "createRun", "image": image},
            "action": {"type": "hang", "execute": true},
        });
        self.steer("faults", fault).await?;
        Ok(())
    }

    /// A new token for the workspace.
    pub(crate) async fn new_token(&self) -> Outcome<String> {
        let answer = self.steer("tokens", json!({})).await?;
        let token = answer["token"].as_str();
        Ok(token.ok_or("the service made no token")?.to_owned())
    }

    /// Lets a token expire now.
    pub(crate) async fn expire(&self, token: &str) -> Outcome<()> {
        let expired = json!({"expiresAfterMs": 0});
        self.send(Method::PATCH, &format!("tokens/{token}"), expired)
            .await?;
        Ok(())
    }

    /// Takes a run to its next state.
    pub(crate) async fn advance(&self, run_id: &str) -> Outcome<()> {
        self.steer(&format!("runs/{run_id}/advance"), json!({}))
            .await?;
        Ok(())
    }
}

impl Deref for Service {
    type Target = ReferenceService;

    fn deref(&self) -> &ReferenceService {
        &self.0
    }
}
