//! Runs of an installation, and what became of them at the service.

use kube::api::{Api, DeleteParams, PostParams};
use serde_json::{Value, json};

use run_operator::api::{Phase, Run};

use crate::installation::{Installation, WORK};
use crate::wait;

/// Creates a Run whose workload steers the reference service.
pub(crate) async fn create_run(runs: &Api<Run>, name: &str, simulate: Value) -> Run {
    let run = json!({
        "apiVersion": "run-operator.dev/v1alpha1", "kind": "Run", "metadata": {"name": name},
        "spec": {"workload": {"image": "ghcr.io/acme/train:1.4", "simulate": simulate}},
    });
    let run = serde_json::from_value(run).unwrap();
    runs.create(&PostParams::default(), &run).await.unwrap()
}

impl Installation {
    pub(crate) fn runs(&self) -> Api<Run> {
        Api::namespaced(self.client.clone(), WORK)
    }

    pub(crate) async fn create_run(&self, name: &str, simulate: Value) -> Run {
        create_run(&self.runs(), name, simulate).await
    }

    pub(crate) async fn delete_run(&self, name: &str) {
        self.runs()
            .delete(name, &DeleteParams::default())
            .await
            .unwrap();
    }

    /// Waits until the status of a Run shows this state of the service.
    pub(crate) async fn state(&self, name: &str, state: &str) -> Run {
        self.run_until(name, state, |run| {
            run.status
                .as_ref()
                .and_then(|status| status.state.as_deref())
                == Some(state)
        })
        .await
    }

    pub(crate) async fn phase(&self, name: &str, phase: Phase) -> Run {
        self.run_until(name, &format!("{phase:?}"), |run| {
            run.status.as_ref().and_then(|status| status.phase) == Some(phase)
        })
        .await
    }

    async fn run_until(&self, name: &str, what: &str, wanted: impl Fn(&Run) -> bool) -> Run {
        wait::run_until(&self.runs(), name, &format!("is {what}"), wanted).await
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
