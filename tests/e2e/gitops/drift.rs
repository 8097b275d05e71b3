//! Applied again, nothing changes: by Argo CD (client-side and server-side), by Flux and by kubectl, for specs of
//! every shape, before, while and after the operator writes into the objects.

use kube::ResourceExt;
use rstest::rstest;
use run_operator::api::{Phase, names};
use serde_json::{Value, json};

use super::tools::ready;
use crate::support::{Setup, TOKEN, World, eventually, intent_of};

const KINDS: [(&str, &str); 5] = [
    ("ClusterWorkspace", "shared"),
    ("Workspace", "default"),
    ("Workspace", "full"),
    ("Run", "small"),
    ("Run", "full"),
];

/// A spec of every shape: the smallest and the fullest of each kind.
fn manifests() -> String {
    let workload = json!({
        "image": "ghcr.io/acme/train:1.4", "simulate": {"outcome": "succeeded"},
        "epochs": 3, "rate": 0.1, "one": 1.0, "large": 9_007_199_254_740_991_i64, "text": "1e3",
        "args": ["a", 1, true, {}, []], "nested": {"empty": {}, "list": [{"b": 2, "a": 1}]},
    });
    let full = json!({
        "workload": workload, "provider": "acme", "region": "moon", "idempotencyKey": "full",
        "workspaceRef": {"kind": "ClusterWorkspace", "name": "shared"}, "suspend": false, "cancel": false,
        "activeDeadlineSeconds": 3600, "ttlSecondsAfterFinished": 100_000, "deletionPolicy": "Cancel",
        "readyWhen": "Succeeded", "priority": 7, "managedBy": names::MANAGED_BY,
    });
    let workspace = json!({
        "tokenSecretRef": {"name": "run-operator-token", "key": "token"}, "suspend": false,
        "rateLimit": {"requestsPerSecond": 20, "burst": 40}, "maxActiveRuns": 10,
    });
    let mut shared = workspace.clone();
    shared["namespaceSelector"] = json!({"matchExpressions": [
        {"key": "kubernetes.io/metadata.name", "operator": "Exists"},
    ]});
    shared["maxActiveRunsPerNamespace"] = json!(4);
    let specs = [
        shared,
        json!({}),
        workspace,
        json!({"workload": {"image": "i"}}),
        full,
    ];
    let object = |(&(kind, name), spec): (&(&str, &str), Value)| {
        json!({
            "apiVersion": "run-operator.dev/v1alpha1", "kind": kind,
            "metadata": {"name": name, "labels": {"team": "a"}}, "spec": spec,
        })
        .to_string()
    };
    let all: Vec<String> = KINDS.iter().zip(specs).map(object).collect();
    all.join("\n---\n")
}

/// Applies everything, twice while the operator is at work, and once more when all is at its end: that changes nothing.
async fn no_drift(apply: impl AsyncFn(&World, &str), differs: impl AsyncFn(&World, &str) -> bool) {
    let world = World::with(Setup {
        everywhere: true,
        bare: true,
        ..Setup::default()
    })
    .await;
    world.token(TOKEN).await;
    let manifests = manifests();
    for _ in 0..2 {
        apply(&world, &manifests).await;
    }
    for name in ["small", "full"] {
        world.phase(name, Phase::Succeeded).await;
        world.released(name).await;
    }
    for (kind, name) in &KINDS[..3] {
        ready(&world, kind, name, "Verified").await;
    }
    assert!(!differs(&world, &manifests).await);
    // Until an apply fell between two writes of the operator.
    eventually("an apply that changes nothing", async || {
        let before = versions(&world).await;
        apply(&world, &manifests).await;
        let after = versions(&world).await;
        if before == after {
            Ok(())
        } else {
            Err(format!("{before:?} and then {after:?}"))
        }
    })
    .await;
    is_untouched(&world).await;
}

/// The versions of all objects.
async fn versions(world: &World) -> Vec<String> {
    let mut versions = Vec::new();
    for (kind, name) in KINDS {
        let object = world.raw(kind, name).await;
        let version = &object["metadata"]["resourceVersion"];
        versions.push(format!("{kind} {name} {version}"));
    }
    versions
}

/// Asserts that none of the operator's fields was removed, and no spec has a new version.
async fn is_untouched(world: &World) {
    for name in ["small", "full"] {
        let run = world.run(name).await;
        assert_eq!(run.metadata.generation, Some(1), "{name}");
        assert_eq!(intent_of(&run).unwrap()["end"]["phase"], "Succeeded");
        assert_eq!(run.labels()["team"], "a");
    }
    for (kind, name) in KINDS {
        let object = world.raw(kind, name).await;
        let (status, metadata) = (&object["status"], &object["metadata"]);
        assert_eq!(status["observedGeneration"], metadata["generation"]);
        let managers = metadata["managedFields"].as_array().unwrap();
        let operator = managers
            .iter()
            .find(|m| m["manager"] == names::FIELD_MANAGER && m["subresource"] == "status");
        let fields = &operator.unwrap_or_else(|| panic!("{managers:?}"))["fieldsV1"];
        assert!(fields["f:status"].is_object() && fields["f:spec"].is_null());
    }
    assert_eq!(world.service.runs().await.len(), 2);
}

/// Proves: P-argocd
#[rstest]
#[case::by_client_side_apply(&[])]
#[case::by_server_side_apply(&["--server-side"])]
#[tokio::test]
async fn argo_cd_s_syncs_make_no_drift(#[case] how: &[&str]) {
    let ask = async |command: &str, world: &World, manifests: &str| {
        world.argo(command, how, manifests).await.unwrap()
    };
    no_drift(
        async |world, manifests| drop(ask("sync", world, manifests).await),
        async |world, manifests| ask("diff", world, manifests).await != json!([]),
    )
    .await;
}

/// Argo CD's server-side comparison reads whole numbers as floats; what it applies is not touched by that.
/// Proves: P-argocd
#[tokio::test]
async fn integers_above_2_53_differ_only_in_argo_cds_server_side_diff() {
    let world = World::new().await;
    let manifest = super::tools::text_of("deploy/examples/gitops/promotion/run.yaml");
    let image = "image: ghcr.io/acme/train:1.4\n";
    let large = manifest.replace(image, &format!("{image}    seed: 9007199254740993\n"));
    let how = ["--server-side"];
    world.argo("sync", &how, &large).await.unwrap();
    world.phase("train", Phase::Succeeded).await;
    let seed = json!(9_007_199_254_740_993_i64);
    let run = serde_json::to_value(world.run("train").await).unwrap();
    assert_eq!(run["spec"]["workload"]["seed"], seed);
    let differing = world.argo("diff", &how, &large).await.unwrap();
    let [differing] = differing.as_array().unwrap().as_slice() else {
        panic!("{differing}");
    };
    let begins = "Run train, server-side:";
    assert!(differing.as_str().unwrap().starts_with(begins));
    world.argo("sync", &how, &large).await.unwrap();
    assert_eq!(world.run("train").await.metadata.generation, Some(1));
    let differing = world.flux("diff", &[], &large).await.unwrap();
    assert!(!differing.to_string().contains("740992"), "{differing}");
}

/// Proves: P-argocd
#[tokio::test]
async fn flux_s_reconciliations_make_no_drift() {
    no_drift(
        async |world, manifests| drop(world.flux("apply", &[], manifests).await.unwrap()),
        async |world, manifests| world.flux("diff", &[], manifests).await.unwrap() != json!([]),
    )
    .await;
}

/// Proves: P-argocd
#[rstest]
#[case::by_client_side_apply(&[])]
#[case::by_server_side_apply(&["--server-side", "--force-conflicts"])]
#[tokio::test]
async fn kubectl_s_applies_make_no_drift(#[case] how: &[&str]) {
    let ask = async |command: &str, world: &World, manifests: &str| {
        let args = [&[command, "-f", "-"], how].concat();
        world.kubectl(&args, manifests).await
    };
    no_drift(
        async |world, manifests| drop(ask("apply", world, manifests).await.unwrap()),
        async |world, manifests| ask("diff", world, manifests).await.is_err(),
    )
    .await;
}
