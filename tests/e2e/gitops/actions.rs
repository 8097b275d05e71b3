//! Argo CD's actions, as its server carries them out: the script's object against the live one, as a merge patch.

use kube::api::{Patch, PatchParams};
use run_operator::api::{Phase, Run};
use serde_json::{Value, json};

use super::tools::{argocd_cm, asked, file, tool};
use crate::support::World;

/// The patch that Argo CD's server sends for an action on a Run.
async fn patch_of(world: &World, name: &str, action: &str) -> Value {
    let cm = argocd_cm();
    let live = world.raw("Run", name).await.to_string();
    asked("argocd", &["act", "--cm", &cm, action], &live).await
}

async fn act(world: &World, name: &str, action: &str) -> Result<Run, kube::Error> {
    let patch = patch_of(world, name, action).await;
    let params = PatchParams {
        field_manager: Some("argocd-server".to_owned()),
        ..PatchParams::default()
    };
    world
        .runs()
        .patch(name, &params, &Patch::Merge(patch))
        .await
}

/// Proves: P-argocd
#[tokio::test]
async fn the_scripts_pass_their_tests_in_argo_cd_s_own_format() {
    let cm = argocd_cm();
    let folder = file("deploy/argocd/resource_customizations")
        .display()
        .to_string();
    let said = tool("argocd", &["test", "--cm", &cm, &folder], "")
        .await
        .unwrap();
    let last = said.lines().last().unwrap().to_owned();
    println!("{last}");
    assert!(last.ends_with("passed, 0 failed"), "{said}");
}

/// Lua has one kind of number, no null, and one kind of table: what that leaves of a workload.
/// Proves: P-argocd
#[tokio::test]
async fn an_action_keeps_the_workload_or_fails_where_lua_cannot() {
    let world = World::new().await;
    let workload = json!({
        "image": "i", "simulate": {"outcome": "never"}, "seed": 9_007_199_254_740_993_i64, "rate": 0.1,
        "empty": {}, "none": [], "args": ["a", {"b": {}}, []],
    });
    world
        .create_run("train", json!({"workload": workload}))
        .await;
    for (name, value) in [("null", Value::Null), ("empty-in-a-list", json!([{}]))] {
        let mut other = workload.clone();
        other["other"] = value;
        world.create_run(name, json!({"workload": other})).await;
        world.state(name, "running").await;
        let refused = act(&world, name, "cancel").await.unwrap_err().to_string();
        assert!(refused.contains("is immutable"), "{refused}");
    }
    world.state("train", "running").await;
    let patch = patch_of(&world, "train", "cancel").await;
    assert_eq!(patch, json!({"spec": {"cancel": true}}));
    act(&world, "train", "cancel").await.unwrap();
    world.phase("train", Phase::Cancelled).await;
}
