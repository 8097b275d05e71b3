//! An object that the operator can't read doesn't stop the others.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Api;
use kube::api::{ApiResource, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::GroupVersionKind;
use serde_json::json;

use run_operator::api::Phase;

use crate::support::{Setup, World, eventually, own_control_plane};

/// Lets the API server take anything for a Run, as an older or a newer schema might.
async fn loosen(world: &World) {
    let crds: Api<CustomResourceDefinition> = Api::all(world.client.clone());
    let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let patch: json_patch::Patch = serde_json::from_value(json!([
        {"op": "replace", "path": "/spec/versions/0/schema/openAPIV3Schema", "value": open},
        {"op": "remove", "path": "/spec/versions/0/selectableFields"},
    ]))
    .unwrap();
    let patch = Patch::Json::<()>(patch);
    crds.patch("runs.run-operator.dev", &PatchParams::default(), &patch)
        .await
        .unwrap();
}

#[tokio::test]
async fn a_run_that_cannot_be_read_is_told_of_and_the_others_go_on() {
    let own = own_control_plane().await;
    let mut world = World::with(Setup {
        control_plane: Some(own),
        ..Setup::default()
    })
    .await;
    world.simulate("before", json!({"outcome": "never"})).await;
    world.state("before", "running").await;
    loosen(&world).await;
    let kind = GroupVersionKind::gvk("run-operator.dev", "v1alpha1", "Run");
    let any: Api<DynamicObject> = Api::namespaced_with(
        world.client.clone(),
        &world.namespace,
        &ApiResource::from_gvk(&kind),
    );
    let odd = json!({
        "apiVersion": "run-operator.dev/v1alpha1", "kind": "Run", "metadata": {"name": "odd"},
        "spec": {"workload": {"image": "example/odd"}, "suspend": "perhaps"},
    });
    let odd: DynamicObject = serde_json::from_value(odd).unwrap();
    eventually("the API server takes the odd Run", async || {
        any.create(&PostParams::default(), &odd).await.map(drop)
    })
    .await;
    told(&world).await;
    world.create_run("after", json!({})).await;
    world.phase("after", Phase::Succeeded).await;

    // Also in the list that a new process begins with.
    world.kill_operator();
    world.start_operator().await;
    told(&world).await;
    world.create_run("later", json!({})).await;
    world.phase("later", Phase::Succeeded).await;
    world.delete_run("before").await;
    world.gone("before").await;

    let correction = json!({"spec": {"suspend": false}});
    any.patch("odd", &PatchParams::default(), &Patch::Merge(correction))
        .await
        .unwrap();
    world.phase("odd", Phase::Succeeded).await;
    assert_eq!(world.service.runs().await.len(), 4);
}

/// The log names the object, and a metric counts it.
async fn told(world: &World) {
    eventually("the undecodable Run is counted", async || {
        let count = world
            .operator()
            .metric("run_operator_undecodable_objects_total")
            .await;
        if count >= 1.0 { Ok(()) } else { Err(count) }
    })
    .await;
    let log = world.operator_log();
    let line = log
        .lines()
        .find(|line| line.contains("failed to decode a Run"));
    assert!(line.unwrap().contains("odd"), "{line:?}");
}
