//! Everything that runs for one measurement. Dropping it ends it all, by pid.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use futures::future::try_join_all;
use k8s_openapi::api::events::v1::Event;
use kube::{Api, api::ListParams};
use serde_json::json;
use test_cluster::{ControlPlane, Recipe, ReferenceService, Scratch, Tls, Tool};
use test_support::root;
use tokio::time::sleep;

use super::audit;
use super::etcd::Etcd;
use super::operator::Operator;
use super::table::Row;
use super::usage::Usage;
use crate::common::{Error, Outcome, program, read, run, until, write};

/// The token of every Workspace.
const TOKEN: &str = "bench";
/// A certificate for 127.0.0.1, its key, and its authority: those of the client's tests.
const CERTIFICATES: &str = "tests/client/tls";
/// Time for the control plane to come to rest.
const PATIENCE: Duration = Duration::from_mins(5);
/// Time for the last Events to be sent.
const EVENTS: Duration = Duration::from_secs(90);
/// Time over which the control plane is watched before a measurement.
const REST: Duration = Duration::from_secs(2);
/// Connections of a loader: one alone would be a limit of its own.
const CLIENTS: usize = 8;

/// The parts of one measurement. Dropped from top to bottom.
pub(super) struct Stage {
    pub(super) service: ReferenceService,
    /// Whether the service is reached by HTTP/2 over TLS, and not by HTTP/1.1 without.
    http2: bool,
    pub(super) client: kube::Client,
    pub(super) control_plane: ControlPlane,
    scratch: Scratch,
}

/// The usage of the operator, the API server, etcd and the service.
pub(super) type Measured = [Usage; 4];

/// Requests by what was asked for.
#[derive(Default)]
pub(super) struct Requests(BTreeMap<String, u64>);

impl Requests {
    /// Those that came after `earlier`.
    pub(super) fn since(mut self, earlier: &Self) -> Self {
        for (what, count) in &mut self.0 {
            *count -= earlier.0.get(what).unwrap_or(&0);
        }
        self.0.retain(|_, count| *count > 0);
        self
    }

    /// What was asked for, and how often for each of so many.
    pub(super) fn for_each(&self, count: usize) -> Vec<Row> {
        let count = count as u64;
        let row = |(what, all): (&String, &u64)| {
            let hundredths = (all * 100 + count / 2) / count;
            let each = format!("{}.{:02}", hundredths / 100, hundredths % 100);
            (what.clone(), each)
        };
        self.0.iter().map(row).collect()
    }

    /// What was asked for, and how often.
    pub(super) fn rows(&self) -> Vec<Row> {
        let rows = self.0.iter();
        rows.map(|(what, count)| (what.clone(), count.to_string()))
            .collect()
    }

    /// How often anything was asked for.
    pub(super) fn all(&self) -> u64 {
        self.0.values().sum()
    }
}

impl Stage {
    /// A control plane with the CRDs, a namespace with a Workspace, and a service. No operator yet.
    pub(super) async fn set(namespace: &str) -> Outcome<Self> {
        Self::set_over(false, namespace).await
    }

    /// The same, with a service that is reached by HTTP/2 over TLS, or by HTTP/1.1 without.
    pub(super) async fn set_over(http2: bool, namespace: &str) -> Outcome<Self> {
        let control_plane = ControlPlane::start(test_cluster::Options::default()).await?;
        Self::on(control_plane, http2, namespace).await
    }

    /// The same, on this control plane.
    pub(super) async fn on(
        control_plane: ControlPlane,
        http2: bool,
        namespace: &str,
    ) -> Outcome<Self> {
        let scratch = Scratch::new("bench")?;
        let mut crds = Command::new(operator()?);
        crds.arg("crds");
        control_plane.apply_yaml(&run(crds, "").await?).await?;
        let file = |name| root().join(CERTIFICATES).join(name);
        let tls = ["server.pem", "server.key", "ca.pem"].map(file);
        let [certificate, key, ca] = &tls;
        let recipe = Recipe {
            program: &program("reference-service")?,
            folder: scratch.path(),
            token: TOKEN,
            record: false,
            tls: http2.then_some(Tls {
                certificate,
                key,
                ca,
            }),
        };
        let service = ReferenceService::start(recipe, &[]).await?;
        let stage = Self {
            service,
            http2,
            client: control_plane.client().await?,
            control_plane,
            scratch,
        };
        stage.namespace(namespace).await?;
        Ok(stage)
    }

    /// Makes a namespace with a Workspace.
    pub(super) async fn namespace(&self, name: &str) -> Outcome<()> {
        let namespace =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "service"},
            "stringData": {"token": TOKEN, "ca.crt": read(&root().join(CERTIFICATES).join("ca.pem"))?},
        });
        let mut workspace = json!({
            "apiVersion": "run-operator.dev/v1alpha1", "kind": "Workspace",
            "metadata": {"name": "default"},
            "spec": {"tokenSecretRef": {"name": "service", "key": "token"}},
        });
        if self.http2 {
            workspace["spec"]["caSecretRef"] = json!({"name": "service"});
        }
        let all = format!("{namespace}\n---\n{secret}\n---\n{workspace}");
        self.control_plane.apply_yaml_in(name, &all).await?;
        Ok(())
    }

    /// Waits until a namespace's Workspace is Ready.
    pub(super) async fn workspace_ready(&self, namespace: &str) -> Outcome<()> {
        let mut wait = self.control_plane.kubectl();
        wait.args(["wait", "workspaces.run-operator.dev/default", "--namespace"]);
        wait.args([namespace, "--for=condition=Ready", "--timeout=300s"]);
        run(wait, "").await?;
        Ok(())
    }

    /// Waits until the API server and etcd are idle after their start. Otherwise a measurement would include the work of
    /// the start.
    pub(super) async fn at_rest(&self) -> Outcome<()> {
        let seen = || "it is still busy".to_owned();
        until("the control plane is at rest", PATIENCE, seen, async || {
            let before = self.measured(None)?;
            sleep(REST).await;
            let [_, apiserver, etcd, _] = self.used_since(before, None)?;
            let busy = apiserver.cpu + etcd.cpu;
            Ok(busy * 20 < REST)
        })
        .await
    }

    /// Waits until the API server has so many Events of a namespace, but not for longer than they could take: how many
    /// there are is what is measured.
    pub(super) async fn events(&self, namespace: &str, count: usize) -> Outcome<()> {
        let api: Api<Event> = Api::namespaced(self.client.clone(), namespace);
        let one = ListParams::default().limit(1);
        let waited = until("the Events are there", EVENTS, String::new, async || {
            let listed = api.list_metadata(&one).await?;
            let more = listed.metadata.remaining_item_count.unwrap_or_default();
            let all = listed.items.len() + usize::try_from(more).unwrap_or_default();
            Ok(all >= count)
        })
        .await;
        match waited {
            Err(Error::Wait { .. }) => Ok(()),
            waited => waited,
        }
    }

    /// Clients with a connection each.
    pub(super) async fn clients(&self) -> Outcome<Vec<kube::Client>> {
        let clients = (0..CLIENTS).map(|_| self.control_plane.client());
        Ok(try_join_all(clients).await?)
    }

    /// Starts an operator with these arguments and waits until it is ready; returns how long that took.
    pub(super) async fn operator(&self, args: &[&str]) -> Outcome<(Operator, Duration)> {
        let mut command = Command::new(operator()?);
        command
            .arg("controller")
            .args(["--base-url", &self.service.base_url()])
            .args(["--cluster-resource-namespace", "default"])
            .args(args)
            .env("KUBECONFIG", self.control_plane.kubeconfig());
        Operator::start(command, self.scratch.path()).await
    }

    /// Writes a contract file by which no event names a state, and returns its path.
    pub(super) fn contract_without_states(&self) -> Outcome<String> {
        let text = read(&root().join("contract/profile.yaml"))?;
        let without = text.replace("statePointers: [/state]\n", "statePointers: [/absent]\n");
        if without == text {
            return Err("contract/profile.yaml has no state in events".into());
        }
        let path = self.scratch.path().join("contract.yaml");
        write(&path, without)?;
        Ok(path.to_string_lossy().into_owned())
    }

    /// What every process has used until now.
    pub(super) fn measured(&self, operator: Option<&Operator>) -> Outcome<Measured> {
        let pids = self.control_plane.pids();
        let of = |wanted: Tool| {
            let found = pids.iter().find(|(tool, _)| *tool == wanted);
            found.map_or_else(|| Ok(Usage::default()), |(_, pid)| Usage::of(*pid))
        };
        let operator = operator.map(Operator::usage).transpose()?;
        Ok([
            operator.unwrap_or_default(),
            of(Tool::ApiServer)?,
            of(Tool::Etcd)?,
            Usage::of(self.service.pid())?,
        ])
    }

    /// What every process has used since then.
    pub(super) fn used_since(
        &self,
        before: Measured,
        operator: Option<&Operator>,
    ) -> Outcome<Measured> {
        let now = self.measured(operator)?;
        Ok(std::array::from_fn(|n| now[n] - before[n]))
    }

    /// The operator's requests until now: to the API server by its audit log, to the service by its own count.
    pub(super) async fn requests(&self) -> Outcome<Requests> {
        let mut counts = BTreeMap::new();
        for entry in self.audited()? {
            let what = [entry.object_ref.resource, entry.object_ref.subresource].join("/");
            let what = format!("{} {}", entry.verb, what.trim_end_matches('/'));
            *counts.entry(what).or_default() += 1;
        }
        let stats = self.service.read("stats").await?;
        for (operation, by_status) in stats["requests"].as_object().into_iter().flatten() {
            let all = by_status.as_object().into_iter().flatten();
            let sum = all.filter_map(|(_, count)| count.as_u64()).sum();
            counts.insert(format!("service {operation}"), sum);
        }
        Ok(Requests(counts))
    }

    /// The operator's requests to the API server until now, in their order, as its audit log has them.
    pub(super) fn audited(&self) -> Outcome<Vec<audit::Entry>> {
        let log = self.control_plane.audit_log();
        audit::of_operator(&log.ok_or(test_cluster::Error::NotOurs)?)
    }

    /// The control plane's etcd.
    pub(super) fn etcd(&self) -> Outcome<Etcd> {
        let url = self.control_plane.etcd_url();
        Ok(Etcd::new(url.ok_or(test_cluster::Error::NotOurs)?))
    }
}

/// The operator that is measured: as it is released, where `.ci/bench` has built that.
fn operator() -> Outcome<PathBuf> {
    match std::env::var_os("RUN_OPERATOR_PROGRAM") {
        Some(path) => Ok(PathBuf::from(path)),
        None => program("run-operator"),
    }
}
