//! What the demo asks of the reference service, beyond what every task does.

use std::time::Duration;

use serde_json::{Value, json};

use crate::demo::board::PATIENCE;
use crate::demo::failure::Failure;
use crate::service::{Service, ServiceError, ServiceRun};

/// Interval of requests to the service while something is waited for.
const POLL: Duration = Duration::from_millis(50);

impl ServiceRun {
    /// True when it changes no more.
    pub(crate) fn ended(&self) -> bool {
        matches!(self.state.as_str(), "succeeded" | "failed" | "cancelled")
    }
}

impl Service {
    /// Lets the next create of this image take effect, and keeps the answer back.
    pub(crate) async fn withhold_answer(&self, image: &str) -> Result<(), Failure> {
        let fault = json!({
            "match": {"operation": "createRun", "image": image},
            "action": {"type": "hang", "execute": true},
        });
        self.steer("faults", fault).await?;
        Ok(())
    }

    /// A new token for the workspace.
    pub(crate) async fn new_token(&self) -> Result<String, Failure> {
        let answer = self.steer("tokens", json!({})).await?;
        match answer.get("token").and_then(Value::as_str) {
            Some(token) => Ok(token.to_owned()),
            None => Err(Failure::Service(ServiceError::Steer {
                path: "tokens".to_owned(),
                answer: "no token".to_owned(),
            })),
        }
    }

    /// Takes a run to its next state.
    pub(crate) async fn advance(&self, run_id: &str) -> Result<(), Failure> {
        self.steer(&format!("runs/{run_id}/advance"), json!({}))
            .await?;
        Ok(())
    }

    /// The run of a Run's uid.
    pub(crate) async fn run(&self, uid: &str) -> Result<Option<ServiceRun>, Failure> {
        let mut runs = self.runs().await?.into_iter();
        Ok(runs.find(|run| run.idempotency_key == uid))
    }

    /// Waits until `wanted` is true of the service's runs, and returns them.
    pub(crate) async fn until(
        &self,
        what: &str,
        wanted: impl Fn(&[ServiceRun]) -> bool,
    ) -> Result<Vec<ServiceRun>, Failure> {
        let deadline = tokio::time::Instant::now() + PATIENCE;
        loop {
            let runs = self.runs().await?;
            if wanted(&runs) {
                return Ok(runs);
            }
            if tokio::time::Instant::now() >= deadline {
                return Err(Failure::Wait {
                    what: what.to_owned(),
                    seconds: PATIENCE.as_secs(),
                    seen: format!("{runs:#?}"),
                });
            }
            tokio::time::sleep(POLL).await;
        }
    }
}
