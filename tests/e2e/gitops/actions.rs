//! Argo CD's actions, as its server carries them out: the script's object against the live one, as a merge patch.

use kube::api::{Patch, PatchParams};
use run_operator::api::{Phase, Run};
use serde_json::{Value, json};

use super::tools::{argocd_cm, asked, file};
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

fn schedule(spec: &Value, status: &Value) -> Value {
    json!({
        "apiVersion": "run-operator.dev/v1alpha1", "kind": "RunSchedule",
        "metadata": {"name": "nightly", "namespace": "team-a", "uid": "u-1", "generation": 1},
        "spec": spec, "status": status,
    })
}

fn from(template: &Value) -> Value {
    json!({"schedules": ["@daily"], "template": template})
}

/// Proves: P-argocd
#[tokio::test]
async fn argo_cd_and_flux_read_the_conditions_of_a_schedule() {
    let is = |kind: &str, status: &str| {
        let message = format!("{kind} is {status}");
        json!({"type": kind, "status": status, "reason": "Because", "message": message})
    };
    let (ready, held) = (is("Ready", "True"), is("Suspended", "True"));
    let wrong = [is("Ready", "False"), is("Stalled", "True")];
    let unseen = "Waiting for run-operator to see this version of the spec";
    let cases = [
        (json!([ready]), "Healthy", "Ready is True", "Current"),
        (
            json!([held, ready]),
            "Suspended",
            "Suspended is True",
            "Current",
        ),
        (json!(wrong), "Degraded", "Stalled is True", "Failed"),
        (Value::Null, "Progressing", unseen, "InProgress"),
    ];
    let spec = from(&json!({"spec": {"workload": {"image": "i"}}}));
    let objects = cases.each_ref().map(|(conditions, ..)| match conditions {
        Value::Null => schedule(&spec, &json!({"observedGeneration": -1})),
        all => schedule(&spec, &json!({"observedGeneration": 1, "conditions": all})),
    });
    let input = json!(objects).to_string();
    let health = ["health", "--cm", &argocd_cm()];
    let argo: Vec<Value> = asked("argocd", &health, &input).await;
    let expressions = file("deploy/flux/runs.yaml").display().to_string();
    let flux: Vec<Value> = asked("flux", &["health", &expressions], &input).await;
    for (i, (_, status, message, current)) in cases.iter().enumerate() {
        assert_eq!(argo[i], json!({"status": status, "message": message}));
        assert_eq!(flux[i], *current, "{status}");
    }
    let template = json!([{
        "apiVersion": "run-operator.dev/v1alpha1", "kind": "RunTemplate", "metadata": {"name": "train"},
    }]);
    let argo: Vec<Value> = asked("argocd", &health, &template.to_string()).await;
    assert_eq!(argo, [json!({"status": "Healthy"})]);
}

/// Proves: P-argocd
#[tokio::test]
async fn a_schedule_is_triggered_where_lua_keeps_its_template() {
    let cm = argocd_cm();
    let offered = async |spec: &Value| -> Vec<String> {
        let object = schedule(spec, &json!({})).to_string();
        asked("argocd", &["actions", "--cm", &cm], &object).await
    };
    let workload =
        |value: Value| from(&json!({"spec": {"workload": {"image": "i", "a": [1, value]}}}));
    let kept = workload(json!(0.5));
    assert_eq!(offered(&kept).await, ["suspend", "trigger"]);
    let mut held = kept.clone();
    held["suspend"] = json!(true);
    assert_eq!(offered(&held).await, ["resume", "trigger"]);
    let referring = json!({"schedules": ["@daily"], "templateRef": {"name": "train"}});
    let empty = workload(json!({}));
    let large = workload(json!(9_007_199_254_740_993_i64));
    for spec in [referring, empty, large] {
        assert_eq!(offered(&spec).await, ["suspend"], "{spec}");
    }

    let body = json!({"workload": {"image": "i", "epochs": 3, "args": ["a"]}, "priority": 5});
    let metadata = json!({"labels": {"a": "b"}, "annotations": {}});
    let object = schedule(
        &from(&json!({"metadata": metadata, "spec": body})),
        &json!({}),
    );
    let act = ["act", "--cm", &cm, "trigger"];
    let made: Value = asked("argocd", &act, &object.to_string()).await;
    let owner = json!({
        "apiVersion": "run-operator.dev/v1alpha1", "kind": "RunSchedule", "name": "nightly", "uid": "u-1",
        "controller": true,
    });
    let metadata = json!({
        "generateName": "nightly-", "namespace": "team-a", "labels": {"a": "b"}, "ownerReferences": [owner],
    });
    let expected = json!({
        "apiVersion": "run-operator.dev/v1alpha1", "kind": "Run", "metadata": metadata, "spec": body,
    });
    assert_eq!(made, expected);
}
