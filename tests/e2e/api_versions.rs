//! A second API version beside v1alpha1, stored, and taken back, while Runs are at work: the way of CONTRIBUTING.md,
//! "The next API version".

use std::path::Path;
use std::process::Command;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Patch, PatchParams};
use kube::{Api, ResourceExt};
use serde_json::json;

use run_operator::api::{Phase, crd, names};

use crate::support::{Plane, Setup, World, eventually, output_of, own_control_plane};

const NEXT: &str = "v1beta1";

fn definitions(world: &World) -> Api<CustomResourceDefinition> {
    Api::all(world.client.clone())
}

/// Serves both versions with one schema, and stores this one.
async fn store(world: &World, version: &str) {
    for mut crd in crd::all() {
        let mut next = crd.spec.versions[0].clone();
        NEXT.clone_into(&mut next.name);
        crd.spec.versions.push(next);
        for served in &mut crd.spec.versions {
            served.storage = served.name == version;
        }
        apply(world, &crd).await;
    }
    serves(world, &[names::VERSION, NEXT]).await;
}

async fn apply(world: &World, crd: &CustomResourceDefinition) {
    let params = PatchParams::apply("tests").force();
    let name = crd.name_any();
    let api = definitions(world);
    let applied = api.patch(&name, &params, &Patch::Apply(crd)).await;
    applied.unwrap();
}

/// Waits until the API server serves Runs in these versions and in no other.
async fn serves(world: &World, versions: &[&str]) {
    eventually("the versions are served", async || {
        let groups = world.client.list_api_groups().await;
        let groups = groups.map_err(|error| error.to_string())?.groups;
        let ours = groups.iter().find(|group| group.name == names::GROUP);
        let served = ours.map(|group| &group.versions);
        let served = served.into_iter().flatten().map(|v| v.version.clone());
        let mut served: Vec<String> = served.collect();
        served.sort();
        if served != versions {
            return Err(format!("{served:?}"));
        }
        // Discovery may be ahead of what answers.
        for version in versions {
            let path = format!("/apis/{}/{version}/runs?limit=1", names::GROUP);
            let request = http::Request::get(path).body(Vec::new()).unwrap();
            let answer = world.client.request::<serde_json::Value>(request).await;
            answer.map_err(|error| error.to_string())?;
        }
        Ok(())
    })
    .await;
}

/// Migrates what is stored to this version.
async fn migrate(world: &World, version: &str) {
    let kubectl = world.control_plane.kubectl();
    let folder = Path::new(kubectl.get_program()).parent().unwrap();
    let path = std::env::var("PATH").unwrap();
    let mut script = Command::new(test_support::root().join("deploy/migrate-stored.sh"));
    script
        .arg(version)
        .env("PATH", format!("{}:{path}", folder.display()))
        .env("KUBECONFIG", world.control_plane.kubeconfig());
    output_of(script, "").await.unwrap();
    for crd in crd::all() {
        let now = definitions(world).get(&crd.name_any()).await.unwrap();
        let stored = now.status.unwrap().stored_versions;
        assert_eq!(stored, Some(vec![version.to_owned()]));
    }
}

/// Proves: I-upgrade
#[tokio::test]
async fn runs_live_through_another_stored_version_and_back() {
    let mut world = World::with(Setup {
        plane: Plane::Own(own_control_plane().await),
        ..Setup::default()
    })
    .await;
    let before = world.running("before").await;
    world.create_run("ended", json!({})).await;
    let ended = world.phase("ended", Phase::Succeeded).await;
    world.create_run("held", json!({"suspend": true})).await;
    world.phase("held", Phase::Pending).await;

    // Served side by side: a user of the new version, an operator of the old one.
    store(&world, names::VERSION).await;
    let manifest = json!({
        "apiVersion": format!("{}/{NEXT}", names::GROUP), "kind": "Run", "metadata": {"name": "during"},
        "spec": {"workload": {"image": "i", "simulate": {"outcome": "never"}}},
    });
    let create = ["apply", "--server-side", "-f", "-"];
    world.kubectl(&create, &manifest.to_string()).await.unwrap();
    world.phase("during", Phase::Active).await;

    // Stored in the new version, and everything migrated, under an operator at work; which is then killed.
    store(&world, NEXT).await;
    migrate(&world, NEXT).await;
    let rewritten = world.run("ended").await;
    assert_ne!(rewritten.resource_version(), ended.resource_version());
    world.kill_operator();
    world.start_operator().await;
    world.running("after").await;

    // And back: the first version alone.
    store(&world, names::VERSION).await;
    migrate(&world, names::VERSION).await;
    for crd in crd::all() {
        apply(&world, &crd).await;
    }
    serves(&world, &[names::VERSION]).await;
    let resumed = json!({"spec": {"suspend": false}});
    world.patch_run("held", resumed).await;
    world.phase("held", Phase::Succeeded).await;

    let now = world.run("before").await.status.unwrap();
    assert_eq!(now.run_id, before.status.unwrap().run_id);
    world.one_run_each().await;
    for name in ["before", "during", "after", "ended", "held"] {
        world.delete_run(name).await;
        world.gone(name).await;
    }
    let runs = world.service.runs().await;
    assert_eq!(runs.len(), 5, "{runs:?}");
    let cancelled = runs.iter().filter(|run| run["state"] == "cancelled");
    assert_eq!(cancelled.count(), 3, "{runs:?}");
}
