//! The objects that the operator reads and writes, from the API server's audit log.

use kube::{Api, ResourceExt};
use rstest::rstest;
use run_operator::api::{Phase, Run};
use serde_json::json;

use crate::support::{Audit, Plane, Setup, World, phase_of, run_until};

/// A Run in a further namespace, as it was created.
async fn run_in(world: &World, namespace: &str) -> (Api<Run>, Run) {
    world.create_namespace(namespace, json!({})).await;
    let spec = json!({"workload": {"image": "x"}});
    world.apply(namespace, "Run", "train", spec).await;
    let runs: Api<Run> = Api::namespaced(world.client.clone(), namespace);
    let created = runs.get("train").await.unwrap();
    (runs, created)
}

/// With ClusterWorkspaces it also reads these and its own namespaces' labels, and nothing else.
/// Proves: P-namespaces, X-secrets-by-name
#[rstest]
#[case::without_cluster_workspaces("false")]
#[case::with_cluster_workspaces("true")]
#[tokio::test]
async fn only_the_watched_namespaces_and_named_secrets_are_accessed(#[case] flag: &'static str) {
    let cluster_workspaces = flag == "true";
    let second: &'static str = format!("t-{}", uuid::Uuid::new_v4().simple()).leak();
    let world = World::with(Setup {
        plane: Plane::Alone,
        operator: vec!["--cluster-workspaces", flag, "--namespace", second],
        ..Setup::default()
    })
    .await;
    let elsewhere = format!("{}-elsewhere", world.namespace);
    let (unwatched, created) = run_in(&world, &elsewhere).await;
    let (watched, _) = run_in(&world, second).await;
    world.create_run("train", json!({})).await;
    world.phase("train", Phase::Succeeded).await;
    run_until(&watched, "train", "has a phase", |run| {
        phase_of(run).is_some()
    })
    .await;
    let left = unwatched.get("train").await.unwrap();
    assert_eq!(left.resource_version(), created.resource_version());

    let own = [second, &world.namespace];
    let mut seen = Vec::new();
    for entry in Audit::of(&world).all_requests() {
        let uri = entry["requestURI"].as_str().unwrap_or_default();
        let resource = entry["objectRef"]["resource"].as_str().unwrap_or_default();
        let verb = entry["verb"].as_str().unwrap_or_default();
        let within = own
            .iter()
            .any(|name| uri.contains(&format!("/namespaces/{name}/")));
        let named = own
            .iter()
            .any(|name| uri.contains(&format!("metadata.name%3D{name}")));
        let of_cluster_workspaces =
            resource == "clusterworkspaces" || resource == "namespaces" && named;
        let allowed = within || cluster_workspaces && of_cluster_workspaces;
        assert!(allowed, "outside its namespaces: {entry}");
        let by_name = match (resource, verb) {
            ("secrets", "get") => uri.contains("/secrets/run-operator-token"),
            ("secrets", _) => uri.contains("metadata.name%3Drun-operator-token"),
            _ => true,
        };
        assert!(by_name, "a Secret otherwise than by its name: {entry}");
        seen.push(format!("{verb} {resource}"));
    }
    assert!(seen.iter().any(|seen| seen == "watch secrets"));
    for resource in ["clusterworkspaces", "namespaces"] {
        let asked = seen
            .iter()
            .any(|seen| seen.ends_with(&format!(" {resource}")));
        assert_eq!(asked, cluster_workspaces, "{resource}");
    }
}
