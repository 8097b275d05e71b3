//! `why`: the chain to the cause, as far as the user may look.

use serde_json::{Value, json};

use run_operator::api::ConditionType as Type;

use crate::stale::Proxy;
use crate::support::{TOKEN, World};

use super::{plugin, refuse_creates, running, runs, started};

async fn with_a_dead_token(world: &World) {
    world.token("canary-that-nobody-gave").await;
    world
        .workspace_ready("default", "False", "Unauthorized")
        .await;
    world.simulate("train", json!({})).await;
    world
        .condition("train", Type::Ready, "False", "WorkspaceNotReady")
        .await;
}

/// Proves: K-why
#[tokio::test]
async fn a_dead_token_is_found_behind_the_workspace() {
    let world = World::new().await;
    with_a_dead_token(&world).await;
    let out = runs(&world, &["why", "train"]).await.ok();
    let lines: Vec<&str> = out.lines().collect();
    assert!(lines[0].starts_with("train: Pending for "), "{out}");
    assert!(lines[0].ends_with(", WorkspaceNotReady"), "{out}");
    assert!(
        lines[1].starts_with("└ Workspace default: Unauthorized: "),
        "{out}"
    );
    assert!(lines[1].contains("req_"), "{out}");
    assert!(
        lines[2].starts_with("  └ Secret run-operator-token: key token, changed "),
        "{out}"
    );
    assert!(
        lines[3].starts_with("To mend it: Put a valid token into the Secret"),
        "{out}"
    );
    assert_eq!(lines.len(), 4, "{out}");
    let out = runs(&world, &["why", "train", "-o", "json"]).await.ok();
    let why: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(why["causes"][0]["reason"], "Unauthorized");
    assert!(!out.contains("canary"), "{out}");
    world.token(TOKEN).await;
    runs(&world, &["wait", "train"]).await.ok();
    let out = runs(&world, &["why", "train"]).await.ok();
    assert!(out.starts_with("train: Succeeded "), "{out}");
    assert!(out.ends_with("Nothing needs to be done.\n"), "{out}");
}

/// Proves: K-why
#[tokio::test]
async fn of_the_secret_only_the_metadata_is_asked_for() {
    let world = World::new().await;
    with_a_dead_token(&world).await;
    let proxy = Proxy::start(world.control_plane).await;
    let why = plugin(&world, proxy.kubeconfig(), &["why", "train"]);
    started(why, "").end().await.ok();
    let asked = proxy.asked(|asked| asked.resource == "secrets");
    assert_eq!(asked.len(), 1, "{asked:?}");
    let metadata = "as=PartialObjectMetadata;";
    assert!(asked[0].accept.contains(metadata), "{asked:?}");
}

/// Proves: K-rights
#[tokio::test]
async fn who_may_not_read_workspaces_is_told_what_the_run_says_of_it() {
    let world = World::new().await;
    with_a_dead_token(&world).await;
    let rule =
        json!([{"apiGroups": ["run-operator.dev"], "resources": ["runs"], "verbs": ["get"]}]);
    let kubeconfig = world.user("reader", &rule).await;
    let why = started(plugin(&world, &kubeconfig, &["why", "train"]), "");
    let out = why.end().await.ok();
    assert!(
        out.contains("└ Workspace default: you may not read it; the Run says: Waiting for"),
        "{out}"
    );
    assert!(
        out.contains("To mend it: Put a valid token into the Secret"),
        "{out}"
    );
    let list = started(plugin(&world, &kubeconfig, &["list"]), "")
        .end()
        .await
        .ended(2);
    assert!(
        list.contains("Error from server (Forbidden): runs.run-operator.dev is forbidden"),
        "{list}"
    );
    let wait = started(plugin(&world, &kubeconfig, &["wait", "train"]), "")
        .end()
        .await
        .ended(2);
    assert!(wait.contains("Error from server (Forbidden)"), "{wait}");
}

/// Proves: K-rights
#[tokio::test]
async fn who_may_not_read_secrets_is_told_which_one() {
    let world = World::new().await;
    with_a_dead_token(&world).await;
    let ours = json!({
        "apiGroups": ["run-operator.dev"], "resources": ["runs", "workspaces"], "verbs": ["get"],
    });
    let kubeconfig = world.user("reader", &json!([ours])).await;
    let why = started(plugin(&world, &kubeconfig, &["why", "train"]), "");
    let out = why.end().await.ok();
    assert!(
        out.contains("└ Secret run-operator-token: key token, you may not read it\n"),
        "{out}"
    );
    assert!(
        out.contains("To mend it: Put a valid token into the Secret"),
        "{out}"
    );
}

/// Proves: K-why
#[tokio::test]
async fn a_refused_run_is_explained_with_the_command_that_retries_it() {
    let world = World::new().await;
    refuse_creates(&world).await;
    world.simulate("train", json!({})).await;
    world
        .condition("train", Type::Stalled, "True", "Forbidden")
        .await;
    let out = runs(&world, &["why", "train"]).await.ok();
    assert!(out.contains(", Forbidden\n└ "), "{out}");
    assert!(out.contains("To mend it: Give the token access"), "{out}");
    let retry = format!(
        "To retry: kubectl runs retry train --namespace {}",
        world.namespace
    );
    assert!(out.contains(&retry), "{out}");
}

/// Proves: K-why
#[tokio::test]
async fn a_run_at_work_needs_nothing_one_that_is_unserved_says_so() {
    let mut world = World::new().await;
    running(&world, "train").await;
    let out = runs(&world, &["why", "train"]).await.ok();
    assert!(out.starts_with("train: Active for "), "{out}");
    assert!(out.contains(", state running\n"), "{out}");
    assert!(out.ends_with("Nothing needs to be done.\n"), "{out}");
    world.kill_operator();
    world.simulate("alone", json!({})).await;
    let out = runs(&world, &["why", "alone"]).await.ok();
    assert!(
        out.starts_with("alone: not seen by an operator yet for "),
        "{out}"
    );
    assert!(out.contains("run-operator doctor"), "{out}");
}
