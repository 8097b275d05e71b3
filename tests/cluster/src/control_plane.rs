//! A control plane from boot to end.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::OnceCell;

use super::access::{blocking, get};
use super::binaries::{self, Binaries, Tool};
use super::boot::{Layout, Serving};
use super::error::Error;
use super::node::Node;
use super::process::{Output, POLL, Process};
use super::scratch::Scratch;

/// Time limit until a program is ready: seconds as a rule, more on a machine that is busy compiling. One that
/// ends early is noticed at once.
pub(crate) const START_TIMEOUT: Duration = Duration::from_mins(2);
/// Attempts of a boot, each with other ports when one was taken in the meantime.
const PORT_ATTEMPTS: u32 = 4;

/// The programs in addition to etcd and the API server.
#[derive(Debug, Clone, Copy, Default)]
pub struct Options {
    /// kube-controller-manager: deletion of namespaces, garbage collection, service accounts.
    pub controller_manager: bool,
    /// A node for Pods of the host network, and with it the controller manager: needs root, containerd and
    /// runc.
    pub node: bool,
}

impl Options {
    /// The programs that they need.
    pub fn tools(self) -> Vec<Tool> {
        let mut tools = vec![Tool::Etcd, Tool::ApiServer, Tool::Kubectl];
        if self.controller_manager || self.node {
            tools.push(Tool::ControllerManager);
        }
        if self.node {
            tools.extend([Tool::Scheduler, Tool::Kubelet]);
        }
        tools
    }
}

/// A running control plane. Dropping it ends it and removes its data.
#[derive(Debug)]
pub struct ControlPlane {
    pub(crate) kubeconfig: PathBuf,
    pub(crate) kubectl: PathBuf,
    pub(crate) ours: Option<Ours>,
}

/// The parts of a control plane that we started. Dropped from top to bottom.
#[derive(Debug)]
pub(crate) struct Ours {
    pub(crate) node: Option<Node>,
    controller_manager: Option<Process>,
    apiserver: Mutex<Option<Process>>,
    etcd: Mutex<Process>,
    pub(crate) binaries: Binaries,
    pub(crate) layout: Layout,
    scratch: Scratch,
}

impl ControlPlane {
    /// The one control plane of this process: started at the first call, the same for every test,
    /// whatever runtime it runs on. Or the cluster of `RUN_OPERATOR_TEST_KUBECONFIG`, if that is set.
    ///
    /// # Panics
    /// When there is none, with a message that names what to do.
    #[expect(
        clippy::panic,
        reason = "a test without a cluster can only fail, and it fails with the reason"
    )]
    pub async fn shared() -> &'static Self {
        static SHARED: OnceCell<Result<ControlPlane, Error>> = OnceCell::const_new();
        let shared = SHARED.get_or_init(Self::given_or_started).await;
        match shared {
            Ok(control_plane) => control_plane,
            Err(error) => panic!("{}", error.chain()),
        }
    }

    /// Starts one of one's own, for a test that breaks it or needs it empty.
    pub async fn start(options: Options) -> Result<Self, Error> {
        Self::start_serving(options, Serving::default()).await
    }

    /// The same, whose audit log holds the bodies of requests too, but for those of Secrets.
    pub async fn start_with_audited_bodies() -> Result<Self, Error> {
        let serving = Serving {
            audited_bodies: true,
            ..Serving::default()
        };
        Self::start_serving(Options::default(), serving).await
    }

    /// One whose API server behaves as an older one: it serves the APIs and features of `version`, such as `1.34`,
    /// and names it in `/version` beside its own.
    pub async fn start_emulating(version: &'static str) -> Result<Self, Error> {
        let serving = Serving {
            emulated: Some(version),
            ..Serving::default()
        };
        Self::start_serving(Options::default(), serving).await
    }

    /// One with a further admission plugin, such as `OwnerReferencesPermissionEnforcement`.
    pub async fn start_with_admission(plugin: &'static str) -> Result<Self, Error> {
        let serving = Serving {
            admission: Some(plugin),
            ..Serving::default()
        };
        Self::start_serving(Options::default(), serving).await
    }

    async fn start_serving(options: Options, serving: Serving) -> Result<Self, Error> {
        let binaries = blocking(move || Binaries::find_or_build(&options.tools())).await?;
        let mut attempt = 1;
        loop {
            match Self::boot(&binaries, options, serving).await {
                Err(Error::Exited { log, .. })
                    if attempt < PORT_ATTEMPTS && log.contains("address already in use") =>
                {
                    attempt += 1;
                }
                result => return result,
            }
        }
    }

    /// The API server's audit log, one JSON object a line: requests for `run-operator.dev`, Secrets,
    /// Events and Leases, and all that service accounts outside kube-system ask for. None on a given cluster.
    pub fn audit_log(&self) -> Option<PathBuf> {
        Some(self.ours.as_ref()?.layout.audit_log())
    }

    /// The port of the API server, on 127.0.0.1. None on a given cluster.
    pub fn api_port(&self) -> Option<u16> {
        Some(self.ours.as_ref()?.layout.api_port())
    }

    /// The URL at which etcd serves its clients, the JSON gateway included. None on a given cluster.
    pub fn etcd_url(&self) -> Option<String> {
        Some(self.ours.as_ref()?.layout.etcd_url())
    }

    /// The directory of data and logs. None on a given cluster.
    pub fn directory(&self) -> Option<&Path> {
        Some(self.ours.as_ref()?.scratch.path())
    }

    /// The programs that run now, with their pids. Empty on a given cluster.
    pub fn pids(&self) -> Vec<(Tool, u32)> {
        let Some(ours) = &self.ours else {
            return Vec::new();
        };
        let apiserver = locked(&ours.apiserver).as_ref().map(Process::pid);
        let manager = ours.controller_manager.as_ref().map(Process::pid);
        let pids = [
            (Tool::Etcd, Some(locked(&ours.etcd).pid())),
            (Tool::ApiServer, apiserver),
            (Tool::ControllerManager, manager),
        ];
        let running = pids
            .into_iter()
            .filter_map(|(tool, pid)| Some((tool, pid?)));
        let node = ours.node.iter().flat_map(Node::pids);
        running.chain(node).collect()
    }

    /// Kills the API server with SIGKILL: every connection is cut, as in an outage. Data stay.
    pub fn stop_apiserver(&self) -> Result<(), Error> {
        let ours = self.ours.as_ref().ok_or(Error::NotOurs)?;
        drop(locked(&ours.apiserver).take());
        Ok(())
    }

    /// Starts the API server again, on the same port and with the same data, and waits until it is
    /// ready. Does nothing while it runs.
    pub async fn start_apiserver(&self) -> Result<(), Error> {
        let ours = self.ours.as_ref().ok_or(Error::NotOurs)?;
        {
            let mut apiserver = locked(&ours.apiserver);
            if apiserver.is_none() {
                *apiserver = Some(ours.spawn_apiserver()?);
            }
        }
        self.apiserver_ready(ours).await
    }

    /// Kills etcd with SIGKILL. What it has acknowledged stays: the kernel has it, though the disk may not.
    pub fn stop_etcd(&self) -> Result<(), Error> {
        let ours = self.ours.as_ref().ok_or(Error::NotOurs)?;
        locked(&ours.etcd).kill9();
        Ok(())
    }

    /// Starts etcd again, on the same port and with the same data, and waits until the API server, if that
    /// runs, is ready. Only after [`ControlPlane::stop_etcd`].
    pub async fn start_etcd(&self) -> Result<(), Error> {
        let ours = self.ours.as_ref().ok_or(Error::NotOurs)?;
        let command = ours.layout.etcd(&ours.binaries);
        let etcd = Process::spawn(&command, Output::File(ours.layout.log(Tool::Etcd)))?;
        *locked(&ours.etcd) = etcd;
        if locked(&ours.apiserver).is_none() {
            return Ok(());
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

    async fn boot(binaries: &Binaries, options: Options, serving: Serving) -> Result<Self, Error> {
        let scratch = Scratch::new("cluster")?;
        let layout = Layout::create(scratch.path(), serving)?;
        let etcd = layout.etcd(binaries);
        let etcd = Process::spawn(&etcd, Output::File(layout.log(Tool::Etcd)))?;
        let ours = Ours {
            node: None,
            controller_manager: None,
            apiserver: Mutex::new(None),
            etcd: Mutex::new(etcd),
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
        if options.controller_manager || options.node {
            control_plane.start_controller_manager().await?;
        }
        if options.node {
            control_plane.start_node().await?;
        }
        Ok(control_plane)
    }

    /// Waits until the API server is ready and has its `default` namespace, which a fresh one makes on
    /// its own time.
    async fn apiserver_ready(&self, ours: &Ours) -> Result<(), Error> {
        let deadline = Instant::now() + START_TIMEOUT;
        loop {
            if self.answers("/readyz").await && self.answers("/api/v1/namespaces/default").await {
                return Ok(());
            }
            still_starting(&mut locked(&ours.etcd), Tool::Etcd, deadline)?;
            {
                let mut apiserver = locked(&ours.apiserver);
                let process = apiserver.as_mut().ok_or(Error::Stopped)?;
                still_starting(process, Tool::ApiServer, deadline)?;
            }
            tokio::time::sleep(POLL).await;
        }
    }

    /// Starts kube-controller-manager and waits until it has made the first service account.
    async fn start_controller_manager(&mut self) -> Result<(), Error> {
        let ours = self.ours.as_ref().ok_or(Error::NotOurs)?;
        let command = ours.layout.controller_manager(&ours.binaries);
        let log = ours.layout.log(Tool::ControllerManager);
        let mut manager = Process::spawn(&command, Output::File(log))?;
        let deadline = Instant::now() + START_TIMEOUT;
        let account = "/api/v1/namespaces/default/serviceaccounts/default";
        while !self.answers(account).await {
            still_starting(&mut manager, Tool::ControllerManager, deadline)?;
            tokio::time::sleep(POLL).await;
        }
        let ours = self.ours.as_mut().ok_or(Error::NotOurs)?;
        ours.controller_manager = Some(manager);
        Ok(())
    }
}

impl Ours {
    fn spawn_apiserver(&self) -> Result<Process, Error> {
        let command = self.layout.apiserver(&self.binaries);
        Process::spawn(&command, Output::File(self.layout.log(Tool::ApiServer)))
    }
}

/// An error when the process has ended, or has taken too long.
pub(crate) fn still_starting(
    process: &mut Process,
    tool: Tool,
    deadline: Instant,
) -> Result<(), Error> {
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

/// The lock's content, also after a test has panicked with the lock held: it is never half-changed.
fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
