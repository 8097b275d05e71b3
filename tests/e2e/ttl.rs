//! `ttlSecondsAfterFinished`: what it deletes, and that it never overtakes a mark of Argo CD, Flux or Helm.

use futures::future::join_all;
use kube::api::{Patch, PatchParams};
use run_operator::api::{ConditionType as Type, Phase, Run};
use serde_json::json;

use crate::support::{World, condition_of};

/// The operator has decided on the deletion, and the mark comes before it: the deletion carries the version
/// that it was decided on. Which of the two comes first is left to chance, twenty times.
/// Proves: P-ttl, P-ttl-tracked
#[tokio::test]
async fn a_deletion_never_overtakes_a_gitops_mark_set_just_before() {
    let world = World::new().await;
    let names: Vec<_> = (0..20).map(|n| format!("train-{n}")).collect();
    for name in &names {
        world.create_run(name, json!({})).await;
    }
    for name in &names {
        world.phase(name, Phase::Succeeded).await;
        world.released(name).await;
    }
    let race = names.iter().enumerate().map(async |(n, name)| {
        let ttl = json!({"spec": {"ttlSecondsAfterFinished": 0}});
        world.patch_run(name, ttl).await;
        // Some a little later than others.
        for _ in 0..n % 5 {
            drop(world.runs().get_metadata_opt(name).await);
        }
        let mark = json!({"metadata": {"labels": {"argocd.argoproj.io/instance": "app"}}});
        let (params, mark) = (PatchParams::default(), Patch::Merge(mark));
        let marked = world.runs().patch(name, &params, &mark).await;
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
