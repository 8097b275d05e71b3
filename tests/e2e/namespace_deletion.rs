//! The deletion of a namespace, carried out by the real namespace controller: it takes the Secret at
//! once, and whatever has no finalizer.

use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, api::ListParams};
use serde_json::{Value, json};

use run_operator::api::{ConditionType as Type, Phase};

use crate::support::{Plane, Setup, World, condition_of, eventually, phase_of, says};

const NAMES: [&str; 5] = ["one", "two", "three", "four", "five"];

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

async fn delete_namespace(world: &World) {
    let delete = ["delete", "namespace", &world.namespace, "--wait=false"];
    world.kubectl(&delete, "").await.unwrap();
}

async fn namespace_gone(world: &World) {
    let namespaces: Api<Namespace> = Api::all(world.client.clone());
    eventually("the namespace is gone", async || {
        match namespaces.get_opt(&world.namespace).await {
            Ok(None) => Ok(()),
            Ok(Some(namespace)) => Err(serde_json::to_string(&namespace.status).unwrap()),
            Err(error) => Err(error.to_string()),
        }
    })
    .await;
}

async fn secret_gone(world: &World) {
    eventually("the Secret is gone", async || {
        match world.secrets().get_opt("run-operator-token").await {
            Ok(None) => Ok(()),
            other => Err(format!("{:?}", other.map(|_| "there"))),
        }
    })
    .await;
}

fn state_of(run: &Value) -> &str {
    run["state"].as_str().unwrap()
}

/// Proves: P-events-bounded, P-namespace-deletion
#[tokio::test]
async fn deleting_a_namespace_with_its_secret_still_cancels_every_run() {
    let world = busy().await;
    let history = world.history().await;
    delete_namespace(&world).await;
    secret_gone(&world).await;
    let told = world.workspace_condition("default", Type::Ready, "False", "SecretNotFound");
    says(
        &told.await,
        &["Secret run-operator-token doesn't exist", "last good token"],
    );
    let left = world.service.runs().await;
    assert!(
        left.iter().any(|run| state_of(run) != "cancelled"),
        "they were still to be cancelled when the Secret was gone"
    );
    namespace_gone(&world).await;
    let runs = world.service.runs().await;
    assert_eq!(runs.len(), NAMES.len());
    for run in &runs {
        assert_eq!(state_of(run), "cancelled", "{run}");
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
    let gone = r#"run_operator_events_dropped_total{cause="namespace_gone"}"#;
    let dropped = world.operator().metric(gone);
    assert!(
        dropped.await >= 5.0,
        "each Run ended, and its Event was dropped"
    );
}

/// Proves: P-namespace-deletion
#[tokio::test]
async fn after_a_restart_in_a_deleting_namespace_runs_advise_orphan() {
    let mut world = busy().await;
    world.kill_operator();
    delete_namespace(&world).await;
    secret_gone(&world).await;
    world.start_operator().await;
    for name in NAMES {
        // At first the operator may have seen neither the namespace, nor its own read of the Secret, nor that
        // the Run is being deleted with them.
        let run = world
            .run_until(name, "says that it can't be mended here", |run| {
                condition_of(run, Type::Synced).is_some_and(|synced| {
                    synced.reason == "WorkspaceNotReady"
                        && synced.message.contains("is being deleted")
                        && synced.message.contains("SecretNotFound")
                        && synced.message.contains("deletionPolicy")
                })
            })
            .await;
        let words = [
            "Workspace default",
            "Secret run-operator-token doesn't exist",
            "can't be created",
            "spec.deletionPolicy: Orphan",
        ];
        says(&condition_of(&run, Type::Synced).unwrap().message, &words);
    }
    let runs = world.runs().list(&ListParams::default()).await.unwrap();
    assert_eq!(runs.items.len(), NAMES.len(), "each waits");
    for name in NAMES {
        let orphan = json!({"spec": {"deletionPolicy": "Orphan"}});
        world.patch_run(name, orphan).await;
    }
    namespace_gone(&world).await;
    for run in world.service.runs().await {
        assert_eq!(state_of(&run), "running", "it was let go of: {run}");
    }
}
