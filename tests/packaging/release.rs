//! A release from its installation to its end: what Helm makes, changes, keeps and removes.

use std::path::{Path, PathBuf};

use crate::helm::{self, Release, chart};
use crate::namespace::kubectl;
use test_cluster::{ControlPlane, Options, Scratch};

const NAMESPACE: &str = "run-operator";
const DEPLOYMENT: [&str; 2] = ["deployment", "run-operator"];
const RUNS: [&str; 2] = ["crd", "runs.run-operator.dev"];
const RUN: &str = r#"{"apiVersion": "run-operator.dev/v1alpha1", "kind": "Run", "metadata": {"name": "train"},
    "spec": {"workload": {"image": "a"}}}"#;

/// A control plane without a node and without our CRDs.
async fn empty() -> ControlPlane {
    ControlPlane::start(Options::default()).await.unwrap()
}

fn release(control_plane: &ControlPlane) -> Release<'_> {
    Release {
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

/// Proves: I-crds
#[tokio::test]
async fn an_upgrade_brings_new_crds_and_a_rollback_the_old_arguments() {
    let own = empty().await;
    let release = release(&own);
    let scratch = Scratch::new("release").unwrap();
    let column = ".spec.versions[0].additionalPrinterColumns[0].description";
    let args = || {
        let path = ".spec.template.spec.containers[0].args";
        field(&own, &DEPLOYMENT, path)
    };
    let first = ["--create-namespace", "--set", "poll.min=6s"];
    release.put("install", &earlier(&scratch), &first);
    assert_eq!(field(&own, &RUNS, column), "Earlier words.");

    release.put("upgrade", &chart(), &["--set", "poll.min=7s"]);
    let now = field(&own, &RUNS, column);
    assert_eq!(now, "The operator's summary of the run.");
    assert!(args().contains("--poll-min=7s"));
    helm::done(&release.run("rollback", &["1"]));
    assert_eq!(field(&own, &RUNS, column), "Earlier words.");
    assert!(args().contains("--poll-min=6s"));
}

/// The API server fills in what a strategy leaves out, and refuses it beside the other strategy.
/// Proves: I-several-pods
#[tokio::test]
async fn an_upgrade_switches_election_and_strategy_off_and_on() {
    let own = empty().await;
    let release = release(&own);
    release.put("install", &chart(), &["--create-namespace"]);
    for (values, strategy) in [
        ("leaderElection.enabled=true", "RollingUpdate"),
        ("leaderElection.enabled=false", "Recreate"),
        ("leaderElection.enabled=true,replicas=3", "RollingUpdate"),
    ] {
        release.put("upgrade", &chart(), &["--set", values]);
        let found = field(&own, &DEPLOYMENT, ".spec.strategy.type");
        assert_eq!(found, strategy, "{values}");
    }
}

/// Proves: I-workspace, I-uninstall
#[tokio::test]
async fn the_default_workspace_is_installed_and_outlives_the_release() {
    let own = empty().await;
    let release = release(&own);
    let paused = "defaultWorkspace.enabled=true,defaultWorkspace.spec.suspend=true";
    let resumed = "defaultWorkspace.enabled=true,defaultWorkspace.spec.suspend=false";
    let of = |path: &str| field(&own, &["workspace", "default"], path);
    let first = ["--create-namespace", "--set", paused];
    release.put("install", &chart(), &first);
    let uid = of(".metadata.uid");
    assert_eq!(of(".spec.suspend"), "true");

    // From now on an object of the release, whose changes arrive.
    for _ in 0..2 {
        release.put("upgrade", &chart(), &["--set", resumed]);
        assert_eq!(of(".spec.suspend"), "false");
    }
    helm::done(&release.run("rollback", &["1"]));
    let off = ["--set", "defaultWorkspace.enabled=false"];
    release.put("upgrade", &chart(), &off);
    release.put("upgrade", &chart(), &["--set", resumed]);
    helm::done(&release.run("uninstall", &[]));
    release.put("install", &chart(), &["--set", resumed]);
    helm::done(&release.run("uninstall", &[]));
    assert_eq!(of(".metadata.uid"), uid);
}

/// Proves: I-crds, I-test-rights, I-uninstall
#[tokio::test]
async fn a_failed_test_leaves_its_pod_and_an_uninstall_what_it_lists() {
    let own = empty().await;
    let release = release(&own);
    let made = "deployment,service,serviceaccount,clusterrole,clusterrolebinding";
    release.put("install", &chart(), &["--create-namespace"]);
    assert_eq!(left(&own, made).len(), 8, "{:?}", left(&own, made));
    kubectl(&own, &["--namespace", NAMESPACE, "create", "-f", "-"], RUN).unwrap();

    // There is no node: the Pod never runs.
    let failed = release.run("test", &["--timeout", "2s"]);
    assert!(!failed.status.success());
    assert_eq!(left(&own, "pod"), ["pod/run-operator-test"]);
    let rights = "serviceaccount,role,rolebinding,clusterrole,clusterrolebinding";
    let mut rights = left(&own, rights);
    rights.retain(|name| name.ends_with("-test"));
    assert_eq!(rights, Vec::<String>::new());

    let told = helm::done(&release.run("uninstall", &[]));
    assert_eq!(told.matches("run-operator.dev").count(), 5, "{told}");
    assert_eq!(left(&own, made), Vec::<String>::new());
    let crds = left(&own, "crd");
    assert_eq!(crds.len(), 3, "{crds:?}");
    let policy = "validatingadmissionpolicy,validatingadmissionpolicybinding";
    assert_eq!(left(&own, policy).len(), 2);
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

/// The commands of docs/install.md.
/// Proves: I-plain
#[tokio::test]
async fn the_plain_manifest_upgrades_with_its_edits_and_moves_to_helm() {
    let own = empty().await;
    let plain = test_support::root().join("deploy/install.yaml");
    let text = std::fs::read_to_string(&plain).unwrap();
    let text = text.replace("image: \"run-operator:", "image: \"a.example/run-operator:");
    let apply = |text: &str| kubectl(&own, &["apply", "--server-side", "-f", "-"], text).unwrap();
    let version = || field(&own, &DEPLOYMENT, ".metadata.resourceVersion");
    apply(&text);
    let first = version();
    apply(&text);
    assert_eq!(version(), first, "the second apply changed something");

    let url = "RUN_OPERATOR_BASE_URL=https://a.example/v1";
    let set = ["set", "env", "deployment/run-operator", url];
    kubectl(&own, &[&["--namespace", NAMESPACE], &set[..]].concat(), "").unwrap();
    apply(&text.replace("poll-max=5m", "poll-max=6m"));
    let spec = |path: &str| field(&own, &DEPLOYMENT, &format!(".spec.template.spec.{path}"));
    assert_eq!(spec("serviceAccountName"), "run-operator");
    assert!(spec("containers[0].image").starts_with("a.example/"));
    assert!(spec("containers[0].env").contains("https://a.example/v1"));
    assert!(spec("containers[0].args").contains("--poll-max=6m"));

    // And over to Helm.
    let over = ["--install", "--take-ownership", "--force-conflicts"];
    release(&own).put("upgrade", &chart(), &over);
    assert!(spec("containers[0].args").contains("--poll-max=5m"));
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
    let owner = ".metadata.annotations.meta\\.helm\\.sh/release-name";
    assert_eq!(field(&own, &RUNS, owner), "run-operator");
    release.put("upgrade", &chart(), &["--set", "crds.enabled=false"]);
    assert_eq!(left(&own, "crd").len(), 3);
}
