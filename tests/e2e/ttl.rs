//! `ttlSecondsAfterFinished`: what it deletes, and that it never overtakes a mark of Argo CD, Flux or Helm.

use futures::future::join_all;
use kube::api::{Patch, PatchParams};
use run_operator::api::{ConditionType as Type, Phase, Run};
use serde_json::json;

use crate::support::{World, condition_of, held};

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

/// The operator has decided on the deletion, and the mark comes before it: the deletion carries the version
/// that it was decided on. Which of the two comes first is left to chance, twenty times.
/// Proves: P-ttl-tracked
#[tokio::test]
async fn a_deletion_never_overtakes_a_gitops_mark_set_just_before() {
    let world = World::new().await;
    let names: Vec<_> = (0..20).map(|n| format!("train-{n}")).collect();
    for name in &names {
        world.create_run(name, json!({})).await;
    }
    for name in &names {
        let ended = |run: &Run| run.ended() && !held(run);
        world
            .run_until(name, "has ended and is let go", ended)
            .await;
    }
    let race = names.iter().enumerate().map(async |(n, name)| {
        world
            .patch_run(name, json!({"spec": {"ttlSecondsAfterFinished": 0}}))
            .await;
        // Some a little later than others.
        for _ in 0..n % 5 {
            drop(world.runs().get_metadata_opt(name).await);
        }
        let mark = json!({"metadata": {"labels": {"argocd.argoproj.io/instance": "app"}}});
        let marked = world
            .runs()
            .patch(name, &PatchParams::default(), &Patch::Merge(mark))
            .await;
        (name, marked.is_ok())
    });
    for (name, marked) in join_all(race).await {
        if marked {
            let told = |run: &Run| {
                let finished = condition_of(run, Type::Finished).unwrap();
                finished.message.contains("Argo CD")
            };
            world.run_until(name, "stays and says why", told).await;
        } else {
            world.gone(name).await;
        }
    }
}
