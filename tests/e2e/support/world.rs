//! A namespace with a Workspace, its token, a service and an operator.

use std::fmt::Debug;
use std::ops::RangeBounds;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Namespace, Secret};
use k8s_openapi::api::events::v1::Event;
use kube::{
    Api, Client, ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};

use run_operator::api::{ConditionType, Phase, Run, Workspace, names};

use super::operator::Recipe;
use super::planes::{InUse, Plane};
use super::service::TOKEN;
use super::wait::{self, eventually, output_of};
use super::{History, Operator, SECRET, Service, condition_of};
use test_cluster::{ControlPlane, Scratch};

/// The parts of a world that differ from the usual ones.
#[derive(Default)]
pub(crate) struct Setup {
    /// Further arguments of the operator.
    pub(crate) operator: Vec<&'static str>,
    /// Further arguments of the reference service.
    pub(crate) service: Vec<&'static str>,
    /// The test gives the operator its base URL, that of a proxy.
    pub(crate) no_base_url: bool,
    /// No Workspace, no Secret: the test makes its own.
    pub(crate) bare: bool,
    pub(crate) plane: Plane,
    /// The operator serves every namespace, and ClusterWorkspaces, where it is alone.
    pub(crate) everywhere: bool,
    /// The operator takes part in an election: with these durations of lease, deadline and period, or with
    /// the usual ones. The Lease `run-operator` is in the world's namespace.
    pub(crate) elected: Option<&'static [&'static str]>,
    /// The operator's permissions at the API server.
    pub(crate) rights: Rights,
    /// The operator's way to the API server, through a proxy. Only as administrator.
    pub(crate) through: Option<PathBuf>,
}

/// Permissions of an operator at the API server.
#[derive(Default)]
pub(crate) enum Rights {
    /// May do everything.
    #[default]
    Administrator,
    /// The service account of `deploy/install.yaml`. Only where it is alone.
    Deployed,
    /// The same with permissions only in the world's namespace. Only with a control plane of its own.
    DeployedHere,
    /// A service account of the namespace, with these RBAC rules for Secrets.
    Secrets(Value),
}

/// A test's own world. Dropped from top to bottom.
pub(crate) struct World {
    /// The operator; `None` while it is down.
    pub(crate) operator: Option<Operator>,
    pub(crate) service: Service,
    pub(crate) client: Client,
    pub(crate) namespace: String,
    pub(crate) control_plane: &'static ControlPlane,
    /// The operator's service account, or empty.
    pub(super) account: String,
    pub(super) began: Timestamp,
    pub(crate) recipe: Recipe,
    pub(super) scratch: Scratch,
    _in_use: InUse,
}

impl World {
    /// The usual world: a Workspace `default` that becomes Ready, and an operator that is.
    pub(crate) async fn new() -> Self {
        Self::with(Setup::default()).await
    }

    /// A world that differs from the usual one.
    pub(crate) async fn with(setup: Setup) -> Self {
        let mut world = Self::unattended(setup).await;
        world.start_operator().await;
        world
    }

    /// A world with further arguments of the operator.
    pub(crate) async fn with_flags(flags: &[&'static str]) -> Self {
        Self::with(Setup {
            operator: flags.to_vec(),
            ..Setup::default()
        })
        .await
    }

    /// A world without an operator: the test starts it.
    #[allow(
        clippy::disallowed_methods,
        reason = "compared with the times that the API server gives"
    )]
    pub(crate) async fn unattended(setup: Setup) -> Self {
        let plane = match setup.plane {
            Plane::Shared if setup.everywhere => Plane::Alone,
            plane => plane,
        };
        let in_use = InUse::new(plane).await;
        let control_plane = in_use.control_plane;
        let began = Timestamp::now();
        let client = control_plane.client().await.unwrap();
        let scratch = Scratch::new("e2e").unwrap();
        let namespace = format!("t-{}", uuid::Uuid::new_v4().simple());
        let service = Service::start(&scratch, &setup.service).await;
        let base_url = service.base_url();
        let mut args = Vec::new();
        if !setup.no_base_url {
            args.extend(["--base-url", &base_url]);
        }
        if setup.everywhere {
            args.extend(["--cluster-workspaces", "true"]);
            args.extend(["--cluster-resource-namespace", &namespace]);
        }
        if let Some(durations) = setup.elected {
            args.extend(["--leader-elect", "--leader-elect-namespace", &namespace]);
            args.extend(durations);
        }
        args.extend(&setup.operator);
        let recipe = Recipe {
            kubeconfig: setup
                .through
                .unwrap_or_else(|| control_plane.kubeconfig().to_owned()),
            namespace: (!setup.everywhere).then(|| namespace.clone()),
            args: args.into_iter().map(str::to_owned).collect(),
            variables: Vec::new(),
            log: scratch.path().join("operator.log"),
            files: None,
        };
        let mut world = Self {
            operator: None,
            service,
            client,
            namespace,
            control_plane,
            account: String::new(),
            began,
            recipe,
            scratch,
            _in_use: in_use,
        };
        world.create_namespace(&world.namespace, json!({})).await;
        world.restrict(setup.rights, setup.everywhere).await;
        if !setup.bare {
            world.token(TOKEN).await;
            world.create_workspace("default", json!({})).await;
        }
        world
    }

    /// Starts the operator (again).
    pub(crate) async fn start_operator(&mut self) {
        self.operator = Some(Operator::start(&self.recipe).await);
    }

    /// Starts a second operator, as a stale leader would be.
    pub(crate) async fn another_operator(&self) -> Operator {
        let mut recipe = self.recipe();
        let log = format!("operator-{}.log", uuid::Uuid::new_v4());
        recipe.log.set_file_name(log);
        Operator::start(&recipe).await
    }

    /// A folder of this world's own.
    pub(crate) fn folder(&self) -> &Path {
        self.scratch.path()
    }

    /// The command of this world's operator, for a test that starts its own.
    pub(crate) fn recipe(&self) -> Recipe {
        self.recipe.clone()
    }

    /// kill -9.
    pub(crate) fn kill_operator(&mut self) {
        if let Some(mut operator) = self.operator.take() {
            operator.kill();
        }
    }

    /// The running operator.
    pub(crate) fn operator(&self) -> &Operator {
        self.operator.as_ref().unwrap()
    }

    /// All that every operator of this world has logged.
    pub(crate) fn operator_log(&self) -> String {
        std::fs::read_to_string(&self.recipe.log).unwrap_or_default()
    }

    pub(crate) fn runs(&self) -> Api<Run> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    pub(crate) fn workspaces(&self) -> Api<Workspace> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    pub(crate) fn secrets(&self) -> Api<Secret> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// Creates a Run. `spec` may leave out the workload.
    pub(crate) async fn create_run(&self, name: &str, mut spec: Value) -> Run {
        if spec.get("workload").is_none() {
            spec["workload"] = json!({"image": "ghcr.io/acme/train:1.4"});
        }
        let run = Run::new(name, serde_json::from_value(spec).unwrap());
        let created = self.runs().create(&PostParams::default(), &run).await;
        created.unwrap()
    }

    /// Creates a Run whose workload steers the reference service (`workload.simulate`).
    pub(crate) async fn simulate(&self, name: &str, simulate: Value) -> Run {
        let workload = json!({"image": "ghcr.io/acme/train:1.4", "simulate": simulate});
        self.create_run(name, json!({"workload": workload})).await
    }

    pub(crate) async fn create_workspace(&self, name: &str, spec: Value) -> Workspace {
        let workspace = Workspace::new(name, serde_json::from_value(spec).unwrap());
        let params = PostParams::default();
        let created = self.workspaces().create(&params, &workspace).await;
        created.unwrap()
    }

    /// Puts a token into the Secret of the Workspace `default`.
    pub(crate) async fn token(&self, token: &str) {
        self.secret(SECRET, json!({"token": token})).await;
    }

    /// Puts another good token there, and waits until so many Workspaces have been checked with it.
    pub(crate) async fn rotate(&self, token: &str, workspaces: usize) {
        let checks = self.service.requests("getWorkspace").await.len();
        self.service.post("tokens", json!({"token": token})).await;
        self.token(token).await;
        self.asked("getWorkspace", checks + workspaces).await;
    }

    /// Creates or changes a Secret.
    pub(crate) async fn secret(&self, name: &str, data: Value) {
        self.secret_in(&self.namespace, name, data).await;
    }

    /// The same in another namespace.
    pub(crate) async fn secret_in(&self, namespace: &str, name: &str, data: Value) {
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": data,
        });
        let params = PatchParams::apply("tests").force();
        let secrets: Api<Secret> = Api::namespaced(self.client.clone(), namespace);
        let applied = secrets.patch(name, &params, &Patch::Apply(secret)).await;
        applied.unwrap();
    }

    /// A merge patch on a Run.
    pub(crate) async fn patch_run(&self, name: &str, patch: Value) -> Run {
        let params = PatchParams::default();
        let patched = self.runs().patch(name, &params, &Patch::Merge(patch)).await;
        patched.unwrap()
    }

    /// A merge patch on a Run's status, as an operator writes it.
    pub(crate) async fn patch_status(&self, name: &str, status: Value) {
        let patch = Patch::Merge(json!({"status": status}));
        let params = PatchParams::default();
        let patched = self.runs().patch_status(name, &params, &patch).await;
        patched.unwrap();
    }

    /// A merge patch on a Workspace's spec.
    pub(crate) async fn patch_workspace(&self, name: &str, spec: Value) {
        let patch = Patch::Merge(json!({"spec": spec}));
        let params = PatchParams::default();
        let patched = self.workspaces().patch(name, &params, &patch).await;
        patched.unwrap();
    }

    /// Asks for the deletion of a Run, and doesn't wait.
    pub(crate) async fn delete_run(&self, name: &str) {
        let params = DeleteParams::default();
        self.runs().delete(name, &params).await.unwrap();
    }

    pub(crate) async fn run(&self, name: &str) -> Run {
        self.runs().get(name).await.unwrap()
    }

    /// Waits until `wanted` is true of a Run.
    pub(crate) async fn run_until(
        &self,
        name: &str,
        what: &str,
        wanted: impl Fn(&Run) -> bool,
    ) -> Run {
        wait::run_until(&self.runs(), name, what, wanted).await
    }

    /// Waits for a phase.
    pub(crate) async fn phase(&self, name: &str, phase: Phase) -> Run {
        self.run_until(name, &format!("is {phase:?}"), |run| {
            phase_of(run) == Some(phase)
        })
        .await
    }

    /// Waits until a condition of a Run has this status and reason.
    pub(crate) async fn condition(
        &self,
        name: &str,
        kind: ConditionType,
        status: &str,
        reason: &str,
    ) -> Run {
        let what = format!("has {}={status} ({reason})", kind.as_str());
        self.run_until(name, &what, |run| {
            condition_of(run, kind).is_some_and(|c| c.status == status && c.reason == reason)
        })
        .await
    }

    /// Waits until a Run is not Ready for this reason.
    pub(crate) async fn not_ready(&self, name: &str, reason: &str) -> Run {
        self.condition(name, ConditionType::Ready, "False", reason)
            .await
    }

    /// Waits until a Run needs a person for this reason.
    pub(crate) async fn stalled(&self, name: &str, reason: &str) -> Run {
        self.condition(name, ConditionType::Stalled, "True", reason)
            .await
    }

    /// Waits until what a Run shows is old for this reason.
    pub(crate) async fn not_synced(&self, name: &str, reason: &str) -> Run {
        self.condition(name, ConditionType::Synced, "False", reason)
            .await
    }

    /// Waits until what a Run shows is the service's present state.
    pub(crate) async fn mirrored(&self, name: &str) -> Run {
        self.condition(name, ConditionType::Synced, "True", "Mirrored")
            .await
    }

    /// Makes a Run that only a cancellation or the test ends, and waits until it runs. Its runID is its name.
    pub(crate) async fn running(&self, name: &str) -> Run {
        let simulate = json!({"runId": name, "outcome": "never"});
        self.simulate(name, simulate).await;
        self.state(name, "running").await
    }

    /// Puts a run of the service into this state.
    pub(crate) async fn set_state(&self, run_id: &str, state: &str) {
        let path = format!("runs/{run_id}/state");
        self.service.post(&path, json!({"state": state})).await;
    }

    /// Waits until a series of the operator's metrics has this value.
    pub(crate) async fn metric_is(&self, series: &str, value: f64) {
        self.metric(series, value..=value).await;
    }

    /// Waits until a series of the operator's metrics is in this range.
    pub(crate) async fn metric(&self, series: &str, wanted: impl RangeBounds<f64> + Debug) {
        eventually(&format!("{series} is in {wanted:?}"), async || {
            let shown = self.operator().metric(series).await;
            let in_range = wanted.contains(&shown);
            if in_range { Ok(()) } else { Err(shown) }
        })
        .await;
    }

    /// Waits until so many event streams are open at the service.
    pub(crate) async fn open_streams(&self, count: u64) {
        eventually(&format!("{count} open streams"), async || {
            let open = self.service.get("stats").await["openStreams"].clone();
            if open == count { Ok(()) } else { Err(open) }
        })
        .await;
    }

    /// Waits until an operator of this world has logged this.
    pub(crate) async fn logs(&self, part: &str) {
        eventually(&format!("{part:?} is logged"), async || {
            let logged = self.operator_log().contains(part);
            if logged { Ok(()) } else { Err("not yet") }
        })
        .await;
    }

    /// Asks for the deletion of a Workspace, and doesn't wait.
    pub(crate) async fn delete_workspace(&self, name: &str) {
        let params = DeleteParams::default();
        self.workspaces().delete(name, &params).await.unwrap();
    }

    /// Waits until a Workspace no longer exists.
    pub(crate) async fn workspace_gone(&self, name: &str) {
        wait::gone(&self.workspaces(), name).await;
    }

    /// Waits until the Run no longer exists.
    pub(crate) async fn gone(&self, name: &str) {
        wait::gone(&self.runs(), name).await;
    }

    /// Waits until the Ready condition of a Workspace has this status and reason.
    pub(crate) async fn workspace_ready(&self, name: &str, status: &str, reason: &str) {
        self.workspace_condition(name, ConditionType::Ready, status, reason)
            .await;
    }

    /// Begins to keep every version of this world's Runs.
    pub(crate) async fn history(&self) -> History {
        History::begin(self.runs()).await
    }

    /// Runs kubectl in this namespace, with `input` on its standard input. What it printed, or what it
    /// complained about.
    pub(crate) async fn kubectl(&self, args: &[&str], input: &str) -> Result<String, String> {
        let mut command = self.control_plane.kubectl();
        command.args(["--namespace", &self.namespace]).args(args);
        output_of(command, input).await
    }

    /// The Kubernetes Events about an object.
    pub(crate) async fn about(&self, name: &str) -> Vec<Event> {
        let api: Api<Event> = Api::namespaced(self.client.clone(), &self.namespace);
        let mut events = api.list(&ListParams::default()).await.unwrap().items;
        events.retain(|event| {
            let regarding = event.regarding.as_ref();
            regarding.is_some_and(|object| object.name.as_deref() == Some(name))
        });
        events
    }

    /// Those with this reason.
    pub(crate) async fn events(&self, name: &str, reason: &str) -> Vec<Event> {
        let mut events = self.about(name).await;
        events.retain(|event| event.reason.as_deref() == Some(reason));
        events
    }

    /// Waits for a Kubernetes Event about a Run, and gives back its text.
    pub(crate) async fn event(&self, name: &str, reason: &str) -> String {
        eventually(&format!("the Event {reason} about {name}"), async || {
            let events = self.events(name, reason).await;
            let note = events.first().and_then(|event| event.note.clone());
            note.ok_or("none")
        })
        .await
    }

    /// Waits until the service was asked for `operation` so many times, answered or not.
    pub(crate) async fn asked(&self, operation: &str, times: usize) {
        eventually(&format!("{times} requests {operation}"), async || {
            let asked = self.service.requests(operation).await.len();
            if asked >= times { Ok(()) } else { Err(asked) }
        })
        .await;
    }

    /// Waits until a Run is in this state of the service, as the status shows it.
    pub(crate) async fn state(&self, name: &str, state: &str) -> Run {
        self.run_until(name, &format!("is {state}"), |run| {
            run.status.as_ref().and_then(|s| s.state.as_deref()) == Some(state)
        })
        .await
    }

    /// Waits until the operator has taken its finalizer off.
    pub(crate) async fn released(&self, name: &str) -> Run {
        self.run_until(name, "is released", |run| !held(run)).await
    }

    /// A further namespace.
    pub(crate) async fn create_namespace(&self, name: &str, labels: Value) {
        let namespace = json!({"metadata": {"name": name, "labels": labels}});
        let namespace = serde_json::from_value(namespace).unwrap();
        let api: Api<Namespace> = Api::all(self.client.clone());
        let params = PostParams::default();
        api.create(&params, &namespace).await.unwrap();
    }

    /// Creates or changes an object of ours, in a namespace or (`""`) of the cluster.
    pub(crate) async fn apply(&self, namespace: &str, kind: &str, name: &str, spec: Value) {
        let object = json!({
            "apiVersion": "run-operator.dev/v1alpha1", "kind": kind,
            "metadata": {"name": name}, "spec": spec,
        });
        let plane = self.control_plane;
        let applied = plane.apply_yaml_in(namespace, &object.to_string()).await;
        applied.unwrap();
    }
}

/// True if a Run has the operator's finalizer.
pub(crate) fn held(run: &Run) -> bool {
    run.finalizers().iter().any(|f| f == names::FINALIZER)
}

/// The intent annotation of a Run, as JSON.
pub(crate) fn intent_of(run: &Run) -> Option<Value> {
    let text = run.annotations().get(names::INTENT_ANNOTATION)?;
    Some(serde_json::from_str(text).unwrap())
}

/// The phase that the operator has written.
pub(crate) fn phase_of(run: &Run) -> Option<Phase> {
    let status = run.status.as_ref();
    status.filter(|status| status.is_observed())?.phase
}
