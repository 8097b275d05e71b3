//! The deletion of a namespace, carried out by the real namespace controller: it takes the Secret at
//! once, and whatever has no finalizer.

use k8s_openapi::api::core::v1::Namespace;
use kube::Api;
use serde_json::json;

use run_operator::api::{ConditionType as Type, Phase};

use crate::support::{Plane, SECRET, Setup, World, condition_of, gone, phase_of, says};

const NAMES: [&str; 3] = ["one", "two", "three"];

/// A world with a namespace controller, and Runs that continue until they are cancelled, which takes them a
/// few seconds.
async fn busy() -> World {
    let world = World::with(Setup {
        plane: Plane::Managed,
        // So that namespaces are watched.
        operator: vec!["--cluster-workspaces", "true"],
        ..Setup::default()
    })
    .await;
    for name in NAMES {
        let simulate = json!({"runId": name, "outcome": "never", "cancelTimeMs": 5000});
        world.simulate(name, simulate).await;
    }
    for name in NAMES {
        world.state(name, "running").await;
    }
    world
}

/// Deletes it, and waits until its Secret no longer exists.
async fn delete_namespace(world: &World) {
    let delete = ["delete", "namespace", &world.namespace, "--wait=false"];
    world.kubectl(&delete, "").await.unwrap();
    gone(&world.secrets(), SECRET).await;
}

async fn namespace_gone(world: &World) {
    let namespaces: Api<Namespace> = Api::all(world.client.clone());
    gone(&namespaces, &world.namespace).await;
}

/// Proves: P-events, P-last-token
#[tokio::test]
async fn deleting_a_namespace_with_its_secret_still_cancels_every_run() {
    let world = busy().await;
    let history = world.history().await;
    delete_namespace(&world).await;
    world
        .workspace_condition("default", Type::Ready, "False", "SecretNotFound")
        .await;
    let left = world.service.runs().await;
    assert!(
        left.iter().any(|run| run["state"] != "cancelled"),
        "they were still to be cancelled when the Secret was gone"
    );
    namespace_gone(&world).await;
    for run in world.service.runs().await {
        assert_eq!(run["state"], "cancelled", "{run}");
    }
    assert_eq!(world.unauthorized().await, 0);
    for name in NAMES {
        let last = history.of(name).pop().unwrap();
        assert_eq!(phase_of(&last), Some(Phase::Cancelled), "{name}");
    }
    history.holds().await;
    // No Event can be created there any more, and that is not logged.
    let log = world.operator_log();
    assert!(!log.contains("failed to publish an Event"), "{log}");
    let dropped = r#"run_operator_events_dropped_total{cause="namespace_gone"}"#;
    let dropped = world.operator().metric(dropped).await;
    assert!(dropped >= 3.0, "each Run ended: {dropped}");
}

/// Proves: P-last-token
#[tokio::test]
async fn after_a_restart_in_a_deleting_namespace_runs_advise_orphan() {
    let mut world = busy().await;
    world.kill_operator();
    delete_namespace(&world).await;
    world.start_operator().await;
    for name in NAMES {
        // At first the operator may have seen neither the namespace, nor its own read of the Secret, nor that
        // the Run is being deleted with them.
        let run = world
            .run_until(name, "says that it can't be mended here", |run| {
                condition_of(run, Type::Synced).is_some_and(|synced| {
                    let words = ["is being deleted", "SecretNotFound", "deletionPolicy"];
                    words.iter().all(|word| synced.message.contains(word))
                })
            })
            .await;
        let told = condition_of(&run, Type::Synced).unwrap();
        assert_eq!(told.reason, "WorkspaceNotReady");
        says(&told.message, &["can't be created"]);
        let orphan = json!({"spec": {"deletionPolicy": "Orphan"}});
        world.patch_run(name, orphan).await;
    }
    namespace_gone(&world).await;
    for run in world.service.runs().await {
        assert_eq!(run["state"], "running", "its run was not left alone: {run}");
    }
}
