//! Runs of an installation, and what became of them at the service.

use kube::api::{Api, DeleteParams, PostParams};
use serde_json::{Value, json};

use run_operator::api::{Phase, Run};

use crate::installation::{Installation, WORK};
use crate::wait;

/// A spec whose workload steers the reference service.
pub(crate) fn simulated(simulate: &Value) -> Value {
    json!({"workload": {"image": "ghcr.io/acme/train:1.4", "simulate": simulate}})
}

/// Creates a Run.
pub(crate) async fn create(runs: &Api<Run>, name: &str, spec: Value) -> Run {
    let run = json!({
        "apiVersion": "run-operator.dev/v1alpha1", "kind": "Run", "metadata": {"name": name}, "spec": spec,
    });
    let run = serde_json::from_value(run).unwrap();
    runs.create(&PostParams::default(), &run).await.unwrap()
}

impl Installation {
    pub(crate) fn runs(&self) -> Api<Run> {
        Api::namespaced(self.client.clone(), WORK)
    }

    /// Creates a Run whose workload steers the reference service.
    pub(crate) async fn simulate(&self, name: &str, simulate: Value) {
        create(&self.runs(), name, simulated(&simulate)).await;
    }

    pub(crate) async fn delete_run(&self, name: &str) {
        let deleted = self.runs().delete(name, &DeleteParams::default()).await;
        deleted.unwrap();
    }

    /// Waits until the status of a Run shows this state of the service.
    pub(crate) async fn state(&self, name: &str, state: &str) -> Run {
        let shows = |run: &Run| run.status.as_ref().and_then(|s| s.state.as_deref()) == Some(state);
        wait::run_until(&self.runs(), name, &format!("is {state}"), shows).await
    }

    pub(crate) async fn phase(&self, name: &str, phase: Phase) -> Run {
        let shows = |run: &Run| {
            let status = run.status.as_ref();
            status.is_some_and(|s| s.is_observed() && s.phase == Some(phase))
        };
        wait::run_until(&self.runs(), name, &format!("is {phase:?}"), shows).await
    }

    /// Waits until a Run no longer exists.
    pub(crate) async fn gone(&self, name: &str) {
        wait::gone(&self.runs(), name).await;
    }

    /// The runs of a Run at the service: those under its key, which is its uid or its own.
    pub(crate) async fn runs_of(&self, key: &str) -> Vec<Value> {
        let mut runs = self.service.runs().await;
        runs.retain(|run| run["idempotencyKey"] == key);
        runs
    }
}
