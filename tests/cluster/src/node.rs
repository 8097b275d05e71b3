//! A real node: kube-scheduler, containerd and a kubelet. Pods of the host network run on it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use serde_json::{Value, json};

use super::access::{blocking, get};
use super::binaries::{Binaries, Tool};
use super::boot::{Layout, free_port};
use super::cgroup::Cgroup;
use super::control_plane::{ControlPlane, START_TIMEOUT, still_starting};
use super::error::Error;
use super::node_support::{isolated, obstacle, on_path};
use super::process::{Output, POLL, Process, run};

/// The node's name: it resolves to loopback, where the API server finds the kubelet for `kubectl logs`.
pub const NODE: &str = "localhost";
/// The image of each Pod's first container.
pub const PAUSE_IMAGE: &str = "run-operator.dev/pause:1";

const SCRIPT: &str = include_str!("node.sh");

/// A node and what brings Pods to it. Dropped from top to bottom.
#[derive(Debug)]
pub(crate) struct Node {
    scheduler: Process,
    /// The namespaces' first process: containerd, the kubelet, every shim and every container end with it.
    inside: Process,
    cgroup: Cgroup,
    socket: PathBuf,
}

impl Node {
    /// Starts one. Blocks while the parts that are Go modules of ours are built.
    pub(crate) fn start(binaries: &Binaries, layout: &Layout) -> Result<Self, Error> {
        if let Some(because) = obstacle() {
            return Err(Error::FindNode { because });
        }
        let directory = layout.file("node");
        let cgroup = Cgroup::create()?;
        prepare(&directory, &cgroup)?;
        let mut scheduler = Command::new(binaries.path(Tool::Scheduler));
        scheduler
            .arg("--kubeconfig")
            .arg(layout.kubeconfig())
            // As of the controller manager: it would listen on every address.
            .args(["--leader-elect=false", "--secure-port=0"]);
        let mut inside = isolated();
        inside
            .args(["sh", "-c", SCRIPT, "node"])
            .arg(&directory)
            .arg(binaries.path(Tool::Kubelet))
            .arg(layout.kubeconfig());
        Ok(Self {
            scheduler: Process::spawn(&scheduler, Output::File(layout.log(Tool::Scheduler)))?,
            inside: Process::spawn(&inside, Output::File(layout.log(Tool::Kubelet)))?,
            cgroup,
            socket: directory.join("containerd.sock"),
        })
    }

    /// The processes outside of Pods.
    pub(crate) fn pids(&self) -> [(Tool, u32); 2] {
        let inside = (Tool::Kubelet, self.inside.pid());
        [(Tool::Scheduler, self.scheduler.pid()), inside]
    }
}

impl ControlPlane {
    /// Starts a node and waits until it is Ready.
    pub(crate) async fn start_node(&mut self) -> Result<(), Error> {
        let ours = self.ours.as_mut().ok_or(Error::NotOurs)?;
        let (binaries, layout) = (ours.binaries.clone(), ours.layout.clone());
        let node = blocking(move || Node::start(&binaries, &layout)).await?;
        let node = ours.node.insert(node);
        let client = Self::client_of(&self.kubeconfig).await?;
        let deadline = Instant::now() + START_TIMEOUT;
        loop {
            let answer = get(&client, &format!("/api/v1/nodes/{NODE}")).await;
            if answer.is_ok_and(|text| is_ready(&text)) {
                return Ok(());
            }
            still_starting(&mut node.scheduler, Tool::Scheduler, deadline)?;
            still_starting(&mut node.inside, Tool::Kubelet, deadline)?;
            tokio::time::sleep(POLL).await;
        }
    }

    /// Gives the node an image: a tar as of `docker save`, or of an OCI layout.
    pub async fn import_image(&self, tar: &Path) -> Result<String, Error> {
        let mut ctr = self.ctr()?;
        ctr.args(["import", "--snapshotter", "native"]).arg(tar);
        blocking(move || run(ctr, "")).await
    }

    /// The same, under another name, too.
    pub async fn import_image_as(&self, tar: &Path, name: &str) -> Result<(), Error> {
        let imported = self.import_image(tar).await?;
        // "unpacking NAME (sha256:…)...done", or without the first word.
        let own = imported.split_whitespace().find(|word| word.contains('/'));
        let own = own.unwrap_or_default().to_owned();
        let mut ctr = self.ctr()?;
        ctr.args(["tag", "--force", &own, name]);
        blocking(move || run(ctr, "")).await.map(drop)
    }

    /// Containerd's own program, for the images of the node.
    fn ctr(&self) -> Result<Command, Error> {
        let mut ctr = Command::new(on_path("ctr").unwrap_or_else(|| "ctr".into()));
        ctr.env("CONTAINERD_ADDRESS", self.containerd()?);
        ctr.args(["--namespace", "k8s.io", "images"]);
        Ok(ctr)
    }

    /// The node's containerd, for `ctr`.
    pub fn containerd(&self) -> Result<&Path, Error> {
        Ok(&self.node()?.socket)
    }

    /// The pids, as this machine counts them, of all that runs in Pods; or in one container, by its ID as a
    /// Pod's status has it (`containerd://…`).
    pub fn pod_pids(&self, container: Option<&str>) -> Result<Vec<u32>, Error> {
        let name = container.map(|id| id.rsplit_once('/').map_or(id, |(_, name)| name));
        Ok(self.node()?.cgroup.pids(name))
    }

    fn node(&self) -> Result<&Node, Error> {
        let node = self.ours.as_ref().and_then(|ours| ours.node.as_ref());
        node.ok_or(Error::NotOurs)
    }
}

/// Writes what the programs of the node read.
fn prepare(directory: &Path, cgroup: &Cgroup) -> Result<(), Error> {
    let write = |name: &str, text: &str| {
        let path = directory.join(name);
        fs::write(&path, text).map_err(Error::file("write", &path))
    };
    let plugins = directory.join("cni");
    fs::create_dir_all(&plugins).map_err(Error::file("create", &plugins))?;
    let plugin = built("loopback")?;
    fs::copy(&plugin, plugins.join("loopback")).map_err(Error::file("copy", &plugin))?;
    let network = json!({
        "cniVersion": "1.0.0", "name": "loopback", "plugins": [{"type": "loopback"}],
    });
    write("cni/10-loopback.conflist", &network.to_string())?;
    let mut pause = Command::new("sh");
    pause
        .args(["-c", "\"$0\" \"$1\" >\"$2\""])
        .arg(built("pause")?)
        .arg(PAUSE_IMAGE)
        .arg(directory.join("pause.tar"));
    run(pause, "")?;
    // A lookup of a name beyond loopback fails.
    write("resolv.conf", "nameserver 127.0.0.1\n")?;
    write("containerd.toml", &containerd_config(directory))?;
    let kubelet = kubelet_config(directory, &cgroup.path(), free_port()?);
    write("kubelet.json", &kubelet.to_string())
}

fn built(tool: &str) -> Result<PathBuf, Error> {
    test_support::tools::go_tool(tool).map_err(Error::spawn(format!(".ci/go-tool {tool}")))
}

fn containerd_config(directory: &Path) -> String {
    let directory = directory.display();
    format!(
        r#"
version = 2
root = "{directory}/containerd"
state = "{directory}/state"
[grpc]
  address = "{directory}/containerd.sock"
[plugins."io.containerd.internal.v1.opt"]
  path = "{directory}/opt"
[plugins."io.containerd.nri.v1.nri"]
  disable = true
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{PAUSE_IMAGE}"
  # Where CAP_SYS_RESOURCE is missing, no sandbox could start.
  restrict_oom_score_adj = true
  disable_apparmor = true
  [plugins."io.containerd.grpc.v1.cri".containerd]
    # Copies: the only one that works on every file system.
    snapshotter = "native"
    default_runtime_name = "runc"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{directory}/cni"
    conf_dir = "{directory}/cni"
"#
    )
}

fn kubelet_config(directory: &Path, cgroup: &str, port: u16) -> Value {
    let file = |name: &str| directory.join(name);
    json!({
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": "127.0.0.1",
        "port": port,
        "readOnlyPort": 0,
        "healthzPort": 0,
        // It listens only on loopback, and lives as long as a test.
        "authentication": {"anonymous": {"enabled": true}, "webhook": {"enabled": false}},
        "authorization": {"mode": "AlwaysAllow"},
        "containerRuntimeEndpoint": format!("unix://{}", file("containerd.sock").display()),
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": cgroup,
        "enforceNodeAllocatable": [],
        "failSwapOn": false,
        "failCgroupV1": false,
        "localStorageCapacityIsolation": false,
        "makeIPTablesUtilChains": false,
        "evictionHard": {
            "memory.available": "0%", "nodefs.available": "0%", "nodefs.inodesFree": "0%",
            "imagefs.available": "0%", "imagefs.inodesFree": "0%",
        },
        "imageGCHighThresholdPercent": 100,
        "resolvConf": file("resolv.conf"),
        "volumePluginDir": file("volume-plugins"),
        // A container that a test kills again and again is back at once.
        "crashLoopBackOff": {"maxContainerRestartPeriod": "1s"},
    })
}

fn is_ready(node: &str) -> bool {
    let node: Value = serde_json::from_str(node).unwrap_or_default();
    let conditions = node["status"]["conditions"].as_array();
    conditions.is_some_and(|conditions| {
        conditions
            .iter()
            .any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
    })
}
