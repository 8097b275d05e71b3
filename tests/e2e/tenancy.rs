//! ClusterWorkspaces: who may submit, and what becomes of the others.

use k8s_openapi::api::coordination::v1::Lease;
use kube::api::{DeleteParams, PostParams};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

use run_operator::api::{ClusterWorkspace, ConditionType as Type, Phase, Run, conditions, names};

use crate::runs::runs;
use crate::support::{
    Plane, Setup, TOKEN, World, condition_of, eventually, gone, phase_of, run_until, says,
};

/// A world whose operator serves every namespace; its own one is where the Secrets of ClusterWorkspaces
/// are, and holds a token.
pub(crate) async fn world() -> World {
    let world = World::with(Setup {
        plane: Plane::Alone,
        everywhere: true,
        bare: true,
        ..Setup::default()
    })
    .await;
    world.token(TOKEN).await;
    world
}

/// A namespace that uses the ClusterWorkspace `shared`.
pub(crate) struct Tenant {
    name: String,
    runs: Api<Run>,
}

impl Tenant {
    pub(crate) async fn new(world: &World, name: &str, labels: Value) -> Self {
        let name = format!("{name}-{}", world.namespace);
        world.create_namespace(&name, labels).await;
        let runs = Api::namespaced(world.client.clone(), &name);
        Self { name, runs }
    }

    pub(crate) async fn simulate(&self, name: &str, simulate: Value) -> Run {
        let shared = json!({"kind": "ClusterWorkspace", "name": "shared"});
        self.create(name, json!({"workspaceRef": shared}), simulate)
            .await
    }

    async fn create(&self, name: &str, mut spec: Value, simulate: Value) -> Run {
        spec["workload"] = json!({"image": "ghcr.io/acme/train:1.4", "simulate": simulate});
        let run = Run::new(name, serde_json::from_value(spec).unwrap());
        let params = PostParams::default();
        self.runs.create(&params, &run).await.unwrap()
    }

    pub(crate) async fn state(&self, name: &str, state: &str) -> Run {
        run_until(&self.runs, name, state, |run| {
            run.status.as_ref().and_then(|s| s.state.as_deref()) == Some(state)
        })
        .await
    }

    /// Waits until it is not Ready for this reason; the sentence.
    pub(crate) async fn not_ready(&self, name: &str, reason: &str) -> String {
        let run = run_until(&self.runs, name, reason, |run| {
            condition_of(run, Type::Ready).is_some_and(|c| c.reason == reason)
        })
        .await;
        assert_eq!(phase_of(&run), Some(Phase::Pending));
        condition_of(&run, Type::Ready).unwrap().message
    }

    async fn delete(&self, name: &str) {
        let params = DeleteParams::default();
        self.runs.delete(name, &params).await.unwrap();
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

pub(crate) async fn shared_ready(world: &World, reason: &str) -> ClusterWorkspace {
    ready(&shared(world), "shared", reason).await
}

/// Of its present spec.
async fn ready(api: &Api<ClusterWorkspace>, name: &str, reason: &str) -> ClusterWorkspace {
    eventually(&format!("{name} has Ready for {reason}"), async || {
        let workspace = api.get(name).await.map_err(|error| error.to_string())?;
        let all = workspace.status.clone().unwrap_or_default().conditions;
        let generation = workspace.metadata.generation;
        match conditions::find(&all, Type::Ready) {
            Some(ready) if ready.reason == reason && ready.observed_generation == generation => {
                Ok(workspace)
            }
            _ => Err(serde_json::to_string_pretty(&all).unwrap()),
        }
    })
    .await
}

async fn posts(world: &World) -> usize {
    world.service.requests("createRun").await.len()
}

/// Proves: P-tenancy, X-references
#[tokio::test]
async fn a_cluster_workspace_serves_exactly_the_selected_namespaces() {
    let mut world = world().await;
    select(&world, json!({"matchLabels": {"runs": "yes"}})).await;
    let ready = shared_ready(&world, "Verified").await;
    assert_eq!(ready.finalizers(), [names::FINALIZER]);
    let allowed = Tenant::new(&world, "allowed", json!({"runs": "yes"})).await;
    let stranger = Tenant::new(&world, "stranger", json!({"runs": "no"})).await;
    // Created with its namespace: the labels may be known a moment later than the Run.
    allowed.simulate("train", json!({})).await;
    stranger.simulate("train", json!({})).await;
    let run = allowed.state("train", "succeeded").await;
    let place = run.status.as_ref().unwrap().workspace.clone().unwrap();
    assert_eq!(place.kind.to_string(), "ClusterWorkspace");
    assert_eq!(place.name, "shared");
    assert_eq!(place.identity, ready.status.unwrap().identity);
    let told = stranger.not_ready("train", "NamespaceNotAllowed").await;
    assert!(!told.contains(place.identity.as_deref().unwrap()), "{told}");
    assert_eq!(posts(&world).await, 1);
    let label = ["label", "--overwrite", "ns", &stranger.name, "runs=yes"];
    world.kubectl(&label, "").await.unwrap();
    stranger.state("train", "succeeded").await;
    assert_eq!(world.service.runs().await.len(), 2);

    // `{}` allows all, and no selector allows none.
    let third = Tenant::new(&world, "third", json!({})).await;
    third.simulate("train", json!({})).await;
    third.not_ready("train", "NamespaceNotAllowed").await;
    select(&world, json!({})).await;
    third.state("train", "succeeded").await;
    let never = json!({"runId": "never", "outcome": "never"});
    third.simulate("never", never).await;
    third.state("never", "running").await;
    select(&world, Value::Null).await;
    allowed.simulate("late", json!({})).await;
    allowed.not_ready("late", "NamespaceNotAllowed").await;
    // One that is refused is deleted at once; what is at the service is mirrored and cancelled.
    allowed.delete("late").await;
    world.kill_operator();
    world.start_operator().await;
    world.set_state("never", "provisioning").await;
    third.state("never", "provisioning").await;
    third.delete("never").await;
    assert_eq!(posts(&world).await, 4);
    assert_eq!(world.service.runs().await[3]["state"], "cancelled");
}

/// Outside a Pod the operator's namespace is that of its kubeconfig.
/// Proves: P-tenancy, X-references, P-namespaces
#[tokio::test]
async fn without_a_flag_secrets_and_lease_are_in_the_operator_s_namespace() {
    let world = World::with(Setup {
        plane: Plane::Alone,
        bare: true,
        operator: vec!["--cluster-workspaces", "true", "--leader-elect"],
        ..Setup::default()
    })
    .await;
    let (namespace, token) = (world.client.default_namespace(), json!({"token": TOKEN}));
    world
        .secret_in(namespace, "run-operator-token", token.clone())
        .await;
    select(&world, json!({})).await;
    shared_ready(&world, "Verified").await;
    let leases: Api<Lease> = Api::namespaced(world.client.clone(), namespace);
    leases.get("run-operator").await.unwrap();
    // The Secrets of a Workspace are in its own.
    assert_ne!(world.namespace, namespace);
    world.secret("own-token", token).await;
    let reference = json!({"tokenSecretRef": {"name": "own-token"}});
    world.create_workspace("own", reference).await;
    world.workspace_ready("own", "True", "Verified").await;
}

/// Makes a ClusterWorkspace the default, or no longer.
async fn is_default(world: &World, name: &str, is: bool) {
    let mark = format!("{}={is}", names::IS_DEFAULT_ANNOTATION);
    let kind = "clusterworkspaces.run-operator.dev";
    let words = ["annotate", "--overwrite", kind, name, &mark];
    world.kubectl(&words, "").await.unwrap();
}

/// Each change that may decide about it wakes a Run that waits, and none moves a Run that is submitted.
/// Proves: P-default-workspace, P-rules, K-why, I-doctor
#[tokio::test]
async fn a_run_without_reference_uses_the_default_of_its_namespace_and_stays_there() {
    let mut world = world().await;
    let team = Tenant {
        name: world.namespace.clone(),
        runs: world.runs(),
    };
    let labelled = json!({"matchLabels": {"runs": "yes"}});
    select(&world, labelled.clone()).await;
    let spare = json!({"namespaceSelector": labelled});
    world.apply("", "ClusterWorkspace", "spare", spare).await;
    let run = json!({"runId": "first", "outcome": "never"});
    team.create("train", json!({}), run).await;
    team.not_ready("train", "WorkspaceNotFound").await;
    for name in ["shared", "spare"] {
        is_default(&world, name, true).await;
    }
    // The operator has seen both annotations when it has seen what came after them.
    let later = json!({"suspend": false});
    world.apply("", "ClusterWorkspace", "later", later).await;
    ready(&shared(&world), "later", "Verified").await;
    let label = ["label", "--overwrite", "ns", &team.name, "runs=yes"];
    world.kubectl(&label, "").await.unwrap();
    let told = team.not_ready("train", "WorkspaceAmbiguous").await;
    says(&told, &["shared, spare"]);
    says(&runs(&world, "why train").await.ok(), &["shared, spare"]);
    is_default(&world, "spare", false).await;
    let run = team.state("train", "running").await;
    let place = run.status.unwrap().workspace.unwrap();
    let shown = (place.kind.to_string(), place.name);
    assert_eq!(shown, ("ClusterWorkspace".into(), "shared".into()));
    let found = runs(&world, "doctor --read-only").await.ended(1);
    says(
        &found,
        &["A Run without workspaceRef uses ClusterWorkspace shared."],
    );

    let paused = json!({"suspend": true, "namespaceSelector": labelled});
    world.apply("", "ClusterWorkspace", "shared", paused).await;
    shared_ready(&world, "Verified").await;
    team.create("held", json!({"region": "eu"}), json!({}))
        .await;
    team.not_ready("held", "WorkspaceSuspended").await;
    let why = runs(&world, "why held").await.ok();
    says(&why, &["ClusterWorkspace shared: it is Ready"]);
    let ttl = json!({"ttlSecondsAfterFinished": 3600});
    let rules = json!({"allowedRegions": ["eu"], "runDefaults": ttl});
    world.create_workspace("default", rules).await;
    let held = team.state("held", "succeeded").await.status.unwrap();
    assert_eq!(held.workspace.unwrap().name, "default");
    assert_eq!(json!(held.run_defaults), ttl);
    team.create("elsewhere", json!({}), json!({})).await;
    team.not_ready("elsewhere", "RegionNotAllowed").await;
    is_default(&world, "shared", false).await;
    world.kill_operator();
    world.start_operator().await;
    let params = DeleteParams::default();
    shared(&world).delete("shared", &params).await.unwrap();
    let leaving = shared_ready(&world, "WorkspaceDeleting").await;
    let all = leaving.status.unwrap().conditions;
    let told = &conditions::find(&all, Type::Ready).unwrap().message;
    says(told, &[&format!("{}/train", team.name)]);
    world.set_state("first", "provisioning").await;
    team.state("train", "provisioning").await;
    team.delete("train").await;
    gone(&shared(&world), "shared").await;
    assert_eq!(world.service.runs().await[0]["state"], "cancelled");
    assert_eq!(posts(&world).await, 2);
}

/// Proves: P-workspace-finalizer
#[tokio::test]
async fn a_cluster_workspace_waits_for_the_runs_of_every_namespace() {
    let world = world().await;
    select(&world, json!({})).await;
    let one = Tenant::new(&world, "one", json!({})).await;
    let two = Tenant::new(&world, "two", json!({})).await;
    for tenant in [&one, &two] {
        tenant.simulate("train", json!({"outcome": "never"})).await;
        tenant.state("train", "running").await;
    }
    let params = DeleteParams::default();
    shared(&world).delete("shared", &params).await.unwrap();
    let leaving = shared_ready(&world, "WorkspaceDeleting").await;
    let all = leaving.status.unwrap().conditions;
    let told = &conditions::find(&all, Type::Ready).unwrap().message;
    let runs = [&one, &two].map(|tenant| format!("{}/train", tenant.name));
    says(told, &runs.each_ref().map(String::as_str));
    one.delete("train").await;
    let left = shared(&world).get("shared").await;
    assert!(left.is_ok(), "two still needs it");
    two.delete("train").await;
    gone(&shared(&world), "shared").await;
}

/// Proves: P-tenancy
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

/// Proves: P-calls-bound
#[tokio::test]
async fn one_run_of_a_tenant_is_not_behind_the_many_of_another() {
    let world = world().await;
    let rate = async |rate: u32| {
        let limit = json!({"requestsPerSecond": rate, "burst": rate});
        let spec = json!({"namespaceSelector": {}, "rateLimit": limit});
        world.apply("", "ClusterWorkspace", "shared", spec).await;
    };
    rate(1).await;
    shared_ready(&world, "Verified").await;
    let big = Tenant::new(&world, "big", json!({})).await;
    let small = Tenant::new(&world, "small", json!({})).await;
    for n in 0..60 {
        big.simulate(&format!("train-{n}"), json!({})).await;
    }
    world.metric("run_operator_calls_waiting", 50.0..).await;
    let asked = posts(&world).await;
    let uid = small.simulate("train", json!({})).await.uid().unwrap();
    big.not_ready("train-59", "RateLimited").await;
    let before = eventually("the service gets its create", async || {
        let creates = world.service.requests("createRun").await;
        let mut keys = creates.iter().map(|create| &create["idempotencyKey"]);
        keys.position(|key| *key == uid).ok_or(creates.len())
    })
    .await;
    // First come, first served it would have been 60.
    assert!(
        before <= asked + 10 && before < 40,
        "{asked} creates when it was applied, {before} before its own"
    );
    // Every Run is submitted in the end.
    rate(500).await;
    small.state("train", "succeeded").await;
    for n in 0..60 {
        big.state(&format!("train-{n}"), "succeeded").await;
    }
    assert_eq!(posts(&world).await, 61);
    assert_eq!(world.service.runs().await.len(), 61);
}
