//! `why`: the chain to the cause, as far as the user may look.

use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use crate::stale::Proxy;
use crate::support::{Setup, TOKEN, World, says};

use super::{runs, started};

/// Proves: K-why
#[tokio::test]
async fn a_dead_token_is_found_behind_the_workspace_as_far_as_the_user_may_look() {
    let world = World::new().await;
    world.token("canary-that-nobody-gave").await;
    world
        .workspace_ready("default", "False", "Unauthorized")
        .await;
    world.simulate("train", json!({})).await;
    world.not_ready("train", "WorkspaceNotReady").await;
    whole_chain(&world).await;
    metadata_alone(&world).await;
    without_workspaces(&world).await;
    without_secrets(&world).await;
    world.token(TOKEN).await;
    runs(&world, "wait train").await.ok();
    let out = runs(&world, "why train").await.ok();
    assert!(out.starts_with("train: Succeeded "), "{out}");
    assert!(out.ends_with("Nothing needs to be done.\n"), "{out}");
}

const REMEDY: &str = "To mend it: Put a valid token into the Secret";

async fn whole_chain(world: &World) {
    let out = runs(world, "why train").await.ok();
    let lines: Vec<&str> = out.lines().collect();
    for (line, begins) in lines.iter().zip([
        "train: Pending for ",
        "└ Workspace default: Unauthorized: ",
        "  └ Secret run-operator-token: key token, changed ",
        REMEDY,
    ]) {
        assert!(line.starts_with(begins), "{out}");
    }
    assert!(lines[0].ends_with(", WorkspaceNotReady"), "{out}");
    assert!(lines[1].contains("req_"), "{out}");
    assert_eq!(lines.len(), 4, "{out}");
    let out = runs(world, "why train -o json").await.ok();
    let why: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(why["causes"][0]["reason"], "Unauthorized");
    assert!(!out.contains("canary"), "{out}");
}

/// Of the Secret only the metadata is asked for.
async fn metadata_alone(world: &World) {
    let proxy = Proxy::start(world.control_plane).await;
    let why = started(world, proxy.kubeconfig(), "why train", "");
    why.end().await.ok();
    let asked = proxy.asked(|asked| asked.resource == "secrets");
    assert_eq!(asked.len(), 1, "{asked:?}");
    let metadata = "as=PartialObjectMetadata;";
    assert!(asked[0].accept.contains(metadata), "{asked:?}");
}

/// Who may not read Workspaces is told what the Run says of it.
async fn without_workspaces(world: &World) {
    let rule =
        json!([{"apiGroups": ["run-operator.dev"], "resources": ["runs"], "verbs": ["get"]}]);
    let kubeconfig = world.user("without-workspaces", &rule).await;
    let told = async |words| started(world, &kubeconfig, words, "").end().await;
    let out = told("why train").await.ok();
    let workspace = "└ Workspace default: you may not read it; the Run says: Waiting for";
    assert!(out.contains(workspace), "{out}");
    let list = told("list").await.ended(2);
    let forbidden = "Error from server (Forbidden): runs.run-operator.dev is forbidden";
    assert!(list.contains(forbidden), "{list}");
    let wait = told("wait train").await.ended(2);
    assert!(wait.contains("Error from server (Forbidden)"), "{wait}");
}

/// Who may not read Secrets is told which one.
async fn without_secrets(world: &World) {
    let ours = json!({
        "apiGroups": ["run-operator.dev"], "resources": ["runs", "workspaces"], "verbs": ["get"],
    });
    let kubeconfig = world.user("without-secrets", &json!([ours])).await;
    let why = started(world, &kubeconfig, "why train", "");
    let out = why.end().await.ok();
    let secret = "└ Secret run-operator-token: key token, you may not read it\n";
    assert!(out.contains(secret) && out.contains(REMEDY), "{out}");
}

/// Proves: K-why
#[tokio::test]
async fn a_queued_run_is_told_its_place_and_who_has_the_slots() {
    let mut world = World::unattended(Setup::default()).await;
    let limit = Patch::Merge(json!({"spec": {"maxActiveRuns": 1}}));
    let (workspaces, params) = (world.workspaces(), PatchParams::default());
    let limited = workspaces.patch("default", &params, &limit).await;
    limited.unwrap();
    world.start_operator().await;
    world.running("holder").await;
    world.create_run("late", json!({})).await;
    world.create_run("first", json!({"priority": 5})).await;
    for name in ["late", "first"] {
        world.not_ready(name, "Queued").await;
    }
    let list = runs(&world, "list").await.ok();
    says(&list, &["Queued (1 of 2)", "Queued (2 of 2)"]);
    let usage = "Workspace default: 1 of 1 active (spec.maxActiveRuns), 2 queued";
    let why = runs(&world, "why late").await.ok();
    let place = format!("  └ {usage}; this Run is number 2 of those queued\n");
    let holders = "    └ Workspace default: active, the oldest first: holder\n";
    says(&why, &[&place, holders, "To mend it: Raise the limit"]);
    let doctor = runs(&world, "doctor --read-only").await;
    says(&doctor.out, &[usage]);
    let get = json!([{"apiGroups": ["run-operator.dev"], "resources": ["runs"], "verbs": ["get"]}]);
    let kubeconfig = world.user("may-not-list", &get).await;
    let why = started(&world, &kubeconfig, "why late", "").end().await;
    says(&why.ok(), &["is not known: you may not list the Runs\n"]);
}
