//! `kubectl runop doctor`, and `run-operator check` with the rights that `helm test` gives it.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::helm::{documents, manifests, of_kind};
use crate::namespace::{Space, kubectl};
use test_cluster::{ControlPlane, Options, Output, Process, Recipe, ReferenceService, Scratch};
use test_support::{programs, says};

const START_TIMEOUT: Duration = Duration::from_secs(30);

/// Output and exit code of `kubectl runop doctor`.
pub(crate) fn doctor(kubeconfig: &Path, args: &[&str]) -> (String, i32) {
    told(programs::kubectl_runop(), kubeconfig, "doctor", args)
}

fn told(program: &Path, kubeconfig: &Path, subcommand: &str, args: &[&str]) -> (String, i32) {
    let mut command = Command::new(program);
    command.arg(subcommand).args(args);
    let output = command.env("KUBECONFIG", kubeconfig).output().unwrap();
    let mut told = String::from_utf8(output.stdout).unwrap();
    told.push_str(&String::from_utf8(output.stderr).unwrap());
    (told, output.status.code().unwrap())
}

/// The same about Runs of this space, in which the operator is.
fn in_space(space: &Space, kubeconfig: &Path, further: &[&str]) -> (String, i32) {
    doctor(kubeconfig, &within(space, further))
}

/// The same as `helm test` asks in its Pod.
fn check(space: &Space, kubeconfig: &Path, further: &[&str]) -> (String, i32) {
    let program = Path::new(env!("CARGO_BIN_EXE_run-operator"));
    told(program, kubeconfig, "check", &within(space, further))
}

fn within<'a>(space: &'a Space, further: &[&'a str]) -> Vec<&'a str> {
    let here = &space.namespace;
    let within = ["--namespace", here, "--operator-namespace", here];
    [&within[..], further].concat()
}

/// A kubeconfig of the service account of the test's Pod, with its rights from the chart.
fn of_the_test_pod(space: &Space, scratch: &Scratch) -> PathBuf {
    let mut own = documents(&manifests(&space.namespace, &[]));
    own.retain(|o| {
        let name = o["metadata"]["name"].as_str().unwrap();
        name.ends_with("run-operator-test")
    });
    let kinds = [
        "ServiceAccount",
        "Role",
        "RoleBinding",
        "ClusterRole",
        "ClusterRoleBinding",
    ];
    for kind in kinds {
        assert_eq!(of_kind(&own, kind).len(), 1, "{kind}");
    }
    space.apply(&own, &kinds);
    let token = ["create", "token", "run-operator-test"];
    let token = space.kubectl(&token, "").unwrap();
    let kubeconfig = scratch.path().join("kubeconfig");
    std::fs::copy(space.control_plane.kubeconfig(), &kubeconfig).unwrap();
    sets_token(space, &kubeconfig, token.trim());
    let context = ["set-context", "--current", "--user=doctor"];
    config(space, &kubeconfig, &context);
    kubeconfig
}

fn sets_token(space: &Space, kubeconfig: &Path, token: &str) {
    let token = format!("--token={token}");
    config(space, kubeconfig, &["set-credentials", "doctor", &token]);
}

/// `kubectl config …` of this file.
fn config(space: &Space, kubeconfig: &Path, args: &[&str]) {
    let file = format!("--kubeconfig={}", kubeconfig.display());
    let config = [&[file.as_str(), "config"], args].concat();
    kubectl(space.control_plane, &config, "").unwrap();
}

/// A reference service.
async fn service(scratch: &Scratch) -> ReferenceService {
    let recipe = Recipe {
        program: programs::reference_service(),
        folder: scratch.path(),
        token: "secret",
        record: false,
        tls: None,
    };
    ReferenceService::start(recipe, &[]).await.unwrap()
}

/// An operator that leads in the space, which it serves.
fn operator(space: &Space, scratch: &Scratch, base_url: &str) -> Process {
    let namespace = space.namespace.as_str();
    let mut command = Command::new(env!("CARGO_BIN_EXE_run-operator"));
    command.env("KUBECONFIG", space.control_plane.kubeconfig());
    command.args(["controller", "--cluster-workspaces=false"]);
    command.args(["--namespace", namespace, "--base-url", base_url]);
    command.args(["--listen", "127.0.0.1:0", "--leader-elect"]);
    command.args(["--leader-elect-namespace", namespace]);
    Process::spawn(&command, Output::File(scratch.path().join("operator.log"))).unwrap()
}

/// The Workspace that a Run without `workspaceRef` uses, and its token.
fn workspace(space: &Space, token: &str) {
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "run-operator-token"},
        "stringData": {"token": token}});
    for object in [secret, ours("Workspace", "default", &json!({}))] {
        apply(space, &object);
    }
}

fn ours(kind: &str, name: &str, spec: &Value) -> Value {
    let version = "run-operator.dev/v1alpha1";
    json!({"apiVersion": version, "kind": kind, "metadata": {"name": name}, "spec": spec})
}

fn apply(space: &Space, object: &Value) {
    let apply = ["apply", "--server-side", "--force-conflicts", "-f", "-"];
    space.kubectl(&apply, &object.to_string()).unwrap();
}

/// A Lease of the operator, as one that ended has left it: a short one, for which doctor doesn't wait long.
fn lease(space: &Space, holder: &str) {
    let lease = json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "run-operator"},
        "spec": {"holderIdentity": holder, "leaseDurationSeconds": 1},
    });
    apply(space, &lease);
}

/// The chart's Deployment and roles with these values, as if so many of its Pods were Ready.
fn deployment(space: &Space, set: &str, ready: u32) {
    let objects = documents(&manifests(&space.namespace, &["--set", set]));
    let kinds = ["Deployment", "ServiceAccount", "Role", "RoleBinding"];
    space.apply(&objects, &kinds);
    let status = json!({"replicas": 1, "readyReplicas": ready, "availableReplicas": ready});
    write_status(space, "deployment/run-operator", &status);
}

/// Writes the status of an object, as its controller would.
fn write_status(space: &Space, object: &str, status: &Value) {
    let status = json!({"status": status}).to_string();
    let patch = ["patch", object, "--subresource=status", "--type=merge"];
    let patch = [&patch[..], &["-p", &status]].concat();
    space.kubectl(&patch, "").unwrap();
}

/// Asks until the answer has these words.
async fn until(told: impl Fn() -> (String, i32), words: &str) -> (String, i32) {
    let deadline = Instant::now() + START_TIMEOUT;
    loop {
        let (text, code) = told();
        if text.contains(words) {
            return (text, code);
        }
        assert!(Instant::now() < deadline, "{words:?} is not in {text}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// Proves: I-doctor
#[tokio::test]
async fn doctor_succeeds_only_where_every_check_was_made() {
    let space = Space::new().await;
    let scratch = Scratch::new("doctor").unwrap();
    let service = service(&scratch).await;
    let (here, base_url) = (&space.namespace, service.base_url());
    let admin = space.control_plane.kubeconfig();
    workspace(&space, "secret");
    let selector = json!({"matchLabels": {"kubernetes.io/metadata.name": here}});
    let selector = json!({"namespaceSelector": selector});
    apply(&space, &ours("ClusterWorkspace", here, &selector));
    let set = format!(
        "service.baseURL={base_url},service.allowInsecureHTTP=true,watchNamespaces={{{here}}}"
    );
    deployment(&space, &set, 1);
    let mut running = operator(&space, &scratch, &base_url);
    let asked = || in_space(&space, admin, &["--base-url", &base_url]);
    let (told, code) = until(asked, "All checks passed").await;
    assert_eq!(code, 0, "{told}");
    assert!(!told.contains("FAIL") && !told.contains("note"), "{told}");
    let well = told.lines().filter(|l| l.starts_with("ok ")).count();
    assert_eq!(well, 19, "{told}");
    let words = [" has the 13 permissions that", "The operator serves none"];
    says(&told, &words);
    let last = "These take Runs from here: default.\n";
    assert!(told.ends_with(last), "{told}");
    let stored = space.kubectl(&["get", "runs", "-o", "name"], "").unwrap();
    assert_eq!(stored, "");

    // As `helm test` asks, with its rights and no other.
    let kubeconfig = of_the_test_pod(&space, &scratch);
    let (told, code) = check(&space, &kubeconfig, &["--base-url", &base_url]);
    assert_eq!(code, 0, "{told}");
    let well = told.lines().filter(|l| l.starts_with("ok ")).count();
    assert_eq!(well, 7, "{told}");
    let last = format!("All checks passed.\n{last}");
    assert!(told.ends_with(&last), "{told}");

    // A token that the service refuses.
    workspace(&space, "dead");
    let (told, code) = until(asked, "default: Unauthorized").await;
    assert_eq!(code, 1, "{told}");
    let (told, code) = check(&space, &kubeconfig, &[]);
    assert_eq!(code, 1, "{told}");

    // The operator is killed, and its Lease still exists.
    running.kill9();
    lease(&space, "killed");
    let (told, code) = asked();
    assert_eq!(code, 1, "{told}");
    let words = [
        "killed holds the Lease",
        "has not renewed it for",
        "FAIL  an operator is active",
    ];
    says(&told, &words);
    assert!(!told.contains("checks passed"), "{told}");
}

/// Proves: I-doctor
#[tokio::test]
async fn doctor_names_what_is_missing_beside_the_operator() {
    let space = Space::new().await;
    let here = &space.namespace;
    let set = format!(
        "service.baseURL=https://a.example/v1,tokenSecretNames={{other}},watchNamespaces={{{here}}}"
    );
    deployment(&space, &set, 1);
    workspace(&space, "secret");
    let elsewhere = json!({"baseURL": "https://b.example/v1"});
    apply(&space, &ours("Workspace", "elsewhere", &elsewhere));
    let refused = json!({"workload": {"image": "a"}});
    apply(&space, &ours("Run", "train", &refused));
    apply(&space, &ours("Run", "weird", &refused));
    let shown = |kind: &str, status: &str, reason: &str| {
        json!({"state": "half-done", "conditions": [{"type": kind, "status": status, "reason": reason, "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z"}]})
    };
    let stalled = shown("Stalled", "True", "Forbidden");
    write_status(&space, "runs.run-operator.dev/train", &stalled);
    let not_mapped = shown("Ready", "False", "StateNotMapped");
    write_status(&space, "runs.run-operator.dev/weird", &not_mapped);
    let admin = space.control_plane.kubeconfig();
    let (told, code) = in_space(&space, admin, &["--read-only"]);
    assert_eq!(code, 1, "{told}");
    let words = [
        "may not: get secrets run-operator-token.",
        "These are not: https://b.example/v1.",
        "1 of 2 in the namespace",
        "do: Forbidden 1.",
        "contract file lacks: half-done.",
    ];
    says(&told, &words);
    let (told, code) = in_space(&space, admin, &["--read-only", "-o", "json"]);
    assert_eq!(code, 1, "{told}");
    let document: Value = serde_json::from_str(&told).unwrap();
    let checks = document["checks"].as_array().unwrap().iter();
    let warned = checks.filter(|check| check["verdict"] == "warn");
    let warned: Vec<_> = warned.map(|check| &check["check"]).collect();
    assert_eq!(warned, ["runs.stalled", "runs.states"]);
}

/// Proves: I-doctor
#[tokio::test]
async fn check_ignores_a_leftover_lease_where_election_is_disabled() {
    let space = Space::new().await;
    let scratch = Scratch::new("doctor").unwrap();
    let kubeconfig = of_the_test_pod(&space, &scratch);
    let shows = |verdict: &str, words: &str| {
        let (told, _) = check(&space, &kubeconfig, &[]);
        let line = told.lines().find(|l| l.contains("an operator is active"));
        let line = line.unwrap_or_else(|| panic!("{told}"));
        let said = line.starts_with(verdict) && line.contains(words);
        assert!(said, "{verdict}, {words}: {line}");
    };
    lease(&space, "");
    shows("FAIL", "has no holder");
    deployment(&space, "leaderElection.enabled=true", 1);
    shows("FAIL", "has no holder");

    // Turned off since: by its holder, or by one that crashed.
    deployment(&space, "leaderElection.enabled=false", 1);
    for holder in ["", "crashed"] {
        lease(&space, holder);
        shows("ok ", "has 1 Pods that are Ready");
    }
    deployment(&space, "leaderElection.enabled=false", 0);
    shows("FAIL", "has no Pod that is Ready");
}

/// Proves: I-doctor
#[tokio::test]
async fn a_missing_workspace_and_a_missing_operator_are_named() {
    let space = Space::new().await;
    let (told, code) = in_space(&space, space.control_plane.kubeconfig(), &[]);
    assert_eq!(code, 1, "{told}");
    let words = [
        "FAIL  the Workspaces are Ready",
        "There is none in the namespace",
        "FAIL  an operator is active",
        "and no Lease",
    ];
    says(&told, &words);
    let last =
        "Failed: 2. Warnings: 0. Not tried: 3.\nNo Workspace is known to take Runs from here.\n";
    assert!(told.ends_with(last), "{told}");
}

/// Proves: I-doctor
#[tokio::test]
async fn cluster_workspaces_that_may_not_be_read_are_not_tried() {
    let space = Space::new().await;
    let right = ["--verb=list", "--resource=workspaces.run-operator.dev"];
    let role = [&["create", "role", "reader"], &right[..]].concat();
    space.kubectl(&role, "").unwrap();
    let binding = ["create", "rolebinding", "reader", "--role=reader"];
    let binding = [&binding[..], &["--user=reader"]].concat();
    space.kubectl(&binding, "").unwrap();
    let admin = space.control_plane.kubeconfig();
    let (told, _) = in_space(&space, admin, &["--read-only", "--as=reader"]);
    let words = [
        "note  the ClusterWorkspaces are known",
        "may not list ClusterWorkspaces",
        "there is none in the namespace",
        "whether a ClusterWorkspace does is not known",
    ];
    says(&told, &words);
    assert!(!told.contains("All checks passed"), "{told}");
}

/// Proves: I-doctor
#[tokio::test]
async fn a_missing_right_and_a_silent_service_are_named() {
    let space = Space::new().await;
    let scratch = Scratch::new("doctor").unwrap();
    let kubeconfig = of_the_test_pod(&space, &scratch);
    let silent = "--base-url=http://127.0.0.1:1/api/v1";
    let (told, code) = doctor(&kubeconfig, &["--namespace=default", silent]);
    assert_eq!(code, 1, "{told}");
    let failed: Vec<&str> = told.lines().filter(|l| l.starts_with("FAIL")).collect();
    let [right, service] = failed.as_slice() else {
        panic!("{told}")
    };
    says(right, &["forbidden", "create and patch"]);
    says(service, &["Check the base URL"]);
    let unread = ["may not list the Workspaces", "may not read the Lease"];
    says(&told, &unread);
    says(&told, &["\nFailed: 2. Warnings: 0. Not tried: "]);
}

/// Proves: I-doctor
#[tokio::test]
async fn doctor_distinguishes_namespace_credential_and_rbac_failures() {
    let space = Space::new().await;
    let scratch = Scratch::new("doctor").unwrap();
    let admin = space.control_plane.kubeconfig();
    let (told, code) = doctor(admin, &["--namespace", "nowhere"]);
    assert_eq!(code, 1, "{told}");
    says(&told, &["Create the namespace"]);

    let kubeconfig = of_the_test_pod(&space, &scratch);
    sets_token(&space, &kubeconfig, "wrong");
    let (told, code) = doctor(&kubeconfig, &[]);
    assert_eq!(code, 1, "{told}");
    says(&told, &["Check the credentials"]);
}

/// Proves: I-doctor
#[tokio::test]
async fn doctor_distinguishes_missing_and_outdated_crds() {
    let own = ControlPlane::start(Options::default()).await.unwrap();
    let asked = || doctor(own.kubeconfig(), &[]);
    let (told, code) = asked();
    assert_eq!(code, 1, "{told}");
    let words = [
        "FAIL  the CRDs are of this version",
        "it has none of the CRDs.",
        "Not tried: the CRDs come first.",
    ];
    says(&told, &words);

    let yaml = run_operator::api::crd::yaml().unwrap();
    for mut crd in documents(&yaml) {
        let spec = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties";
        if let Some(fields) = crd.pointer_mut(spec) {
            fields.as_object_mut().unwrap().remove("readyWhen");
        }
        own.apply_yaml(&crd.to_string()).await.unwrap();
    }
    // The API server takes up a CRD's fields on its own time.
    let (told, code) = until(asked, "lacks Run.spec.readyWhen.").await;
    assert_eq!(code, 1, "{told}");

    own.apply_yaml(&namesake().to_string()).await.unwrap();
    let (told, _) = until(asked, "There are runs.example.com, too.").await;
    let warned = told.lines().find(|l| l.contains("runs.example.com"));
    assert!(warned.unwrap().starts_with("WARN"), "{told}");
}

/// Another project's CRD, with the name of our Runs.
fn namesake() -> Value {
    let schema = json!({"openAPIV3Schema": {"type": "object"}});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "runs.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": "runs", "singular": "run", "kind": "Run", "listKind": "RunList"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema}],
        },
    })
}

/// Proves: I-doctor
#[tokio::test]
async fn what_can_t_be_tried_at_all_has_an_exit_code_of_its_own() {
    let nowhere = Path::new("/nonexistent/kubeconfig");
    for args in [&[][..], &["--base-url", "nope"]] {
        let (told, code) = doctor(nowhere, args);
        assert_eq!((told.lines().count(), code), (1, 2), "{told}");
    }
}
