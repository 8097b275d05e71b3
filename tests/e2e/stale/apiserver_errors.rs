//! An API server that refuses: 429, 500 and 503 of every verb, 410 of every watch; and one that tells events twice.

use kube::ResourceExt;
use rstest::rstest;
use run_operator::api::{Phase, Run};
use serde_json::json;

use super::{Asked, Fault, cancels, ledger, lists, running, stage};
use crate::support::{holds_for_a_while, phase_of};

/// Every verb that the operator uses, each refused twice.
const VERBS: [(&str, &str); 11] = [
    ("list", "runs"),
    ("watch", "runs"),
    ("list", "workspaces"),
    ("watch", "workspaces"),
    ("list", "secrets"),
    ("get", "secrets"),
    ("patch", "workspaces"),
    ("patch", "workspaces/status"),
    ("patch", "runs"),
    ("patch", "runs/status"),
    ("create", "events"),
];

/// Proves: F-outage
#[rstest]
#[case::too_many(429, None)]
#[case::too_many_come_later(429, Some("1"))]
#[case::broken(500, None)]
#[case::away(503, Some("0"))]
#[tokio::test]
async fn what_is_refused_twice_is_done_at_the_third_try(
    #[case] status: u16,
    #[case] retry_after: Option<&'static str>,
) {
    let (proxy, mut world) = stage().await;
    world.kill_operator();
    let asked_before = proxy.asked(|_| true).len();
    for (verb, resource) in VERBS {
        let answer = Fault::Answer(status, retry_after);
        proxy.fault(2, answer, move |asked| asked.is(verb, resource));
    }
    world.start_operator().await;
    world.create_workspace("second", json!({})).await;
    let spec = json!({"workspaceRef": {"name": "second"}});
    let run = world.create_run("train", spec).await;
    world.phase("train", Phase::Succeeded).await;
    world.released("train").await;
    world.event("train", "Succeeded").await;
    assert_eq!(world.posts_of(&run).await, 1);
    ledger(&world, &[(&run, "succeeded")]).await;
    for (verb, resource) in VERBS {
        let of_this = proxy.asked(|asked| asked.is(verb, resource));
        let refused = of_this.iter().filter(|asked| asked.status == Some(status));
        assert_eq!(refused.count(), 2, "{verb} {resource} was not tried again");
    }
    let all = proxy.asked(|_| true).len() - asked_before;
    assert!(all <= 70, "{all} requests for one Run");
}

/// The status from before is of no use to a process that has no token.
/// Proves: F-stale
#[tokio::test]
async fn an_unreadable_secret_is_reported_where_no_call_can_be_made() {
    let (proxy, mut world) = stage().await;
    let run = running(&world, "train").await;
    proxy.lasting(Fault::Answer(500, None), |asked| asked.is("get", "secrets"));
    world.kill_operator();
    world.start_operator().await;
    world.workspace_ready("default", "False", "Checking").await;
    world.not_synced("train", "WorkspaceNotReady").await;
    proxy.clear();
    world.mirrored("train").await;
    ledger(&world, &[(&run, "running")]).await;
}

/// Because of the uid a release never affects the next object of the name, whenever it is carried out. Where
/// a PUT is refused, as with permissions from before it was introduced, the object is released all the same.
/// Proves: P-guarded-writes
#[rstest]
#[case::as_a_rule(None, 0)]
#[case::with_older_rights(Some(403), 1)]
#[case::no_longer_valid(Some(422), 1)]
#[tokio::test]
async fn a_deleted_object_is_released_by_its_uid(
    #[case] refused: Option<u16>,
    #[case] by_a_patch: usize,
) {
    let (proxy, world) = stage().await;
    if let Some(status) = refused {
        proxy.lasting(Fault::Answer(status, None), |asked| asked.verb == "update");
    }
    let uid = running(&world, "train").await.uid();
    world.delete_run("train").await;
    world.gone("train").await;
    let releases = |asked: &Asked| {
        let off = r#""path":"/metadata/finalizers","value":[]"#;
        asked.is("patch", "runs") && asked.body.contains(off)
    };
    assert_eq!(proxy.asked(releases).len(), by_a_patch);
    let puts = proxy.asked(|asked| asked.is("update", "runs"));
    assert_eq!(puts.len(), 1);
    let put: Run = serde_json::from_str(&puts[0].body).unwrap();
    assert_eq!(put.uid(), uid);
    assert_eq!(put.finalizers(), &[] as &[String]);
}

/// Proves: F-outage
#[rstest]
#[case::as_a_status(Fault::Answer(410, None))]
#[case::in_the_stream(Fault::Gone)]
#[tokio::test]
async fn with_every_watch_answered_410_lists_back_off_and_runs_finish(#[case] fault: Fault) {
    let (proxy, world) = stage().await;
    proxy.lasting(fault, |asked| asked.is("watch", "runs"));
    proxy.relist("runs");
    let before = lists(&proxy);
    // Only lists show what is to be done.
    let run = world.create_run("train", json!({})).await;
    world.phase("train", Phase::Succeeded).await;
    holds_for_a_while(60, async || {
        let more = lists(&proxy) - before;
        assert!(more <= 7, "{more} lists");
    })
    .await;
    assert_eq!(world.posts_of(&run).await, 1);
}

/// Events that come twice, and later than those of other kinds.
/// Proves: F-stale
#[tokio::test]
async fn events_that_come_twice_and_in_another_order_change_nothing() {
    let (proxy, world) = stage().await;
    proxy.double("runs", 2);
    proxy.double("workspaces", 1);
    proxy.freeze("workspaces").await;
    world.create_workspace("second", json!({})).await;
    let spec = json!({"workspaceRef": {"name": "second"}});
    let early = world.create_run("early", spec).await;
    world
        .run_until("early", "comes before its Workspace", |run| {
            phase_of(run).is_some()
        })
        .await;
    proxy.thaw("workspaces");
    world.phase("early", Phase::Succeeded).await;
    let run = running(&world, "train").await;
    world.delete_run("train").await;
    world.gone("train").await;
    assert_eq!(cancels(&world, &run).await, 1);
    ledger(&world, &[(&early, "succeeded"), (&run, "cancelled")]).await;
}
