//! Pods on a real node.

use std::process::Command;
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, LogParams, PostParams};
use serde_json::json;

use super::PATIENCE;
use test_cluster::{ControlPlane, Options, PAUSE_IMAGE, Place, Scratch, Tool, skipped};

const POLL: Duration = Duration::from_millis(50);

/// True if a node can run here; else the test is skipped.
pub(super) fn can_run() -> bool {
    match Place::choose().unwrap() {
        Place::Node => true,
        Place::Process { because } => {
            skipped("what needs a node", &because);
            false
        }
    }
}

/// A Pod of the host network that holds to all else that the restricted profile asks for.
async fn running_pod(control_plane: &ControlPlane) -> (Api<Pod>, String) {
    let pod = json!({
        "metadata": {"name": "pauses"},
        "spec": {
            "hostNetwork": true,
            "securityContext": {
                "runAsNonRoot": true, "runAsUser": 65532, "seccompProfile": {"type": "RuntimeDefault"},
            },
            "containers": [{
                "name": "main", "image": PAUSE_IMAGE, "imagePullPolicy": "Never",
                "resources": {"limits": {"memory": "64Mi"}},
                "securityContext": {
                    "readOnlyRootFilesystem": true, "allowPrivilegeEscalation": false,
                    "capabilities": {"drop": ["ALL"]},
                },
            }],
        },
    });
    let pods: Api<Pod> = Api::namespaced(control_plane.client().await.unwrap(), "default");
    let pod = serde_json::from_value(pod).unwrap();
    pods.create(&PostParams::default(), &pod).await.unwrap();
    let deadline = Instant::now() + PATIENCE;
    loop {
        let status = pods.get("pauses").await.unwrap().status.unwrap();
        let container = status.container_statuses.iter().flatten().next();
        if let Some(container) = container.filter(|container| container.ready) {
            return (pods, container.container_id.clone().unwrap());
        }
        assert!(Instant::now() < deadline, "the Pod doesn't run: {status:?}");
        tokio::time::sleep(POLL).await;
    }
}

/// The pids of what a new Pod runs.
pub(super) async fn pids_of_a_pod(control_plane: &ControlPlane) -> Vec<u32> {
    let (_, container) = running_pod(control_plane).await;
    let pids = control_plane.pod_pids(None).unwrap();
    let main = control_plane.pod_pids(Some(&container)).unwrap();
    assert!(pids.len() == 2 && main.len() == 1, "{pids:?} and {main:?}");
    pids
}

#[tokio::test]
async fn a_pod_runs_on_the_node_and_its_log_can_be_read() {
    if !can_run() {
        return;
    }
    let options = Options {
        node: true,
        ..Options::default()
    };
    let control_plane = ControlPlane::start(options).await.unwrap();
    let tools: Vec<Tool> = control_plane.pids().iter().map(|(tool, _)| *tool).collect();
    assert!(tools.contains(&Tool::Scheduler) && tools.contains(&Tool::Kubelet));
    let (pods, container) = running_pod(&control_plane).await;
    let deadline = Instant::now() + PATIENCE;
    let params = LogParams::default();
    while pods.logs("pauses", &params).await.unwrap() != "pausing\n" {
        assert!(Instant::now() < deadline, "it has written nothing");
        tokio::time::sleep(POLL).await;
    }
    let pid = control_plane.pod_pids(Some(&container)).unwrap()[0];
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    assert!(status.contains("\nUid:\t65532\t65532\t"), "{status}");
}

#[test]
fn a_node_is_required_switched_off_or_taken_where_it_can_be_had() {
    let empty = Scratch::new("test").unwrap();
    let says = |wish: &str| {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "pods::the_place_to_run_is_reported", "--ignored"]);
        command.arg("--nocapture");
        command.env("PATH", empty.path());
        command.env("RUN_OPERATOR_TEST_NODE", wish);
        let output = command.output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let missing = ["containerd, ", "not root", "not Linux"];
    let names_one = |text: &str| missing.iter().any(|what| text.contains(what));
    let text = says("auto");
    assert!(text.contains("here: Process") && names_one(&text), "{text}");
    let text = says("required");
    assert!(
        text.contains("here: there is no node to run Pods on: "),
        "{text}"
    );
    assert!(names_one(&text), "{text}");
    let text = says("off");
    assert!(text.contains("RUN_OPERATOR_TEST_NODE is off"), "{text}");
    let text = says("perhaps");
    assert!(text.contains("can be required, off or auto"), "{text}");
}

/// Not a test of its own: what the one above runs in a process with an environment of its own.
#[test]
#[ignore = "runs in a subprocess of another test"]
fn the_place_to_run_is_reported() {
    match Place::choose() {
        Ok(place) => println!("here: {place:?}"),
        Err(error) => println!("here: {error}"),
    }
}
