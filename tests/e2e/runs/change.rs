//! `cancel`, `retry`, `suspend`, `resume`, `orphan`: what they change, and what they refuse.

use kube::ResourceExt;
use serde_json::{Value, json};

use run_operator::api::names;

use crate::stale::Proxy;

use super::{ACTIVE, CANCELLED, HELD, REFUSED, desk, each_says, left, shows, started};

/// Proves: K-change
#[tokio::test]
async fn each_command_changes_what_it_may_and_refuses_the_rest() {
    let world = desk().await;
    left(&world, "active", ACTIVE, "Active").await;
    let begun = json!({names::INTENT_ANNOTATION: "{}"});
    let label = json!({"kustomize.toolkit.fluxcd.io/name": "apps"});
    let metadata = json!({"annotations": begun, "labels": label});
    let metadata = json!({"metadata": metadata});
    world.patch_run("active", metadata).await;
    left(&world, "refused", REFUSED, "Forbidden").await;
    left(&world, "ended", CANCELLED, "Cancelled").await;
    world.create_run("held", json!({"suspend": true})).await;
    shows(&world, "held", HELD, "Suspended").await;
    let commands = [
        (
            "cancel active",
            0,
            "run.run-operator.dev/active cancelled\n",
        ),
        ("cancel active", 0, "unchanged: it is being cancelled\n"),
        ("cancel ended", 0, "unchanged: it has ended (Cancelled)\n"),
        ("suspend ended", 2, "ended: it has ended"),
        ("suspend active", 2, "active: its submission has begun"),
        ("suspend held", 0, "held unchanged: it is suspended\n"),
        ("retry held", 2, "It is suspended. Resume it."),
        ("resume held", 0, "run.run-operator.dev/held resumed\n"),
        ("retry ended", 2, "ended: It has ended. Create a new Run"),
        ("retry active", 2, "active: Nothing was refused for good"),
        // The one that can't be retried doesn't keep the other from it.
        ("retry active refused", 2, "refused retried\n"),
        (
            "orphan active -o name",
            0,
            "Flux (kustomize.toolkit.fluxcd.io/name) keeps active",
        ),
    ];
    each_says(&world, &commands).await;
    let active = world.run("active").await;
    assert_eq!(active.spec.cancel, Some(true));
    assert!(!active.annotations().contains_key(names::RETRY_ANNOTATION));
    let refused = world.run("refused").await;
    assert!(refused.annotations().contains_key(names::RETRY_ANNOTATION));
    assert_eq!(world.run("held").await.spec.suspend, None);
}

/// Proves: K-change
#[tokio::test]
async fn each_change_is_written_once_and_to_the_version_read() {
    let world = desk().await;
    world.simulate("train", json!({})).await;
    let proxy = Proxy::start(world.control_plane).await;
    let mut read = Vec::new();
    for command in ["suspend", "resume", "orphan", "cancel"] {
        read.push(json!(world.run("train").await.resource_version()));
        for _ in 0..2 {
            let words = format!("{command} train");
            let change = started(&world, proxy.kubeconfig(), &words, "");
            change.end().await.ok();
        }
    }
    let writes = proxy.asked(|asked| asked.verb != "get");
    let to = |body: &str| {
        let patch: Value = serde_json::from_str(body).unwrap();
        patch["metadata"]["resourceVersion"].clone()
    };
    let written: Vec<Value> = writes.iter().map(|asked| to(&asked.body)).collect();
    assert_eq!(written, read);
    let asked = proxy.asked(|_| true);
    let verbs: Vec<&str> = asked.iter().map(|asked| asked.verb).collect();
    assert_eq!(verbs, ["get", "patch", "get"].repeat(4));
}
