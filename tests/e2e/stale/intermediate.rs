//! Intermediate state: killed between two writes, and the next process is shown what was before the first
//! of them.

use kube::ResourceExt;
use rstest::rstest;
use run_operator::api::{Phase, Run};

use super::{Fault, cancels, eventually_writes, ledger, stage, writes};
use crate::support::{Hook, eventually, held};

/// The write is carried out and its answer is lost: one to this resource, whose body has this word. `done` is true of a
/// version that is its result.
/// Proves: F-stale
#[rstest]
#[case::the_intent("runs", "", held)]
#[case::the_run_id("runs/status", r#""runID""#, |run: &Run| run.status.as_ref().is_some_and(|s| s.run_id.is_some()))]
#[case::the_end("runs/status", r#""completionTime""#, Run::ended)]
#[case::the_release("runs", r#"\"end\""#, |run: &Run| run.ended() && !held(run))]
#[tokio::test]
async fn killed_after_a_write_unseen_by_its_successor_makes_one_run(
    #[case] resource: &'static str,
    #[case] word: &'static str,
    #[case] done: fn(&Run) -> bool,
) {
    let (proxy, mut world) = stage().await;
    let history = world.history().await;
    // If the killed process still begins another write, that one is lost.
    proxy.fault(1, Fault::LoseAnswer(Hook::none()), move |asked| {
        asked.is("patch", resource) && asked.body.contains(word)
    });
    let created = world.create_run("train", serde_json::json!({})).await;
    eventually("the write is done", async || {
        let versions = history.of("train");
        if versions.iter().any(done) {
            Ok(())
        } else {
            Err(versions.len())
        }
    })
    .await;
    world.kill_operator();
    let versions = history.of("train");
    let done = versions.iter().position(done).unwrap();
    let before = versions[done - 1].resource_version().unwrap();
    proxy.show("runs", before.parse().unwrap());
    let tried = writes(&proxy);
    world.start_operator().await;
    eventually_writes(&proxy, tried + 1).await;
    proxy.thaw("runs");
    world.phase("train", Phase::Succeeded).await;
    let run = world.released("train").await;
    assert_eq!(run.uid(), created.uid());
    ledger(&world, &[(&created, "succeeded")]).await;
    assert_eq!(cancels(&world, &created).await, 0);
    assert!(world.posts_of(&created).await <= 2);
    history.holds().await;
    let tries = writes(&proxy) - tried;
    assert!(tries <= 12, "{tries} writes for a life");
}
