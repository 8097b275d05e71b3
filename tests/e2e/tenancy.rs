//! ClusterWorkspaces: who may submit, and what becomes of the others.

use k8s_openapi::api::core::v1::Namespace;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

use run_operator::api::{ClusterWorkspace, ConditionType as Type, Phase, Run, conditions, names};

use crate::support::{
    Plane, Setup, TOKEN, World, condition_of, eventually, gone, phase_of, run_until, says,
};

/// A world whose operator serves every namespace; its own one is where the Secrets of ClusterWorkspaces
/// are, and holds a token.
async fn world(arguments: &[&'static str]) -> World {
    let world = World::with(Setup {
        plane: Plane::Alone,
        everywhere: true,
        bare: true,
        operator: arguments.to_vec(),
        ..Setup::default()
    })
    .await;
    world.token(TOKEN).await;
    world
}

/// A namespace that uses the ClusterWorkspace `shared`.
struct Tenant {
    name: String,
    namespaces: Api<Namespace>,
    runs: Api<Run>,
}

impl Tenant {
    async fn new(world: &World, name: &str, labels: Value) -> Self {
        let name = format!("{name}-{}", world.namespace);
        world.create_namespace(&name, labels).await;
        Self {
            namespaces: Api::all(world.client.clone()),
            runs: Api::namespaced(world.client.clone(), &name),
            name,
        }
    }

    async fn label(&self, labels: Value) {
        let patch = Patch::Merge(json!({"metadata": {"labels": labels}}));
        let params = PatchParams::default();
        let labelled = self.namespaces.patch(&self.name, &params, &patch).await;
        labelled.unwrap();
    }

    async fn simulate(&self, name: &str, simulate: Value) -> Run {
        let run = json!({
            "apiVersion": "run-operator.dev/v1alpha1", "kind": "Run", "metadata": {"name": name},
            "spec": {
                "workspaceRef": {"kind": "ClusterWorkspace", "name": "shared"},
                "workload": {"image": "ghcr.io/acme/train:1.4", "simulate": simulate},
            },
        });
        let run = serde_json::from_value(run).unwrap();
        let params = PostParams::default();
        self.runs.create(&params, &run).await.unwrap()
    }

    async fn patch(&self, name: &str, patch: Value) {
        let patch = Patch::Merge(patch);
        let params = PatchParams::default();
        self.runs.patch(name, &params, &patch).await.unwrap();
    }

    async fn until(&self, name: &str, what: &str, wanted: impl Fn(&Run) -> bool) -> Run {
        run_until(&self.runs, name, what, wanted).await
    }

    async fn state(&self, name: &str, state: &str) -> Run {
        self.until(name, state, |run| {
            run.status.as_ref().and_then(|s| s.state.as_deref()) == Some(state)
        })
        .await
    }

    async fn phase(&self, name: &str, phase: Phase) -> Run {
        let what = format!("{phase:?}");
        self.until(name, &what, |run| phase_of(run) == Some(phase))
            .await
    }

    /// Refused for its namespace; the sentence.
    async fn refused(&self, name: &str) -> String {
        let run = self
            .until(name, "is refused for its namespace", |run| {
                condition_of(run, Type::Stalled)
                    .is_some_and(|c| c.status == "True" && c.reason == "NamespaceNotAllowed")
            })
            .await;
        assert_eq!(phase_of(&run), Some(Phase::Pending));
        condition_of(&run, Type::Ready).unwrap().message
    }

    async fn delete(&self, name: &str) {
        let params = DeleteParams::default();
        self.runs.delete(name, &params).await.unwrap();
    }

    async fn gone(&self, name: &str) {
        gone(&self.runs, name).await;
    }
}

fn shared(world: &World) -> Api<ClusterWorkspace> {
    Api::all(world.client.clone())
}

/// Creates or changes the ClusterWorkspace.
async fn select(world: &World, selector: Value) {
    // With none of its own fields a spec that is applied would be null.
    let mut spec = json!({"suspend": false});
    if !selector.is_null() {
        spec["namespaceSelector"] = selector;
    }
    world.apply("", "ClusterWorkspace", "shared", spec).await;
}

async fn shared_ready(world: &World, status: &str, reason: &str) -> ClusterWorkspace {
    eventually(
        &format!("shared has Ready={status} ({reason})"),
        async || {
            let workspace = shared(world)
                .get("shared")
                .await
                .map_err(|e| e.to_string())?;
            let all = workspace.status.clone().unwrap_or_default().conditions;
            match conditions::find(&all, Type::Ready) {
                Some(c) if c.status == status && c.reason == reason => Ok(workspace),
                _ => Err(serde_json::to_string_pretty(&all).unwrap()),
            }
        },
    )
    .await
}

async fn posts(world: &World) -> usize {
    world.service.requests("createRun").await.len()
}

fn runs_yes() -> Value {
    json!({"matchLabels": {"runs": "yes"}})
}

/// Proves: P-cluster-workspace, P-secret-ref
#[tokio::test]
async fn a_cluster_workspace_serves_exactly_the_selected_namespaces() {
    let world = world(&[]).await;
    select(&world, runs_yes()).await;
    let ready = shared_ready(&world, "True", "Verified").await;
    assert_eq!(ready.finalizers(), [names::FINALIZER]);
    let allowed = Tenant::new(&world, "allowed", json!({"runs": "yes"})).await;
    let stranger = Tenant::new(&world, "stranger", json!({"runs": "no"})).await;
    // Created with its namespace: the labels may be known a moment later than the Run.
    allowed.simulate("train", json!({})).await;
    stranger.simulate("train", json!({})).await;
    let run = allowed.phase("train", Phase::Succeeded).await;
    let place = run.status.as_ref().unwrap().workspace.clone().unwrap();
    assert_eq!(place.kind.to_string(), "ClusterWorkspace");
    assert_eq!(place.name, "shared");
    assert_eq!(place.identity, ready.status.unwrap().identity);
    let told = stranger.refused("train").await;
    assert!(!told.contains(place.identity.as_deref().unwrap()), "{told}");
    assert_eq!(posts(&world).await, 1);
    stranger.label(json!({"runs": "yes"})).await;
    stranger.phase("train", Phase::Succeeded).await;
    assert_eq!(world.service.runs().await.len(), 2);

    // `{}` allows all, and no selector allows none.
    let third = Tenant::new(&world, "third", json!({})).await;
    third.simulate("train", json!({})).await;
    third.refused("train").await;
    select(&world, json!({})).await;
    third.phase("train", Phase::Succeeded).await;
    select(&world, Value::Null).await;
    allowed.simulate("late", json!({})).await;
    allowed.refused("late").await;
    assert_eq!(posts(&world).await, 3);
    // One that is refused is deleted at once.
    allowed.delete("late").await;
    allowed.gone("late").await;
}

/// Outside a Pod the operator's namespace is that of its kubeconfig.
/// Proves: P-cluster-workspace, P-secret-ref
#[tokio::test]
async fn without_a_flag_the_secrets_are_in_the_operator_s_namespace() {
    let world = World::with(Setup {
        plane: Plane::Alone,
        bare: true,
        operator: vec!["--cluster-workspaces", "true"],
        ..Setup::default()
    })
    .await;
    let (namespace, token) = (world.client.default_namespace(), json!({"token": TOKEN}));
    world
        .secret_in(namespace, "run-operator-token", token)
        .await;
    select(&world, json!({})).await;
    shared_ready(&world, "True", "Verified").await;
    // Those of a Workspace are in its own.
    assert_ne!(world.namespace, namespace);
    world.secret("own-token", json!({"token": TOKEN})).await;
    let reference = json!({"tokenSecretRef": {"name": "own-token"}});
    world.create_workspace("own", reference).await;
    world.workspace_ready("own", "True", "Verified").await;
}

/// Proves: P-tenancy
#[tokio::test]
async fn a_namespace_losing_its_label_keeps_its_runs_but_adds_none() {
    let mut world = world(&[]).await;
    select(&world, runs_yes()).await;
    let tenant = Tenant::new(&world, "tenant", json!({"runs": "yes"})).await;
    for name in ["mirrored", "deleted"] {
        tenant.simulate(name, json!({"outcome": "never"})).await;
        tenant.state(name, "running").await;
    }
    tenant.label(json!({"runs": null})).await;
    tenant.simulate("late", json!({})).await;
    tenant.refused("late").await;
    tenant.delete("deleted").await;
    tenant.gone("deleted").await;
    world.kill_operator();
    world.start_operator().await;
    let id = tenant.runs.get("mirrored").await.unwrap();
    let id = id.status.unwrap().run_id.unwrap();
    world.set_state(&id, "provisioning").await;
    let run = tenant.state("mirrored", "provisioning").await;
    assert_eq!(condition_of(&run, Type::Synced).unwrap().status, "True");
    let cancel = json!({"spec": {"cancel": true}});
    tenant.patch("mirrored", cancel).await;
    tenant.phase("mirrored", Phase::Cancelled).await;
    tenant.refused("late").await;
    assert_eq!(posts(&world).await, 2);
    let runs = world.service.runs().await;
    assert!(
        runs.iter().all(|run| run["state"] == "cancelled"),
        "{runs:?}"
    );
}

/// An intent is a record, never authority: anyone who may edit a Run can write one.
/// Proves: P-tenancy
#[tokio::test]
async fn a_forged_intent_submits_nothing_from_a_forbidden_namespace() {
    let world = world(&[]).await;
    select(&world, runs_yes()).await;
    let allowed = Tenant::new(&world, "allowed", json!({"runs": "yes"})).await;
    let stranger = Tenant::new(&world, "stranger", json!({})).await;
    let model = allowed.simulate("model", json!({"outcome": "never"})).await;
    let model = allowed.state(&model.name_any(), "running").await;
    let run = stranger
        .simulate("forged", json!({"outcome": "never"}))
        .await;
    stranger.refused("forged").await;
    let mut intent: Value =
        serde_json::from_str(&model.annotations()[names::INTENT_ANNOTATION]).unwrap();
    intent["uid"] = json!(run.uid().unwrap());
    intent["key"] = json!(run.uid().unwrap());
    let forge = json!({"metadata": {
        "annotations": {names::INTENT_ANNOTATION: intent.to_string()},
        "finalizers": [names::FINALIZER],
    }});
    stranger.patch("forged", forge).await;
    stranger
        .until("forged", "is judged again", |run| {
            condition_of(run, Type::Ready).is_some_and(|c| c.message.contains("unknown"))
        })
        .await;
    stranger.delete("forged").await;
    stranger.refused("forged").await;
    let orphan = json!({"spec": {"deletionPolicy": "Orphan"}});
    stranger.patch("forged", orphan).await;
    stranger.gone("forged").await;
    assert_eq!(posts(&world).await, 1, "the forged intent was believed");
}

/// Proves: P-workspace-finalizer
#[tokio::test]
async fn a_cluster_workspace_waits_for_the_runs_of_every_namespace() {
    let world = world(&[]).await;
    select(&world, json!({})).await;
    let one = Tenant::new(&world, "one", json!({})).await;
    let two = Tenant::new(&world, "two", json!({})).await;
    one.simulate("first", json!({"outcome": "never"})).await;
    two.simulate("second", json!({"outcome": "never"})).await;
    one.state("first", "running").await;
    two.state("second", "running").await;
    shared(&world)
        .delete("shared", &DeleteParams::default())
        .await
        .unwrap();
    let leaving = shared_ready(&world, "False", "WorkspaceDeleting").await;
    let all = leaving.status.unwrap().conditions;
    let told = &conditions::find(&all, Type::Ready).unwrap().message;
    says(
        told,
        &[
            &format!("{}/first", one.name),
            &format!("{}/second", two.name),
        ],
    );
    one.delete("first").await;
    one.gone("first").await;
    assert!(
        shared(&world).get("shared").await.is_ok(),
        "two still needs it"
    );
    two.delete("second").await;
    two.gone("second").await;
    eventually("the ClusterWorkspace is gone", async || {
        match shared(&world).get_opt("shared").await {
            Ok(None) => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
}

/// Proves: P-cluster-workspace
#[tokio::test]
async fn cluster_workspaces_that_are_switched_off_are_named() {
    let world = World::new().await;
    let spec = json!({"workspaceRef": {"kind": "ClusterWorkspace", "name": "shared"}});
    world.create_run("train", spec).await;
    let run = world.not_ready("train", "WorkspaceNotReady").await;
    let told = condition_of(&run, Type::Ready).unwrap().message;
    says(&told, &["ClusterWorkspace shared", "--cluster-workspaces"]);
    assert!(world.service.runs().await.is_empty());
}

/// The number of creates that the service got before the one with this key.
async fn creates_before(world: &World, key: &str) -> usize {
    eventually("the service gets its create", async || {
        let creates = world.service.requests("createRun").await;
        let before = creates.iter().position(|c| c["idempotencyKey"] == key);
        before.ok_or(creates.len())
    })
    .await
}

/// Proves: P-calls-bound
#[tokio::test]
async fn one_run_of_a_tenant_is_not_behind_the_many_of_another() {
    let world = world(&[]).await;
    let rate = async |rate: u32| {
        let limit = json!({"requestsPerSecond": rate, "burst": rate});
        let spec = json!({"namespaceSelector": {}, "rateLimit": limit});
        world.apply("", "ClusterWorkspace", "shared", spec).await;
    };
    rate(1).await;
    shared_ready(&world, "True", "Verified").await;
    let big = Tenant::new(&world, "big", json!({})).await;
    let small = Tenant::new(&world, "small", json!({})).await;
    for n in 0..60 {
        big.simulate(&format!("train-{n}"), json!({})).await;
    }
    world
        .metric_reaches("run_operator_calls_waiting", 50.0)
        .await;
    let asked = posts(&world).await;
    let run = small.simulate("train", json!({})).await;
    let before = creates_before(&world, &run.uid().unwrap()).await;
    // First come, first served it would have been 60.
    assert!(
        before <= asked + 10 && before < 40,
        "{asked} creates when it was applied, {before} before its own"
    );
    // Every Run is submitted in the end.
    rate(500).await;
    small.phase("train", Phase::Succeeded).await;
    for n in 0..60 {
        big.phase(&format!("train-{n}"), Phase::Succeeded).await;
    }
    assert_eq!(posts(&world).await, 61);
    assert_eq!(world.service.runs().await.len(), 61);
}
