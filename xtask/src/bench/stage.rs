//! Everything that runs for one measurement. Dropping it ends it all, by pid.

use std::collections::BTreeMap;
use std::ops::Sub;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use futures::future::try_join_all;
use serde_json::json;
use test_cluster::{ControlPlane, Output, Process, Scratch, Tool, free_port, run};
use test_support::programs;
use tokio::time::sleep;

use crate::service::{Recipe, Service};

use super::audit::{self, ObjectRef};
use super::error::BenchError;
use super::usage::Usage;

/// The token of every Workspace.
const TOKEN: &str = "bench";
/// Time for the operator to be ready, and for a Workspace to be.
const PATIENCE: Duration = Duration::from_mins(5);
/// Interval of checking a condition that can't be waited for.
const POLL: Duration = Duration::from_millis(5);
/// Connections of a loader: one alone would be a limit of its own.
const CLIENTS: usize = 8;

/// The parts of one measurement. Dropped from top to bottom.
pub(super) struct Stage {
    operator: Option<Process>,
    pub(super) service: Service,
    pub(super) client: kube::Client,
    control_plane: ControlPlane,
    operator_port: u16,
    scratch: Scratch,
}

/// The usage of each process.
#[derive(Clone, Copy, Default)]
pub(super) struct Measured {
    pub(super) operator: Usage,
    pub(super) apiserver: Usage,
    pub(super) etcd: Usage,
    pub(super) service: Usage,
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
    pub(super) fn since(&self, earlier: &Self) -> Self {
        let before = |what: &String| earlier.0.get(what).copied().unwrap_or_default();
        let all = self.0.iter();
        let more = all.map(|(what, count)| (what.clone(), count.saturating_sub(before(what))));
        Self(more.filter(|(_, count)| *count > 0).collect())
    }

    /// Rows for a table: what was asked for, and how often for each of so many.
    pub(super) fn for_each(&self, count: usize) -> Vec<Vec<String>> {
        let count = u64::try_from(count.max(1)).unwrap_or(u64::MAX);
        let row = |(what, all): (&String, &u64)| {
            let hundredths = (all * 100 + count / 2) / count;
            vec![
                what.clone(),
                format!("{}.{:02}", hundredths / 100, hundredths % 100),
            ]
        };
        self.0.iter().map(row).collect()
    }

    /// Rows for a table: what was asked for, and how often.
    pub(super) fn rows(&self) -> Vec<Vec<String>> {
        let rows = self.0.iter();
        rows.map(|(what, count)| vec![what.clone(), count.to_string()])
            .collect()
    }
}

impl Stage {
    /// A control plane with the CRDs, and a service. No operator yet.
    pub(super) async fn set() -> Result<Self, BenchError> {
        let control_plane = ControlPlane::start(test_cluster::Options::default()).await?;
        Self::on(control_plane).await
    }

    /// The same, whose audit log holds the bodies of requests.
    pub(super) async fn set_with_audited_bodies() -> Result<Self, BenchError> {
        Self::on(ControlPlane::start_with_audited_bodies().await?).await
    }

    async fn on(control_plane: ControlPlane) -> Result<Self, BenchError> {
        let scratch = Scratch::new("bench")?;
        let mut crds = Command::new(program("run-operator")?);
        crds.arg("crds");
        control_plane.apply_yaml(&run(crds, "")?).await?;
        let service = Service::start(Recipe {
            program: &program("reference-service")?,
            folder: &scratch,
            token: TOKEN,
            record: false,
        })
        .await?;
        Ok(Self {
            operator: None,
            service,
            client: control_plane.client().await?,
            control_plane,
            operator_port: free_port()?,
            scratch,
        })
    }

    /// Makes a namespace with a Workspace.
    pub(super) async fn namespace(&self, name: &str) -> Result<(), BenchError> {
        let namespace =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret",
            "metadata": {"name": "run-operator-token"}, "stringData": {"token": TOKEN},
        });
        let workspace = json!({
            "apiVersion": "run-operator.dev/v1alpha1", "kind": "Workspace",
            "metadata": {"name": "default"},
            "spec": {"tokenSecretRef": {"name": "run-operator-token", "key": "token"}},
        });
        self.control_plane
            .apply_yaml(&namespace.to_string())
            .await?;
        for object in [secret, workspace] {
            let text = object.to_string();
            self.control_plane.apply_yaml_in(name, &text).await?;
        }
        Ok(())
    }

    /// Clients with a connection each.
    pub(super) async fn clients(&self) -> Result<Vec<kube::Client>, BenchError> {
        let clients = (0..CLIENTS).map(|_| self.control_plane.client());
        Ok(try_join_all(clients).await?)
    }

    /// Starts the operator and waits until it is ready; returns how long that took.
    pub(super) async fn start_operator(&mut self) -> Result<Duration, BenchError> {
        self.start_operator_with(&[]).await
    }

    /// The same, with further arguments.
    pub(super) async fn start_operator_with(
        &mut self,
        args: &[&str],
    ) -> Result<Duration, BenchError> {
        let mut command = Command::new(program("run-operator")?);
        command
            .arg("controller")
            .args(["--base-url", &self.service.base_url()])
            .args(["--listen", &format!("127.0.0.1:{}", self.operator_port)])
            .args(["--cluster-resource-namespace", "default"])
            .args(args)
            .env("KUBECONFIG", self.control_plane.kubeconfig());
        let log = self.scratch.path().join("operator.log");
        let began = Instant::now();
        self.operator = Some(Process::spawn(&command, Output::File(log))?);
        let http = reqwest::Client::new();
        let url = self.url("readyz");
        loop {
            let answer = http.get(&url).send().await;
            if answer.is_ok_and(|answer| answer.status().is_success()) {
                return Ok(began.elapsed());
            }
            let ended = self.operator.as_mut().and_then(Process::exit_code);
            if ended.is_some() || began.elapsed() > PATIENCE {
                return Err(BenchError::Wait {
                    what: "the operator is ready",
                    after: began.elapsed(),
                    seen: self.operator_log(),
                });
            }
            sleep(POLL).await;
        }
    }

    /// Ends the operator in order.
    pub(super) async fn stop_operator(&mut self) -> Result<(), BenchError> {
        if let Some(mut operator) = self.operator.take() {
            operator.terminate();
            if operator.wait_exit(PATIENCE).await.is_none() {
                return Err(BenchError::Wait {
                    what: "the operator has ended",
                    after: PATIENCE,
                    seen: operator.log_tail(),
                });
            }
        }
        Ok(())
    }

    /// Reads the operator's metrics; returns how long that took.
    pub(super) async fn scrape(&self) -> Result<Duration, BenchError> {
        let began = Instant::now();
        let answer = reqwest::get(self.url("metrics")).await;
        let text = match answer {
            Ok(answer) => answer.text().await,
            Err(error) => Err(error),
        };
        match text {
            Ok(text) if text.contains("run_operator_runs") => Ok(began.elapsed()),
            Ok(text) => Err(BenchError::Unexpected(format!("the metrics {text}"))),
            Err(error) => Err(BenchError::Unexpected(format!("the metrics: {error}"))),
        }
    }

    /// What every process has used until now.
    pub(super) fn measured(&self) -> Result<Measured, BenchError> {
        let pids = self.control_plane.pids();
        let of = |wanted: Tool| {
            let found = pids.iter().find(|(tool, _)| *tool == wanted);
            found.map_or_else(|| Ok(Usage::default()), |(_, pid)| Usage::of(*pid))
        };
        let operator = self.operator.as_ref().map(Process::pid);
        Ok(Measured {
            operator: operator.map_or_else(|| Ok(Usage::default()), Usage::of)?,
            apiserver: of(Tool::ApiServer)?,
            etcd: of(Tool::Etcd)?,
            service: Usage::of(self.service.pid())?,
        })
    }

    /// The operator's requests until now: to the API server by its audit log, to the service by its own count.
    pub(super) async fn requests(&self) -> Result<Requests, BenchError> {
        let mut counts = BTreeMap::new();
        for entry in audit::of_operator(&self.audit_log()?)? {
            let ObjectRef {
                resource,
                subresource,
                ..
            } = entry.object_ref;
            let what = [resource, subresource].join("/");
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
    pub(super) fn audit_log(&self) -> Result<PathBuf, BenchError> {
        let log = self.control_plane.audit_log();
        log.ok_or_else(|| BenchError::Unexpected("a control plane that is not ours".to_owned()))
    }

    /// The URL at which etcd serves its clients.
    pub(super) fn etcd_url(&self) -> Result<String, BenchError> {
        let url = self.control_plane.etcd_url();
        url.ok_or_else(|| BenchError::Unexpected("a control plane that is not ours".to_owned()))
    }

    /// The end of the operator's log.
    pub(super) fn operator_log(&self) -> String {
        self.operator
            .as_ref()
            .map(Process::log_tail)
            .unwrap_or_default()
    }

    fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}/{path}", self.operator_port)
    }
}

/// A program of the workspace, in the folder where this one is.
fn program(name: &str) -> Result<PathBuf, BenchError> {
    programs::find(name).map_err(BenchError::FindProgram)
}
