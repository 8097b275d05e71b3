//! Two operators at once, an API server that is away, and a status that was lost.

use kube::ResourceExt;
use kube::api::{Patch, PatchParams, PostParams};
use run_operator::api::Phase;
use serde_json::json;

use crate::support::{Setup, World, eventually, own_control_plane};

/// Proves: P-at-most-one, P-two-leaders, P-owner-posts, P-guarded-writes, F-outage
#[tokio::test]
async fn a_second_operator_beside_the_first_makes_no_second_run() {
    let world = World::new().await;
    let history = world.history().await;
    let mut other = world.another_operator().await;
    let names: Vec<String> = (0..20).map(|n| format!("train-{n}")).collect();
    let mut uids = Vec::new();
    for name in &names {
        uids.push(world.create_run(name, json!({})).await.uid().unwrap());
    }
    for name in &names {
        world.phase(name, Phase::Succeeded).await;
        world.released(name).await;
    }
    let runs = world.service.runs().await;
    assert_eq!(runs.len(), names.len());
    let mut keys: Vec<String> = runs
        .iter()
        .map(|run| run["idempotencyKey"].as_str().unwrap().to_owned())
        .collect();
    keys.sort();
    uids.sort();
    assert_eq!(keys, uids);
    history.holds().await;
    other.kill();
}

/// Proves: F-outage
#[tokio::test]
async fn an_outage_of_the_api_server_doubles_and_loses_nothing() {
    let own = own_control_plane().await;
    let world = World::with(Setup {
        control_plane: Some(own),
        ..Setup::default()
    })
    .await;
    world.simulate("deleted", json!({"outcome": "never"})).await;
    world.state("deleted", "running").await;
    let mut names = Vec::new();
    for n in 0..8 {
        let name = format!("train-{n}");
        world.simulate(&name, json!({"runTimeMs": 200 * n})).await;
        names.push(name);
    }
    world.asked("createRun", 4).await;
    world.delete_run("deleted").await;
    own.stop_apiserver().unwrap();
    // Several attempts at writing and watching fail before it is back.
    eventually("the operator notices", async || {
        let log = world.operator_log();
        let failures = log.matches("watch failed; retrying").count();
        if failures >= 3 { Ok(()) } else { Err(failures) }
    })
    .await;
    own.start_apiserver().await.unwrap();
    for name in &names {
        world.phase(name, Phase::Succeeded).await;
        world.released(name).await;
    }
    world.gone("deleted").await;
    let runs = world.service.runs().await;
    assert_eq!(runs.len(), names.len() + 1);
    assert_eq!(runs[0]["state"], "cancelled");
}

/// A Secret that can't be read from the API server shows nothing about the token in use.
#[tokio::test]
async fn a_probe_that_cannot_read_the_secret_keeps_the_verified_token() {
    let own = own_control_plane().await;
    let world = World::with(Setup {
        control_plane: Some(own),
        ..Setup::default()
    })
    .await;
    let run = json!({"runId": "steady", "outcome": "never"});
    world.simulate("steady", run).await;
    world.state("steady", "running").await;
    world.asked("streamEvents", 1).await;
    own.stop_apiserver().unwrap();
    // An answer that no service made raises a suspicion, and so a check.
    let bare = json!({"type": "answer", "status": 503, "body": "", "contentType": "text/html"});
    world
        .service
        .fault(json!({"operation": "getRun"}), bare)
        .await;
    let state = json!({"state": "provisioning"});
    world.service.post("runs/steady/state", state).await;
    eventually("the check can't read the Secret", async || {
        let log = world.operator_log();
        if log.contains("failed to read a Secret") {
            Ok(())
        } else {
            Err("no word of it")
        }
    })
    .await;
    own.start_apiserver().await.unwrap();
    world.state("steady", "provisioning").await;
    world.workspace_ready("default", "True", "Verified").await;
    let streams = world.service.requests("streamEvents").await;
    assert_eq!(streams.len(), 1, "the stream was closed: {streams:?}");
}

/// Erases fields that the schema protects: only an older CRD, or a restore that bypasses it, can.
async fn erase_status(world: &World, name: &str) {
    let status_path =
        "/spec/versions/0/schema/openAPIV3Schema/properties/status/x-kubernetes-validations";
    let strip = json!([{"op": "remove", "path": status_path}]).to_string();
    let args = [
        "patch",
        "crd",
        "runs.run-operator.dev",
        "--type=json",
        "-p",
        &strip,
    ];
    world.kubectl(&args, "").await.unwrap();
    eventually("the status can be erased", async || {
        let mut run = world.run(name).await;
        run.status = None;
        run.metadata.managed_fields = None;
        let replaced = world
            .runs()
            .replace_status(name, &PostParams::default(), &run)
            .await;
        replaced.map(drop).map_err(|error| error.to_string())
    })
    .await;
}

/// Proves: P-terminal
#[tokio::test]
async fn an_erased_final_status_is_rebuilt_from_the_intent() {
    let own = own_control_plane().await;
    let world = World::with(Setup {
        control_plane: Some(own),
        ..Setup::default()
    })
    .await;
    world.create_run("train", json!({})).await;
    world.phase("train", Phase::Succeeded).await;
    let before = world.released("train").await.status.unwrap();
    let params = PatchParams::default();
    let nothing = Patch::Merge(json!({"status": null}));
    let erased = world.runs().patch_status("train", &params, &nothing).await;
    let refused = erased.unwrap_err().to_string();
    assert!(refused.contains("runId is immutable"), "{refused}");
    let calls = world.service.run_calls().await;
    erase_status(&world, "train").await;
    let run = world.phase("train", Phase::Succeeded).await;
    let after = run.status.unwrap();
    assert_eq!(after.run_id, before.run_id);
    assert_eq!(after.workspace, before.workspace);
    assert_eq!(world.service.run_calls().await, calls);
}
