//! What the tests' control plane promises: real, side by side with others, and gone when its owner is.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

#[path = "mod.rs"]
mod cluster;

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Secret};
use kube::api::{Api, DeleteParams, PostParams};

use tokio::sync::OnceCell;

use cluster::{ControlPlane, Options, Output, Process, Scratch, kubernetes_version};

/// Enough for a machine that compiles beside the tests.
const PATIENCE: Duration = Duration::from_mins(1);

/// Set for the subprocess that plays the owner of a control plane.
const OWNER: &str = "RUN_OPERATOR_CLUSTER_TEST_OWNER";

const CONFIG_MAP: &str = "
apiVersion: v1
kind: ConfigMap
metadata: {name: note, namespace: default}
data: {text: kept}
";

const CRD: &str = "
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: notes.run-operator.dev}
spec:
  group: run-operator.dev
  names: {kind: Note, plural: notes, singular: note}
  scope: Namespaced
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
";

const NOTE: &str = "
apiVersion: run-operator.dev/v1
kind: Note
metadata: {name: first}
";

/// One for the tests that neither break it nor need it empty. Not the shared one: that may be a given
/// cluster, and these tests look into our own.
async fn our_own() -> &'static ControlPlane {
    static OURS: OnceCell<ControlPlane> = OnceCell::const_new();
    let start = || async { ControlPlane::start(Options::default()).await.unwrap() };
    OURS.get_or_init(start).await
}

async fn config_maps(control_plane: &ControlPlane) -> Api<ConfigMap> {
    Api::namespaced(control_plane.client().await.unwrap(), "default")
}

#[tokio::test]
async fn two_control_planes_run_side_by_side_and_share_nothing() {
    let (one, two) = tokio::join!(
        ControlPlane::start(Options::default()),
        ControlPlane::start(Options::default())
    );
    let (one, two) = (one.unwrap(), two.unwrap());
    one.apply_yaml(CONFIG_MAP).await.unwrap();
    let note = config_maps(&one).await.get("note").await.unwrap();
    assert_eq!(note.data.unwrap()["text"], "kept");
    let absent = config_maps(&two).await.get_opt("note").await.unwrap();
    assert!(
        absent.is_none(),
        "it was applied to the other one: {absent:?}"
    );
}

#[tokio::test]
async fn data_and_clients_survive_an_outage_of_the_api_server() {
    let control_plane = ControlPlane::start(Options::default()).await.unwrap();
    control_plane.apply_yaml(CONFIG_MAP).await.unwrap();
    let config_maps = config_maps(&control_plane).await;
    config_maps.get("note").await.unwrap();

    control_plane.stop_apiserver().unwrap();
    let during = config_maps.get("note").await;
    assert!(during.is_err(), "nobody is there to answer: {during:?}");

    control_plane.start_apiserver().await.unwrap();
    let note = config_maps.get("note").await.unwrap();
    assert_eq!(note.data.unwrap()["text"], "kept");
}

#[tokio::test]
async fn the_controller_manager_deletes_a_namespace_with_what_is_in_it() {
    let options = Options {
        controller_manager: true,
    };
    let control_plane = ControlPlane::start(options).await.unwrap();
    let client = control_plane.client().await.unwrap();
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let name = "short-lived";
    let mut namespace = Namespace::default();
    namespace.metadata.name = Some(name.to_owned());
    namespaces
        .create(&PostParams::default(), &namespace)
        .await
        .unwrap();
    let mut secret = Secret::default();
    secret.metadata.name = Some("inside".to_owned());
    let secrets: Api<Secret> = Api::namespaced(client, name);
    secrets
        .create(&PostParams::default(), &secret)
        .await
        .unwrap();

    namespaces
        .delete(name, &DeleteParams::default())
        .await
        .unwrap();
    let deadline = Instant::now() + PATIENCE;
    while namespaces.get_opt(name).await.unwrap().is_some() {
        assert!(Instant::now() < deadline, "the namespace is still there");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert!(secrets.get_opt("inside").await.unwrap().is_none());
}

#[tokio::test]
async fn the_shared_one_serves_tests_on_different_runtimes() {
    let here = ControlPlane::shared().await;
    let elsewhere = tokio::task::spawn_blocking(|| {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        runtime.block_on(async {
            let control_plane = ControlPlane::shared().await;
            let client = control_plane.client().await.unwrap();
            (control_plane, client.apiserver_version().await.unwrap())
        })
    });
    let (there, version) = elsewhere.await.unwrap();
    assert!(std::ptr::eq(here, there));
    if here.directory().is_some() && std::env::var_os("KUBEBUILDER_ASSETS").is_none() {
        assert_eq!(version.git_version, kubernetes_version());
    }
}

#[tokio::test]
async fn a_custom_resource_can_be_applied_as_soon_as_its_definition_was() {
    let control_plane = our_own().await;
    control_plane.apply_yaml(CRD).await.unwrap();
    let applied = control_plane
        .apply_yaml_in("kube-public", NOTE)
        .await
        .unwrap();
    assert_eq!(
        applied.trim(),
        "note.run-operator.dev/first serverside-applied"
    );
    let refused = control_plane.apply_yaml("kind: Note").await.unwrap_err();
    assert!(
        refused.to_string().contains("apiVersion not set"),
        "{refused}"
    );
}

#[tokio::test]
async fn the_audit_log_names_requests_for_our_resources_and_secrets_and_no_others() {
    let control_plane = our_own().await;
    let client = control_plane.client().await.unwrap();
    let secrets: Api<Secret> = Api::namespaced(client, "kube-public");
    assert!(secrets.get_opt("absent").await.unwrap().is_none());
    config_maps(control_plane)
        .await
        .get_opt("absent")
        .await
        .unwrap();

    let log = std::fs::read_to_string(control_plane.audit_log().unwrap()).unwrap();
    let entries = log.lines().map(|line| serde_json::from_str(line).unwrap());
    let ours: Vec<serde_json::Value> = entries
        .filter(|entry: &serde_json::Value| entry["objectRef"]["name"] == "absent")
        .collect();
    assert_eq!(ours.len(), 1, "{ours:?}");
    assert_eq!(ours[0]["objectRef"]["resource"], "secrets");
    assert_eq!(ours[0]["objectRef"]["namespace"], "kube-public");
    assert_eq!(ours[0]["verb"], "get");
    assert_eq!(ours[0]["user"]["username"], "admin");
    assert_eq!(ours[0]["responseStatus"]["code"], 404);
    assert_eq!(ours[0]["userAgent"], "run-operator-tests");
}

#[tokio::test]
async fn the_metrics_are_the_api_servers_own() {
    let metrics = ControlPlane::shared().await.metrics().await.unwrap();
    assert!(
        metrics.contains("\napiserver_request_total{"),
        "{metrics:.500}"
    );
}

#[tokio::test]
async fn only_the_owner_can_read_the_kubeconfig_and_the_data() {
    use std::os::unix::fs::PermissionsExt;
    let control_plane = our_own().await;
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(control_plane.kubeconfig()), 0o600);
    assert_eq!(mode(control_plane.directory().unwrap()), 0o700);
}

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
    let mut owner = owner("killed");
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
fn a_control_plane_ends_with_an_owner_that_panics() {
    let mut owner = owner("panics");
    let (pids, directory) = what_it_owns(&mut owner);
    assert!(!owner.wait().unwrap().success());
    gone(&pids, &directory);
}

#[test]
fn without_go_and_binaries_one_sentence_says_which_three_ways_there_are() {
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
        kubernetes_version(),
    ] {
        assert!(sentence.contains(way), "{way} is not in: {sentence}");
    }
    assert_eq!(
        sentence.matches(". ").count(),
        0,
        "one sentence: {sentence}"
    );
}

#[tokio::test]
async fn a_given_cluster_is_used_as_it_is_and_nothing_is_started() {
    let control_plane = our_own().await;
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
    };
    let control_plane = ControlPlane::start(options).await.unwrap();
    let pids = control_plane
        .pids()
        .into_iter()
        .map(|(_, pid)| pid.to_string());
    let pids: Vec<String> = pids.collect();
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
            "owner_of_a_control_plane",
            "--ignored",
            "--nocapture",
        ])
        .env(OWNER, role)
        .env("RUST_BACKTRACE", "0")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    command
}

fn owner(role: &str) -> Child {
    owner_command(role).spawn().unwrap()
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
