//! A status and an intent that somebody else wrote: what it leads to, and what it can never lead to.

use kube::ResourceExt;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use run_operator::api::{ConditionType as Type, Phase};

use crate::support::{World, condition_of, eventually, holds_for_a_while, intent_of};

/// A Run that is not submitted, as the status of one is written before the operator does it.
async fn held_back(world: &World, name: &str) {
    world.create_run(name, json!({"suspend": true})).await;
    world
        .condition(name, Type::Ready, "False", "Suspended")
        .await;
}

/// Writes the status as one can who may write `runs/status`.
async fn forge_status(world: &World, name: &str, status: Value) {
    let patch = Patch::Merge(json!({"status": status}));
    world
        .runs()
        .patch_status(name, &PatchParams::default(), &patch)
        .await
        .unwrap();
}

/// The paths of all requests for runs, as they stood in the request line.
async fn run_paths(world: &World) -> Vec<String> {
    let requests = world.service.get("requests").await;
    let paths = requests
        .as_array()
        .unwrap()
        .iter()
        .map(|request| request["path"].as_str().unwrap().to_owned());
    paths
        .filter(|path| path != "/api/v1/version" && path != "/api/v1/workspaces/current")
        .collect()
}

/// The encoded segment where the path is that of a run, its events or its cancellation; else nothing.
fn segment(path: &str) -> Option<&str> {
    let rest = path.strip_prefix("/api/v1/runs/")?;
    let rest = rest.strip_suffix("/events").unwrap_or(rest);
    let segment = rest.strip_suffix(":cancel").unwrap_or(rest);
    let is_plain = |b: u8| b.is_ascii_alphanumeric() || b"-._~%".contains(&b);
    (segment.bytes().all(is_plain) && ![".", ".."].contains(&segment)).then_some(segment)
}

#[tokio::test]
async fn a_forged_run_id_never_leads_out_of_the_path_of_one_run() {
    let world = World::new().await;
    let long = "x".repeat(512);
    let ids = [
        ("up", "../version", "..%2Fversion"),
        ("up-twice", "../../_control/tokens", "..%2F..%2F_control%2Ftokens"),
        ("encoded", "..%2f..%2f_control", "..%252f..%252f_control"),
        ("cancel", "victim:cancel", "victim%3Acancel"),
        ("events", "victim/events", "victim%2Fevents"),
        ("query", "victim?x=1", "victim%3Fx%3D1"),
        ("fragment", "victim#x", "victim%23x"),
        ("backslash", "..\\version", "..%5Cversion"),
        ("slashes", "//127.0.0.1/x", "%2F%2F127.0.0.1%2Fx"),
        ("space", "victim HTTP/1.1", "victim%20HTTP%2F1.1"),
        ("long", &long, &long),
    ];
    for (name, id, _) in ids {
        held_back(&world, name).await;
        forge_status(&world, name, json!({"runId": id})).await;
    }
    for (name, ..) in ids {
        // What was forged is what is asked for, and what a deletion cancels.
        world.delete_run(name).await;
    }
    for (name, _, wanted) in ids {
        eventually(&format!("{name} is asked for"), async || {
            let paths = run_paths(&world).await;
            let asked = paths.iter().any(|path| segment(path) == Some(wanted));
            if asked { Ok(()) } else { Err(format!("{paths:?}")) }
        })
        .await;
        // The service knows no such run, and so the object goes.
        world.gone(name).await;
    }
    for path in run_paths(&world).await {
        assert!(segment(&path).is_some(), "{path} is not the path of one run");
    }
    let requests = world.service.get("requests").await;
    let unknown = |request: &&Value| request["operation"] == "unknown";
    assert_eq!(requests.as_array().unwrap().iter().find(unknown), None);
}

#[tokio::test]
async fn a_forged_run_id_that_is_no_segment_sends_nothing() {
    let world = World::new().await;
    for (name, id) in [("dots", ".."), ("dot", "."), ("line", "a\r\nX-Injected: 1"), ("nul", "a\0")] {
        held_back(&world, name).await;
        forge_status(&world, name, json!({"runId": id})).await;
        world
            .run_until(name, "says that nothing was sent", |run| {
                let conditions = [Type::Synced, Type::Ready, Type::Reconciling, Type::Stalled];
                conditions
                    .iter()
                    .filter_map(|kind| condition_of(run, *kind))
                    .any(|c| c.message.contains("a runId has 1 to 512 bytes"))
            })
            .await;
    }
    assert_eq!(run_paths(&world).await, Vec::<String>::new());
}

/// Why nobody but the operator may write `runs/status`.
#[tokio::test]
async fn a_forged_run_id_of_another_run_reaches_that_run_within_its_workspace() {
    let world = World::new().await;
    world
        .simulate("victim", json!({"runId": "victim", "outcome": "never"}))
        .await;
    world.state("victim", "running").await;
    held_back(&world, "thief").await;
    forge_status(&world, "thief", json!({"runId": "victim"})).await;
    world.state("thief", "running").await;
    // Written once: neither the thief nor the operator changes it any more.
    let another = Patch::Merge(json!({"status": {"runId": "other"}}));
    let refused = world
        .runs()
        .patch_status("thief", &PatchParams::default(), &another)
        .await
        .unwrap_err();
    assert!(refused.to_string().contains("runId is immutable"), "{refused}");
    world.delete_run("thief").await;
    world.gone("thief").await;
    // The victim tells that somebody else cancelled its run, and no second one is made for it.
    world
        .condition("victim", Type::Failed, "True", "CancelledElsewhere")
        .await;
    assert_eq!(world.service.count("createRun").await, 1);
}

/// Writes an intent for a Run as one can who may edit Runs: with its own uid, and `changes`.
async fn forge_intent(world: &World, name: &str, changes: &Value) {
    world.simulate("model", json!({"outcome": "never"})).await;
    let model = world.state("model", "running").await;
    let mut intent = intent_of(&model).unwrap();
    held_back(world, name).await;
    let run = world.run(name).await;
    intent["uid"] = json!(run.uid());
    intent["key"] = json!(run.uid());
    for (field, value) in changes.as_object().unwrap() {
        intent[field] = value.clone();
    }
    let annotation = json!({"run-operator.dev/intent": intent.to_string()});
    let patch = json!({"metadata": {"annotations": annotation}, "spec": {"suspend": false}});
    world.patch_run(name, patch).await;
}

#[tokio::test]
async fn a_forged_intent_with_the_key_of_another_run_posts_nothing() {
    let world = World::new().await;
    world
        .simulate("victim", json!({"runId": "victim", "outcome": "never"}))
        .await;
    let victim = world.state("victim", "running").await;
    forge_intent(&world, "thief", &json!({"key": victim.uid()})).await;
    let thief = world
        .run_until("thief", "is stalled", |run| {
            condition_of(run, Type::Stalled).is_some_and(|c| c.status == "True")
        })
        .await;
    assert_eq!(thief.status.as_ref().unwrap().run_id, None);
    let posts = world.service.requests("createRun").await;
    holds_for_a_while(60, async || {
        assert_eq!(world.service.requests("createRun").await.len(), posts.len());
    })
    .await;
    let keys: Vec<_> = posts.iter().map(|post| &post["idempotencyKey"]).collect();
    let of_the_victim = keys.iter().filter(|key| key.as_str() == victim.uid().as_deref());
    assert_eq!(of_the_victim.count(), 1, "the victim's key was sent again: {keys:?}");
    assert!(world.service.requests("cancelRun").await.is_empty());
}

#[tokio::test]
async fn a_forged_intent_for_another_address_sends_nothing_there() {
    let world = World::new().await;
    let other = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    other.set_nonblocking(true).unwrap();
    let url = format!("http://{}/api/v1", other.local_addr().unwrap());
    let workspace = json!({"kind": "Workspace", "name": "default", "uid": "u-1", "baseUrl": url});
    forge_intent(&world, "thief", &json!({"workspace": workspace})).await;
    let thief = world
        .run_until("thief", "is stalled", |run| {
            condition_of(run, Type::Stalled).is_some_and(|c| c.status == "True")
        })
        .await;
    assert_eq!(thief.status.unwrap().phase, Some(Phase::Pending));
    let came = other.accept();
    assert!(came.is_err(), "somebody connected: {came:?}");
    assert_eq!(world.service.count("createRun").await, 1, "the model's alone");
}
