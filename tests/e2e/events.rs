//! Kubernetes Events as people see them: `kubectl describe` and `kubectl events`, restarts, missing rights.

use k8s_openapi::api::events::v1::Event;
use kube::api::ListParams;
use kube::{Api, ResourceExt};
use serde_json::json;

use run_operator::api::Phase;

use crate::stale::stage;
use crate::support::{Fault, Setup, World, eventually, says};

/// The series that counts the Events that were given up for this cause.
fn dropped(cause: &str) -> String {
    format!("run_operator_events_dropped_total{{cause=\"{cause}\"}}")
}

/// Proves: P-events
#[tokio::test]
async fn a_runs_events_are_shown_by_kubectl_and_are_not_repeated_by_a_restart() {
    let mut world = World::with_flags(&["--service-events"]).await;
    world.simulate("train", json!({"runTimeMs": 2500})).await;
    world.phase("train", Phase::Succeeded).await;
    for reason in ["Succeeded", "Submitted", "ServiceEvent"] {
        world.event("train", reason).await;
    }
    for event in &world.about("train").await {
        assert_eq!(event.type_.as_deref(), Some("Normal"));
        let by = event.reporting_controller.as_deref();
        assert_eq!(by, Some("run-operator.dev"));
    }
    let described = world.kubectl(&["describe", "run", "train"], "").await;
    let described = described.unwrap();
    let described = described.split_once("\nEvents:\n").unwrap().1;
    let listed = ["events", "--for", "run/train"];
    let listed = world.kubectl(&listed, "").await.unwrap();
    for shown in [described, &listed] {
        says(shown, &["Submitted", "ServiceEvent", "Succeeded"]);
        assert!(!shown.contains("<unknown>"), "{shown}");
    }
    // kubectl orders them by their whole seconds: the run takes longer than two.
    let place = |reason: &str| described.find(&format!(" {reason} ")).unwrap();
    assert!(place("Submitted") < place("Succeeded"), "{described}");
    let describe = ["describe", "workspace", "default"];
    let described = world.kubectl(&describe, "").await;
    says(&described.unwrap(), &["Ready", "answered for the token"]);

    world.kill_operator();
    world.start_operator().await;
    // The Events of the Runs before it have been sent by then.
    world.create_run("last", json!({})).await;
    world.event("last", "Succeeded").await;
    for (name, reason) in [
        ("train", "Submitted"),
        ("train", "Succeeded"),
        ("default", "Ready"),
    ] {
        assert_eq!(world.events(name, reason).await.len(), 1, "{name} {reason}");
    }
}

/// Proves: P-events
#[tokio::test]
async fn events_of_cluster_objects_are_in_the_namespace_default() {
    let world = World::with(Setup {
        everywhere: true,
        ..Setup::default()
    })
    .await;
    let name = format!("shared-{}", world.namespace);
    let spec = json!({"namespaceSelector": {}});
    world.apply("", "ClusterWorkspace", &name, spec).await;
    eventually("kubectl describe shows that it is Ready", async || {
        let describe = ["describe", "clusterworkspace", &name];
        let text = world.kubectl(&describe, "").await.unwrap();
        let (_, shown) = text.split_once("\nEvents:").unwrap();
        let ready = shown.contains("Ready") && shown.contains("answered for the token");
        if ready { Ok(()) } else { Err(text) }
    })
    .await;
    let events: Api<Event> = Api::namespaced(world.client.clone(), "default");
    let events = events.list(&ListParams::default()).await.unwrap().items;
    let ours = |event: &&Event| event.name_any().starts_with(&format!("{name}."));
    assert_eq!(events.iter().filter(ours).count(), 1);
}

/// Without the permission to create Events all else works, and this is logged once. The next process publishes the missing
/// Events, as after a crash, but for a Run that has ended and was released.
/// Proves: P-events, B-ended
#[tokio::test]
async fn forbidden_events_are_logged_once_and_published_after_restart() {
    let (proxy, mut world) = stage().await;
    world.event("default", "Ready").await;
    proxy.lasting(Fault::Answer(403, None), |asked| {
        asked.is("create", "events")
    });
    world.create_run("done", json!({})).await;
    world.released("done").await;
    world.running("train").await;
    world.metric(&dropped("refused"), 3.0..).await;
    assert!(world.about("done").await.is_empty());
    let unanswered = dropped("no_answer");
    assert_eq!(world.operator().metric(&unanswered).await, 0.0);
    let log = world.operator_log();
    let logged = log.matches("failed to publish an Event").count();
    assert_eq!(logged, 1, "{log}");
    world.kill_operator();
    proxy.clear();
    world.start_operator().await;
    world.event("train", "Submitted").await;
    assert!(world.about("done").await.is_empty());
}
