//! Intermediate state: killed between two writes, and the next process is shown what was before the first
//! of them.

use kube::ResourceExt;
use rstest::rstest;
use run_operator::api::{Phase, Run};

use super::{Asked, Fault, cancels, eventually_writes, ledger, stage, writes};
use crate::support::{Hook, eventually, held};

/// The write that is carried out and whose answer is lost.
#[derive(Clone, Copy, Debug)]
enum Last {
    Intent,
    Accepted,
    Ended,
    Released,
}

impl Last {
    fn fits(self, asked: &Asked) -> bool {
        match self {
            Self::Intent => asked.is("patch", "runs"),
            Self::Accepted => asked.is("patch", "runs/status") && asked.body.contains("\"runId\""),
            Self::Ended => {
                asked.is("patch", "runs/status") && asked.body.contains("\"completionTime\"")
            }
            Self::Released => asked.is("patch", "runs") && asked.body.contains("\\\"end\\\""),
        }
    }

    /// True if this version is the result of the write.
    fn done(self, run: &Run) -> bool {
        let status = run.status.as_ref();
        match self {
            Self::Intent => held(run),
            Self::Accepted => status.is_some_and(|s| s.run_id.is_some()),
            Self::Ended => status.is_some_and(|s| s.completion_time.is_some()),
            Self::Released => status.is_some_and(|s| s.completion_time.is_some()) && !held(run),
        }
    }
}

/// Proves: F-stale
#[rstest]
#[case::the_intent(Last::Intent)]
#[case::the_run_id(Last::Accepted)]
#[case::the_end(Last::Ended)]
#[case::the_release(Last::Released)]
#[tokio::test]
async fn killed_after_a_write_unseen_by_its_successor_makes_one_run(#[case] last: Last) {
    let (proxy, mut world) = stage().await;
    let history = world.history().await;
    // If the killed process still begins another write, that one is lost.
    proxy.fault(1, Fault::LoseAnswer(Hook::none()), move |asked| {
        last.fits(asked)
    });
    let created = world.create_run("train", serde_json::json!({})).await;
    eventually("the write is done", async || {
        let versions = history.of("train");
        if versions.iter().any(|run| last.done(run)) {
            Ok(())
        } else {
            Err(versions.len())
        }
    })
    .await;
    world.kill_operator();
    let versions = history.of("train");
    let done = versions.iter().position(|run| last.done(run)).unwrap();
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
