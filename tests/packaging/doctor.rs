//! `run-operator doctor`, with the rights that `helm test` gives it.

use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::helm::{documents, manifests, of_kind};
use crate::namespace::{Space, kubectl};
use test_cluster::{ControlPlane, Options, Output, Process, Scratch};

const START_TIMEOUT: Duration = Duration::from_secs(30);

/// Its output and exit code.
pub(crate) fn doctor(kubeconfig: &std::path::Path, args: &[&str]) -> (String, i32) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_run-operator"));
    command
        .arg("doctor")
        .args(args)
        .env("KUBECONFIG", kubeconfig);
    let output = command.output().unwrap();
    let mut told = String::from_utf8(output.stdout).unwrap();
    told.push_str(&String::from_utf8(output.stderr).unwrap());
    (told, output.status.code().unwrap())
}

/// A kubeconfig of the service account of the test's Pod, with its rights from the chart.
fn of_the_test_pod(space: &Space, scratch: &Scratch) -> PathBuf {
    let objects = documents(&manifests(&space.namespace, &[]));
    let of_the_test = |o: &&Value| {
        let name = o["metadata"]["name"].as_str().unwrap();
        name.ends_with("run-operator-test")
    };
    let own: Vec<Value> = objects.iter().filter(of_the_test).cloned().collect();
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
    let token = space
        .kubectl(&["create", "token", "run-operator-test"], "")
        .unwrap();
    let kubeconfig = scratch.path().join("kubeconfig");
    std::fs::copy(space.control_plane.kubeconfig(), &kubeconfig).unwrap();
    let file = format!("--kubeconfig={}", kubeconfig.display());
    let token = format!("--token={}", token.trim());
    for args in [
        ["set-credentials", "doctor", &token],
        ["set-context", "--current", "--user=doctor"],
    ] {
        kubectl(
            space.control_plane,
            &[&[file.as_str(), "config"], &args[..]].concat(),
            "",
        )
        .unwrap();
    }
    kubeconfig
}

/// A reference service, and its base URL.
async fn service(scratch: &Scratch) -> (Process, String) {
    let port_file = scratch.path().join("port");
    let mut command = Command::new(test_support::programs::reference_service());
    command
        .args([
            "--token",
            "secret",
            "--listen",
            "127.0.0.1:0",
            "--port-file",
        ])
        .arg(&port_file);
    let process = Process::spawn(&command, Output::File(scratch.path().join("log"))).unwrap();
    let deadline = Instant::now() + START_TIMEOUT;
    loop {
        let port = std::fs::read_to_string(&port_file).unwrap_or_default();
        if let Ok(port) = port.trim().parse::<u16>() {
            return (process, format!("http://127.0.0.1:{port}/api/v1"));
        }
        assert!(Instant::now() < deadline, "{}", process.output());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
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
    let token = format!("--from-literal=token={token}");
    let secret = ["create", "secret", "generic", "run-operator-token", &token];
    let dry_run = [&secret[..], &["--dry-run=client", "-o", "yaml"]].concat();
    let secret = space.kubectl(&dry_run, "").unwrap();
    let apply = ["apply", "--server-side", "-f", "-"];
    space.kubectl(&apply, &secret).unwrap();
    let workspace = r#"{"apiVersion": "run-operator.dev/v1alpha1", "kind": "Workspace",
        "metadata": {"name": "default"}, "spec": {}}"#;
    space.kubectl(&apply, workspace).unwrap();
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
    let (_service, base_url) = service(&scratch).await;
    let of_the_operator = ["--operator-namespace", &space.namespace];
    let with = ["--namespace", &space.namespace, "--base-url", &base_url];
    let with = [&with[..], &of_the_operator].concat();
    let admin = space.control_plane.kubeconfig();
    workspace(&space, "secret");
    let here = &space.namespace;
    let set = format!("baseUrl={base_url},allowInsecureHttp=true,watchNamespaces={{{here}}}");
    deployment(&space, &set, 1);
    roles(&space, &set);
    let mut running = operator(&space, &scratch, &base_url);
    let asked = || doctor(admin, &with);
    let (told, code) = until(asked, "All checks passed").await;
    assert_eq!(code, 0, "{told}");
    assert!(!told.contains("FAIL") && !told.contains("note"), "{told}");
    let well = told.lines().filter(|l| l.starts_with("ok ")).count();
    assert_eq!(well, 16, "{told}");
    assert!(told.contains(" has the 13 permissions that"), "{told}");
    assert!(
        told.ends_with("These take Runs from here: default.\n"),
        "{told}"
    );
    let stored = space.kubectl(&["get", "runs", "-o", "name"], "").unwrap();
    assert_eq!(stored, "");

    // As `helm test` asks, with its rights and no other.
    let kubeconfig = of_the_test_pod(&space, &scratch);
    let read_only = [&["--read-only"], &with[..]].concat();
    let (told, code) = doctor(&kubeconfig, &read_only);
    assert_eq!(code, 0, "{told}");
    assert!(
        told.contains("Not tried: --read-only applies none."),
        "{told}"
    );
    let last = "No check failed. Not tried: 1.\nThese take Runs from here: default.\n";
    assert!(told.ends_with(last), "{told}");

    // A token that the service refuses.
    workspace(&space, "dead");
    let (told, code) = until(asked, "default: Unauthorized").await;
    assert_eq!(code, 1, "{told}");

    // The operator is killed, and its Lease still exists: a short one, for which doctor doesn't wait long.
    running.kill9();
    lease(&space, "killed", 1);
    let (told, code) = asked();
    assert_eq!(code, 1, "{told}");
    assert!(told.contains("killed holds the Lease"), "{told}");
    assert!(told.contains("has not renewed it for"), "{told}");
    assert!(!told.contains("checks passed"), "{told}");
    assert!(told.contains("FAIL  an operator is active"), "{told}");
}

/// A Lease of the operator, as one that ended has left it.
fn lease(space: &Space, holder: &str, seconds: u32) {
    let lease = json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "run-operator"},
        "spec": {"holderIdentity": holder, "leaseDurationSeconds": seconds},
    });
    let apply = ["apply", "--server-side", "--force-conflicts", "-f", "-"];
    space.kubectl(&apply, &lease.to_string()).unwrap();
}

/// The chart's Deployment with these values, as if so many of its Pods were Ready.
fn deployment(space: &Space, set: &str, ready: u32) {
    let objects = documents(&manifests(&space.namespace, &["--set", set]));
    space.apply(&objects, &["Deployment"]);
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

/// The chart's account and roles, with what binds them.
fn roles(space: &Space, set: &str) {
    let objects = documents(&manifests(&space.namespace, &["--set", set]));
    let kinds = ["ServiceAccount", "Role", "RoleBinding"];
    space.apply(&objects, &kinds);
}

/// Proves: I-doctor
#[tokio::test]
async fn doctor_names_what_is_missing_beside_the_operator() {
    let space = Space::new().await;
    let here = &space.namespace;
    let set = format!(
        "baseUrl=https://a.example/v1,tokenSecretNames={{other}},watchNamespaces={{{here}}}"
    );
    deployment(&space, &set, 1);
    roles(&space, &set);
    workspace(&space, "secret");
    let elsewhere = r#"{"apiVersion": "run-operator.dev/v1alpha1", "kind": "Workspace",
        "metadata": {"name": "elsewhere"}, "spec": {"baseUrl": "https://b.example/v1"}}"#;
    let refused = r#"{"apiVersion": "run-operator.dev/v1alpha1", "kind": "Run", "metadata": {"name": "train"},
        "spec": {"workload": {"image": "a"}}}"#;
    for object in [elsewhere, refused] {
        space.kubectl(&["create", "-f", "-"], object).unwrap();
    }
    let stalled = json!({"conditions": [{"type": "Stalled", "status": "True", "reason": "Forbidden", "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z"}]});
    write_status(&space, "runs.run-operator.dev/train", &stalled);
    let beside = ["--operator-namespace", here, "--read-only"];
    let args = [&["--namespace", here], &beside[..]].concat();
    let (told, code) = doctor(space.control_plane.kubeconfig(), &args);
    assert_eq!(code, 1, "{told}");
    for words in [
        "may not: get secrets run-operator-token.",
        "These are not: https://b.example/v1.",
        "1 of 1 in the namespace",
        "do: Forbidden 1.",
    ] {
        assert!(told.contains(words), "{words:?} is not in {told}");
    }
    let json = [&args[..], &["-o", "json"]].concat();
    let (told, code) = doctor(space.control_plane.kubeconfig(), &json);
    assert_eq!(code, 1, "{told}");
    let document: Value = serde_json::from_str(&told).unwrap();
    let checks = document["checks"].as_array().unwrap();
    let mut warned = checks.iter().filter(|check| check["verdict"] == "warn");
    assert_eq!(warned.next().unwrap()["check"], "runs.stalled");
    assert_eq!(warned.next(), None);
}

/// Proves: I-doctor
#[tokio::test]
async fn doctor_ignores_a_leftover_lease_where_election_is_disabled() {
    let space = Space::new().await;
    let scratch = Scratch::new("doctor").unwrap();
    let kubeconfig = of_the_test_pod(&space, &scratch);
    let space_args = ["--namespace", &space.namespace, "--read-only"];
    let with = [&space_args[..], &["--operator-namespace", &space.namespace]].concat();
    let of_the_operator = || {
        let (told, _) = doctor(&kubeconfig, &with);
        let line = told.lines().find(|l| l.contains("an operator is active"));
        line.unwrap_or_else(|| panic!("{told}")).to_owned()
    };
    lease(&space, "", 1);
    let told = of_the_operator();
    assert!(told.starts_with("FAIL"), "{told}");
    assert!(told.contains("has no holder"), "{told}");

    deployment(&space, "leaderElection.enabled=true", 1);
    let told = of_the_operator();
    assert!(told.contains("has no holder"), "{told}");

    // Turned off since: by its holder, or by one that crashed.
    deployment(&space, "leaderElection.enabled=false", 1);
    for holder in ["", "crashed"] {
        lease(&space, holder, 1);
        let told = of_the_operator();
        assert!(told.starts_with("ok "), "{told}");
        assert!(told.contains("has 1 Pods that are Ready"), "{told}");
    }
    deployment(&space, "leaderElection.enabled=false", 0);
    let told = of_the_operator();
    assert!(told.starts_with("FAIL"), "{told}");
    assert!(told.contains("has no Pod that is Ready"), "{told}");
}

/// Proves: I-doctor
#[tokio::test]
async fn a_missing_workspace_and_a_missing_operator_are_named() {
    let space = Space::new().await;
    let args = ["--namespace", &space.namespace];
    let with = [&args[..], &["--operator-namespace", &space.namespace]].concat();
    let (told, code) = doctor(space.control_plane.kubeconfig(), &with);
    assert_eq!(code, 1, "{told}");
    assert!(told.contains("FAIL  the Workspaces are Ready"), "{told}");
    assert!(told.contains("There is none in the namespace"), "{told}");
    assert!(told.contains("FAIL  an operator is active"), "{told}");
    assert!(told.contains("and no Lease"), "{told}");
    let last = "Failed: 2. Not tried: 3.\nNo Workspace is known to take Runs from here.\n";
    assert!(told.ends_with(last), "{told}");
}

/// Proves: I-doctor
#[tokio::test]
async fn a_missing_right_and_a_silent_service_are_named() {
    let space = Space::new().await;
    let scratch = Scratch::new("doctor").unwrap();
    let kubeconfig = of_the_test_pod(&space, &scratch);
    let args = [
        "--namespace",
        "default",
        "--base-url",
        "http://127.0.0.1:1/api/v1",
    ];
    let (told, code) = doctor(&kubeconfig, &args);
    assert_eq!(code, 1, "{told}");
    let failed: Vec<&str> = told.lines().filter(|l| l.starts_with("FAIL")).collect();
    let [right, service] = failed.as_slice() else {
        panic!("{told}")
    };
    assert!(
        right.contains("forbidden") && right.contains("create and patch"),
        "{right}"
    );
    assert!(service.contains("Check the base URL"), "{service}");
    for unread in ["may not list the Workspaces", "may not read the Lease"] {
        assert!(told.contains(unread), "{told}");
    }
    assert!(told.contains("\nFailed: 2. Not tried: "), "{told}");
}

/// Proves: I-doctor
#[tokio::test]
async fn doctor_distinguishes_namespace_credential_and_rbac_failures() {
    let space = Space::new().await;
    let scratch = Scratch::new("doctor").unwrap();
    let (told, code) = doctor(
        space.control_plane.kubeconfig(),
        &["--namespace", "nowhere"],
    );
    assert_eq!(code, 1, "{told}");
    assert!(told.contains("Create the namespace"), "{told}");

    let kubeconfig = of_the_test_pod(&space, &scratch);
    let file = format!("--kubeconfig={}", kubeconfig.display());
    let wrong = [
        &file,
        "config",
        "set-credentials",
        "doctor",
        "--token=wrong",
    ];
    kubectl(space.control_plane, &wrong, "").unwrap();
    let (told, code) = doctor(&kubeconfig, &[]);
    assert_eq!(code, 1, "{told}");
    assert!(told.contains("Check the credentials"), "{told}");
}

/// Proves: I-doctor
#[tokio::test]
async fn doctor_distinguishes_missing_and_outdated_crds() {
    let own = ControlPlane::start(Options::default()).await.unwrap();
    let (told, code) = doctor(own.kubeconfig(), &[]);
    assert_eq!(code, 1, "{told}");
    assert!(
        told.contains("FAIL  the CRDs are of this version"),
        "{told}"
    );
    assert!(told.contains("it has none of the CRDs."), "{told}");
    for untried in ["Runs", "Workspaces"] {
        let words = format!("Not tried: the cluster doesn't serve {untried}.");
        assert!(told.contains(&words), "{told}");
    }

    let yaml = run_operator::api::crd::yaml().unwrap();
    let mut crds = documents(&yaml);
    for crd in &mut crds {
        let spec = "/spec/versions/0/schema/openAPIV3Schema/properties/spec";
        if let Some(spec) = crd.pointer_mut(spec) {
            spec["properties"]
                .as_object_mut()
                .unwrap()
                .remove("readyWhen");
        }
        own.apply_yaml(&crd.to_string()).await.unwrap();
    }
    // The API server takes up a CRD's fields on its own time.
    let deadline = Instant::now() + START_TIMEOUT;
    loop {
        let (told, code) = doctor(own.kubeconfig(), &[]);
        assert_eq!(code, 1, "{told}");
        if told.contains("lacks Run.spec.readyWhen.") {
            break;
        }
        assert!(Instant::now() < deadline, "{told}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }

    own.apply_yaml(&namesake().to_string()).await.unwrap();
    let asked = || doctor(own.kubeconfig(), &[]);
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
    let nowhere = std::path::Path::new("/nonexistent/kubeconfig");
    let (told, code) = doctor(nowhere, &[]);
    assert_eq!((told.lines().count(), code), (1, 2), "{told}");
    let (told, code) = doctor(nowhere, &["--base-url", "nope"]);
    assert_eq!((told.lines().count(), code), (1, 2), "{told}");
}
