//! Kubernetes Events as people see them: `kubectl describe` and `kubectl events`, restarts, missing rights.

use std::collections::BTreeMap;

use k8s_openapi::api::events::v1::Event;
use kube::api::ListParams;
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

use run_operator::api::Phase;

use crate::support::{Plane, Rights, Setup, World, eventually, says};

const DROPPED: &str = "run_operator_events_dropped_total";

/// Every Event about a Run.
async fn about(world: &World, name: &str) -> Vec<Event> {
    let api: Api<Event> = Api::namespaced(world.client.clone(), &world.namespace);
    let mut events = api.list(&ListParams::default()).await.unwrap().items;
    events.retain(|event| {
        let regarding = event.regarding.as_ref().and_then(|r| r.name.as_deref());
        regarding == Some(name)
    });
    events
}

/// The number of Events of each reason.
async fn reasons(world: &World, name: &str) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for event in about(world, name).await {
        *counts.entry(event.reason.unwrap()).or_default() += 1;
    }
    counts
}

/// Proves: P-events
#[tokio::test]
async fn kubectl_describe_and_kubectl_events_show_a_runs_events() {
    let world = World::with(Setup {
        operator: vec!["--service-events"],
        ..Setup::default()
    })
    .await;
    world.simulate("train", json!({"runTimeMs": 2500})).await;
    world.phase("train", Phase::Succeeded).await;
    world.event("train", "Succeeded").await;
    world.event("train", "Submitted").await;
    world.event("train", "ServiceEvent").await;
    let events = about(&world, "train").await;
    for event in &events {
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
    let described = world
        .kubectl(&["describe", "workspace", "default"], "")
        .await;
    says(&described.unwrap(), &["Ready", "answered for the token"]);
}

/// A Run in each phase, and operators that take over and publish what they find.
/// Proves: P-events-once
#[tokio::test]
async fn a_restart_in_any_phase_makes_no_second_event() {
    let mut world = World::new().await;
    let busy = json!({"type": "answer", "status": 503, "code": "busy"});
    let create = |image: &str| json!({"operation": "createRun", "image": image});
    world.service.lasting_fault(create("retrying"), busy).await;
    let refusal = json!({"type": "answer", "status": 403, "code": "forbidden"});
    world
        .service
        .lasting_fault(create("stalled"), refusal)
        .await;
    let run = |name: &str| json!({"workload": {"image": name, "simulate": {"outcome": "never", "cancelTimeMs": 600_000}}});
    for name in ["retrying", "stalled", "active", "cancelling"] {
        world.create_run(name, run(name)).await;
    }
    world
        .create_run("suspended", json!({"suspend": true}))
        .await;
    world.create_run("ended", json!({})).await;
    world.state("cancelling", "running").await;
    world
        .patch_run("cancelling", json!({"spec": {"cancel": true}}))
        .await;
    let told = [
        ("retrying", "Retrying"),
        ("stalled", "Stalled"),
        ("active", "Submitted"),
        ("cancelling", "Cancelling"),
        ("suspended", "Suspended"),
        ("ended", "Succeeded"),
    ];
    for (name, reason) in told {
        world.event(name, reason).await;
    }
    for round in 0..2 {
        world.kill_operator();
        world.start_operator().await;
        // The Events of the Runs before it have been sent by then.
        let last = format!("last-{round}");
        world.create_run(&last, json!({})).await;
        world.event(&last, "Succeeded").await;
    }
    for (name, reason) in told {
        let reasons = reasons(&world, name).await;
        assert!(
            reasons.values().all(|count| *count == 1),
            "{name}: {reasons:?}"
        );
        assert!(reasons.contains_key(reason), "{name}: {reasons:?}");
    }
    let ready = reasons(&world, "default").await;
    assert_eq!(ready, BTreeMap::from([("Ready".to_owned(), 1)]));
    assert!(world.operator().total(DROPPED).await == 0.0);
}

/// Proves: P-events
#[tokio::test]
async fn events_of_cluster_objects_are_in_the_namespace_default() {
    let world = World::with(Setup {
        plane: Plane::Alone,
        everywhere: true,
        ..Setup::default()
    })
    .await;
    let name = format!("shared-{}", world.namespace);
    let spec = json!({"namespaceSelector": {}});
    world.apply("", "ClusterWorkspace", &name, spec).await;
    let described = eventually("kubectl describe shows that it is Ready", async || {
        let describe = ["describe", "clusterworkspace", &name];
        let text = world.kubectl(&describe, "").await.unwrap();
        let shown = text.split_once("\nEvents:").unwrap().1.to_owned();
        if shown.contains("Ready") {
            Ok(shown)
        } else {
            Err(shown)
        }
    })
    .await;
    says(&described, &["Normal", "Ready", "answered for the token"]);
    let events: Api<Event> = Api::namespaced(world.client.clone(), "default");
    let events = events.list(&ListParams::default()).await.unwrap().items;
    let ours = |event: &&Event| event.name_any().starts_with(&format!("{name}."));
    assert_eq!(events.iter().filter(ours).count(), 1);
}

/// Adds the permission to create Events to the operator's role, or removes it, and waits until it is in
/// force.
async fn may_publish(world: &World, may: bool) {
    let get = ["get", "role", &world.namespace, "-o", "json"];
    let role: Value = serde_json::from_str(&world.kubectl(&get, "").await.unwrap()).unwrap();
    let rules = role["rules"].as_array().unwrap();
    let events = |rule: &Value| rule["resources"] == json!(["events"]);
    let change = match rules.iter().position(events) {
        Some(at) => json!([{"op": "remove", "path": format!("/rules/{at}")}]),
        None => json!([{"op": "add", "path": "/rules/-", "value": {
            "apiGroups": [""], "resources": ["events"], "verbs": ["create"],
        }}]),
    };
    let patch = format!("--patch={change}");
    let patch = ["patch", "role", &world.namespace, "--type=json", &patch];
    world.kubectl(&patch, "").await.unwrap();
    let account = format!("--as=system:serviceaccount:{}:operator", world.namespace);
    let ask = ["auth", "can-i", "create", "events", &account];
    eventually("the API server knows the role", async || {
        match world.kubectl(&ask, "").await {
            answer if answer.is_ok() == may => Ok(()),
            answer => Err(format!("{answer:?}")),
        }
    })
    .await;
}

/// Without the permission to create Events all else works, and this is logged once. The next process
/// publishes the missing Events, as after a crash.
/// Proves: P-events-once, P-events-bounded
#[tokio::test]
async fn forbidden_events_are_logged_once_and_published_after_restart() {
    let secrets = json!([{
        "apiGroups": [""], "resources": ["secrets"], "verbs": ["get", "list", "watch"],
    }]);
    let mut world = World::with(Setup {
        rights: Rights::Secrets(secrets),
        ..Setup::default()
    })
    .await;
    world.event("default", "Ready").await;
    may_publish(&world, false).await;
    world.create_run("train", json!({})).await;
    world.phase("train", Phase::Succeeded).await;
    eventually("its Events are refused", async || {
        match world.operator().total(DROPPED).await {
            refused if refused >= 2.0 => Ok(()),
            refused => Err(refused),
        }
    })
    .await;
    assert_eq!(reasons(&world, "train").await, BTreeMap::new());
    let of = |cause: &str| format!("{DROPPED}{{cause=\"{cause}\"}}");
    assert!(world.operator().metric(&of("refused")).await >= 2.0);
    assert!(world.operator().metric(&of("no_answer")).await == 0.0);
    let log = world.operator_log();
    assert_eq!(
        log.matches("failed to publish an Event").count(),
        1,
        "{log}"
    );
    world.kill_operator();
    may_publish(&world, true).await;
    world.start_operator().await;
    world.event("train", "Submitted").await;
    world.event("train", "Succeeded").await;
}

/// An operator publishes everything that it finds at its start, and not at once: 20 ms lie between two
/// Events.
/// Proves: P-events-bounded
#[tokio::test]
async fn events_for_many_runs_at_startup_are_rate_limited() {
    const RUNS: i64 = 150;
    let mut world = World::new().await;
    world.event("default", "Ready").await;
    world.kill_operator();
    for n in 0..RUNS {
        world
            .create_run(&format!("train-{n}"), json!({"suspend": true}))
            .await;
    }
    world.start_operator().await;
    let api: Api<Event> = Api::namespaced(world.client.clone(), &world.namespace);
    let told = eventually("each Run is told of", async || {
        let mut events = api.list(&ListParams::default()).await.unwrap().items;
        events.retain(|event| event.reason.as_deref() == Some("Suspended"));
        if events.len() == 150 {
            Ok(events)
        } else {
            Err(events.len())
        }
    })
    .await;
    let seconds = |event: &Event| event.creation_timestamp().unwrap().0.as_second();
    let first = told.iter().map(seconds).min().unwrap();
    let last = told.iter().map(seconds).max().unwrap();
    println!("{RUNS} Events within {} s", last - first);
    assert!(last - first >= (RUNS - 1) / 50 - 1, "{} s", last - first);
    assert!(world.operator().total(DROPPED).await == 0.0);
}
