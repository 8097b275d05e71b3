//! An API server that refuses what the operator writes, by policies of its own: what shows it.

use std::time::Duration;

use kube::api::{Patch, PatchParams};
use run_operator::api::{ConditionType, Phase};
use serde_json::json;

use crate::support::{World, condition_of, eventually, eventually_after, says};

use super::runs;

/// A policy of the world's namespace that denies each update of `resource` for which this is not true.
async fn deny(world: &World, resource: &str, unless: &str) -> String {
    let name = format!("deny-{}", world.namespace);
    let rules = json!([{
        "apiGroups": ["run-operator.dev"], "apiVersions": ["*"], "operations": ["UPDATE"], "resources": [resource],
    }]);
    let here = json!({"matchLabels": {"kubernetes.io/metadata.name": world.namespace}});
    let policy = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": name},
        "spec": {
            "matchConstraints": {"namespaceSelector": here, "resourceRules": rules},
            "validations": [{"expression": unless, "message": "not by our rules"}],
        },
    });
    let binding = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": name}, "spec": {"policyName": name, "validationActions": ["Deny"]},
    });
    for object in [policy, binding] {
        world
            .control_plane
            .apply_yaml(&object.to_string())
            .await
            .unwrap();
    }
    name
}

async fn allow_again(world: &World, policy: &str) {
    let binding = format!("validatingadmissionpolicybinding/{policy}");
    world.kubectl(&["delete", &binding], "").await.unwrap();
}

/// Waits until the API server refuses this patch of a Run that is never submitted.
async fn in_force(world: &World, subresource: &str, patch: serde_json::Value) {
    world.create_run("probe", json!({"suspend": true})).await;
    let params = PatchParams {
        dry_run: true,
        ..PatchParams::default()
    };
    eventually("the policy is in force", async || {
        let (runs, patch) = (world.runs(), Patch::Merge(&patch));
        let patched = match subresource {
            "status" => runs.patch_status("probe", &params, &patch).await,
            _ => runs.patch("probe", &params, &patch).await,
        };
        patched.err().map(drop).ok_or("not yet")
    })
    .await;
}

const INTENT: &str = "!has(object.metadata.annotations) || !('run-operator.dev/intent' in object.metadata.annotations)";
const REMEDY: &str = "To mend it: Exclude the operator's ServiceAccount";

async fn refused(world: &World, write: &str) {
    let series = format!(
        r#"run_operator_refused_writes_total{{controller="run",write="{write}",class="4xx"}}"#
    );
    world.metric(&series, 1.0..).await;
}

/// Proves: P-refused-writes, K-why
#[tokio::test]
async fn a_refused_intent_is_shown_in_the_status_until_it_is_taken() {
    let world = World::new().await;
    let policy = deny(&world, "runs", INTENT).await;
    let intent = json!({"metadata": {"annotations": {"run-operator.dev/intent": "x"}}});
    in_force(&world, "", intent).await;
    let created = world.create_run("train", json!({})).await;
    let run = world.not_ready("train", "WriteRefused").await;
    let ready = condition_of(&run, ConditionType::Ready).unwrap();
    says(&ready.message, &[&policy, "not by our rules"]);
    says(&world.event("train", "WriteRefused").await, &[&policy]);
    refused(&world, "metadata").await;
    let why = runs(&world, "why train").await.ok();
    says(&why, &[&policy, REMEDY]);
    assert_eq!(world.posts_of(&created).await, 0);
    allow_again(&world, &policy).await;
    // It is tried again after a minute.
    eventually_after(Duration::from_mins(1), "it is submitted", async || {
        let run = world.run("train").await;
        let phase = run.status.and_then(|status| status.phase);
        if phase == Some(Phase::Succeeded) {
            Ok(())
        } else {
            Err(format!("{phase:?}"))
        }
    })
    .await;
    assert_eq!(world.posts_of(&created).await, 1);
}

/// Proves: P-refused-writes, P-workspace-finalizer
#[tokio::test]
async fn a_workspace_whose_finalizer_is_refused_serves_its_runs_and_takes_no_more() {
    let world = World::new().await;
    world.running("train").await;
    let policy = deny(&world, "workspaces", "!has(object.metadata.finalizers)").await;
    let workspaces = world.workspaces();
    let dry_run = PatchParams {
        dry_run: true,
        ..PatchParams::default()
    };
    let edit = Patch::Merge(json!({"metadata": {"annotations": {"example.com/a": "b"}}}));
    eventually("the policy is in force", async || {
        let patched = workspaces.patch("default", &dry_run, &edit).await;
        patched.err().map(drop).ok_or("not yet")
    })
    .await;
    let strip = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    let params = PatchParams::default();
    workspaces.patch("default", &params, &strip).await.unwrap();
    let ready = ConditionType::Ready;
    let told = world
        .workspace_condition("default", ready, "False", "WriteRefused")
        .await;
    says(&told, &[&policy, "not by our rules"]);
    let later = world.create_run("later", json!({})).await;
    let run = world.not_ready("later", "WriteRefused").await;
    says(&condition_of(&run, ready).unwrap().message, &[&policy]);
    world.set_state("train", "provisioning").await;
    world.state("train", "provisioning").await;
    assert_eq!(world.posts_of(&later).await, 0);
    allow_again(&world, &policy).await;
    world.workspace_ready("default", "True", "Verified").await;
    world.phase("later", Phase::Succeeded).await;
    assert_eq!(world.posts_of(&later).await, 1);
}

/// Proves: P-refused-writes, K-why, I-doctor
#[tokio::test]
async fn a_refused_status_is_shown_by_an_event_and_found_by_the_tool() {
    let world = World::new().await;
    world.workspace_ready("default", "True", "Verified").await;
    let policy = deny(&world, "runs/status", "false").await;
    in_force(&world, "status", json!({"status": {"state": "x"}})).await;
    let created = world.simulate("train", json!({"outcome": "never"})).await;
    let told = world.event("train", "WriteRefused").await;
    says(
        &told,
        &[&policy, "not by our rules", "The status would show Active"],
    );
    refused(&world, "status").await;
    assert_eq!(world.posts_of(&created).await, 1);
    let why = runs(&world, "why train").await.ok();
    says(&why, &["not seen by an operator yet", &policy, REMEDY]);
    let doctor = runs(&world, "doctor --read-only").await;
    says(
        &doctor.out,
        &["WARN  the operator's writes are taken", &policy],
    );
    let events = world.events("train", "WriteRefused").await;
    assert_eq!(events.len(), 1, "one an hour");
    allow_again(&world, &policy).await;
    let why = async || runs(&world, "why train").await.ok();
    eventually_after(Duration::from_mins(1), "the Run is mirrored", async || {
        let why = why().await;
        if why.starts_with("train: Active") {
            Ok(())
        } else {
            Err(why)
        }
    })
    .await;
    says(&why().await, &["Nothing needs to be done."]);
}
