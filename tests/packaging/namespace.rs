//! A namespace on the shared control plane, which has our CRDs and those of the Prometheus Operator.

use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use tokio::sync::OnceCell;

use test_support::root;

use crate::helm;
use test_cluster::ControlPlane;

const PROMETHEUS_OPERATOR: &str = "github.com/prometheus-operator/prometheus-operator";

const APPLY: &[&str] = &["apply", "--server-side", "-f", "-"];
/// What kubectl needs to ask whether the API server takes objects, and to store none.
pub(crate) const DRY_RUN: &[&str] = &[
    "apply",
    "--server-side",
    "--force-conflicts",
    "--dry-run=server",
    "--validate=strict",
    "-f",
    "-",
];

/// A namespace that enforces the strictest Pod Security profile.
pub(crate) struct Space {
    pub(crate) control_plane: &'static ControlPlane,
    pub(crate) namespace: String,
}

impl Space {
    pub(crate) async fn new() -> Self {
        static INSTALLED: OnceCell<()> = OnceCell::const_new();
        let control_plane = ControlPlane::shared().await;
        INSTALLED.get_or_init(|| install(control_plane)).await;
        let space = Self {
            control_plane,
            namespace: format!("chart-{}", uuid::Uuid::new_v4().simple()),
        };
        space.create_namespace(&space.namespace);
        space
    }

    pub(crate) fn create_namespace(&self, name: &str) {
        let labels = json!({
            "pod-security.kubernetes.io/enforce": "restricted",
            "pod-security.kubernetes.io/warn": "restricted",
        });
        let namespace = json!({
            "apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels},
        });
        kubectl(self.control_plane, APPLY, &namespace.to_string()).unwrap();
    }

    /// kubectl in this namespace: what it printed, or what it complained of.
    pub(crate) fn kubectl(&self, args: &[&str], stdin: &str) -> Result<String, String> {
        let within = [&["--namespace", self.namespace.as_str()], args].concat();
        kubectl(self.control_plane, &within, stdin)
    }

    /// Creates the objects of these kinds for real.
    pub(crate) fn apply(&self, objects: &[Value], kinds: &[&str]) {
        let of_these = |o: &&Value| kinds.contains(&o["kind"].as_str().unwrap());
        for object in objects.iter().filter(of_these) {
            self.kubectl(APPLY, &object.to_string()).unwrap();
        }
    }
}

/// kubectl: what it printed, or what it complained of. A warning is a complaint.
pub(crate) fn kubectl(
    control_plane: &ControlPlane,
    args: &[&str],
    stdin: &str,
) -> Result<String, String> {
    let mut command: Command = control_plane.kubectl();
    command.args(args).stdin(Stdio::piped());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut pipe = child.stdin.take().unwrap();
    pipe.write_all(stdin.as_bytes()).unwrap();
    drop(pipe);
    let output = child.wait_with_output().unwrap();
    let told = String::from_utf8(output.stderr).unwrap();
    if output.status.success() && !told.contains("Warning:") {
        Ok(String::from_utf8(output.stdout).unwrap())
    } else {
        Err(told)
    }
}

async fn install(control_plane: &ControlPlane) {
    let ours = run_operator::api::crd::yaml().unwrap();
    control_plane.apply_yaml(&ours).await.unwrap();
    for kind in ["servicemonitors", "podmonitors", "prometheusrules"] {
        let file = format!("example/prometheus-operator-crd/monitoring.coreos.com_{kind}.yaml");
        let file = prometheus_operator().join(file);
        control_plane.apply_file(&file).await.unwrap();
    }
}

/// The Prometheus Operator's sources, as `go.mod` beside this file names them.
fn prometheus_operator() -> PathBuf {
    let mut download = Command::new("go");
    download.current_dir(root().join("tests/packaging"));
    download.args(["mod", "download", "-json", PROMETHEUS_OPERATOR]);
    let told: Value = serde_json::from_str(&helm::done(&download.output().unwrap())).unwrap();
    PathBuf::from(told["Dir"].as_str().unwrap())
}
