//! Runs in the states that a change of the version finds, in addition to the load: suspended, without a Workspace,
//! with a key, refused, being cancelled, finished.

use std::collections::BTreeMap;

use kube::ResourceExt;
use kube::api::{ListParams, Patch, PatchParams};
use serde_json::{Value, json};

use run_operator::api::{Phase, Run};

use crate::installation::{Installation, WORK};
use crate::load::{Fate, Load};
use crate::runs::{create, simulated};

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
        let later = later(number);
        let endless = json!({"outcome": "never", "cancelTimeMs": 4000});
        let [mut suspended, mut waiting] = [(); 2].map(|()| simulated(&json!({})));
        suspended["suspend"] = json!(true);
        waiting["workspaceRef"] = json!({"name": later});
        let mut keyed = simulated(&json!({"runTimeMs": 3000}));
        keyed["idempotencyKey"] = json!(format!("key-{number}"));
        for (name, fate, spec) in [
            ("suspended", Fate::Succeeds, suspended),
            ("waiting", Fate::Succeeds, waiting.clone()),
            ("withdrawn", Fate::Unsubmitted, waiting),
            ("keyed", Fate::Succeeds, keyed),
            (
                "refused",
                Fate::Refused,
                json!({"workload": {"image": REFUSED}}),
            ),
            ("cancelled", Fate::Cancelled, simulated(&endless)),
        ] {
            let run = create(&installation.runs(), &format!("{name}-{number}"), spec).await;
            load.add(&run, fate);
        }
        let cancelled = format!("cancelled-{number}");
        installation.state(&cancelled, "running").await;
        let finished = installation.finished().await;
        installation.edit(&cancelled, json!({"cancel": true})).await;
        Self { number, finished }
    }

    /// Resumes those that waited, after the change: nothing was written to those that had ended before it.
    pub(crate) async fn after(self, installation: &Installation) {
        let now = installation.finished().await;
        for (name, version) in &self.finished {
            assert_eq!(
                now.get(name),
                Some(version),
                "{name}: written after its end"
            );
        }
        let named = |name: &str| format!("{name}-{}", self.number);
        for name in ["suspended", "waiting", "withdrawn"] {
            installation.phase(&named(name), Phase::Pending).await;
        }
        let resumed = json!({"suspend": false});
        installation.edit(&named("suspended"), resumed).await;
        installation.delete_run(&named("withdrawn")).await;
        installation.gone(&named("withdrawn")).await;
        let workspace = json!({
            "apiVersion": "run-operator.dev/v1alpha1", "kind": "Workspace",
            "metadata": {"name": later(self.number)}, "spec": {},
        });
        let path = format!("/apis/run-operator.dev/v1alpha1/namespaces/{WORK}/workspaces");
        installation.create(&path, &workspace).await.unwrap();
    }
}

/// The Workspace that the `number`th change's Runs wait for.
fn later(number: usize) -> String {
    format!("later-{number}")
}

impl Installation {
    /// Changes fields of a Run's spec.
    async fn edit(&self, name: &str, spec: Value) {
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
