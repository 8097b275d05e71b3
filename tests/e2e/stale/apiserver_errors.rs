//! An API server that refuses: 410, 429, 500 and 503 of every verb, and watches that end at once.

use kube::ResourceExt;
use rstest::rstest;
use run_operator::api::{ConditionType, Phase, Run};
use serde_json::json;

use super::{Asked, Fault, eventually_lists, ledger, lists, running, stage};
use crate::support::{World, eventually, holds_for_a_while};

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

/// Proves: F-refusing
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
#[rstest]
#[case::after_a_restart(true)]
#[case::after_a_401(false)]
#[tokio::test]
async fn an_unreadable_secret_is_reported_where_no_call_can_be_made(#[case] restart: bool) {
    let (proxy, mut world) = stage().await;
    let run = running(&world, "train").await;
    proxy.lasting(Fault::Answer(500, None), |asked| asked.is("get", "secrets"));
    if restart {
        world.kill_operator();
        world.start_operator().await;
    } else {
        let tokens = world.service.get("tokens").await;
        let token = tokens[0]["fingerprint"].as_str().unwrap().to_owned();
        world.service.delete(&format!("tokens/{token}")).await;
    }
    world.workspace_ready("default", "False", "Checking").await;
    world
        .condition("train", ConditionType::Synced, "False", "WorkspaceNotReady")
        .await;
    proxy.clear();
    if !restart {
        let token = json!({"token": "another"});
        world.service.post("tokens", token).await;
        world.token("another").await;
    }
    world.workspace_ready("default", "True", "Verified").await;
    world
        .condition("train", ConditionType::Synced, "True", "Mirrored")
        .await;
    ledger(&world, &[(&run, "running")]).await;
}

/// Because of the uid a release never affects the next object of the name, whenever it is carried out. Where
/// a PUT is refused, as with permissions from before it was introduced, the object is released all the same.
/// Proves: P-let-go-by-uid
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
    running(&world, "train").await;
    let uid = world.run("train").await.uid().unwrap();
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
    assert_eq!(put.uid(), Some(uid));
    assert_eq!(put.finalizers(), &[] as &[String]);
}

async fn goes_through(world: &World, name: &str) {
    let run = world.create_run(name, json!({})).await;
    world.phase(name, Phase::Succeeded).await;
    assert_eq!(world.posts_of(&run).await, 1);
}

/// kube's watcher would request the same version forever.
/// Proves: F-refusing
#[tokio::test]
async fn a_410_in_place_of_a_watch_leads_to_a_list() {
    let (proxy, world) = stage().await;
    proxy.fault(1, Fault::Answer(410, None), |asked| {
        asked.is("watch", "runs")
    });
    proxy.relist("runs");
    // The first for the 410 in the stream, the second for the one as a status.
    eventually_lists(&proxy, 3).await;
    goes_through(&world, "train").await;
    assert_eq!(lists(&proxy), 3);
    let watches = proxy.asked(|asked| asked.is("watch", "runs"));
    assert_eq!(watches.len(), 3, "{watches:?}");
}

/// Proves: F-refusing
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
    goes_through(&world, "train").await;
    holds_for_a_while(60, async || {
        let more = lists(&proxy) - before;
        assert!(more <= 7, "{more} lists");
    })
    .await;
    proxy.clear();
    goes_through(&world, "after").await;
}

/// A watch that has ended in good order begins again at once, but not again and again.
/// Proves: F-refusing
#[tokio::test]
async fn watches_that_end_as_they_begin_are_no_loop_without_a_pause() {
    let (proxy, world) = stage().await;
    proxy.lasting(Fault::Ends, |asked| asked.is("watch", "runs"));
    let before = proxy.count("watch", "runs");
    proxy.relist("runs");
    proxy.until("watch", "runs", before + 2).await;
    holds_for_a_while(60, async || {
        let more = proxy.count("watch", "runs") - before;
        assert!(more <= 8, "{more} watches");
    })
    .await;
    proxy.clear();
    goes_through(&world, "train").await;
    assert_eq!(lists(&proxy), 2);
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
    eventually("the Run comes before its Workspace", async || {
        let run = world.run("early").await;
        run.status
            .filter(|s| s.phase.is_some())
            .map(drop)
            .ok_or("no status")
    })
    .await;
    proxy.thaw("workspaces");
    world.phase("early", Phase::Succeeded).await;
    let run = running(&world, "train").await;
    world.delete_run("train").await;
    world.gone("train").await;
    assert_eq!(super::cancels(&world, &run).await, 1);
    ledger(&world, &[(&early, "succeeded"), (&run, "cancelled")]).await;
}
