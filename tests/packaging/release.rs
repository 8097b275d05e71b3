//! A release from its installation to its end: what Helm makes, changes, keeps and removes.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rstest::rstest;
use serde_json::Value;

use crate::helm::{self, Helm, Release, chart};
use crate::namespace::kubectl;
use test_cluster::{ControlPlane, Options, Scratch};

const NAMESPACE: &str = "run-operator";
const TIMEOUT: Duration = Duration::from_mins(1);
const RUN: &str = r#"{"apiVersion": "run-operator.dev/v1alpha1", "kind": "Run", "metadata": {"name": "train"},
    "spec": {"workload": {"image": "a"}}}"#;

/// A control plane without a node and without our CRDs.
async fn empty() -> ControlPlane {
    ControlPlane::start(Options::default()).await.unwrap()
}

fn release(control_plane: &ControlPlane) -> Release<'_> {
    release_by(Helm::V4, control_plane)
}

fn release_by(helm: Helm, control_plane: &ControlPlane) -> Release<'_> {
    Release {
        helm,
        control_plane,
        name: "run-operator",
        namespace: NAMESPACE,
    }
}

#[track_caller]
fn field(control_plane: &ControlPlane, object: &[&str], path: &str) -> String {
    let output = format!("jsonpath={{{path}}}");
    let get = ["--namespace", NAMESPACE, "get", "-o", &output];
    kubectl(control_plane, &[&get[..], object].concat(), "").unwrap()
}

/// Kinds and names of what is there of these kinds, in the release's namespace or in none.
fn left(control_plane: &ControlPlane, kinds: &str) -> Vec<String> {
    let names = kubectl(
        control_plane,
        &["--namespace", NAMESPACE, "get", kinds, "-o", "name"],
        "",
    );
    let names = names.unwrap();
    let ours = names
        .lines()
        .filter(|name| name.contains("run") || name.contains("workspace"));
    ours.map(str::to_owned).collect()
}

/// What the API server says of each CRD that is left.
fn conditions(control_plane: &ControlPlane) -> String {
    let output = "jsonpath={range .items[*]}{.metadata.name}: {.status.conditions}{'\\n'}{end}";
    kubectl(control_plane, &["get", "crd", "-o", output], "").unwrap()
}

/// The chart as an earlier version, whose CRD of Run described itself in other words.
fn earlier(scratch: &Scratch) -> PathBuf {
    let copy = scratch.path().join("run-operator");
    copy_directory(&chart(), &copy);
    let crd = copy.join("templates/crds/runs.yaml");
    let text = std::fs::read_to_string(&crd).unwrap();
    let changed = text.replace("The operator's summary of the run.", "Earlier words.");
    assert_ne!(text, changed);
    std::fs::write(crd, changed).unwrap();
    copy
}

fn copy_directory(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy_directory(&entry.path(), &to);
        } else {
            std::fs::copy(entry.path(), to).unwrap();
        }
    }
}

/// Proves: I-crds, I-helm
#[rstest]
#[case(Helm::V3)]
#[case(Helm::V4)]
#[tokio::test]
async fn an_upgrade_brings_new_crds_and_a_rollback_the_old_arguments(#[case] helm: Helm) {
    let own = empty().await;
    let release = release_by(helm, &own);
    let scratch = Scratch::new("release").unwrap();
    let column = |own| {
        field(
            own,
            &["crd", "runs.run-operator.dev"],
            ".spec.versions[0].additionalPrinterColumns[0].description",
        )
    };
    let args = |own| {
        field(
            own,
            &["deployment", "run-operator"],
            ".spec.template.spec.containers[0].args",
        )
    };
    release.put(
        "install",
        &earlier(&scratch),
        &["--create-namespace", "--set", "poll.min=6s"],
    );
    assert_eq!(column(&own), "Earlier words.");

    release.put("upgrade", &chart(), &["--set", "poll.min=7s"]);
    assert_eq!(column(&own), "The operator's summary of the run.");
    assert!(args(&own).contains("--poll-min=7s"));
    helm::done(&release.run("rollback", &["1"]));
    assert!(args(&own).contains("--poll-min=6s"));
}

/// The API server fills in what a strategy leaves out, and refuses it beside the other strategy.
/// Proves: I-several-pods
#[tokio::test]
async fn an_upgrade_switches_election_and_strategy_off_and_on() {
    let own = empty().await;
    let release = release(&own);
    let strategy = || field(&own, &["deployment", "run-operator"], ".spec.strategy.type");
    release.put("install", &chart(), &["--create-namespace"]);
    assert_eq!(strategy(), "RollingUpdate");
    release.put(
        "upgrade",
        &chart(),
        &["--set", "leaderElection.enabled=false"],
    );
    assert_eq!(strategy(), "Recreate");
    release.put(
        "upgrade",
        &chart(),
        &["--set", "leaderElection.enabled=true,replicas=3"],
    );
    assert_eq!(strategy(), "RollingUpdate");
}

/// Proves: I-workspace, I-uninstall
#[tokio::test]
async fn the_default_workspace_is_installed_and_outlives_the_release() {
    let own = empty().await;
    let release = release(&own);
    let with = [
        "--set",
        "defaultWorkspace.enabled=true",
        "--set",
        "defaultWorkspace.spec.suspend=true",
    ];
    let uid = |own| field(own, &["workspace", "default"], ".metadata.uid");
    release.put(
        "install",
        &chart(),
        &[&["--create-namespace"], &with[..]].concat(),
    );
    let first = uid(&own);
    assert_eq!(
        field(&own, &["workspace", "default"], ".spec.suspend"),
        "true"
    );

    // From now on an object of the release, whose changes arrive.
    let other = [
        "--set",
        "defaultWorkspace.enabled=true",
        "--set",
        "defaultWorkspace.spec.suspend=false",
    ];
    release.put("upgrade", &chart(), &other);
    assert_eq!(
        field(&own, &["workspace", "default"], ".spec.suspend"),
        "false"
    );
    release.put("upgrade", &chart(), &other);
    helm::done(&release.run("rollback", &["1"]));
    release.put(
        "upgrade",
        &chart(),
        &["--set", "defaultWorkspace.enabled=false"],
    );
    release.put("upgrade", &chart(), &other);
    helm::done(&release.run("uninstall", &[]));
    release.put("install", &chart(), &other);
    helm::done(&release.run("uninstall", &[]));
    assert_eq!(uid(&own), first);
}

/// Proves: I-crds, I-helm, I-uninstall
#[rstest]
#[case(Helm::V3)]
#[case(Helm::V4)]
#[tokio::test]
async fn an_uninstall_leaves_what_it_lists(#[case] helm: Helm) {
    let own = empty().await;
    let release = release_by(helm, &own);
    let made = "deployment,service,serviceaccount,clusterrole,clusterrolebinding";
    release.put("install", &chart(), &["--create-namespace"]);
    assert_eq!(left(&own, made).len(), 8, "{:?}", left(&own, made));
    kubectl(&own, &["--namespace", NAMESPACE, "create", "-f", "-"], RUN).unwrap();

    let told = helm::done(&release.run("uninstall", &[]));
    assert_eq!(told.matches("run-operator.dev").count(), 5, "{told}");
    assert_eq!(left(&own, made), Vec::<String>::new());
    let crds = left(&own, "crd");
    assert_eq!(crds.len(), 3, "{crds:?}");
    assert_eq!(
        left(
            &own,
            "validatingadmissionpolicy,validatingadmissionpolicybinding"
        )
        .len(),
        2
    );
    assert_eq!(left(&own, "runs"), ["run.run-operator.dev/train"]);

    // Kept CRDs belong to the release of that name, which may come back.
    let stranger = Release {
        name: "another",
        ..release
    };
    let refused = stranger.run("install", &[&chart().display().to_string()]);
    let told = String::from_utf8(refused.stderr).unwrap();
    assert!(told.contains("invalid ownership metadata"), "{told}");
    stranger.put("install", &chart(), &["--set", "crds.enabled=false"]);
    helm::done(&stranger.run("uninstall", &[]));
    stranger.put("install", &chart(), &["--take-ownership"]);
    helm::done(&stranger.run("uninstall", &[]));
}

/// Proves: I-test-rights
#[tokio::test]
async fn a_failed_test_leaves_its_pod_and_no_rights() {
    let own = empty().await;
    let release = release(&own);
    release.put("install", &chart(), &["--create-namespace"]);
    // There is no node: the Pod never runs.
    let failed = release.run("test", &["--timeout", "2s"]);
    assert!(!failed.status.success());
    assert_eq!(left(&own, "pod"), ["pod/run-operator-test"]);
    let mut rights = left(
        &own,
        "serviceaccount,role,rolebinding,clusterrole,clusterrolebinding",
    );
    rights.retain(|name| name.ends_with("-test"));
    assert_eq!(rights, Vec::<String>::new());
}

/// Proves: I-crds
#[tokio::test]
async fn without_keep_the_crds_go_with_every_run() {
    let own = empty().await;
    let release = release(&own);
    release.put("install", &chart(), &["--create-namespace"]);
    release.put("upgrade", &chart(), &["--set", "crds.keep=false"]);
    kubectl(&own, &["--namespace", NAMESPACE, "create", "-f", "-"], RUN).unwrap();
    // A CRD whose objects the API server cannot list yet stays for minutes: its controller tries again from an old
    // copy, takes the conflict for somebody else's change, and waits for an event that never comes.
    for kind in ["runs", "workspaces", "clusterworkspaces"] {
        let listed = format!("{kind}.run-operator.dev");
        kubectl(&own, &["--namespace", NAMESPACE, "get", &listed], "").unwrap();
    }
    helm::done(&release.run("uninstall", &[]));
    let deadline = Instant::now() + TIMEOUT;
    while !left(&own, "crd").is_empty() {
        assert!(Instant::now() < deadline, "left: {}", conditions(&own));
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// Proves: I-plain
#[tokio::test]
async fn the_plain_manifest_applies_twice_without_a_change() {
    let own = empty().await;
    let plain = test_support::root()
        .join("deploy/install.yaml")
        .display()
        .to_string();
    let apply = ["apply", "--server-side", "-f", &plain];
    kubectl(&own, &apply, "").unwrap();
    let applied = field(&own, &["deployment", "run-operator"], "");
    let applied: Value = serde_json::from_str(&applied).unwrap();
    assert_eq!(
        applied["spec"]["template"]["spec"]["serviceAccountName"],
        "run-operator"
    );
    let version = |own| {
        field(
            own,
            &["deployment", "run-operator"],
            ".metadata.resourceVersion",
        )
    };
    let first = version(&own);
    kubectl(&own, &apply, "").unwrap();
    assert_eq!(version(&own), first, "the second apply changed something");
}

/// The commands of docs/install.md.
/// Proves: I-plain
#[tokio::test]
async fn the_plain_manifest_upgrades_with_its_edits_and_moves_to_helm() {
    let own = empty().await;
    let plain = test_support::root().join("deploy/install.yaml");
    let text = std::fs::read_to_string(&plain).unwrap();
    let text = text.replace("image: \"run-operator:", "image: \"a.example/run-operator:");
    let upgrade = ["apply", "--server-side", "-f", "-"];
    kubectl(&own, &upgrade, &text).unwrap();
    let url = "RUN_OPERATOR_BASE_URL=https://a.example/v1";
    let set = ["set", "env", "deployment/run-operator", url];
    kubectl(&own, &[&["--namespace", NAMESPACE], &set[..]].concat(), "").unwrap();
    kubectl(&own, &upgrade, &text.replace("poll-max=5m", "poll-max=6m")).unwrap();
    let container = |path: &str| {
        let path = format!(".spec.template.spec.containers[0].{path}");
        field(&own, &["deployment", "run-operator"], &path)
    };
    assert!(container("image").starts_with("a.example/"));
    assert!(container("env").contains("https://a.example/v1"));
    assert!(container("args").contains("--poll-max=6m"));

    // And over to Helm.
    let over = ["--install", "--take-ownership", "--force-conflicts"];
    release(&own).put("upgrade", &chart(), &over);
    assert!(container("args").contains("--poll-max=5m"));
}

/// Proves: I-crds
#[tokio::test]
async fn crds_that_kubectl_applied_become_those_of_the_release() {
    let own = empty().await;
    let release = release(&own);
    let crds = run_operator::api::crd::yaml().unwrap();
    kubectl(&own, &["apply", "--server-side", "-f", "-"], &crds).unwrap();
    let without = ["--create-namespace", "--set", "crds.enabled=false"];
    release.put("install", &chart(), &without);
    let with = ["--set", "crds.enabled=true", "--take-ownership"];
    release.put("upgrade", &chart(), &with);
    let owner = || {
        field(
            &own,
            &["crd", "runs.run-operator.dev"],
            ".metadata.annotations.meta\\.helm\\.sh/release-name",
        )
    };
    assert_eq!(owner(), "run-operator");
    release.put("upgrade", &chart(), &["--set", "crds.enabled=false"]);
    assert_eq!(left(&own, "crd").len(), 3);
}
