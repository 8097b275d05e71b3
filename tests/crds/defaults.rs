//! Defaults of the schema, and objects that were stored before there were any.

use std::time::{Duration, Instant};

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSONSchemaProps,
};
use kube::Api;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams};
use rstest::rstest;
use run_operator::api::{RunSpec, RunStatus, crd, names};
use run_operator::decide::request;
use serde_json::{Value, json};

use crate::namespace::Space;

const MANAGER: &str = "gitops";
/// A changed CRD counts from when the API server's own watch has seen it.
const IN_FORCE_TIMEOUT: Duration = Duration::from_mins(2);

fn smallest() -> Value {
    json!({"workload": {"image": "x"}})
}

fn defaults() -> Value {
    json!({
        "workload": {"image": "x"}, "provider": "auto", "region": "auto", "deletionPolicy": "Cancel",
        "readyWhen": "Succeeded", "priority": 0,
    })
}

fn smallest_schedule() -> Value {
    json!({"schedules": ["@daily"], "template": {"spec": smallest()}})
}

fn defaults_of_a_schedule() -> Value {
    json!({
        "schedules": ["@daily"], "template": {"spec": smallest()}, "concurrencyPolicy": "Forbid", "catchUp": "Skip",
        "successfulRunsHistoryLimit": 3, "failedRunsHistoryLimit": 3,
    })
}

fn template(parameter: &Value) -> Value {
    json!({"parameters": [parameter], "template": {"spec": smallest()}})
}

/// Proves: P-defaults
#[rstest]
#[case::run("Run", smallest(), defaults(), json!(RunStatus::initial()))]
#[case::workspace("Workspace", json!({}), json!({}), json!({"observedGeneration": -1}))]
#[case::cluster_workspace("ClusterWorkspace", json!({}), json!({}), json!({"observedGeneration": -1}))]
#[case::schedule("RunSchedule", smallest_schedule(), defaults_of_a_schedule(), json!({"observedGeneration": -1}))]
#[case::template(
    "RunTemplate", template(&json!({"name": "n"})), template(&json!({"name": "n", "type": "string"})), Value::Null
)]
#[tokio::test]
async fn a_fresh_object_has_the_defaults_and_is_seen_to_be_unobserved(
    #[case] kind: &str,
    #[case] written: Value,
    #[case] spec: Value,
    #[case] status: Value,
) {
    let space = Space::new().await;
    let created = space.created(kind, "a", written).await;
    assert_eq!(created["spec"], spec);
    assert_eq!(created["status"], status);
}

/// Proves: P-defaults, P-same-bytes
#[test]
fn the_code_has_the_defaults_of_the_schema() {
    let of = |spec: Value| serde_json::from_value::<RunSpec>(spec).unwrap();
    let (bare, full) = (of(smallest()), of(defaults()));
    assert_eq!(request::body(&bare, 1), request::body(&full, 1));
    assert_eq!(bare.deletion_policy(), full.deletion_policy());
    assert_eq!(bare.ready_when(), full.ready_when());
    assert_eq!(bare.priority(), full.priority());
}

/// The CRD of Runs in another group: other tests use the one of this name.
fn of_group(
    group: &str,
    change: impl FnOnce(&mut CustomResourceDefinition),
) -> CustomResourceDefinition {
    let mut crd = crd::run();
    group.clone_into(&mut crd.spec.group);
    crd.metadata.name = Some(format!("{}.{group}", crd.spec.names.plural));
    change(&mut crd);
    crd
}

/// Takes the defaults away, and the selectable fields that came with them.
fn without_defaults(crd: &mut CustomResourceDefinition) {
    let version = &mut crd.spec.versions[0];
    version.selectable_fields = None;
    let root = version.schema.as_mut().unwrap();
    let parts = root.open_api_v3_schema.as_mut().unwrap();
    for part in parts.properties.iter_mut().flat_map(|all| all.values_mut()) {
        part.default = None;
        let fields = part.properties.iter_mut().flat_map(|all| all.values_mut());
        fields.for_each(|field: &mut JSONSchemaProps| field.default = None);
    }
}

/// Asks until the answer is right.
async fn eventually<T>(what: &str, ask: impl AsyncFn() -> Result<T, String>) -> T {
    let deadline = Instant::now() + IN_FORCE_TIMEOUT;
    loop {
        match ask().await {
            Ok(answer) => return answer,
            Err(other) => assert!(Instant::now() < deadline, "not {what}: {other}"),
        }
    }
}

/// Proves: P-defaults, P-immutable, I-crds
#[tokio::test]
async fn an_object_that_was_stored_before_the_defaults_has_them_and_stays_editable() {
    let space = Space::new().await;
    let client = space.control_plane.client().await.unwrap();
    let group = &format!("{}.example.com", space.namespace());
    let crds: Api<CustomResourceDefinition> = Api::all(client.clone());
    let put = async |crd: &CustomResourceDefinition| {
        let name = crd.metadata.name.as_deref().unwrap();
        let params = PatchParams::apply(MANAGER).force();
        crds.patch(name, &params, &Patch::Apply(crd)).await.unwrap();
    };
    let kind = GroupVersionKind::gvk(group, names::VERSION, "Run");
    let runs: Api<DynamicObject> =
        Api::namespaced_with(client, space.namespace(), &ApiResource::from_gvk(&kind));
    let apply = async |spec: &Value| {
        let run = json!({
            "apiVersion": format!("{group}/{}", names::VERSION), "kind": "Run", "metadata": {"name": "old"}, "spec": spec,
        });
        let params = PatchParams::apply(MANAGER);
        runs.patch("old", &params, &Patch::Apply(run)).await
    };

    put(&of_group(group, without_defaults)).await;
    let old = eventually("served", async || {
        apply(&smallest()).await.map_err(|error| error.to_string())
    })
    .await;
    assert_eq!(
        (&old.data["spec"], &old.data["status"]),
        (&smallest(), &Value::Null)
    );

    put(&of_group(group, |_| {})).await;
    let read = eventually("read with the defaults", async || {
        let read = runs.get("old").await.unwrap();
        match &read.data["spec"] {
            spec if *spec == defaults() => Ok(read),
            spec => Err(spec.to_string()),
        }
    })
    .await;
    assert_eq!(read.data["status"], json!(RunStatus::initial()));
    let found = eventually("found by a default", async || {
        let by_field = ListParams::default().fields("spec.provider=auto,status.phase=Pending");
        runs.list(&by_field)
            .await
            .map_err(|error| error.to_string())
    })
    .await;
    assert_eq!(found.items.len(), 1);

    let again = apply(&smallest()).await.unwrap();
    assert_eq!(again.metadata.generation, Some(1));
    let mut edited = smallest();
    edited["suspend"] = json!(true);
    let edited = apply(&edited).await.unwrap();
    assert_eq!(edited.metadata.generation, Some(2));
    let mut elsewhere = smallest();
    elsewhere["provider"] = json!("other");
    let refused = apply(&elsewhere).await.unwrap_err().to_string();
    assert!(refused.contains("provider is immutable"), "{refused}");
}
