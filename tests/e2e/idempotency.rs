//! `spec.idempotencyKey`: an object that is created again finds its run again, and no second run is paid for.

use kube::{
    ResourceExt,
    api::{Patch, PatchParams, PostParams},
};
use run_operator::api::{Phase, Run, names};
use serde_json::{Value, json};

use crate::stale::stage;
use crate::support::{Fault, Hook, Setup, World, eventually, held, intent_of, row};

/// The manifest in Git.
fn nightly() -> Value {
    let simulate = json!({"outcome": "never"});
    json!({"idempotencyKey": "nightly", "workload": {"image": "i", "simulate": simulate}})
}

fn run_id(run: &Run) -> String {
    run.status.as_ref().unwrap().run_id.clone().unwrap()
}

async fn delete(world: &World, name: &str) {
    world.delete_run(name).await;
    world.gone(name).await;
}

/// Proves: P-key-in-use, P-recipes
#[tokio::test]
async fn a_restored_backup_is_stalled_until_a_retry_finds_its_run() {
    let world = World::new().await;
    let history = world.history().await;
    world.create_run("train", nightly()).await;
    let backup = world.state("train", "running").await;
    world
        .patch_run("train", json!({"spec": {"deletionPolicy": "Orphan"}}))
        .await;
    delete(&world, "train").await;
    // Whether the original still exists in another cluster can't be known from here, and two objects with one
    // run would cancel it for each other.
    for name in ["train", "copy", "with-status"] {
        let mut restored = Run::new(name, backup.spec.clone());
        restored.metadata.annotations = Some(backup.annotations().clone());
        restored.metadata.finalizers = Some(backup.finalizers().to_vec());
        let params = PostParams::default();
        world.runs().create(&params, &restored).await.unwrap();
        let run = world.stalled(name, "Restored").await;
        assert_eq!(row(&run), "Pending: !Accepted !Finished !Ready Stalled");
    }
    // Some backups bring the status back too, in a second write.
    let status = Patch::Merge(json!({"status": backup.status}));
    let params = PatchParams::default();
    let runs = world.runs();
    let patched = runs.patch_status("with-status", &params, &status).await;
    patched.unwrap();
    world
        .run_until(
            "with-status",
            "is not taken for what its status says",
            |run| row(run).starts_with("Pending") && run.status.as_ref().unwrap().run_id.is_some(),
        )
        .await;
    assert_eq!(world.service.requests("createRun").await.len(), 1);
    delete(&world, "with-status").await;
    // Of two that are asked for, neither blocks the other for good.
    let retry = json!({"metadata": {"annotations": {names::RETRY_ANNOTATION: "go on"}}});
    world.patch_run("train", retry.clone()).await;
    let found = world.state("train", "running").await;
    assert_eq!(run_id(&found), run_id(&backup));
    world.patch_run("copy", retry).await;
    world.stalled("copy", "KeyInUse").await;
    world.set_state(&run_id(&backup), "succeeded").await;
    for name in ["train", "copy"] {
        let run = world.phase(name, Phase::Succeeded).await;
        assert_eq!(run_id(&run), run_id(&backup));
    }
    assert_eq!(world.service.runs().await.len(), 1, "it was paid for once");
    assert!(world.service.requests("cancelRun").await.is_empty());
    history.holds().await;
}

/// Created at the same time, both find the key free: no watch shows an intent before it is written. On its own schedule
/// the one that waits would try again in ten minutes.
/// Proves: P-key-in-use
#[tokio::test]
async fn of_two_runs_with_one_key_one_waits_for_the_other_to_end() {
    let world = World::with(Setup {
        operator: vec!["--poll-max", "10m"],
        ..Setup::default()
    })
    .await;
    let history = world.history().await;
    tokio::join!(
        world.create_run("one", nightly()),
        world.create_run("two", nightly())
    );
    let [first, second] = eventually("one of the two waits", async || {
        let names = ["one", "two"];
        let rows = [row(&world.run("one").await), row(&world.run("two").await)];
        let waits = |row: &String| row == "Pending: !Accepted !Finished !Ready Stalled";
        match rows.iter().position(waits) {
            Some(waiting) => Ok([names[1 - waiting], names[waiting]]),
            None => Err(rows.join("; ")),
        }
    })
    .await;
    let run = run_id(&world.state(first, "running").await);
    let waiting = world.stalled(second, "KeyInUse").await;
    assert!(!held(&waiting) && intent_of(&waiting).is_none());
    assert_eq!(world.service.requests("createRun").await.len(), 1);
    world.set_state(&run, "succeeded").await;
    world.phase(first, Phase::Succeeded).await;
    // The same key and body: the service answers with the run that it has.
    assert_eq!(run_id(&world.phase(second, Phase::Succeeded).await), run);
    assert_eq!(world.service.requests("createRun").await.len(), 2);
    assert_eq!(world.service.runs().await.len(), 1);
    history.holds().await;
}

/// The watch shows an intent only after it was written, and a copy that is asked to submit does not wait for younger Runs:
/// only the claim of this process says that the key is taken.
/// Proves: P-key-in-use
#[tokio::test]
async fn a_key_whose_intent_is_in_flight_is_not_free() {
    let (proxy, world) = stage().await;
    let other = world.running("other").await;
    let mut copy = Run::new("copy", serde_json::from_value(nightly()).unwrap());
    copy.metadata.annotations = Some(other.annotations().clone());
    let params = PostParams::default();
    let copy = world.runs().create(&params, &copy).await.unwrap();
    world.stalled("copy", "Restored").await;
    // Of two Runs of the same second the uid would decide.
    let of = copy.creation_timestamp().unwrap().0;
    eventually("the next Run is younger", async || {
        let now = jiff::Timestamp::now();
        if now.as_second() > of.as_second() {
            Ok(())
        } else {
            Err(now)
        }
    })
    .await;
    let (release, hook) = Hook::held();
    let intents = proxy.count("patch", "runs");
    proxy.fault(1, Fault::Delay(hook), |asked| asked.is("patch", "runs"));
    world.create_run("train", nightly()).await;
    proxy.until("patch", "runs", intents + 1).await;
    let retry = json!({"metadata": {"annotations": {names::RETRY_ANNOTATION: "go on"}}});
    world.patch_run("copy", retry).await;
    world.stalled("copy", "KeyInUse").await;
    release();
    world.state("train", "running").await;
    assert_eq!(world.service.requests("createRun").await.len(), 2);
}
