//! Conflicts without end: every write of a kind is refused by a 409 for a while.

use std::collections::{BTreeMap, BTreeSet};

use kube::ResourceExt;
use rstest::rstest;
use run_operator::api::Phase;
use serde_json::{Value, json};

use super::{Asked, Fault, ledger, running, stage};
use crate::support::{TOKEN, held, holds_for_a_while};

/// Proves: F-outage
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
        assert_eq!(calls, posts, "a call before the runID stands in the status");
    })
    .await;
    proxy.clear();
    world.phase("train", Phase::Succeeded).await;
    world.released("train").await;
    assert_eq!(world.posts_of(&run).await, 1);
    ledger(&world, &[(&run, "succeeded")]).await;
}

/// The value of the first operation of a JSON patch that fits.
fn value_of(patch: &Value, fits: impl Fn(&Value) -> bool) -> Option<Value> {
    let mut operations = patch.as_array().unwrap().iter();
    let fitting = operations.find(|operation| fits(operation));
    fitting.map(|operation| operation["value"].clone())
}

/// The guards of a write as its body has them: uid and resourceVersion.
fn guards(asked: &Asked) -> [Value; 2] {
    let body: Value = serde_json::from_str(&asked.body).unwrap();
    match asked.verb {
        "patch" => {
            let of = |path: &str| {
                let guarding = |o: &Value| o["op"] == "replace" && o["path"] == path;
                value_of(&body, guarding).unwrap_or_default()
            };
            [of("/metadata/uid"), of("/metadata/resourceVersion")]
        }
        "update" => ["uid", "resourceVersion"].map(|field| body["metadata"][field].clone()),
        _ => ["uid", "resourceVersion"].map(|field| body["preconditions"][field].clone()),
    }
}

/// Of every kind of write there is: intent, status, restored metadata, release, deletion by the TTL.
/// Proves: P-guarded-writes, P-owner-posts, P-intent-before-post
#[tokio::test]
async fn every_write_of_an_object_names_its_uid_and_version() {
    let (proxy, world) = stage().await;
    // A check that finds nothing new.
    world.workspace_ready("default", "True", "Verified").await;
    let checks = world.service.requests("getWorkspace").await.len();
    let noted = json!({"token": TOKEN, "note": "another"});
    world.secret("run-operator-token", noted).await;
    world.asked("getWorkspace", checks + 1).await;
    let expiring = json!({"ttlSecondsAfterFinished": 1, "workload": {"image": "i"}});
    let ended = world.create_run("ended", expiring).await;
    world.gone("ended").await;
    let train = running(&world, "train").await;
    let strip = json!({"metadata": {"finalizers": null}});
    world.patch_run("train", strip).await;
    world
        .run_until("train", "has its finalizer again", held)
        .await;
    world.delete_run("train").await;
    world.gone("train").await;
    let workspace = world.workspaces().get("default").await.unwrap();

    let kinds = ["runs", "runs/status", "workspaces", "workspaces/status"];
    let writes = proxy.asked(|asked| {
        let writes = ["patch", "update", "delete"].contains(&asked.verb);
        writes && kinds.contains(&asked.resource.as_str())
    });
    let owners = BTreeMap::from([
        (ended.name_any(), ended.uid().unwrap()),
        (train.name_any(), train.uid().unwrap()),
        (workspace.name_any(), workspace.uid().unwrap()),
    ]);
    let mut seen = BTreeSet::new();
    for write in &writes {
        let [uid, version] = guards(write);
        let owner = &owners[write.name.as_deref().unwrap()];
        assert_eq!(uid, owner.as_str(), "{write:?}");
        assert!(version.as_str().is_some_and(|v| !v.is_empty()), "{write:?}");
        seen.insert(format!("{} {}", write.verb, write.resource));
    }
    let wanted = [
        "delete runs",
        "patch runs",
        "patch runs/status",
        "patch workspaces",
        "patch workspaces/status",
        "update runs",
    ];
    assert_eq!(seen, BTreeSet::from(wanted.map(str::to_owned)));
    let stored = |write: &&Asked| write.status == Some(200);
    let checked = writes.iter().filter(stored);
    let checked = checked.filter(|write| write.resource == "workspaces/status");
    let statuses: Vec<Value> = checked.map(status_of).collect();
    let changed = statuses.windows(2).all(|two| two[0] != two[1]);
    assert!(changed, "written, though nothing changed: {statuses:#?}");
}

/// The status that a patch writes.
fn status_of(asked: &Asked) -> Value {
    let body: Value = serde_json::from_str(&asked.body).unwrap();
    value_of(&body, |o| o["path"] == "/status").unwrap()
}
