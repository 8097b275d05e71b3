//! Nothing outlives its owner: control planes, processes, directories.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::{PATIENCE, pods};
use test_cluster::{ControlPlane, Options, Output, Process, Release, Scratch};

/// Set for the subprocess that plays the owner of a control plane.
const OWNER: &str = "RUN_OPERATOR_CLUSTER_TEST_OWNER";

#[tokio::test]
async fn a_dropped_control_plane_leaves_no_process_and_no_data() {
    let control_plane = ControlPlane::start(Options::default()).await.unwrap();
    let pids: Vec<u32> = control_plane
        .pids()
        .into_iter()
        .map(|(_, pid)| pid)
        .collect();
    let directory = control_plane.directory().unwrap().to_owned();
    assert_eq!(pids.len(), 2);
    assert!(pids.iter().all(|pid| runs(*pid)) && directory.exists());
    drop(control_plane);
    assert!(!pids.iter().any(|pid| runs(*pid)), "{pids:?}");
    assert!(!directory.exists());
}

#[test]
fn a_control_plane_ends_with_an_owner_that_is_killed() {
    let mut owner = owner_command("killed").spawn().unwrap();
    let (pids, directory) = what_it_owns(&mut owner);
    assert_eq!(
        pids.len(),
        3,
        "etcd, kube-apiserver, kube-controller-manager"
    );
    assert!(pids.iter().all(|pid| runs(*pid)) && directory.exists());
    owner.kill().unwrap();
    owner.wait().unwrap();
    gone(&pids, &directory);
}

#[test]
fn a_node_its_pods_and_cgroups_end_with_their_killed_owner() {
    if !pods::can_run() {
        return;
    }
    let mut owner = owner_command("node").spawn().unwrap();
    let (pids, directory) = what_it_owns(&mut owner);
    assert!(pids.iter().all(|pid| runs(*pid)), "{pids:?}");
    let cgroups = cgroups_of(*pids.last().expect("the pid of a Pod"));
    assert!(!cgroups.is_empty());
    owner.kill().unwrap();
    owner.wait().unwrap();
    gone(&pids, &directory);
    for cgroup in cgroups {
        gone(&[], &cgroup);
    }
}

#[test]
fn a_control_plane_ends_with_an_owner_that_panics() {
    // Its panic is meant; on our standard error it would look like a failure.
    let mut owner = owner_command("panics")
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let (pids, directory) = what_it_owns(&mut owner);
    assert!(!owner.wait().unwrap().success());
    gone(&pids, &directory);
}

#[test]
fn without_go_or_binaries_one_sentence_names_the_three_options() {
    let empty = Scratch::new("test").unwrap();
    let output = owner_command("without-anything")
        .env("PATH", empty.path())
        .env("XDG_CACHE_HOME", empty.path())
        .env_remove("KUBEBUILDER_ASSETS")
        .env_remove("RUN_OPERATOR_TEST_KUBECONFIG")
        .output()
        .unwrap();
    assert!(!output.status.success());
    let text = String::from_utf8_lossy(&output.stderr);
    let sentence = text
        .lines()
        .find(|line| line.starts_with("there is no Kubernetes control plane"))
        .unwrap_or_else(|| panic!("no such line in:\n{text}"));
    for way in [
        "install Go 1.",
        "KUBEBUILDER_ASSETS",
        "RUN_OPERATOR_TEST_KUBECONFIG",
        Release::chosen().unwrap().version(),
    ] {
        assert!(sentence.contains(way), "{way} is not in: {sentence}");
    }
    assert_eq!(
        sentence.matches(". ").count(),
        0,
        "one sentence: {sentence}"
    );
}

#[test]
fn an_unknown_release_is_an_error_with_the_known_ones() {
    let output = owner_command("without-anything")
        .env("KUBERNETES", "1.12")
        .env_remove("RUN_OPERATOR_TEST_KUBECONFIG")
        .output()
        .unwrap();
    assert!(!output.status.success());
    let text = String::from_utf8_lossy(&output.stderr);
    let sentence = "KUBERNETES is \"1.12\", and can be 1.34, 1.35, 1.36;";
    assert!(text.contains(sentence), "{text}");
}

#[tokio::test]
async fn a_given_cluster_is_used_as_it_is_and_nothing_is_started() {
    let control_plane = super::our_own().await;
    let output = owner_command("given")
        .env("RUN_OPERATOR_TEST_KUBECONFIG", control_plane.kubeconfig())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}");
    let kubeconfig = control_plane.kubeconfig().display();
    assert!(
        text.contains(&format!("given {kubeconfig} 0 pids")),
        "{text}"
    );
}

#[tokio::test]
async fn a_process_reports_its_exit_code_and_output() {
    let scratch = Scratch::new("test").unwrap();
    let log = scratch.path().join("log");
    let mut command = Command::new("/bin/sh");
    command.args(["-c", "echo out; echo err >&2; exit $CODE"]);
    command.env("CODE", "7").current_dir(scratch.path());
    let mut process = Process::spawn(&command, Output::File(log)).unwrap();
    assert_eq!(process.wait_exit(PATIENCE).await, Some(7));
    assert_eq!(process.output(), "out\nerr\n");
}

#[tokio::test]
async fn a_process_can_be_asked_to_end_and_be_made_to() {
    let scratch = Scratch::new("test").unwrap();
    let output = || Output::File(scratch.path().join("log"));
    let mut command = Command::new("sleep");
    command.arg("1000");
    let mut asked = Process::spawn(&command, output()).unwrap();
    assert!(runs(asked.pid()));
    assert_eq!(asked.wait_exit(Duration::ZERO).await, None);
    asked.terminate();
    assert_eq!(asked.wait_exit(PATIENCE).await, Some(128 + 15));
    let mut made = Process::spawn(&command, output()).unwrap();
    made.kill9();
    assert!(!runs(made.pid()));
    assert_eq!(made.exit_code(), Some(128 + 9));
}

#[tokio::test]
async fn a_program_that_does_not_exist_ends_with_127() {
    let scratch = Scratch::new("test").unwrap();
    let command = Command::new("/nowhere/program");
    let mut process = Process::spawn(&command, Output::File(scratch.path().join("log"))).unwrap();
    assert_eq!(process.wait_exit(PATIENCE).await, Some(127));
    assert!(process.log_tail().contains("/nowhere/program"));
}

#[tokio::test]
async fn a_process_can_be_waited_for_by_what_it_writes() {
    let scratch = Scratch::new("test").unwrap();
    let mut command = Command::new("/bin/sh");
    command.args(["-c", "echo starting; echo listening on 7; exec sleep 1000"]);
    let mut process = Process::spawn(&command, Output::File(scratch.path().join("log"))).unwrap();
    let line = process.wait_line("listening", PATIENCE).await;
    assert_eq!(line.as_deref(), Some("listening on 7"));
    process.kill9();
    assert_eq!(process.wait_line("absent", PATIENCE).await, None);
}

/// Not a test of its own: what the tests above run in a process of its own. It needs [`OWNER`].
#[tokio::test]
#[ignore = "runs in a subprocess of other tests"]
async fn owner_of_a_control_plane() {
    let Ok(role) = std::env::var(OWNER) else {
        return;
    };
    if role == "given" || role == "without-anything" {
        let control_plane = ControlPlane::shared().await;
        let pids = control_plane.pids().len();
        println!("given {} {pids} pids", control_plane.kubeconfig().display());
        return;
    }
    let options = Options {
        controller_manager: true,
        node: role == "node",
    };
    let control_plane = ControlPlane::start(options).await.unwrap();
    let mut all: Vec<u32> = control_plane.pids().iter().map(|(_, pid)| *pid).collect();
    if options.node {
        all.extend(pods::pids_of_a_pod(&control_plane).await);
    }
    let pids: Vec<String> = all.iter().map(u32::to_string).collect();
    let directory = control_plane.directory().unwrap().display();
    println!("owns {} {directory}", pids.join(","));
    assert_ne!(role, "panics", "as asked");
    // Until it is killed, or its own owner ends.
    std::io::copy(&mut std::io::stdin(), &mut std::io::sink()).unwrap();
}

fn owner_command(role: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args([
            "--exact",
            "cleanup::owner_of_a_control_plane",
            "--ignored",
            "--nocapture",
        ])
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

/// The directories of a node's cgroup, by the pid of what runs in a Pod.
fn cgroups_of(pid: u32) -> Vec<PathBuf> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap();
    let name = text
        .lines()
        .find_map(|line| {
            line.split('/')
                .find(|part| part.starts_with("run-operator-"))
        })
        .expect("it is in a cgroup of the node");
    let root = Path::new("/sys/fs/cgroup");
    let hierarchies = std::fs::read_dir(root)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let directories = hierarchies.chain([root.to_owned()]);
    let directories = directories.map(|hierarchy| hierarchy.join(name));
    directories.filter(|directory| directory.exists()).collect()
}

/// Waits until neither the processes nor the directory are there.
fn gone(pids: &[u32], directory: &Path) {
    let deadline = Instant::now() + PATIENCE;
    while pids.iter().any(|pid| runs(*pid)) || directory.exists() {
        assert!(
            Instant::now() < deadline,
            "still there: {pids:?}, {}",
            directory.display()
        );
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn runs(pid: u32) -> bool {
    let mut command = Command::new("/bin/sh");
    command.args(["-c", "kill -0 \"$0\" 2>/dev/null", &pid.to_string()]);
    command.status().unwrap().success()
}
