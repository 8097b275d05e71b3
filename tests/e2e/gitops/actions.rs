//! Argo CD's actions, as its server carries them out: the script's object against the live one, as a merge patch.

use kube::api::{Patch, PatchParams};
use run_operator::api::{Phase, Run};
use serde_json::{Value, json};

use super::tools::{argocd_cm, asked};
use crate::support::World;

async fn cancel(world: &World, name: &str) -> Result<Run, kube::Error> {
    let live = world.raw("Run", name).await.to_string();
    let cancel = ["act", "--cm", &argocd_cm(), "cancel"];
    let patch: Value = asked("argocd", &cancel, &live).await;
    let params = PatchParams::default();
    let patch = Patch::Merge(patch);
    world.runs().patch(name, &params, &patch).await
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
    let train = json!({"workload": workload});
    world.create_run("train", train).await;
    for (name, value) in [("null", Value::Null), ("empty-in-a-list", json!([{}]))] {
        let mut other = workload.clone();
        other["other"] = value;
        world.create_run(name, json!({"workload": other})).await;
        world.state(name, "running").await;
        let refused = cancel(&world, name).await.unwrap_err().to_string();
        assert!(refused.contains("is immutable"), "{refused}");
    }
    world.state("train", "running").await;
    cancel(&world, "train").await.unwrap();
    world.phase("train", Phase::Cancelled).await;
}
