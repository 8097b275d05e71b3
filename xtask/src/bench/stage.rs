//! Everything that runs for one measurement. Dropping it ends it all, by pid.

use std::collections::BTreeMap;
use std::ops::Sub;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use futures::future::try_join_all;
use k8s_openapi::api::events::v1::Event;
use kube::{Api, api::ListParams};
use run_operator::api::{
    Workspace,
    conditions::{self, ConditionType},
};
use serde_json::json;
use test_cluster::{ControlPlane, Scratch, Tool, run};
use test_support::root;
use tokio::time::sleep;

use super::audit;
use super::operator::Operator;
use super::table::Row;
use super::usage::Usage;
use crate::common::{Error, Outcome, program, read, until, write};
use crate::service::{Recipe, Service, Tls};

/// The token of every Workspace.
const TOKEN: &str = "bench";
/// Time for a Workspace to be Ready.
const PATIENCE: Duration = Duration::from_mins(5);
/// Time for the last Events to be sent.
const EVENTS: Duration = Duration::from_secs(90);
/// Time over which the control plane is watched before a measurement.
const REST: Duration = Duration::from_secs(2);
/// Connections of a loader: one alone would be a limit of its own.
const CLIENTS: usize = 8;

/// The parts of one measurement. Dropped from top to bottom.
pub(super) struct Stage {
    operator: Option<Operator>,
    pub(super) service: Service,
    transport: Transport,
    pub(super) client: kube::Client,
    pub(super) control_plane: ControlPlane,
    /// Operators that were ever started.
    started: usize,
    scratch: Scratch,
}

/// How the service is reached.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Transport {
    /// HTTP/1.1 without TLS: a connection for each event stream.
    Http1,
    /// HTTP/2 over TLS.
    Http2,
}

impl Transport {
    /// For a table.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Http1 => "HTTP/1.1",
            Self::Http2 => "HTTP/2 over TLS",
        }
    }
}

/// The usage of each process.
#[derive(Clone, Copy)]
pub(super) struct Measured {
    pub(super) operator: Usage,
    pub(super) apiserver: Usage,
    pub(super) etcd: Usage,
    pub(super) service: Usage,
}

impl Measured {
    /// The operator's time on a core as a share of the API server's and etcd's.
    pub(super) fn operator_share(&self) -> f64 {
        let others = self.apiserver.cpu + self.etcd.cpu;
        self.operator.cpu.as_secs_f64() / others.as_secs_f64()
    }
}

impl Sub for Measured {
    type Output = Self;

    fn sub(self, earlier: Self) -> Self {
        Self {
            operator: self.operator - earlier.operator,
            apiserver: self.apiserver - earlier.apiserver,
            etcd: self.etcd - earlier.etcd,
            service: self.service - earlier.service,
        }
    }
}

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
    /// A control plane with the CRDs, and a service. No operator yet.
    pub(super) async fn set() -> Outcome<Self> {
        Self::set_over(Transport::Http1).await
    }

    /// The same, with a service that is reached so.
    pub(super) async fn set_over(transport: Transport) -> Outcome<Self> {
        let control_plane = ControlPlane::start(test_cluster::Options::default()).await?;
        Self::on(control_plane, transport).await
    }

    /// The same, whose audit log holds the bodies of requests.
    pub(super) async fn set_with_audited_bodies() -> Outcome<Self> {
        let control_plane = ControlPlane::start_with_audited_bodies().await?;
        Self::on(control_plane, Transport::Http1).await
    }

    async fn on(control_plane: ControlPlane, transport: Transport) -> Outcome<Self> {
        let scratch = Scratch::new("bench")?;
        let mut crds = Command::new(operator()?);
        crds.arg("crds");
        control_plane.apply_yaml(&run(crds, "")?).await?;
        let service = Service::start(Recipe {
            program: &program("reference-service")?,
            folder: scratch.path(),
            token: TOKEN,
            record: false,
            tls: (transport == Transport::Http2).then_some(Tls {
                certificate: &certificate("server.pem"),
                key: &certificate("server.key"),
                ca: &certificate("ca.pem"),
            }),
        })
        .await?;
        Ok(Self {
            operator: None,
            service,
            transport,
            client: control_plane.client().await?,
            control_plane,
            started: 0,
            scratch,
        })
    }

    /// Makes a namespace with a Workspace.
    pub(super) async fn namespace(&self, name: &str) -> Outcome<()> {
        let namespace =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "service"},
            "stringData": {"token": TOKEN, "ca.crt": read(&certificate("ca.pem"))?},
        });
        let mut workspace = json!({
            "apiVersion": "run-operator.dev/v1alpha1", "kind": "Workspace",
            "metadata": {"name": "default"},
            "spec": {"tokenSecretRef": {"name": "service", "key": "token"}},
        });
        if self.transport == Transport::Http2 {
            workspace["spec"]["caSecretRef"] = json!({"name": "service"});
        }
        let all = format!("{namespace}\n---\n{secret}\n---\n{workspace}");
        self.control_plane.apply_yaml_in(name, &all).await?;
        Ok(())
    }

    /// Waits until a namespace's Workspace is Ready.
    pub(super) async fn workspace_ready(&self, namespace: &str) -> Outcome<()> {
        let api: Api<Workspace> = Api::namespaced(self.client.clone(), namespace);
        let seen = || self.operator_log();
        until("the Workspace is Ready", PATIENCE, seen, async || {
            let status = api.get("default").await?.status.unwrap_or_default();
            let ready = conditions::is_true(&status.conditions, ConditionType::Ready);
            Ok(ready.then_some(()))
        })
        .await
    }

    /// Waits until the API server and etcd are idle after their start. Otherwise a measurement would include the work of
    /// the start.
    pub(super) async fn at_rest(&self) -> Outcome<()> {
        let seen = || "it is still busy".to_owned();
        until("the control plane is at rest", PATIENCE, seen, async || {
            let before = self.measured()?;
            sleep(REST).await;
            let used = self.measured()? - before;
            let busy = used.apiserver.cpu + used.etcd.cpu;
            Ok((busy * 20 < REST).then_some(()))
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
            Ok((all >= count).then_some(()))
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

    /// Starts the operator with these arguments and waits until it is ready; returns how long that took.
    pub(super) async fn start_operator(&mut self, args: &[&str]) -> Outcome<Duration> {
        let (operator, took) = self.another_operator(args).await?;
        self.operator = Some(operator);
        Ok(took)
    }

    /// Starts one that is not the stage's own.
    pub(super) async fn another_operator(
        &mut self,
        args: &[&str],
    ) -> Outcome<(Operator, Duration)> {
        let mut command = Command::new(operator()?);
        command
            .arg("controller")
            .args(["--base-url", &self.service.base_url()])
            .args(["--cluster-resource-namespace", "default"])
            .args(args)
            .env("KUBECONFIG", self.control_plane.kubeconfig());
        self.started += 1;
        let log = format!("operator-{}.log", self.started);
        Operator::start(command, self.scratch.path().join(log)).await
    }

    /// Writes a contract file by which no event names a state, and returns its path.
    pub(super) fn contract_without_states(&self) -> Outcome<String> {
        let text = read(&root().join("contract/profile.yaml"))?;
        let without = text.replace("statePointers: [/state]\n", "statePointers: [/absent]\n");
        if without == text {
            return Err("contract/profile.yaml has no state in events"
                .to_owned()
                .into());
        }
        let path = self.scratch.path().join("contract.yaml");
        write(&path, without)?;
        Ok(path.to_string_lossy().into_owned())
    }

    /// Ends the operator in order.
    pub(super) async fn stop_operator(&mut self) -> Outcome<()> {
        match self.operator.take() {
            Some(operator) => operator.stop().await,
            None => Ok(()),
        }
    }

    /// Reads the operator's metrics; returns how long that took.
    pub(super) async fn scrape(&self) -> Outcome<Duration> {
        let operator = self.operator.as_ref();
        operator
            .ok_or_else(|| "there is no operator".to_owned())?
            .scrape()
            .await
    }

    /// What every process has used until now.
    pub(super) fn measured(&self) -> Outcome<Measured> {
        let pids = self.control_plane.pids();
        let of = |wanted: Tool| {
            let found = pids.iter().find(|(tool, _)| *tool == wanted);
            found.map_or_else(|| Ok(Usage::default()), |(_, pid)| Usage::of(*pid))
        };
        let operator = self.operator.as_ref().map(Operator::usage);
        Ok(Measured {
            operator: operator.transpose()?.unwrap_or_default(),
            apiserver: of(Tool::ApiServer)?,
            etcd: of(Tool::Etcd)?,
            service: Usage::of(self.service.pid())?,
        })
    }

    /// The operator's requests until now: to the API server by its audit log, to the service by its own count.
    pub(super) async fn requests(&self) -> Outcome<Requests> {
        let mut counts = BTreeMap::new();
        for entry in audit::of_operator(&self.audit_log()?)? {
            let what = [entry.object_ref.resource, entry.object_ref.subresource].join("/");
            let what = format!("{} {}", entry.verb, what.trim_end_matches('/'));
            *counts.entry(what).or_default() += 1;
        }
        let stats = self.service.stats().await?;
        for (operation, by_status) in stats["requests"].as_object().into_iter().flatten() {
            let all = by_status.as_object().into_iter().flatten();
            let sum = all.filter_map(|(_, count)| count.as_u64()).sum();
            counts.insert(format!("service {operation}"), sum);
        }
        Ok(Requests(counts))
    }

    /// The API server's audit log.
    pub(super) fn audit_log(&self) -> Outcome<PathBuf> {
        Ok(self
            .control_plane
            .audit_log()
            .ok_or(test_cluster::Error::NotOurs)?)
    }

    /// The URL at which etcd serves its clients.
    pub(super) fn etcd_url(&self) -> Outcome<String> {
        Ok(self
            .control_plane
            .etcd_url()
            .ok_or(test_cluster::Error::NotOurs)?)
    }

    /// The end of the operator's log.
    pub(super) fn operator_log(&self) -> String {
        let operator = self.operator.as_ref();
        operator.map(Operator::log).unwrap_or_default()
    }
}

/// The operator that is measured: as it is released, where `.ci/bench` has built that.
fn operator() -> Outcome<PathBuf> {
    match std::env::var_os("RUN_OPERATOR_PROGRAM") {
        Some(path) => Ok(PathBuf::from(path)),
        None => program("run-operator"),
    }
}

/// A file of the client's tests: a certificate for 127.0.0.1, its key, or its authority.
fn certificate(file: &str) -> PathBuf {
    root().join("tests/client/tls").join(file)
}
