//! The effect of the fields of the spec: `suspend`, `idempotencyKey`, `ttlSecondsAfterFinished`, `provider`,
//! `readyWhen`.

use kube::api::{Patch, PatchParams};
use run_operator::api::{ConditionType as Type, Phase};
use serde_json::json;

use crate::support::{Setup, World, eventually, held, holds_for_a_while, intent_of, row};

/// Proves: P-suspend-late
#[tokio::test]
async fn a_suspended_run_has_no_call_and_no_finalizer_until_resumed() {
    let world = World::new().await;
    let history = world.history().await;
    world.create_run("train", json!({"suspend": true})).await;
    let run = world
        .condition("train", Type::Ready, "False", "Suspended")
        .await;
    assert_eq!(row(&run), "Pending: !Accepted !Finished !Ready");
    holds_for_a_while(40, async || {
        let run = world.run("train").await;
        assert!(!held(&run) && intent_of(&run).is_none());
        assert_eq!(world.service.run_calls().await, 0);
    })
    .await;
    world
        .patch_run("train", json!({"spec": {"suspend": false}}))
        .await;
    world.phase("train", Phase::Succeeded).await;
    assert_eq!(world.service.runs().await.len(), 1);
    history.holds().await;
}

#[tokio::test]
async fn a_submitted_run_can_not_be_suspended() {
    let world = World::new().await;
    world.simulate("train", json!({"outcome": "never"})).await;
    world.state("train", "running").await;
    let suspend = json!({"spec": {"suspend": true}});
    let refused = world
        .runs()
        .patch("train", &PatchParams::default(), &Patch::Merge(suspend))
        .await;
    let kube::Error::Api(refused) = refused.unwrap_err() else {
        panic!("no answer of the API server");
    };
    assert_eq!(refused.code, 422);
    assert!(refused.message.contains("suspend"), "{}", refused.message);
}

/// Proves: P-suspend-late
#[tokio::test]
async fn from_the_intent_on_suspend_is_ignored_visibly() {
    let world = World::new().await;
    world
        .service
        .lasting_fault(
            json!({"operation": "createRun"}),
            json!({"type": "answer", "status": 503}),
        )
        .await;
    world.create_run("train", json!({})).await;
    world
        .condition("train", Type::Ready, "False", "Retrying")
        .await;
    world
        .patch_run("train", json!({"spec": {"suspend": true}}))
        .await;
    world
        .run_until("train", "says that suspend comes too late", |run| {
            let status = run.status.as_ref().unwrap();
            status
                .conditions
                .iter()
                .any(|c| c.message.contains("spec.suspend is ignored"))
        })
        .await;
    world.service.delete("faults").await;
    world.phase("train", Phase::Succeeded).await;
}

/// Proves: P-ttl
#[tokio::test]
async fn a_ttl_deletes_the_object_after_its_end_and_cancels_nothing() {
    let world = World::new().await;
    let history = world.history().await;
    for (name, ttl) in [("at-once", 0), ("soon", 1)] {
        world
            .create_run(name, json!({"ttlSecondsAfterFinished": ttl}))
            .await;
    }
    world
        .create_run("kept", json!({"ttlSecondsAfterFinished": 100_000}))
        .await;
    for name in ["at-once", "soon"] {
        world.gone(name).await;
        let versions = history.of(name);
        let end = versions.last().and_then(|run| run.status.as_ref()?.phase);
        assert_eq!(end, Some(Phase::Succeeded), "{name} went before its end");
    }
    world.phase("kept", Phase::Succeeded).await;
    assert_eq!(world.service.get("stats").await["cancels"], 0);
    assert_eq!(world.service.runs().await.len(), 3);
    history.holds().await;
}

/// Proves: P-same-bytes
#[tokio::test]
async fn a_key_of_ones_own_is_scoped_by_the_namespace() {
    let world = World::new().await;
    let spec = json!({"idempotencyKey": "nightly", "provider": "acme", "region": "moon"});
    world.create_run("train", spec).await;
    let run = world.phase("train", Phase::Succeeded).await;
    let status = run.status.unwrap();
    let key = format!("{}/nightly", world.namespace);
    assert_eq!(status.idempotency_key.as_deref(), Some(key.as_str()));
    assert_eq!(status.provider.as_deref(), Some("acme"));
    assert_eq!(status.region.as_deref(), Some("moon"));
    let at_the_service = world.service.runs().await;
    assert_eq!(
        at_the_service[0]["idempotencyKey"].as_str(),
        Some(key.as_str())
    );
    assert_eq!(at_the_service[0]["body"]["provider"], "acme");
    assert_eq!(at_the_service[0]["body"]["region"], "moon");
}

/// On its own schedule the second one would try again in ten minutes.
/// Proves: P-key-in-use
#[tokio::test]
async fn a_second_run_with_the_same_key_waits_for_the_first_to_end() {
    let world = World::with(Setup {
        operator: vec!["--poll-max", "10m"],
        ..Setup::default()
    })
    .await;
    let history = world.history().await;
    let workload = json!({"image": "i", "simulate": {"outcome": "never"}});
    let spec = json!({"idempotencyKey": "nightly", "workload": workload});
    world.create_run("first", spec.clone()).await;
    let first = world.state("first", "running").await;
    world.create_run("second", spec).await;
    let second = world
        .condition("second", Type::Stalled, "True", "KeyInUse")
        .await;
    assert_eq!(row(&second), "Pending: !Accepted !Finished !Ready Stalled");
    assert!(!held(&second) && intent_of(&second).is_none());
    assert_eq!(world.service.requests("createRun").await.len(), 1);
    let run_id = first.status.unwrap().run_id.unwrap();
    world
        .service
        .post(
            &format!("runs/{run_id}/state"),
            json!({"state": "succeeded"}),
        )
        .await;
    world.phase("first", Phase::Succeeded).await;
    // The same key and body: the service answers with the run that it has.
    let second = world.phase("second", Phase::Succeeded).await;
    assert_eq!(
        second.status.unwrap().run_id.as_deref(),
        Some(run_id.as_str())
    );
    assert_eq!(world.service.requests("createRun").await.len(), 2);
    assert_eq!(world.service.runs().await.len(), 1);
    history.holds().await;
}

/// Proves: P-key-in-use
#[tokio::test]
async fn of_runs_created_together_with_one_key_only_one_is_submitted() {
    let world = World::new().await;
    let history = world.history().await;
    let workload = json!({"image": "i", "simulate": {"outcome": "never"}});
    let spec = json!({"idempotencyKey": "nightly", "workload": workload});
    tokio::join!(
        world.create_run("one", spec.clone()),
        world.create_run("two", spec.clone()),
        world.create_run("three", spec)
    );
    let blocked = async || {
        let mut blocked = Vec::new();
        for name in ["one", "two", "three"] {
            let run = world.run(name).await;
            if row(&run) == "Pending: !Accepted !Finished !Ready Stalled" {
                blocked.push(name);
            }
        }
        blocked
    };
    eventually("two of three are blocked", async || match blocked().await {
        blocked if blocked.len() == 2 => Ok(()),
        blocked => Err(format!("{blocked:?}")),
    })
    .await;
    holds_for_a_while(20, async || {
        assert_eq!(blocked().await.len(), 2);
        assert_eq!(world.service.requests("createRun").await.len(), 1);
    })
    .await;
    history.holds().await;
}

/// Proves: P-ready-when, P-generation
#[tokio::test]
async fn ready_when_takes_effect_during_a_run_but_not_after_its_end() {
    let world = World::new().await;
    let history = world.history().await;
    world.simulate("train", json!({"outcome": "never"})).await;
    let run = world.state("train", "running").await;
    let run_id = run.status.unwrap().run_id.unwrap();
    let change = async |value: serde_json::Value, wanted: &str| {
        let edited = world
            .patch_run("train", json!({"spec": {"readyWhen": value}}))
            .await;
        let generation = edited.metadata.generation;
        let run = world
            .run_until("train", "observes the edit", |run| {
                run.status.as_ref().unwrap().observed_generation == generation
            })
            .await;
        assert_eq!(row(&run), wanted);
    };
    let calls = world.service.requests("createRun").await.len();
    change(json!("Accepted"), "Active: Accepted !Finished Ready").await;
    let wait = [
        "wait",
        "--for=condition=Ready",
        "--timeout=20s",
        "run/train",
    ];
    world.kubectl(&wait, "").await.unwrap();
    let reconciling = "Active: Accepted !Finished !Ready Reconciling";
    change(json!("Succeeded"), reconciling).await;
    change(json!(null), reconciling).await;
    change(json!("Accepted"), "Active: Accepted !Finished Ready").await;
    let failed = json!({"state": "failed"});
    world
        .service
        .post(&format!("runs/{run_id}/state"), failed)
        .await;
    let run = world.phase("train", Phase::Failed).await;
    let end = "Failed: Accepted Finished Failed !Ready Stalled";
    assert_eq!(row(&run), end);
    change(json!("Succeeded"), end).await;
    change(json!("Accepted"), end).await;
    assert_eq!(world.service.requests("createRun").await.len(), calls);
    history.holds().await;
}
