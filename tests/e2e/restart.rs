//! The operator is killed at each step of a Run's life: there is one run, and it ends right.

use kube::ResourceExt;
use kube::api::{Patch, PatchParams};
use run_operator::api::Phase;
use serde_json::{Value, json};

use crate::support::{Setup, World, contract_file, eventually, held, holds_for_a_while, intent_of};

/// One run, one key, and the key is the object's uid.
async fn one_run_of(world: &World, uid: &str) -> Value {
    let runs = world.service.runs().await;
    assert_eq!(runs.len(), 1, "{runs:?}");
    for create in world.service.requests("createRun").await {
        assert_eq!(create["idempotencyKey"].as_str(), Some(uid));
    }
    runs[0].clone()
}

/// Proves: R1, P-at-most-one
#[tokio::test]
async fn killed_during_the_create_it_finds_the_run_by_the_same_post() {
    for execute in [true, false] {
        let mut world = World::new().await;
        world
            .service
            .fault(
                json!({"operation": "createRun"}),
                json!({"type": "hang", "forMs": 60000, "execute": execute}),
            )
            .await;
        let uid = world.create_run("train", json!({})).await.uid().unwrap();
        world.asked("createRun", 1).await;
        world.kill_operator();
        let owner = intent_of(&world.run("train").await).unwrap()["owner"].clone();
        world.start_operator().await;
        let run = world.phase("train", Phase::Succeeded).await;
        let intent = intent_of(&run).unwrap();
        assert_ne!(
            intent["owner"], owner,
            "it POSTed under another process's intent"
        );
        assert_eq!(intent["epoch"], 2);
        let at_the_service = one_run_of(&world, &uid).await;
        let posts = if execute { 2 } else { 1 };
        assert_eq!(at_the_service["posts"], posts);
    }
}

/// Has the API server refuse every status of this world's Runs that names a runId, as an outage between
/// the POST's answer and the status write would. Gone with [`lift`].
async fn forbid_run_ids(world: &World) {
    world
        .forbid("runs/status", "!has(object.status.runId)")
        .await;
    refuses(world, true).await;
}

async fn lift(world: &World) {
    world.permit().await;
    refuses(world, false).await;
}

/// Waits until the policy is in force; the API server takes some time.
async fn refuses(world: &World, wanted: bool) {
    let params = PatchParams {
        dry_run: true,
        ..PatchParams::default()
    };
    let status = json!({"status": {"runId": "probe"}});
    eventually("the policy is in force, or gone", async || {
        let probe = world
            .runs()
            .patch_status("probe", &params, &Patch::Merge(&status))
            .await;
        if probe.is_err() == wanted {
            Ok(())
        } else {
            Err(format!("{probe:?}"))
        }
    })
    .await;
}

/// Proves: P-at-most-one
#[tokio::test]
async fn killed_before_the_status_write_it_finds_the_run_again() {
    let mut world = World::new().await;
    world.create_run("probe", json!({"suspend": true})).await;
    forbid_run_ids(&world).await;
    let uid = world.create_run("train", json!({})).await.uid().unwrap();
    eventually("the create is answered", async || {
        let creates = world.service.requests("createRun").await;
        if creates.iter().any(|c| c["status"] == 201) {
            Ok(())
        } else {
            Err(format!("{creates:?}"))
        }
    })
    .await;
    world.kill_operator();
    let run = world.run("train").await;
    assert!(run.status.as_ref().is_none_or(|s| s.run_id.is_none()));
    lift(&world).await;
    world.start_operator().await;
    let run = world.phase("train", Phase::Succeeded).await;
    let at_the_service = one_run_of(&world, &uid).await;
    assert_eq!(at_the_service["posts"], 2);
    assert_eq!(
        at_the_service["runId"].as_str(),
        run.status.unwrap().run_id.as_deref()
    );
}

/// Proves: R2, P-dedup
#[tokio::test]
async fn killed_during_a_run_it_resumes_the_stream_at_its_cursor() {
    let mut world = World::new().await;
    let history = world.history().await;
    let created = world
        .simulate(
            "train",
            json!({"outcome": "never", "logEvents": 3, "runTimeMs": 300}),
        )
        .await;
    let run = world.state("train", "running").await;
    let run_id = run.status.unwrap().run_id.unwrap();
    world.kill_operator();
    let cursor = world.run("train").await.status.unwrap().last_event_id;
    let streams = world.service.requests("streamEvents").await.len();
    world.start_operator().await;
    world.asked("streamEvents", streams + 1).await;
    let resumed = &world.service.requests("streamEvents").await[streams];
    assert_eq!(resumed["lastEventId"].as_str(), cursor.as_deref());
    assert!(cursor.is_some());
    world
        .service
        .post(
            &format!("runs/{run_id}/state"),
            json!({"state": "succeeded"}),
        )
        .await;
    let run = world.phase("train", Phase::Succeeded).await;
    let at_the_service = one_run_of(&world, &created.uid().unwrap()).await;
    assert_eq!(at_the_service["posts"], 1);
    let status = run.status.unwrap();
    let counted = status.event_count.unwrap_or_default();
    assert!(
        counted <= at_the_service["events"].as_i64().unwrap(),
        "events were counted twice"
    );
    history.holds().await;
}

/// Proves: P-none-left
#[tokio::test]
async fn a_cancel_is_continued_after_a_kill() {
    let mut world = World::new().await;
    let history = world.history().await;
    let created = world
        .simulate("train", json!({"outcome": "never", "cancelTimeMs": 3000}))
        .await;
    world.state("train", "running").await;
    world.delete_run("train").await;
    world.asked("cancelRun", 1).await;
    world.kill_operator();
    assert!(held(&world.run("train").await));
    world.start_operator().await;
    world.gone("train").await;
    let at_the_service = one_run_of(&world, &created.uid().unwrap()).await;
    assert_eq!(at_the_service["state"], "cancelled");
    history.holds().await;
}

#[tokio::test]
async fn killed_between_end_and_release_it_reads_one_stream_only() {
    let mut world = World::new().await;
    let history = world.history().await;
    world.create_run("train", json!({})).await;
    world.phase("train", Phase::Succeeded).await;
    world.released("train").await;
    world.kill_operator();
    // The object as it was between the two writes: the finalizer there, the end not in the intent.
    let before = history.of("train").into_iter().rev().find(held).unwrap();
    let metadata = json!({
        "finalizers": before.metadata.finalizers, "annotations": before.metadata.annotations,
    });
    world
        .patch_run("train", json!({"metadata": metadata}))
        .await;
    let calls = world.service.run_calls().await;
    let streams = world.service.requests("streamEvents").await.len();
    world.start_operator().await;
    let released = world.released("train").await;
    assert_eq!(intent_of(&released).unwrap()["end"]["phase"], "Succeeded");
    assert_eq!(world.service.run_calls().await, calls + 1);
    let opened = world.service.requests("streamEvents").await.len();
    assert_eq!(opened, streams + 1, "for the last events");
    history.holds().await;
}

/// Proves: P-terminal
#[tokio::test]
async fn a_restart_makes_no_call_and_no_write_for_finished_runs() {
    let mut world = World::new().await;
    world.create_run("good", json!({})).await;
    world.simulate("bad", json!({"outcome": "failed"})).await;
    world.create_run("cancelled", json!({"cancel": true})).await;
    for (name, phase) in [
        ("good", Phase::Succeeded),
        ("bad", Phase::Failed),
        ("cancelled", Phase::Cancelled),
    ] {
        world.phase(name, phase).await;
        world.released(name).await;
    }
    world.kill_operator();
    let calls = world.service.run_calls().await;
    let versions = async || {
        let mut versions = Vec::new();
        for name in ["good", "bad", "cancelled"] {
            versions.push(world.run(name).await.resource_version());
        }
        versions
    };
    let before = versions().await;
    let mut operator = world.another_operator().await;
    holds_for_a_while(60, async || {
        assert_eq!(world.service.run_calls().await, calls);
        assert_eq!(versions().await, before);
    })
    .await;
    operator.kill();
}

/// Proves: P-shutdown
#[tokio::test]
async fn sigterm_completes_the_create_in_flight_and_writes_its_run() {
    let mut world = World::new().await;
    world
        .simulate("streaming", json!({"outcome": "never"}))
        .await;
    world.state("streaming", "running").await;
    world
        .service
        .fault(
            json!({"operation": "createRun"}),
            json!({"type": "delay", "forMs": 2000, "execute": true}),
        )
        .await;
    world.simulate("posting", json!({"outcome": "never"})).await;
    world.asked("createRun", 2).await;
    let mut operator = world.operator.take().unwrap();
    assert_eq!(operator.terminate().await, Some(0));
    let runs = world.service.runs().await;
    let posted = world.run("posting").await.status.unwrap();
    assert_eq!(posted.run_id.as_deref(), runs[1]["runId"].as_str());
    eventually("its streams are closed", async || {
        match world.service.get("stats").await["openStreams"].as_i64() {
            Some(0) => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
    assert!(world.operator_log().contains("run-operator has ended"));
}

/// More creates than may be in flight at a time: the rest wait for a permit.
/// Proves: P-shutdown
#[tokio::test]
async fn sigterm_begins_no_call_that_waits_for_its_turn() {
    const RUNS: usize = 40;
    const AT_A_TIME: usize = 32;
    let mut world = World::new().await;
    let create = json!({"operation": "createRun"});
    let slow = json!({"type": "delay", "forMs": 3000, "execute": true});
    world.service.lasting_fault(create, slow).await;
    for n in 0..RUNS {
        world
            .simulate(&format!("run-{n}"), json!({"outcome": "never"}))
            .await;
    }
    world.asked("createRun", AT_A_TIME).await;
    let mut operator = world.operator.take().unwrap();
    assert_eq!(operator.terminate().await, Some(0));
    assert_eq!(world.service.requests("createRun").await.len(), AT_A_TIME);
    let mut accepted = 0;
    for n in 0..RUNS {
        let status = world.run(&format!("run-{n}")).await.status;
        accepted += usize::from(status.is_some_and(|status| status.run_id.is_some()));
    }
    assert_eq!(accepted, AT_A_TIME, "each answer was written");
}

/// The call would take ten minutes.
/// Proves: P-shutdown
#[tokio::test]
async fn sigterm_waits_for_no_call_longer_than_25_s() {
    let patient = [("requestSeconds: 30", "requestSeconds: 600")];
    let contract = contract_file("restart-patient", &patient);
    let mut world = World::with(Setup {
        operator: vec!["--contract", contract.leak()],
        ..Setup::default()
    })
    .await;
    let create = json!({"operation": "createRun"});
    let hang = json!({"type": "hang", "forMs": 600_000, "execute": true});
    world.service.fault(create, hang).await;
    world.create_run("train", json!({})).await;
    world.asked("createRun", 1).await;
    let mut operator = world.operator.take().unwrap();
    operator.asked_to_end();
    eventually("the operator has ended", async || {
        operator.exit_code().map(drop).ok_or("it still runs")
    })
    .await;
    let log = world.operator_log();
    let told = "shutdown timed out with reconciles in flight";
    assert!(log.contains(told), "{log}");
    world.start_operator().await;
    world.phase("train", Phase::Succeeded).await;
    world.one_run_each().await;
}
