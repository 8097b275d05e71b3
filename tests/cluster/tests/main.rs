//! What a wrong control plane could hide from the suites: processes left behind, audit entries, a node left out.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret};
use kube::api::{Api, PostParams};
use serde_json::{Value, json};

use test_cluster::{ControlPlane, Options, PAUSE_IMAGE, Place, Scratch, skipped};

/// Enough for a machine that compiles beside the tests.
const PATIENCE: Duration = Duration::from_mins(1);
/// Set for the subprocess that plays the owner of a control plane.
const OWNER: &str = "RUN_OPERATOR_CLUSTER_TEST_OWNER";

#[tokio::test]
async fn the_audit_log_records_only_our_resources_and_secrets() {
    let control_plane = ControlPlane::start(Options::default()).await.unwrap();
    let client = control_plane.client().await.unwrap();
    let secrets: Api<Secret> = Api::namespaced(client.clone(), "kube-public");
    assert!(secrets.get_opt("absent").await.unwrap().is_none());
    let config_maps: Api<ConfigMap> = Api::namespaced(client, "default");
    assert!(config_maps.get_opt("absent").await.unwrap().is_none());

    let log = std::fs::read_to_string(control_plane.audit_log().unwrap()).unwrap();
    let entries = log.lines().map(|line| serde_json::from_str(line).unwrap());
    let ours: Vec<Value> = entries
        .filter(|entry: &Value| entry["objectRef"]["name"] == "absent")
        .collect();
    assert_eq!(ours.len(), 1, "{ours:?}");
    assert_eq!(ours[0]["objectRef"]["resource"], "secrets");
    assert_eq!(ours[0]["objectRef"]["namespace"], "kube-public");
    assert_eq!(ours[0]["verb"], "get");
    assert_eq!(ours[0]["user"]["username"], "admin");
    assert_eq!(ours[0]["responseStatus"]["code"], 404);
    assert_eq!(ours[0]["userAgent"], "run-operator-tests");
}

/// Processes, directory, and where there is a node its Pods and cgroups.
#[test]
fn nothing_outlives_an_owner_that_is_killed() {
    let node = match Place::choose().unwrap() {
        Place::Node => true,
        Place::Nowhere { because } => {
            skipped("that Pods and cgroups end with their owner", &because);
            false
        }
    };
    let mut owner = owner_command(if node { "node" } else { "none" })
        .spawn()
        .unwrap();
    let (pids, directory) = what_it_owns(&mut owner);
    assert!(
        pids.len() >= 3 && pids.iter().all(|pid| runs(*pid)),
        "{pids:?}"
    );
    let cgroups = match pids.last() {
        Some(pid) if node => cgroups_of(*pid),
        _ => Vec::new(),
    };
    assert!(directory.exists() && cgroups.is_empty() != node);
    owner.kill().unwrap();
    owner.wait().unwrap();
    let deadline = Instant::now() + PATIENCE;
    let left = || {
        let paths = cgroups.iter().chain([&directory]);
        pids.iter().any(|pid| runs(*pid)) || paths.into_iter().any(|path| path.exists())
    };
    while left() {
        assert!(
            Instant::now() < deadline,
            "{pids:?}, {directory:?}, {cgroups:?}"
        );
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_node_is_required_switched_off_or_taken_where_it_can_be_had() {
    let empty = Scratch::new("test").unwrap();
    for (wish, expected) in [
        ("auto", "Nowhere { because:"),
        ("required", "there is no node to run Pods on: "),
        ("off", "RUN_OPERATOR_TEST_NODE is off"),
        ("perhaps", "can be required, off or auto"),
    ] {
        let mut command = owner_command("place");
        command.env("PATH", empty.path());
        command.env("RUN_OPERATOR_TEST_NODE", wish);
        let output = command.output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(text.contains(expected), "{wish}: {text}");
    }
}

/// Not a test of its own: what the tests above run in a process of its own. It needs [`OWNER`].
#[tokio::test]
#[ignore = "runs in a subprocess of other tests"]
async fn owner() {
    let role = std::env::var(OWNER).unwrap_or_default();
    match role.as_str() {
        "" => return,
        "place" => {
            let place = Place::choose();
            let place = place.map_or_else(|e| e.to_string(), |place| format!("{place:?}"));
            return println!("{place}");
        }
        _ => {}
    }
    let options = Options {
        controller_manager: true,
        node: role == "node",
    };
    let control_plane = ControlPlane::start(options).await.unwrap();
    let mut all: Vec<u32> = control_plane.pids().iter().map(|(_, pid)| *pid).collect();
    if options.node {
        all.extend(pids_of_a_pod(&control_plane).await);
    }
    let pids: Vec<String> = all.iter().map(u32::to_string).collect();
    let directory = control_plane.directory().unwrap().display();
    println!("owns {} {directory}", pids.join(","));
    // Until it is killed, or its own owner ends.
    std::io::copy(&mut std::io::stdin(), &mut std::io::sink()).unwrap();
}

fn owner_command(role: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", "owner", "--ignored", "--nocapture"])
        .env(OWNER, role)
        .env("RUST_BACKTRACE", "0")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    command
}

/// The pids and the directory that an owner prints once it is up.
fn what_it_owns(owner: &mut Child) -> (Vec<u32>, PathBuf) {
    let lines = BufReader::new(owner.stdout.as_mut().unwrap()).lines();
    let line = lines
        .map(Result::unwrap)
        .find_map(|line| Some(line.split_once("owns ")?.1.to_owned()))
        .expect("the owner says what it owns");
    let (pids, directory) = line.split_once(' ').unwrap();
    let pids = pids.split(',').map(|pid| pid.parse().unwrap()).collect();
    (pids, PathBuf::from(directory))
}

/// The pids of what a new Pod of the host network runs.
async fn pids_of_a_pod(control_plane: &ControlPlane) -> Vec<u32> {
    let pod = json!({
        "metadata": {"name": "pauses"},
        "spec": {
            "hostNetwork": true,
            "containers": [{"name": "main", "image": PAUSE_IMAGE, "imagePullPolicy": "Never"}],
        },
    });
    let pods: Api<Pod> = Api::namespaced(control_plane.client().await.unwrap(), "default");
    let pod = serde_json::from_value(pod).unwrap();
    pods.create(&PostParams::default(), &pod).await.unwrap();
    let deadline = Instant::now() + PATIENCE;
    loop {
        let status = pods.get("pauses").await.unwrap().status.unwrap();
        if status.container_statuses.iter().flatten().any(|c| c.ready) {
            return control_plane.pod_pids(None).unwrap();
        }
        assert!(Instant::now() < deadline, "the Pod doesn't run: {status:?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// The directories of a node's cgroup, by the pid of what runs in a Pod.
fn cgroups_of(pid: u32) -> Vec<PathBuf> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap();
    let name = text
        .split(['/', '\n'])
        .find(|part| part.starts_with("run-operator-"))
        .expect("it is in a cgroup of the node");
    let root = Path::new("/sys/fs/cgroup");
    let hierarchies = std::fs::read_dir(root).unwrap();
    let hierarchies = hierarchies.map(|entry| entry.unwrap().path());
    let directories = hierarchies.chain([root.to_owned()]);
    let directories = directories.map(|hierarchy| hierarchy.join(name));
    directories.filter(|directory| directory.exists()).collect()
}

fn runs(pid: u32) -> bool {
    let mut command = Command::new("/bin/sh");
    command.args(["-c", "kill -0 \"$0\" 2>/dev/null", &pid.to_string()]);
    command.status().unwrap().success()
}
