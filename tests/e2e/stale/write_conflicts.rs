//! Conflicts without end: every write of a kind is refused by a 409 for a while.

use rstest::rstest;
use run_operator::api::Phase;
use serde_json::json;

use super::fault::Fault;
use super::{ledger, stage};
use crate::support::holds_for_a_while;

// Proves: F-refusing
#[rstest]
#[case::of_the_status("runs/status", 1)]
#[case::of_the_intent("runs", 0)]
#[tokio::test]
async fn conflicting_writes_back_off_and_repeat_no_call(
    #[case] resource: &'static str,
    #[case] posts: usize,
) {
    let (proxy, world) = stage().await;
    proxy.lasting(Fault::Answer(409, None), move |asked| {
        asked.is("patch", resource)
    });
    let run = world.create_run("train", json!({})).await;
    proxy.until("patch", resource, 3).await;
    holds_for_a_while(80, async || {
        let tries = proxy.count("patch", resource);
        assert!(tries <= 6, "{tries} writes in vain");
        let looks = proxy.asked(|asked| asked.is("list", "runs")).len();
        assert!(looks <= 6, "{looks} looks");
        assert_eq!(world.posts_of(&run).await, posts);
        let calls = world.service.run_calls().await;
        assert_eq!(calls, posts, "a call before the runId stands in the status");
    })
    .await;
    proxy.clear();
    world.phase("train", Phase::Succeeded).await;
    world.released("train").await;
    assert_eq!(world.posts_of(&run).await, 1);
    ledger(&world, &[(&run, "succeeded")]).await;
}
