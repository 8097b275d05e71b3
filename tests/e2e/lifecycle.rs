//! The main job: from `kubectl apply` to the end.

use kube::ResourceExt;
use run_operator::api::{ConditionType, Phase};
use serde_json::json;

use crate::support::{World, held, holds_for_a_while, intent_of, row};

/// Proves: S-state, E-createRun
#[tokio::test]
async fn a_run_is_submitted_mirrored_and_released() {
    let world = World::new().await;
    let history = world.history().await;
    let created = world.create_run("train", json!({})).await;
    let run = world.phase("train", Phase::Succeeded).await;
    let status = run.status.unwrap();
    let at_the_service = world.service.runs().await;
    assert_eq!(at_the_service.len(), 1);
    assert_eq!(
        at_the_service[0]["runId"].as_str(),
        status.run_id.as_deref()
    );
    assert_eq!(
        at_the_service[0]["idempotencyKey"].as_str(),
        created.metadata.uid.as_deref()
    );
    assert_eq!(status.state.as_deref(), Some("succeeded"));
    assert!(status.request_id.is_some() && status.last_event_id.is_some());
    let released = world.released("train").await;
    let end = intent_of(&released).unwrap()["end"].clone();
    assert_eq!(end["runId"].as_str(), status.run_id.as_deref());
    assert_eq!(end["phase"], "Succeeded");
    let calls = world.service.run_calls().await;
    world.delete_run("train").await;
    world.gone("train").await;
    assert_eq!(
        world.service.run_calls().await,
        calls,
        "a call after the end"
    );
    history.holds().await;
}

/// Proves: P-intent-before-post
#[tokio::test]
async fn intent_and_finalizer_are_written_before_the_create_is_sent() {
    let world = World::new().await;
    world
        .service
        .fault(
            json!({"operation": "createRun"}),
            json!({"type": "hang", "forMs": 5000}),
        )
        .await;
    let created = world.create_run("train", json!({})).await;
    world.asked("createRun", 1).await;
    let run = world.run("train").await;
    assert!(
        world.service.runs().await.is_empty(),
        "the create went through; this looked too late"
    );
    let intent = intent_of(&run).expect("no intent before the POST");
    assert!(held(&run), "no finalizer before the POST");
    assert_eq!(intent["uid"].as_str(), created.uid().as_deref());
    assert_eq!(intent["key"].as_str(), created.uid().as_deref());
    assert_eq!(intent["workspace"]["name"], "default");
    assert_eq!(intent["workspace"]["baseUrl"], world.service.base_url());
    // The connection is cut without an answer: the retry carries the same key, and no second run comes.
    world.phase("train", Phase::Succeeded).await;
    let posts = world.service.requests("createRun").await;
    assert_eq!(posts.len(), 2);
    for post in posts {
        assert_eq!(post["idempotencyKey"].as_str(), created.uid().as_deref());
    }
    assert_eq!(world.service.runs().await.len(), 1);
}

/// Proves: P-run-id-at-once
#[tokio::test]
async fn the_run_id_is_written_at_once_in_one_complete_write() {
    let world = World::new().await;
    let history = world.history().await;
    // Were anything else called first, it would not be answered.
    for operation in ["getRun", "streamEvents"] {
        world
            .service
            .fault(
                json!({"operation": operation}),
                json!({"type": "hang", "forMs": 3000}),
            )
            .await;
    }
    world.create_run("train", json!({})).await;
    world
        .run_until("train", "has its runId", |run| {
            run.status.as_ref().is_some_and(|s| s.run_id.is_some())
        })
        .await;
    world.phase("train", Phase::Succeeded).await;
    let versions = history.of("train");
    let accepted = versions
        .iter()
        .find(|run| run.status.as_ref().is_some_and(|s| s.run_id.is_some()));
    let status = accepted.unwrap().status.clone().unwrap();
    assert_eq!(
        row(accepted.unwrap()),
        "Active: Accepted !Finished !Ready Reconciling"
    );
    assert!(status.workspace.is_some() && status.submission_time.is_some());
    assert!(status.idempotency_key.is_some() && status.request_id.is_some());
    assert_eq!(status.provider.as_deref(), Some("auto"));
    assert_eq!(status.region.as_deref(), Some("auto"));
    assert!(
        status.last_event_id.is_none(),
        "the write waited for the stream"
    );
    history.holds().await;
}

/// Proves: P-one-write
#[tokio::test]
async fn no_version_of_the_object_has_a_cursor_ahead_of_its_state() {
    let world = World::new().await;
    let history = world.history().await;
    // Each answer is old when it arrives: the state changed while it was in flight, and an event reported the
    // change.
    world
        .service
        .lasting_fault(
            json!({"operation": "getRun"}),
            json!({"type": "delay", "forMs": 900, "execute": true}),
        )
        .await;
    for name in ["one", "two", "three"] {
        world
            .simulate(
                name,
                json!({"queueTimeMs": 150, "provisionTimeMs": 450, "runTimeMs": 2600, "logEvents": 25}),
            )
            .await;
    }
    for name in ["one", "two", "three"] {
        let run = world.phase(name, Phase::Succeeded).await;
        let versions = history.of(name);
        let with_events = versions.iter().filter(|run| {
            let status = run.status.as_ref();
            status.is_some_and(|s| !s.events.is_empty())
        });
        assert!(
            with_events.count() >= 2,
            "too few versions to tell anything"
        );
        let status = run.status.unwrap();
        let sent = world.service.runs().await;
        let sent = sent
            .iter()
            .find(|r| r["runId"].as_str() == status.run_id.as_deref());
        assert!(status.event_count.unwrap() <= sent.unwrap()["events"].as_i64().unwrap());
    }
    history.holds().await;
}

/// Proves: P-unmapped
#[tokio::test]
async fn an_unmapped_state_is_shown_verbatim_and_is_an_event() {
    let world = World::new().await;
    let history = world.history().await;
    let states = json!([{"state": "queued", "forMs": 200}, "Calibrating Lasers"]);
    world.simulate("train", json!({"states": states})).await;
    let run = world.state("train", "Calibrating Lasers").await;
    assert_eq!(row(&run), "Active: Accepted !Finished !Ready Reconciling");
    let note = world.event("train", "UnmappedState").await;
    assert!(note.contains("Calibrating Lasers"), "{note}");
    let run_id = run.status.unwrap().run_id.unwrap();
    world
        .service
        .post(
            &format!("runs/{run_id}/state"),
            json!({"state": "succeeded"}),
        )
        .await;
    world.phase("train", Phase::Succeeded).await;
    assert_eq!(world.events("train", "UnmappedState").await.len(), 1);
    history.holds().await;
}

/// Proves: P-kstatus
#[tokio::test]
async fn kubectl_waits_for_complete_and_for_failed() {
    let world = World::new().await;
    world.create_run("good", json!({})).await;
    world.simulate("bad", json!({"outcome": "failed"})).await;
    for (condition, name) in [("Complete", "good"), ("Failed", "bad"), ("Finished", "bad")] {
        let args = [
            "wait",
            &format!("--for=condition={condition}"),
            "--timeout=60s",
            &format!("run/{name}"),
        ];
        let said = world.kubectl(&args, "").await.unwrap();
        assert!(said.contains("condition met"), "{said}");
    }
    let never = [
        "wait",
        "--for=condition=Complete",
        "--timeout=1s",
        "run/bad",
    ];
    world.kubectl(&never, "").await.unwrap_err();
}

/// Proves: P-generation
#[tokio::test]
async fn an_edit_after_the_end_is_observed_without_a_call() {
    let world = World::new().await;
    let history = world.history().await;
    for (name, simulate) in [("good", json!({})), ("bad", json!({"outcome": "failed"}))] {
        world.simulate(name, simulate).await;
        world.released(name).await;
        world
            .run_until(name, "has ended", |run| {
                let status = run.status.as_ref();
                status.and_then(|s| s.phase).is_some_and(Phase::terminal) && !held(run)
            })
            .await;
    }
    let calls = world.service.run_calls().await;
    for name in ["good", "bad"] {
        let before = world.run(name).await;
        let edited = world
            .patch_run(name, json!({"spec": {"ttlSecondsAfterFinished": 100_000}}))
            .await;
        let wanted = edited.metadata.generation;
        assert!(wanted > before.metadata.generation);
        let after = world
            .run_until(name, "observes the edit", |run| {
                run.status.as_ref().unwrap().observed_generation == wanted
            })
            .await;
        assert_eq!(row(&after), row(&before));
        let args = [
            "wait",
            "--for=condition=Finished",
            "--timeout=20s",
            &format!("run/{name}"),
        ];
        world.kubectl(&args, "").await.unwrap();
    }
    assert_eq!(world.service.run_calls().await, calls);
    history.holds().await;
}

/// Proves: P-events-coalesce
#[tokio::test]
async fn events_without_a_state_change_are_written_seldom() {
    let world = World::new().await;
    let history = world.history().await;
    world
        .simulate("train", json!({"outcome": "never", "runTimeMs": 100}))
        .await;
    let run = world.state("train", "running").await;
    let run_id = run.status.unwrap().run_id.unwrap();
    let before = history.of("train").len();
    for n in 0..30 {
        let event = json!({"type": "run.log", "data": {"n": n}});
        world
            .service
            .post(&format!("runs/{run_id}/events"), event)
            .await;
    }
    holds_for_a_while(60, async || {
        let written = history.of("train").len() - before;
        assert!(written <= 2, "{written} writes for events alone");
    })
    .await;
    let run = world
        .run_until("train", "shows the last event", |run| {
            let events = &run.status.as_ref().unwrap().events;
            events
                .last()
                .is_some_and(|e| e.data.as_deref().is_some_and(|d| d.contains("\"n\":29")))
        })
        .await;
    assert_eq!(run.status.unwrap().events.len(), 10);
    assert!(history.of("train").len() - before <= 2);
    history.holds().await;
    let ready = run_operator::api::conditions::find(
        &world.run("train").await.status.unwrap().conditions,
        ConditionType::Synced,
    )
    .cloned();
    assert_eq!(ready.unwrap().status, "True");
}
