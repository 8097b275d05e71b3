//! A Run is served where it was submitted: not with a token of another workspace of the service, whatever was
//! lost before and restarted in between.

use serde_json::{Value, json};

use run_operator::api::{ConditionType as Type, Run};

use crate::support::{TOKEN, World, condition_of, eventually, holds_for_a_while, row, says};

const OTHERS: &str = "canary-of-another-workspace-2f6a";
pub(crate) const STALLED: &str = "Pending: !Accepted !Finished !Ready Stalled";
/// Number of checks in about two seconds: several of the operator's poll intervals.
pub(crate) const A_WHILE: u32 = 80;

/// A token of another workspace; its fingerprint in the list of requests.
async fn others(world: &World) -> String {
    let other = json!({"token": OTHERS, "workspace": "ws-other"});
    let made = world.service.post("tokens", other).await;
    made["fingerprint"].as_str().unwrap().to_owned()
}

/// The requests for Runs that carried this token.
async fn calls_with(world: &World, fingerprint: &str) -> Vec<Value> {
    let all = world.service.get("requests").await;
    let for_runs = |request: &&Value| {
        request["token"] == fingerprint && request["operation"] != "getWorkspace"
    };
    all.as_array()
        .unwrap()
        .iter()
        .filter(for_runs)
        .cloned()
        .collect()
}

/// A Run whose create is carried out and never answered, over and over.
pub(crate) async fn lost(world: &World, name: &str) -> Run {
    let fits = json!({"operation": "createRun"});
    let lose = json!({"type": "doThenLose"});
    world.service.lasting_fault(fits, lose).await;
    let created = world.simulate(name, json!({"outcome": "never"})).await;
    world
        .condition(name, Type::Ready, "False", "Retrying")
        .await;
    created
}

/// Asserts that the Run's run is the only one at the service, under the same key as ever, in the workspace
/// where it began.
pub(crate) async fn one_run_in_the_right_place(world: &World, created: &Run) {
    world.state("train", "running").await;
    world.one_run_each().await;
    let runs = world.service.runs().await;
    assert_eq!(runs.len(), 1);
    assert_eq!(runs[0]["workspace"], "ws-demo");
    let posts = world.service.requests("createRun").await;
    assert_eq!(world.posts_of(created).await, posts.len(), "another key");
}

pub(crate) fn told(run: &Run, kind: Type) -> String {
    condition_of(run, kind).unwrap().message
}

/// Proves: P-pinned
#[tokio::test]
async fn a_lost_create_is_not_repeated_with_another_workspaces_token() {
    let world = World::new().await;
    let history = world.history().await;
    let other = others(&world).await;
    let created = lost(&world, "train").await;
    world.token(OTHERS).await;
    let run = world
        .condition("train", Type::Stalled, "True", "IdentityChanged")
        .await;
    world.service.delete("faults").await;
    assert_eq!(row(&run), STALLED);
    says(
        &told(&run, Type::Stalled),
        &[
            "pinned to the service's workspace ws-demo",
            "Workspace default",
            "acts for ws-other",
            "Put a token of ws-demo into the Secret again",
        ],
    );
    holds_for_a_while(A_WHILE, async || {
        assert_eq!(calls_with(&world, &other).await, Vec::<Value>::new());
    })
    .await;
    let checks = world.service.requests("getWorkspace").await;
    let asked = checks.iter().filter(|c| c["token"] == other.as_str());
    assert_ne!(asked.count(), 0, "the new token was never looked at");
    world.token(TOKEN).await;
    one_run_in_the_right_place(&world, &created).await;
    assert_eq!(calls_with(&world, &other).await, Vec::<Value>::new());
    history.holds().await;
}

/// Proves: P-place
#[tokio::test]
async fn a_deletion_in_doubt_under_another_token_explains_what_to_do() {
    let world = World::new().await;
    let other = others(&world).await;
    lost(&world, "train").await;
    lost(&world, "second").await;
    world.token(OTHERS).await;
    for name in ["train", "second"] {
        world
            .condition(name, Type::Stalled, "True", "IdentityChanged")
            .await;
        world.delete_run(name).await;
        let run = world
            .run_until(name, "says how to let it go", |run| {
                told(run, Type::Stalled).contains("deletionPolicy: Orphan")
            })
            .await;
        assert_eq!(row(&run), STALLED);
    }
    world.service.delete("faults").await;
    world
        .patch_run("second", json!({"spec": {"deletionPolicy": "Orphan"}}))
        .await;
    world.gone("second").await;
    assert_eq!(calls_with(&world, &other).await, Vec::<Value>::new());
    // The other one is found with the right token, cancelled, and its object removed.
    world.token(TOKEN).await;
    world.gone("train").await;
    let runs = world.service.runs().await;
    let cancelled = runs.iter().filter(|run| run["state"] == "cancelled");
    assert_eq!((runs.len(), cancelled.count()), (2, 1), "{runs:#?}");
    assert_eq!(calls_with(&world, &other).await, Vec::<Value>::new());
}

/// Proves: P-pinned
#[tokio::test]
async fn a_restart_in_doubt_under_another_token_sends_no_post() {
    let mut world = World::new().await;
    let other = others(&world).await;
    let created = lost(&world, "train").await;
    world.kill_operator();
    world.token(OTHERS).await;
    world.service.delete("faults").await;
    let posts = world.posts_of(&created).await;
    world.start_operator().await;
    let run = world
        .condition("train", Type::Stalled, "True", "IdentityChanged")
        .await;
    assert_eq!(row(&run), STALLED);
    holds_for_a_while(A_WHILE, async || {
        assert_eq!(calls_with(&world, &other).await, Vec::<Value>::new());
        assert_eq!(world.posts_of(&created).await, posts);
    })
    .await;
    world.token(TOKEN).await;
    one_run_in_the_right_place(&world, &created).await;
}

/// Proves: P-place
#[tokio::test]
async fn an_active_run_is_never_called_with_another_workspaces_token() {
    let world = World::new().await;
    let history = world.history().await;
    let other = others(&world).await;
    world
        .simulate("train", json!({"runId": "train", "outcome": "never"}))
        .await;
    world.state("train", "running").await;
    world.asked("streamEvents", 1).await;
    world.token(OTHERS).await;
    let run = world
        .condition("train", Type::Synced, "False", "IdentityChanged")
        .await;
    assert_eq!(row(&run), "Active: Accepted !Finished !Ready Reconciling");
    says(
        &told(&run, Type::Synced),
        &["ws-demo", "acts for ws-other", "Put a token of ws-demo"],
    );
    eventually("the stream of the first token is closed", async || {
        let open = world.operator().metric("run_operator_open_streams").await;
        if open == 0.0 { Ok(()) } else { Err(open) }
    })
    .await;
    world.delete_run("train").await;
    let run = world
        .condition("train", Type::Ready, "False", "IdentityChanged")
        .await;
    assert_eq!(
        row(&run),
        "Cancelling: Accepted !Finished !Ready Reconciling"
    );
    says(
        &told(&run, Type::Ready),
        &["not cancelled yet", "deletionPolicy: Orphan"],
    );
    holds_for_a_while(A_WHILE, async || {
        assert_eq!(calls_with(&world, &other).await, Vec::<Value>::new());
    })
    .await;
    assert_eq!(world.service.requests("cancelRun").await.len(), 0);
    world.token(TOKEN).await;
    world.gone("train").await;
    assert_eq!(world.service.runs().await[0]["state"], "cancelled");
    assert_eq!(calls_with(&world, &other).await, Vec::<Value>::new());
    history.holds().await;
}

/// Proves: P-place
#[tokio::test]
async fn a_run_removed_under_another_token_is_cancelled_with_its_own() {
    let world = World::new().await;
    let other = others(&world).await;
    world.simulate("train", json!({"outcome": "never"})).await;
    world.state("train", "running").await;
    world.token(OTHERS).await;
    world
        .condition("train", Type::Synced, "False", "IdentityChanged")
        .await;
    world.delete_run("train").await;
    world
        .condition("train", Type::Ready, "False", "IdentityChanged")
        .await;
    // A person removes the finalizer.
    let free = json!({"metadata": {"finalizers": null}});
    world.patch_run("train", free).await;
    world.gone("train").await;
    eventually("the operator has noticed", async || {
        let vanished = "run_operator_vanished_runs_total";
        let noticed = world.operator().metric(vanished).await;
        if noticed == 1.0 { Ok(()) } else { Err(noticed) }
    })
    .await;
    holds_for_a_while(A_WHILE, async || {
        assert_eq!(calls_with(&world, &other).await, Vec::<Value>::new());
    })
    .await;
    assert_eq!(world.service.requests("cancelRun").await.len(), 0);
    world.token(TOKEN).await;
    eventually("the run is cancelled", async || {
        let state = world.service.runs().await[0]["state"].clone();
        if state == "cancelled" {
            Ok(())
        } else {
            Err(state)
        }
    })
    .await;
    assert_eq!(calls_with(&world, &other).await, Vec::<Value>::new());
}

/// Has the Workspace checked now, by a change of its Secret that leaves the token unchanged.
async fn checked_now(world: &World, note: &str) {
    let asked = world.service.requests("getWorkspace").await.len();
    let secret = json!({"token": TOKEN, "note": note});
    world.secret("run-operator-token", secret).await;
    world.asked("getWorkspace", asked + 1).await;
}

/// Proves: P-pinned
#[tokio::test]
async fn a_renamed_workspace_is_another_even_with_the_same_token() {
    let world = World::new().await;
    world
        .simulate("train", json!({"runId": "train", "outcome": "never"}))
        .await;
    world.state("train", "running").await;
    world.asked("streamEvents", 1).await;
    let renamed = json!({"id": "ws-other"});
    world.service.put("workspaces/ws-demo", renamed).await;
    checked_now(&world, "renamed").await;
    world
        .condition("train", Type::Synced, "False", "IdentityChanged")
        .await;
    eventually("the stream is closed", async || {
        let open = world.operator().metric("run_operator_open_streams").await;
        if open == 0.0 { Ok(()) } else { Err(open) }
    })
    .await;
    let calls = world.service.run_calls().await;
    world
        .service
        .post("runs/train/state", json!({"state": "processing"}))
        .await;
    holds_for_a_while(A_WHILE, async || {
        assert_eq!(world.service.run_calls().await, calls);
    })
    .await;
    let named_back = json!({"id": "ws-demo"});
    world.service.put("workspaces/ws-demo", named_back).await;
    checked_now(&world, "named back").await;
    let run = world.state("train", "processing").await;
    assert_eq!(condition_of(&run, Type::Synced).unwrap().status, "True");
    world.one_run_each().await;
}
