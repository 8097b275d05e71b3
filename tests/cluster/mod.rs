//! The real control plane (etcd and kube-apiserver, on request kube-controller-manager) that integration
//! tests, the demo and `cargo run --example cluster` run on.
//!
//! A suite includes it with `#[path = "../cluster/mod.rs"] mod cluster;` and asks for
//! [`ControlPlane::shared`], which boots once a process, in seconds. Where the programs come from, in
//! this order: `RUN_OPERATOR_TEST_KUBECONFIG` names a cluster to use as it is (plain `KUBECONFIG` is not
//! taken: nobody wants tests in production by accident); `KUBEBUILDER_ASSETS` names a directory that
//! holds them; else they are built once with Go, at the version in go.mod, and kept in
//! `${XDG_CACHE_HOME:-~/.cache}/run-operator/`.
//!
//! Every listener is on 127.0.0.1, any number of control planes run side by side, and all that belongs
//! to one ends with the process that started it, also when that one is killed.

#![allow(
    dead_code,
    unused_imports,
    reason = "each suite that includes this module uses its own part of it"
)]

mod binaries;
mod boot;
mod error;
mod process;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use kube::config::{Config, KubeConfigOptions, Kubeconfig};
use tokio::sync::OnceCell;

use boot::Layout;
use process::POLL;

pub(crate) use binaries::{Binaries, Tool, kubernetes_version};
pub(crate) use error::Error;
pub(crate) use process::{Output, Process, Scratch};

/// How long a program may take until it is ready: seconds as a rule, more on a machine that is busy
/// compiling. One that ends early is noticed at once.
const START_TIMEOUT: Duration = Duration::from_mins(2);
/// How long one look at the API server may take.
const PROBE_TIMEOUT: Duration = Duration::from_secs(5);
/// How often a boot is tried again with other ports when one was taken in the meantime.
const PORT_ATTEMPTS: u32 = 4;

/// What runs beside etcd and the API server.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Options {
    /// kube-controller-manager: deletion of namespaces, garbage collection, service accounts.
    pub(crate) controller_manager: bool,
}

/// A running control plane. Dropping it ends it and removes its data.
#[derive(Debug)]
pub(crate) struct ControlPlane {
    kubeconfig: PathBuf,
    kubectl: PathBuf,
    ours: Option<Ours>,
}

/// What belongs to a control plane that we started. Dropped from top to bottom.
#[derive(Debug)]
struct Ours {
    controller_manager: Option<Process>,
    apiserver: Mutex<Option<Process>>,
    etcd: Process,
    binaries: Binaries,
    layout: Layout,
    scratch: Scratch,
}

impl ControlPlane {
    /// The one control plane of this process: started at the first call, the same for every test,
    /// whatever runtime it runs on. Or the cluster of `RUN_OPERATOR_TEST_KUBECONFIG`, if that is set.
    ///
    /// # Panics
    /// When there is none to be had, with the sentence that says what to do.
    #[expect(
        clippy::panic,
        reason = "a test without a cluster can only fail, and it fails with the reason"
    )]
    pub(crate) async fn shared() -> &'static Self {
        static SHARED: OnceCell<Result<ControlPlane, Error>> = OnceCell::const_new();
        let shared = SHARED.get_or_init(Self::given_or_started).await;
        match shared {
            Ok(control_plane) => control_plane,
            Err(error) => panic!("{}", error.chain()),
        }
    }

    /// Starts one of one's own, for a test that breaks it or needs it empty.
    pub(crate) async fn start(options: Options) -> Result<Self, Error> {
        let mut tools = vec![Tool::Etcd, Tool::ApiServer, Tool::Kubectl];
        if options.controller_manager {
            tools.push(Tool::ControllerManager);
        }
        let binaries = blocking(move || Binaries::find_or_build(&tools)).await?;
        let mut attempt = 1;
        loop {
            match Self::boot(&binaries, options).await {
                Err(Error::Exited { log, .. })
                    if attempt < PORT_ATTEMPTS && log.contains("address already in use") =>
                {
                    attempt += 1;
                }
                result => return result,
            }
        }
    }

    /// The administrator's kubeconfig (mode 0600).
    pub(crate) fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// A new client with the administrator's rights and the user agent `run-operator-tests`. It belongs to the runtime it is made on: a test
    /// makes its own.
    pub(crate) async fn client(&self) -> Result<kube::Client, Error> {
        // With two TLS providers in the tree, and none of them chosen, the first connection panics. An
        // error says that it was chosen before.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let kubeconfig = Kubeconfig::read_from(&self.kubeconfig).map_err(Error::ReadKubeconfig)?;
        let options = KubeConfigOptions::default();
        let config = Config::from_custom_kubeconfig(kubeconfig, &options).await;
        let mut config = config.map_err(Error::ReadKubeconfig)?;
        // kube sends none by itself, and the audit log couldn't tell the tests from the operator.
        let name = http::HeaderValue::from_static("run-operator-tests");
        config.headers.push((http::header::USER_AGENT, name));
        kube::Client::try_from(config).map_err(Error::Request)
    }

    /// A `kubectl` that talks to this control plane and keeps its own cache out of the home directory.
    pub(crate) fn kubectl(&self) -> Command {
        let mut command = Command::new(&self.kubectl);
        command.env("KUBECONFIG", &self.kubeconfig);
        if let Some(ours) = &self.ours {
            command.env("KUBECACHEDIR", ours.scratch.path().join("kubectl"));
        }
        command
    }

    /// The API server's own metrics, in the text format.
    pub(crate) async fn metrics(&self) -> Result<String, Error> {
        get(&self.client().await?, "/metrics").await
    }

    /// Applies a text of one or more YAML documents by server-side apply, and waits until every CRD in
    /// it is established. Gives back what kubectl printed.
    pub(crate) async fn apply_yaml(&self, yaml: &str) -> Result<String, Error> {
        self.apply(&["-f", "-"], yaml).await
    }

    /// As [`Self::apply_yaml`], with a namespace for the documents that name none.
    pub(crate) async fn apply_yaml_in(&self, namespace: &str, yaml: &str) -> Result<String, Error> {
        self.apply(&["-n", namespace, "-f", "-"], yaml).await
    }

    /// As [`Self::apply_yaml`], for a file or a directory of files.
    pub(crate) async fn apply_file(&self, path: &Path) -> Result<String, Error> {
        self.apply(&["-f", &path.to_string_lossy()], "").await
    }

    /// The API server's audit log, one JSON object a line: requests for `run-operator.dev`, Secrets and
    /// Events, and all that service accounts outside kube-system ask for. None on a given cluster.
    pub(crate) fn audit_log(&self) -> Option<PathBuf> {
        Some(self.ours.as_ref()?.layout.audit_log())
    }

    /// The directory of data and logs. None on a given cluster.
    pub(crate) fn directory(&self) -> Option<&Path> {
        Some(self.ours.as_ref()?.scratch.path())
    }

    /// The programs that run now, with their pids. Empty on a given cluster.
    pub(crate) fn pids(&self) -> Vec<(Tool, u32)> {
        let Some(ours) = &self.ours else {
            return Vec::new();
        };
        let apiserver = locked(&ours.apiserver).as_ref().map(Process::pid);
        let manager = ours.controller_manager.as_ref().map(Process::pid);
        let pids = [
            (Tool::Etcd, Some(ours.etcd.pid())),
            (Tool::ApiServer, apiserver),
            (Tool::ControllerManager, manager),
        ];
        let running = pids
            .into_iter()
            .filter_map(|(tool, pid)| Some((tool, pid?)));
        running.collect()
    }

    /// Kills the API server with SIGKILL: every connection is cut, as in an outage. Data stay.
    pub(crate) fn stop_apiserver(&self) -> Result<(), Error> {
        let ours = self.ours.as_ref().ok_or(Error::NotOurs)?;
        drop(locked(&ours.apiserver).take());
        Ok(())
    }

    /// Starts the API server again, on the same port and with the same data, and waits until it is
    /// ready. Does nothing while it runs.
    pub(crate) async fn start_apiserver(&self) -> Result<(), Error> {
        let ours = self.ours.as_ref().ok_or(Error::NotOurs)?;
        {
            let mut apiserver = locked(&ours.apiserver);
            if apiserver.is_none() {
                *apiserver = Some(ours.spawn_apiserver()?);
            }
        }
        self.apiserver_ready(ours).await
    }

    /// The cluster that the environment names, or one of our own.
    async fn given_or_started() -> Result<Self, Error> {
        let Some(kubeconfig) = binaries::set_variable("RUN_OPERATOR_TEST_KUBECONFIG") else {
            return Self::start(Options::default()).await;
        };
        let given = Self {
            kubeconfig: PathBuf::from(kubeconfig),
            kubectl: Binaries::locate()?.path(Tool::Kubectl),
            ours: None,
        };
        // A cluster that doesn't answer is reported once, here, and not by every test in its own words.
        get(&given.client().await?, "/version").await?;
        Ok(given)
    }

    async fn boot(binaries: &Binaries, options: Options) -> Result<Self, Error> {
        let scratch = Scratch::new("cluster")?;
        let layout = Layout::create(scratch.path())?;
        let etcd = layout.etcd(binaries);
        let etcd = Process::spawn(&etcd, Output::File(layout.log(Tool::Etcd)))?;
        let ours = Ours {
            controller_manager: None,
            apiserver: Mutex::new(None),
            etcd,
            binaries: binaries.clone(),
            layout,
            scratch,
        };
        let mut control_plane = Self {
            kubeconfig: ours.layout.kubeconfig(),
            kubectl: binaries.path(Tool::Kubectl),
            ours: Some(ours),
        };
        control_plane.start_apiserver().await?;
        if options.controller_manager {
            control_plane.start_controller_manager().await?;
        }
        Ok(control_plane)
    }

    /// Waits until the API server is ready and has its `default` namespace, which is the last thing that
    /// a fresh one makes.
    async fn apiserver_ready(&self, ours: &Ours) -> Result<(), Error> {
        let deadline = Instant::now() + START_TIMEOUT;
        loop {
            if self.answers("/readyz").await && self.answers("/api/v1/namespaces/default").await {
                return Ok(());
            }
            {
                let mut apiserver = locked(&ours.apiserver);
                // None: a parallel call has stopped it.
                let process = apiserver.as_mut().ok_or(Error::NotOurs)?;
                still_starting(process, Tool::ApiServer, deadline)?;
            }
            tokio::time::sleep(POLL).await;
        }
    }

    /// Starts kube-controller-manager and waits until it has made the first service account.
    async fn start_controller_manager(&mut self) -> Result<(), Error> {
        let ours = self.ours.as_mut().ok_or(Error::NotOurs)?;
        let command = ours.layout.controller_manager(&ours.binaries);
        let log = ours.layout.log(Tool::ControllerManager);
        ours.controller_manager = Some(Process::spawn(&command, Output::File(log))?);
        let deadline = Instant::now() + START_TIMEOUT;
        while !self
            .answers("/api/v1/namespaces/default/serviceaccounts/default")
            .await
        {
            let manager = self
                .ours
                .as_mut()
                .and_then(|ours| ours.controller_manager.as_mut());
            if let Some(process) = manager {
                still_starting(process, Tool::ControllerManager, deadline)?;
            }
            tokio::time::sleep(POLL).await;
        }
        Ok(())
    }

    /// Whether the API server answers `path` with 200, now. A new client each time: its certificate may
    /// not have been there a moment ago.
    async fn answers(&self, path: &str) -> bool {
        let attempt = async { get(&self.client().await?, path).await };
        let answer = tokio::time::timeout(PROBE_TIMEOUT, attempt).await;
        answer.is_ok_and(|answer| answer.is_ok())
    }

    async fn apply(&self, source: &[&str], stdin: &str) -> Result<String, Error> {
        let mut apply = self.kubectl();
        apply
            .args(["apply", "--server-side", "--force-conflicts"])
            .args(source);
        let stdin = stdin.to_owned();
        let applied = blocking(move || process::run(apply, &stdin)).await?;
        let crds: Vec<&str> = applied
            .lines()
            .filter_map(|line| line.split_whitespace().next())
            .filter(|name| name.starts_with("customresourcedefinition.apiextensions.k8s.io/"))
            .collect();
        if !crds.is_empty() {
            let mut wait = self.kubectl();
            wait.args(["wait", "--for=condition=Established", "--timeout=60s"])
                .args(crds);
            blocking(move || process::run(wait, "")).await?;
        }
        Ok(applied)
    }
}

impl Ours {
    fn spawn_apiserver(&self) -> Result<Process, Error> {
        let command = self.layout.apiserver(&self.binaries);
        Process::spawn(&command, Output::File(self.layout.log(Tool::ApiServer)))
    }
}

/// An error when the process has ended, or has taken too long.
fn still_starting(process: &mut Process, tool: Tool, deadline: Instant) -> Result<(), Error> {
    let program = tool.name();
    if let Some(code) = process.exit_code() {
        let log = process.log_tail();
        return Err(Error::Exited { program, code, log });
    }
    if Instant::now() >= deadline {
        let log = process.log_tail();
        return Err(Error::NotReady {
            program,
            after: START_TIMEOUT,
            log,
        });
    }
    Ok(())
}

async fn get(client: &kube::Client, path: &str) -> Result<String, Error> {
    let request = http::Request::get(path).body(Vec::new());
    let request = request.map_err(|error| Error::Request(kube::Error::HttpError(error)))?;
    client.request_text(request).await.map_err(Error::Request)
}

/// Runs what blocks beside the runtime, so that a test's other tasks go on.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    }
}

/// The lock's content, also after a test has panicked with the lock held: it is never half-changed.
fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
