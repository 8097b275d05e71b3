//! `ttlSecondsAfterFinished`: what it deletes, and what Argo CD, Flux or Helm would create again.

use futures::future::join_all;
use kube::{
    ResourceExt,
    api::{ListParams, Patch, PatchParams, PostParams},
};
use run_operator::api::{ConditionType as Type, Phase, Run};
use serde_json::{Value, json};

use crate::support::{World, condition_of, held, holds_for_a_while, row, says};

/// Number of checks in about two seconds.
const A_WHILE: u32 = 80;

/// A tool's marks, and what people call the tool.
fn tracked() -> [(&'static str, Value, &'static str); 6] {
    [
        (
            "argo-annotation",
            json!({"annotations": {"argocd.argoproj.io/tracking-id": "app:run-operator.dev/Run:team/train"}}),
            "Argo CD",
        ),
        (
            "argo-label",
            json!({"labels": {"argocd.argoproj.io/instance": "app"}}),
            "Argo CD",
        ),
        (
            "argo-oldest-label",
            json!({"labels": {"app.kubernetes.io/instance": "app"}}),
            "Argo CD",
        ),
        (
            "flux",
            json!({"labels": {"kustomize.toolkit.fluxcd.io/name": "app", "kustomize.toolkit.fluxcd.io/namespace": "flux-system"}}),
            "Flux",
        ),
        (
            "flux-helm",
            json!({"labels": {"helm.toolkit.fluxcd.io/name": "app"}, "annotations": {"meta.helm.sh/release-name": "app"}}),
            "Flux",
        ),
        (
            "helm",
            json!({"labels": {"app.kubernetes.io/instance": "app", "app.kubernetes.io/managed-by": "Helm"},
                "annotations": {"meta.helm.sh/release-name": "app", "meta.helm.sh/release-namespace": "team"}}),
            "Helm",
        ),
    ]
}

/// The marks of a tool's hooks; they run at each sync or upgrade in any case.
fn hooks() -> [(&'static str, Value); 2] {
    [
        (
            "argo-hook",
            json!({"labels": {"app.kubernetes.io/instance": "app"}, "annotations": {
                "argocd.argoproj.io/hook": "PostSync",
                "argocd.argoproj.io/tracking-id": "app:run-operator.dev/Run:team/train"}}),
        ),
        (
            "helm-hook",
            json!({"labels": {"app.kubernetes.io/instance": "app"},
                "annotations": {"helm.sh/hook": "post-install"}}),
        ),
    ]
}

/// A Run that would be deleted as soon as it has ended, except for its marks.
async fn create(world: &World, name: &str, mut metadata: Value) -> Run {
    metadata["name"] = json!(name);
    let run = json!({
        "apiVersion": "run-operator.dev/v1alpha1", "kind": "Run", "metadata": metadata,
        "spec": {"ttlSecondsAfterFinished": 0, "workload": {"image": "i"}},
    });
    let run: Run = serde_json::from_value(run).unwrap();
    let params = PostParams::default();
    world.runs().create(&params, &run).await.unwrap()
}

fn finished(run: &Run) -> String {
    condition_of(run, Type::Finished).unwrap().message
}

/// Proves: P-ttl-tracked
#[tokio::test]
async fn an_object_managed_by_gitops_outlives_its_ttl_with_one_event() {
    let mut world = World::new().await;
    let history = world.history().await;
    for (name, metadata, _) in tracked() {
        create(&world, name, metadata).await;
    }
    for (name, metadata) in hooks() {
        create(&world, name, metadata).await;
    }
    create(&world, "plain", json!({})).await;
    for name in ["plain", "argo-hook", "helm-hook"] {
        world.gone(name).await;
    }
    for (name, _, tool) in tracked() {
        let run = world
            .run_until(name, "has ended and is let go", |run| {
                run.ended() && !held(run)
            })
            .await;
        assert_eq!(row(&run), "Succeeded: Accepted Finished Complete Ready");
        says(
            &finished(&run),
            &["ttlSecondsAfterFinished doesn't apply", tool],
        );
        says(
            &world.event(name, "TtlIgnored").await,
            &[tool, "as a new Run"],
        );
    }
    world.kill_operator();
    world.start_operator().await;
    world.workspace_ready("default", "True", "Verified").await;
    holds_for_a_while(A_WHILE, async || {
        let left = world
            .runs()
            .list(&ListParams::default())
            .await
            .unwrap()
            .items;
        assert_eq!(left.len(), tracked().len());
    })
    .await;
    for (name, ..) in tracked() {
        assert_eq!(world.events(name, "TtlIgnored").await.len(), 1, "{name}");
    }
    assert_eq!(world.service.get("stats").await["cancels"], 0);
    assert_eq!(world.service.runs().await.len(), 9);
    history.holds().await;
}

/// Proves: P-ttl-tracked
#[tokio::test]
async fn gitops_marks_changed_after_the_end_decide_if_ttl_applies() {
    let world = World::new().await;
    let history = world.history().await;
    world.create_run("train", json!({})).await;
    world.phase("train", Phase::Succeeded).await;
    let plain = finished(&world.released("train").await);
    let label =
        |value: Value| json!({"metadata": {"labels": {"argocd.argoproj.io/instance": value}}});
    world.patch_run("train", label(json!("app"))).await;
    // The marked object is given a TTL that has passed already.
    world
        .patch_run("train", json!({"spec": {"ttlSecondsAfterFinished": 0}}))
        .await;
    world
        .run_until("train", "says that its TTL doesn't apply", |run| {
            finished(run).contains("Argo CD")
        })
        .await;
    world
        .patch_run("train", json!({"spec": {"ttlSecondsAfterFinished": null}}))
        .await;
    world
        .run_until("train", "says no more of a TTL", |run| {
            finished(run) == plain
        })
        .await;
    world
        .patch_run("train", json!({"spec": {"ttlSecondsAfterFinished": 0}}))
        .await;
    world.event("train", "TtlIgnored").await;
    world.patch_run("train", label(Value::Null)).await;
    world.gone("train").await;
    assert_eq!(world.service.runs().await.len(), 1);
    assert_eq!(world.service.get("stats").await["cancels"], 0);
    history.holds().await;
}

/// Proves: P-ttl
#[tokio::test]
async fn a_ttl_set_or_shortened_after_any_end_deletes_the_object() {
    let mut world = World::new().await;
    let history = world.history().await;
    let spec = |simulate: Value, ttl: Value| {
        json!({"ttlSecondsAfterFinished": ttl, "deletionPolicy": "Orphan",
            "workload": {"image": "i", "simulate": simulate}})
    };
    let failed = json!({"outcome": "failed"});
    world
        .create_run("failed", spec(failed, json!(100_000)))
        .await;
    let succeeded = spec(json!({}), json!(i32::MAX));
    world.create_run("succeeded", succeeded).await;
    let mut cancelled = spec(json!({}), json!(100_000));
    cancelled["cancel"] = json!(true);
    world.create_run("cancelled", cancelled).await;
    let names = ["failed", "succeeded", "cancelled"];
    for name in names {
        world
            .run_until(name, "has ended and is let go", |run| {
                run.ended() && !held(run)
            })
            .await;
    }
    let calls = world.service.run_calls().await;
    let at_once = json!({"spec": {"ttlSecondsAfterFinished": 0}});
    world.patch_run("failed", at_once.clone()).await;
    world.gone("failed").await;
    // It passes while the operator is down.
    world.kill_operator();
    for name in ["succeeded", "cancelled"] {
        world.patch_run(name, at_once.clone()).await;
    }
    world.start_operator().await;
    for name in names {
        world.gone(name).await;
        assert!(world.events(name, "Orphaned").await.is_empty(), "{name}");
        let last = history.of(name).pop().unwrap();
        assert!(last.ended() && last.finalizers().is_empty(), "{name}");
    }
    assert_eq!(world.service.run_calls().await, calls);
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
            let told = |run: &Run| finished(run).contains("Argo CD");
            world.run_until(name, "stays and says why", told).await;
        } else {
            world.gone(name).await;
        }
    }
}
