//! The recipes of `docs/gitops.md` for Argo CD, by its own sync engine with our health scripts.

use std::collections::HashSet;

use kube::ResourceExt;
use rstest::rstest;
use run_operator::api::{Phase, Run};
use serde_json::{Value, json};

use super::tools::{cancelled_and_succeeded, endless, example, file};
use crate::support::{Plane, Setup, TOKEN, World, eventually, holds_for_a_while};

const WORKSPACE: &str =
    "apiVersion: run-operator.dev/v1alpha1\nkind: Workspace\nmetadata: {name: default}\nspec: {}\n";

/// Argo CD deletes in the foreground, which the garbage collector ends.
async fn collected() -> World {
    World::with(Setup {
        plane: Plane::Managed,
        ..Setup::default()
    })
    .await
}

async fn sync(world: &World, more: &[&str], manifests: &str) -> Vec<Value> {
    let results = world.argo("sync", more, manifests).await.unwrap();
    results.as_array().unwrap().clone()
}

/// What became of this Run.
fn result<'a>(results: &'a [Value], name: &str) -> &'a Value {
    let mut runs = results.iter().filter(|r| r["Kind"] == "Run");
    let found = runs.find(|run| run["Name"] == name);
    found.unwrap_or_else(|| panic!("nothing of the Run {name} in {results:?}"))
}

/// Proves: P-recipes
#[tokio::test]
async fn a_wave_waits_for_the_workspace_of_the_wave_before_it() {
    let world = World::with(Setup {
        bare: true,
        ..Setup::default()
    })
    .await;
    let manifests = example("waves");
    let synced = sync(&world, &[], &manifests);
    let meanwhile = async {
        eventually("the first wave is there", async || {
            world.workspaces().get("default").await
        })
        .await;
        // No Secret yet: the Workspace is Progressing.
        holds_for_a_while(40, async || {
            assert!(world.runs().get_opt("train").await.unwrap().is_none());
        })
        .await;
        world.token(TOKEN).await;
    };
    let (results, ()) = tokio::join!(synced, meanwhile);
    assert_eq!(result(&results, "train")["Status"], "Synced");
    world.phase("train", Phase::Succeeded).await;
}

/// Proves: P-recipes
#[tokio::test]
async fn a_hook_runs_after_each_sync_and_its_failure_fails_the_sync() {
    let world = collected().await;
    let app = |ttl: i32| {
        let hook = example("hook");
        let train = example("promotion/run");
        let mutable = format!("spec:\n  ttlSecondsAfterFinished: {ttl}");
        format!("{}---\n{hook}", train.replace("spec:", &mutable))
    };
    let results = sync(&world, &[], &app(100_000)).await;
    assert_eq!(result(&results, "evaluate")["Phase"], "Succeeded");
    let first = world.run("evaluate").await;
    let results = sync(&world, &[], &app(100_001)).await;
    assert_eq!(result(&results, "evaluate")["Phase"], "Succeeded");
    assert_ne!(world.run("evaluate").await.uid(), first.uid());
    // train and two evaluations
    assert_eq!(world.service.runs().await.len(), 3);
    let fails = app(100_002).replace("command: evaluate", "simulate: {outcome: failed}");
    let results = sync(&world, &[], &fails).await;
    assert_eq!(result(&results, "evaluate")["Phase"], "Failed");
    assert_eq!(world.service.get("stats").await["cancels"], 0);
}

/// Proves: P-recipes
#[tokio::test]
async fn force_and_replace_cancel_a_changed_run_and_make_a_new_one() {
    let world = World::new().await;
    let history = world.history().await;
    let changed = |manifests: &str| manifests.replace("train:1.4", "train:1.5");
    // Without the options the sync fails, and harms nothing.
    let plain = endless(&example("promotion/run"));
    sync(&world, &[], &plain).await;
    let before = world.state("train", "running").await;
    for how in [&[][..], &["--server-side"]] {
        let results = sync(&world, how, &changed(&plain)).await;
        let refused = result(&results, "train");
        assert_eq!(refused["Status"], "SyncFailed");
        let message = refused["Message"].as_str().unwrap();
        assert!(message.contains("is immutable"), "{refused}");
    }
    assert_eq!(world.run("train").await.uid(), before.uid());
    assert_eq!(world.service.get("stats").await["cancels"], 0);
    let changed = changed(&example("rerun"));
    let results = sync(&world, &[], &changed).await;
    assert_eq!(result(&results, "train")["Status"], "Synced");
    let after = world.phase("train", Phase::Succeeded).await;
    assert_ne!(after.uid(), before.uid());
    // Whatever the sync did has been seen once a later object is.
    let later = json!({"suspend": true});
    world.create_run("later", later).await;
    history.until("later", "is seen", |_| true).await;
    let made: HashSet<_> = history.of("train").iter().map(ResourceExt::uid).collect();
    assert_eq!(made.len(), 2, "replaced once: {made:?}");
    cancelled_and_succeeded(&world).await;
    // The warning beside the recipe: the options don't ask whether anything changed.
    sync(&world, &[], &changed).await;
    eventually("a third run", async || {
        let runs = world.service.runs().await.len();
        if runs == 3 { Ok(()) } else { Err(runs) }
    })
    .await;
}

/// The label's name is a setting of Argo CD.
/// Proves: P-ttl, P-recipes
#[rstest]
#[case::applied_by_the_client(&[])]
#[case::applied_by_the_server(&["--server-side"])]
#[tokio::test]
async fn a_run_that_argo_tracks_by_a_label_of_its_own_outlives_its_ttl(#[case] how: &[&str]) {
    let world = World::new().await;
    let how = [&["--label", "example.com/app"], how].concat();
    let ttl = "spec:\n  ttlSecondsAfterFinished: 0";
    let manifest = example("promotion/run").replace("spec:", ttl);
    sync(&world, &how, &manifest).await;
    let told = |run: &Run| {
        let keeper = run.status.as_ref().and_then(|s| s.kept_by.as_deref());
        keeper == Some("Argo CD (field manager argocd-controller)")
    };
    world.run_until("train", "stays and says why", told).await;
    assert_eq!(world.service.runs().await.len(), 1);
}

/// Proves: P-recipes
#[tokio::test]
async fn a_pruned_run_is_cancelled_and_a_protected_one_continues() {
    let world = collected().await;
    let kept = endless(&example("keep"));
    let pruned = endless(&example("promotion/run")).replace("name: train", "name: pruned");
    sync(&world, &[], &format!("{WORKSPACE}---\n{kept}---\n{pruned}")).await;
    for name in ["train", "pruned"] {
        world.state(name, "running").await;
    }
    // Without pruning nothing is deleted.
    let results = sync(&world, &[], WORKSPACE).await;
    assert_eq!(result(&results, "pruned")["Status"], "PruneSkipped");
    let results = sync(&world, &["--prune"], WORKSPACE).await;
    assert_eq!(result(&results, "pruned")["Status"], "Pruned");
    assert_eq!(result(&results, "train")["Status"], "PruneSkipped");
    world.gone("pruned").await;
    // By hand: the object is deleted, the run stays.
    world.delete_run("train").await;
    world.gone("train").await;
    let by_state = world.service.get("stats").await["runsByState"].clone();
    assert_eq!(by_state, json!({"cancelled": 1, "running": 1}));
}

/// Proves: P-recipes
#[tokio::test]
async fn with_a_key_an_object_that_git_creates_again_finds_its_run() {
    let world = collected().await;
    let manifests = format!("{WORKSPACE}---\n{}", example("once"));
    sync(&world, &[], &manifests).await;
    let before = world.phase("train-1.4", Phase::Succeeded).await;
    sync(&world, &["--prune"], WORKSPACE).await;
    world.gone("train-1.4").await;
    sync(&world, &["--prune"], &manifests).await;
    let after = world.phase("train-1.4", Phase::Succeeded).await;
    assert_ne!(after.uid(), before.uid());
    assert_eq!(after.status.unwrap().run_id, before.status.unwrap().run_id);
    assert_eq!(world.service.runs().await.len(), 1);
}

/// Proves: P-recipes
#[tokio::test]
async fn a_promotion_adds_a_run_and_prunes_the_old_without_a_call() {
    let world = collected().await;
    let folder = file("deploy/examples/gitops/promotion");
    let args = ["kustomize", folder.to_str().unwrap()];
    let release = world.kubectl(&args, "").await.unwrap();
    assert!(release.contains("name: train-r1"), "{release}");
    sync(&world, &["--prune"], &format!("{WORKSPACE}---\n{release}")).await;
    world.phase("train-r1", Phase::Succeeded).await;
    let calls = world.service.run_calls().await;
    let next = release
        .replace("train-r1", "train-r2")
        .replace("train:1.4", "train:1.5");
    let results = sync(&world, &["--prune"], &format!("{WORKSPACE}---\n{next}")).await;
    assert_eq!(result(&results, "train-r1")["Status"], "Pruned");
    world.phase("train-r2", Phase::Succeeded).await;
    world.gone("train-r1").await;
    let stats = world.service.get("stats").await;
    assert_eq!(
        (&stats["runsCreated"], &stats["cancels"]),
        (&json!(2), &json!(0))
    );
    assert!(world.service.run_calls().await > calls);
}
