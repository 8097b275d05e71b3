//! Runs in the states that a change of the version finds, in addition to the load: suspended, without a Workspace,
//! with a key, refused, being cancelled, finished.

use std::collections::BTreeMap;

use kube::ResourceExt;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use run_operator::api::{Phase, Run};

use crate::installation::{Installation, WORK};
use crate::load::{Fate, Load};

/// The image of the Runs that the service refuses.
const REFUSED: &str = "ghcr.io/acme/refused:1";

/// The Runs of one change.
pub(crate) struct Mixed {
    number: usize,
    /// The Runs that ended before it, with their versions.
    finished: BTreeMap<String, String>,
}

impl Mixed {
    /// Makes the service refuse one image. Before every other fault of creates: only the first one applies.
    pub(crate) async fn refuse(installation: &Installation) {
        let fits = json!({"operation": "createRun", "image": REFUSED});
        let answer = json!({"type": "answer", "status": 422, "code": "validation_failed"});
        installation.service.lasting_fault(fits, answer).await;
    }

    /// Creates those of the `number`th change, and begins the cancellation that it interrupts.
    pub(crate) async fn before(installation: &Installation, load: &Load, number: usize) -> Self {
        let create = async |name: &str, fate: Fate, spec: Value| {
            let run = installation
                .create_spec(&format!("{name}-{number}"), spec)
                .await;
            load.add(&run, fate);
        };
        let late =
            json!({"workload": workload(&json!({})), "workspaceRef": {"name": later(number)}});
        create(
            "suspended",
            Fate::Succeeds,
            json!({"workload": workload(&json!({})), "suspend": true}),
        )
        .await;
        create("waiting", Fate::Succeeds, late.clone()).await;
        create("withdrawn", Fate::Unsubmitted, late).await;
        let key = format!("key-{number}");
        let keyed =
            json!({"workload": workload(&json!({"runTimeMs": 3000})), "idempotencyKey": key});
        create("keyed", Fate::Succeeds, keyed).await;
        create(
            "refused",
            Fate::Refused,
            json!({"workload": {"image": REFUSED}}),
        )
        .await;
        let endless = json!({"outcome": "never", "cancelTimeMs": 4000});
        create(
            "cancelled",
            Fate::Cancelled,
            json!({"workload": workload(&endless)}),
        )
        .await;
        let cancelled = format!("cancelled-{number}");
        installation.state(&cancelled, "running").await;
        let finished = installation.finished().await;
        installation.edit(&cancelled, json!({"cancel": true})).await;
        Self { number, finished }
    }

    /// Resumes those that waited, after the change: nothing was written to those that had ended before it.
    pub(crate) async fn after(self, installation: &Installation) {
        let number = self.number;
        let now = installation.finished().await;
        for (name, version) in &self.finished {
            assert_eq!(
                now.get(name),
                Some(version),
                "{name} was written after its end"
            );
        }
        let phase = |run: &Run| run.status.as_ref().and_then(|status| status.phase);
        for name in ["suspended", "waiting", "withdrawn"] {
            let run = installation
                .runs()
                .get(&format!("{name}-{number}"))
                .await
                .unwrap();
            assert_eq!(phase(&run), Some(Phase::Pending), "{run:?}");
        }
        installation
            .edit(&format!("suspended-{number}"), json!({"suspend": false}))
            .await;
        installation
            .delete_run(&format!("withdrawn-{number}"))
            .await;
        installation.gone(&format!("withdrawn-{number}")).await;
        let workspace = json!({
            "apiVersion": "run-operator.dev/v1alpha1", "kind": "Workspace",
            "metadata": {"name": later(number)}, "spec": {},
        });
        let path = format!("/apis/run-operator.dev/v1alpha1/namespaces/{WORK}/workspaces");
        installation.create(&path, &workspace).await.unwrap();
    }
}

/// The Workspace that the `number`th change's Runs wait for.
fn later(number: usize) -> String {
    format!("later-{number}")
}

pub(crate) fn workload(simulate: &Value) -> Value {
    json!({"image": "ghcr.io/acme/train:1.4", "simulate": simulate})
}

impl Installation {
    pub(crate) async fn create_spec(&self, name: &str, spec: Value) -> Run {
        let run = json!({
            "apiVersion": "run-operator.dev/v1alpha1", "kind": "Run",
            "metadata": {"name": name}, "spec": spec,
        });
        let run = serde_json::from_value(run).unwrap();
        self.runs()
            .create(&PostParams::default(), &run)
            .await
            .unwrap()
    }

    /// Changes fields of a Run's spec.
    pub(crate) async fn edit(&self, name: &str, spec: Value) {
        let patch = Patch::Merge(json!({"spec": spec}));
        let params = PatchParams::default();
        self.runs().patch(name, &params, &patch).await.unwrap();
    }

    /// The Runs that have ended and of which nothing is left to do, with their resourceVersions.
    async fn finished(&self) -> BTreeMap<String, String> {
        let runs = self.runs().list(&ListParams::default()).await.unwrap();
        let done = |run: &Run| run.ended() && run.finalizers().is_empty();
        let done = runs.items.into_iter().filter(done);
        done.map(|run| (run.name_any(), run.resource_version().unwrap()))
            .collect()
    }
}
