//! The objects that the operator reads and writes, from the API server's audit log.

use kube::{Api, ResourceExt};
use rstest::rstest;
use run_operator::api::{Phase, Run};
use serde_json::{Value, json};

use crate::support::{Audit, Plane, Setup, World, eventually, phase_of};

fn elsewhere(world: &World) -> String {
    format!("{}-elsewhere", world.namespace)
}

/// A Run in a further namespace, as it was created.
async fn run_in(world: &World, namespace: &str) -> (Api<Run>, Run) {
    world.create_namespace(namespace, json!({})).await;
    let spec = json!({"workload": {"image": "x"}});
    world.apply(namespace, "Run", "train", spec).await;
    let runs: Api<Run> = Api::namespaced(world.client.clone(), namespace);
    let created = runs.get("train").await.unwrap();
    (runs, created)
}

/// Proves: P-namespaces
#[tokio::test]
async fn each_of_several_watched_namespaces_is_served_and_no_other() {
    let second: &'static str = format!("t-{}", uuid::Uuid::new_v4().simple()).leak();
    let world = World::with(Setup {
        plane: Plane::Alone,
        operator: vec!["--namespace", second],
        ..Setup::default()
    })
    .await;
    let (unwatched, created) = run_in(&world, &elsewhere(&world)).await;
    let (watched, _) = run_in(&world, second).await;
    world.create_run("train", json!({})).await;
    world.phase("train", Phase::Succeeded).await;
    eventually("the Run of the second namespace has a phase", async || {
        let run = watched.get("train").await;
        let run = run.map_err(|error| error.to_string())?;
        let phase = phase_of(&run);
        phase.ok_or_else(|| "it has none".to_owned())
    })
    .await;
    let left = unwatched.get("train").await.unwrap();
    assert_eq!(left.resource_version(), created.resource_version());
    let within = [second, &world.namespace].map(|name| format!("/namespaces/{name}/"));
    for entry in Audit::of(&world).all_requests() {
        let uri = entry["requestURI"].as_str().unwrap_or_default();
        let inside = within.iter().any(|namespace| uri.contains(namespace));
        assert!(inside, "outside its namespaces: {entry}");
    }
}

/// With ClusterWorkspaces it also reads these and its own namespaces' labels, and nothing else.
/// Proves: P-namespaces, X-secrets-by-name
#[rstest]
#[case::without_cluster_workspaces("false")]
#[case::with_cluster_workspaces("true")]
#[tokio::test]
async fn only_the_watched_namespace_and_named_secrets_are_accessed(#[case] flag: &'static str) {
    let cluster_workspaces = flag == "true";
    let world = World::with(Setup {
        plane: Plane::Alone,
        operator: vec!["--cluster-workspaces", flag],
        ..Setup::default()
    })
    .await;
    let (unwatched, created) = run_in(&world, &elsewhere(&world)).await;

    world.create_run("train", json!({})).await;
    world.phase("train", Phase::Succeeded).await;

    let left = unwatched.get("train").await.unwrap();
    assert_eq!(left.resource_version(), created.resource_version());
    assert_eq!(world.service.runs().await.len(), 1);
    let requests = Audit::of(&world).all_requests();
    let uri = |entry: &Value| entry["requestURI"].as_str().unwrap_or_default().to_owned();
    let within = format!("/namespaces/{}/", world.namespace);
    let named = format!("metadata.name%3D{}", world.namespace);
    for entry in &requests {
        let uri = uri(entry);
        let for_cluster_workspaces = match entry["objectRef"]["resource"].as_str() {
            Some("clusterworkspaces") => true,
            Some("namespaces") => uri.contains(&named),
            _ => false,
        };
        assert!(
            uri.contains(&within) || (for_cluster_workspaces && cluster_workspaces),
            "outside its namespace: {entry}"
        );
    }
    for resource in ["clusterworkspaces", "namespaces"] {
        let asks_for_them = requests
            .iter()
            .any(|entry| entry["objectRef"]["resource"] == resource);
        assert_eq!(asks_for_them, cluster_workspaces, "{resource}");
    }
    let of_secrets: Vec<_> = requests
        .iter()
        .filter(|e| e["objectRef"]["resource"] == "secrets")
        .collect();
    assert!(
        of_secrets.iter().any(|e| e["verb"] == "watch"),
        "no watch on a Secret"
    );
    for entry in of_secrets {
        let by_name = match entry["verb"].as_str() {
            Some("get") => uri(entry).contains("/secrets/run-operator-token"),
            Some("list" | "watch") => uri(entry).contains("metadata.name%3Drun-operator-token"),
            _ => false,
        };
        assert!(by_name, "a Secret otherwise than by its name: {entry}");
    }
}
