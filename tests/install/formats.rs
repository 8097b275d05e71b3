//! Objects in every state, as an operator writes them: recorded, and compared with the record.
//!
//! `tests/formats/objects.json` is this version's record, and the test below fails where an operator writes another
//! form. `RUN_OPERATOR_RECORD=today` writes it instead. `.ci/previous-release choose` keeps the record of a release in
//! `tests/previous-release`; `RUN_OPERATOR_RECORD=previous` records it by that release's program. The suite `policy`
//! has what today's code makes of both.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use run_operator::api::{Phase, Run};
use test_support::formats::forms;

use crate::image::Where;
use crate::installation::{Installation, RELEASED_TO, WORK, say};
use crate::mixed::workload;
use crate::previous::Previous;
use crate::service::TOKEN;
use crate::wait::{eventually, run_until};

/// Proves: I-formats, I-formats-today
#[tokio::test]
async fn objects_are_written_in_the_recorded_form() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut file = root.join("tests/formats/objects.json");
    let wish = std::env::var("RUN_OPERATOR_RECORD").unwrap_or_default();
    let because = "the objects are the same".to_owned();
    let mut installation = Installation::prepare_in(Where::Process { because }).await;
    if wish == "previous" {
        file = root.join("tests/previous-release/objects.json");
        let previous = Previous::find().expect("the previous release");
        installation.version = previous.version;
    }
    installation.install().await;
    let objects = installation.objects().await;
    if !wish.is_empty() {
        return write(&file, &objects);
    }
    let recorded = std::fs::read_to_string(&file).unwrap();
    let recorded: Value = serde_json::from_str(&recorded).unwrap();
    for (kind, form) in forms(&objects) {
        assert_eq!(
            form,
            forms(&recorded)[&kind],
            "{kind}: RUN_OPERATOR_RECORD=today records it"
        );
    }
}

fn write(file: &PathBuf, objects: &Value) {
    std::fs::write(file, format!("{objects:#}\n")).unwrap();
    say(&format!("recorded {}", file.display()));
}

impl Installation {
    /// One object for each state, by the state's name.
    async fn objects(&self) -> Value {
        self.shared_workspace().await;
        let waits = json!({"metadata": {"name": "without-secret"}, "spec": {
            "tokenSecretRef": {"name": "run-operator-token", "key": "absent"},
        }});
        let workspaces = format!("/apis/run-operator.dev/v1alpha1/namespaces/{WORK}/workspaces");
        self.create(&workspaces, &typed("Workspace", waits))
            .await
            .unwrap();
        self.faults().await;
        self.create_all().await;
        self.reach_all().await;
        let mut objects = Map::new();
        for (name, ..) in runs() {
            let run = format!("/apis/run-operator.dev/v1alpha1/namespaces/{WORK}/runs/{name}");
            objects.insert(format!("Run/{name}"), self.stored(&run).await);
        }
        let shared = "/apis/run-operator.dev/v1alpha1/clusterworkspaces/shared";
        objects.insert("ClusterWorkspace/shared".into(), self.stored(shared).await);
        for name in ["default", "without-secret"] {
            let stored = self.stored(&format!("{workspaces}/{name}")).await;
            objects.insert(format!("Workspace/{name}"), stored);
        }
        objects.into()
    }

    /// A ClusterWorkspace for every namespace, and its token.
    async fn shared_workspace(&self) {
        let token =
            json!({"metadata": {"name": "run-operator-token"}, "stringData": {"token": TOKEN}});
        let secrets = format!("/api/v1/namespaces/{RELEASED_TO}/secrets");
        self.create(&secrets, &token).await.unwrap();
        let shared = json!({"metadata": {"name": "shared"}, "spec": {"namespaceSelector": {}}});
        let path = "/apis/run-operator.dev/v1alpha1/clusterworkspaces";
        self.create(path, &typed("ClusterWorkspace", shared))
            .await
            .unwrap();
        eventually("the Workspaces are Ready", async || {
            let default =
                format!("/apis/run-operator.dev/v1alpha1/namespaces/{WORK}/workspaces/default");
            for path in [&format!("{path}/shared"), &default] {
                let stored = self.stored(path).await;
                if !has(&stored, "Ready", "True") {
                    return Err(stored.to_string());
                }
            }
            Ok(())
        })
        .await;
    }

    /// What the service answers to the creates of some images.
    async fn faults(&self) {
        let answer =
            |status: u16, code: &str| json!({"type": "answer", "status": status, "code": code});
        let of = |image: &str| json!({"operation": "createRun", "image": format!("example.com/{image}:1")});
        let service = &self.service;
        service
            .fault(of("in-doubt"), json!({"type": "doThenLose"}))
            .await;
        for (image, action) in [
            ("in-doubt", answer(503, "busy")),
            ("refused", answer(422, "validation_failed")),
            ("forbidden", answer(403, "forbidden")),
            ("conflict", answer(409, "idempotency_conflict")),
        ] {
            service.lasting_fault(of(image), action).await;
        }
    }

    async fn create_all(&self) {
        for (name, spec, _) in runs() {
            self.create_spec(name, spec).await;
        }
        for name in ["cancelled", "cancelling", "deleting", "denied"] {
            self.state(name, "running").await;
        }
        for name in ["cancelled", "cancelling"] {
            self.edit(name, json!({"cancel": true})).await;
        }
        self.delete_run("deleting").await;
        let denied = self.runs().get("denied").await.unwrap();
        let id = denied.status.unwrap().run_id.unwrap();
        self.service.delete(&format!("runs/{id}")).await;
    }

    /// Waits until every Run is in its state.
    async fn reach_all(&self) {
        for (name, _, reached) in runs() {
            run_until(&self.runs(), name, "has its state", reached).await;
        }
    }

    /// An object as the API server has it, without what says who wrote which field.
    async fn stored(&self, path: &str) -> Value {
        let request = http::Request::get(path).body(Vec::new()).unwrap();
        let mut object: Value = self.client.request(request).await.unwrap();
        let metadata = object["metadata"].as_object_mut().unwrap();
        metadata.remove("managedFields");
        // Helm's, not the operator's.
        metadata.remove("labels");
        object
    }
}

fn typed(kind: &str, mut object: Value) -> Value {
    object["apiVersion"] = "run-operator.dev/v1alpha1".into();
    object["kind"] = kind.into();
    object
}

type State = fn(&Run) -> bool;

/// The Runs: name, spec and the state in which each is recorded.
fn runs() -> [(&'static str, Value, State); 17] {
    let simulated = |simulate: Value| json!({"workload": workload(&simulate)});
    let of = |image: &str| json!({"workload": {"image": format!("example.com/{image}:1")}});
    let endless = || json!({"outcome": "never"});
    let with = |mut spec: Value, field: &str, value: Value| {
        spec[field] = value;
        spec
    };
    let running: State = |run| of_status(run, "state") == "running";
    let numbers = json!({
        "image": "example.com/numbers:1", "simulate": endless(),
        "numbers": [0, -1, 1.5, 1e21, 1e-7, 0.1, 9_007_199_254_740_993_u64, 1.0],
        "text": "a<b>&\u{e9}\u{2028}\u{1f600}\"\\", "b": {"d": {}, "c": []}, "a": null,
    });
    [
        ("in-doubt", of("in-doubt"), |run| {
            reason(run, "Ready") == "Retrying"
        }),
        ("active", simulated(endless()), running),
        (
            "keyed",
            with(simulated(endless()), "idempotencyKey", "key-1".into()),
            running,
        ),
        (
            "shared",
            with(
                simulated(endless()),
                "workspaceRef",
                json!({"kind": "ClusterWorkspace", "name": "shared"}),
            ),
            running,
        ),
        ("numbers", json!({"workload": numbers}), running),
        (
            "cancelling",
            simulated(json!({"outcome": "never", "cancel": "stuck"})),
            cancelling,
        ),
        (
            "deleting",
            simulated(json!({"outcome": "never", "cancel": "stuck"})),
            cancelling,
        ),
        (
            "suspended",
            with(simulated(json!({})), "suspend", true.into()),
            |run| reason(run, "Ready") == "Suspended",
        ),
        (
            "waiting",
            with(
                simulated(json!({})),
                "workspaceRef",
                json!({"name": "absent"}),
            ),
            |run| reason(run, "Ready") == "WorkspaceNotFound",
        ),
        (
            "not-ready",
            with(
                simulated(json!({})),
                "workspaceRef",
                json!({"name": "without-secret"}),
            ),
            |run| reason(run, "Ready") == "WorkspaceNotReady",
        ),
        ("forbidden", of("forbidden"), |run| {
            reason(run, "Stalled") == "Forbidden"
        }),
        ("conflict", of("conflict"), |run| {
            reason(run, "Stalled") == "IdempotencyConflict"
        }),
        ("succeeded", simulated(json!({"logEvents": 2})), |run| {
            ended(run, Phase::Succeeded)
        }),
        ("failed", simulated(json!({"outcome": "failed"})), |run| {
            ended(run, Phase::Failed)
        }),
        ("cancelled", simulated(endless()), |run| {
            ended(run, Phase::Cancelled)
        }),
        ("refused", of("refused"), |run| {
            // 0.1.0 does not end it.
            ended(run, Phase::Failed) || reason(run, "Stalled") == "CreateRefused"
        }),
        ("denied", simulated(endless()), |run| {
            reason(run, "Synced") == "RunNotFound"
        }),
    ]
}

fn cancelling(run: &Run) -> bool {
    of_status(run, "state") == "cancelling" && of_status(run, "phase") == "Cancelling"
}

/// It has this end, and nothing is left to do.
fn ended(run: &Run, phase: Phase) -> bool {
    of_status(run, "phase") == phase.as_str() && run.metadata.finalizers.is_none()
}

fn of_status(run: &Run, field: &str) -> Value {
    let status = serde_json::to_value(&run.status).unwrap();
    status.get(field).cloned().unwrap_or_default()
}

fn reason(run: &Run, condition: &str) -> String {
    let mut conditions = run.status.iter().flat_map(|status| &status.conditions);
    let found = conditions.find(|found| found.type_ == condition);
    found.map(|found| found.reason.clone()).unwrap_or_default()
}

fn has(object: &Value, condition: &str, status: &str) -> bool {
    let conditions = object["status"]["conditions"].as_array();
    let mut conditions = conditions.into_iter().flatten();
    conditions.any(|found| found["type"] == condition && found["status"] == status)
}
