//! The runs of the reference service, for the demo and the measurements.

use jiff::Timestamp;
use serde::Deserialize;
use test_cluster::ReferenceService;

use crate::common::Outcome;

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

/// Every run that the service ever created.
pub(crate) async fn runs(service: &ReferenceService) -> Outcome<Vec<ServiceRun>> {
    Ok(serde_json::from_value(service.read("runs").await?)?)
}
