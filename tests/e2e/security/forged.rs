//! A status and an intent that somebody else wrote: what it leads to, and what it can never lead to.

use kube::ResourceExt;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use run_operator::api::{ConditionType as Type, Phase};

use crate::support::{World, eventually, intent_of};

/// A Run that is not submitted, as the status of one is written before the operator does it.
async fn held_back(world: &World, name: &str) {
    held_back_with(world, name, json!({"suspend": true})).await;
}

async fn held_back_with(world: &World, name: &str, spec: Value) {
    world.create_run(name, spec).await;
    world.not_ready(name, "Suspended").await;
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

/// A runId, and the Workspace that a submitted Run of the same namespace shows.
async fn forge_submission(world: &World, name: &str, run_id: &str) {
    let real = world.run("model").await.status.unwrap().workspace;
    forge_status(world, name, json!({"runId": run_id, "workspace": real})).await;
}

/// A Run that is really submitted, for others to copy from.
async fn model(world: &World) {
    let simulate = json!({"runId": "model", "outcome": "never"});
    world.simulate("model", simulate).await;
    world.state("model", "running").await;
}

/// The paths of all requests for forged runs, as they stood in the request line.
async fn run_paths(world: &World) -> Vec<String> {
    let requests = world.service.get("requests").await;
    let paths = requests
        .as_array()
        .unwrap()
        .iter()
        .map(|request| request["path"].as_str().unwrap().to_owned());
    paths
        .filter(|path| path != "/api/v1/runs")
        .filter(|path| !NOT_OF_FORGED.iter().any(|known| path.starts_with(known)))
        .collect()
}

/// The paths of the Workspace's checks and of the model's own Run, its create aside.
const NOT_OF_FORGED: [&str; 3] = [
    "/api/v1/version",
    "/api/v1/workspaces/current",
    "/api/v1/runs/model",
];

/// The encoded segment where the path is that of a run, its events or its cancellation; else nothing.
fn segment(path: &str) -> Option<&str> {
    let rest = path.strip_prefix("/api/v1/runs/")?;
    let rest = rest.strip_suffix("/events").unwrap_or(rest);
    let segment = rest.strip_suffix(":cancel").unwrap_or(rest);
    let is_plain = |b: u8| b.is_ascii_alphanumeric() || b"-._~%".contains(&b);
    (segment.bytes().all(is_plain) && ![".", ".."].contains(&segment)).then_some(segment)
}

/// Proves: X-forged
#[tokio::test]
async fn a_forged_run_id_never_leads_out_of_the_path_of_one_run() {
    let world = World::new().await;
    model(&world).await;
    let long = "x".repeat(512);
    let ids = [
        ("up", "../version", "..%2Fversion"),
        (
            "up-twice",
            "../../_control/tokens",
            "..%2F..%2F_control%2Ftokens",
        ),
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
        forge_submission(&world, name, id).await;
    }
    for (name, _, wanted) in ids {
        let path = format!("/api/v1/runs/{wanted}");
        eventually(&format!("{name} is read"), async || {
            let paths = run_paths(&world).await;
            if paths.contains(&path) {
                Ok(())
            } else {
                Err(format!("{paths:?}"))
            }
        })
        .await;
    }
    for (name, ..) in ids {
        // What was forged is what is asked for, and what a deletion cancels.
        world.delete_run(name).await;
    }
    for (name, _, wanted) in ids {
        let path = format!("/api/v1/runs/{wanted}:cancel");
        eventually(&format!("{name} is cancelled"), async || {
            let paths = run_paths(&world).await;
            if paths.contains(&path) {
                Ok(())
            } else {
                Err(format!("{paths:?}"))
            }
        })
        .await;
        // The service has no such run, and so the object is released.
        world.gone(name).await;
    }
    for path in run_paths(&world).await {
        assert!(
            segment(&path).is_some(),
            "{path} is not the path of one run"
        );
    }
    let requests = world.service.get("requests").await;
    let unknown = |request: &&Value| request["operation"] == "unknown";
    assert_eq!(requests.as_array().unwrap().iter().find(unknown), None);
}

/// A runId on its own is not enough: without a place to call, and an intent, it belongs to no submission.
/// Proves: X-forged
#[tokio::test]
async fn a_forged_run_id_without_a_workspace_is_not_followed() {
    let world = World::new().await;
    model(&world).await;
    held_back(&world, "thief").await;
    forge_status(&world, "thief", json!({"runId": "somebody-s"})).await;
    world.stalled("thief", "SubmissionUnknown").await;
    assert_eq!(run_paths(&world).await, Vec::<String>::new());
}

/// The reason that only the operator may write `runs/status`.
/// Proves: X-forged
#[tokio::test]
async fn a_forged_run_id_can_reach_another_run_of_its_workspace() {
    let world = World::new().await;
    model(&world).await;
    held_back(&world, "thief").await;
    forge_submission(&world, "thief", "model").await;
    world.state("thief", "running").await;
    // Written once: neither the thief nor the operator changes it any more.
    let another = Patch::Merge(json!({"status": {"runId": "other"}}));
    let refused = world
        .runs()
        .patch_status("thief", &PatchParams::default(), &another)
        .await
        .unwrap_err();
    assert!(
        refused.to_string().contains("runId is immutable"),
        "{refused}"
    );
    world.delete_run("thief").await;
    world.gone("thief").await;
    // The other Run shows that its run was cancelled elsewhere, and no second one is made for it.
    world
        .condition("model", Type::Failed, "True", "CancelledElsewhere")
        .await;
    assert_eq!(world.service.count("createRun").await, 1);
}

/// Writes an intent for a Run as one can who may edit Runs: with its own uid, and `changes`. The hash in it is that of
/// the Run's own body, which is the model's.
async fn forge_intent(world: &World, name: &str, changes: &Value) {
    model(world).await;
    let model = world.run("model").await;
    let mut intent = intent_of(&model).unwrap();
    let spec = json!({"suspend": true, "workload": model.spec.workload});
    held_back_with(world, name, spec).await;
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

/// Proves: X-forged
#[tokio::test]
async fn a_forged_intent_for_another_address_sends_nothing_there() {
    let world = World::new().await;
    let other = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    other.set_nonblocking(true).unwrap();
    let url = format!("http://{}/api/v1", other.local_addr().unwrap());
    let workspace = json!({"kind": "Workspace", "name": "default", "uid": "u-1", "baseUrl": url});
    forge_intent(&world, "thief", &json!({"workspace": workspace})).await;
    let thief = world.stalled("thief", "WorkspaceChanged").await;
    assert_eq!(thief.status.unwrap().phase, Some(Phase::Pending));
    let came = other.accept();
    assert!(came.is_err(), "somebody connected: {came:?}");
    assert_eq!(
        world.service.count("createRun").await,
        1,
        "the model's alone"
    );
}
