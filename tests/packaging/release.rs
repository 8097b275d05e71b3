//! A release from its installation to its end: what Helm makes, changes, keeps and removes.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::helm::{self, chart};
use crate::namespace::kubectl;
use test_cluster::{ControlPlane, Options, Scratch};

const NAMESPACE: &str = "run-operator";
const DEPLOYMENT: [&str; 2] = ["deployment", "run-operator"];
const RUNS: [&str; 2] = ["crd", "runs.run-operator.dev"];
/// The description of a column of Run.
const WORDS: &str = "The operator's summary of the run.";
const RUN: &str = r#"{"apiVersion": "run-operator.dev/v1alpha1", "kind": "Run", "metadata": {"name": "train"},
    "spec": {"workload": {"image": "a"}}}"#;

/// A control plane without a node and without our CRDs.
async fn empty() -> ControlPlane {
    ControlPlane::start(Options::default()).await.unwrap()
}

fn release(control_plane: &ControlPlane) -> Release<'_> {
    let name = "run-operator";
    Release {
        control_plane,
        name,
    }
}

/// A release on a cluster.
struct Release<'a> {
    control_plane: &'a ControlPlane,
    name: &'a str,
}

impl Release<'_> {
    /// `helm VERB NAME …`.
    fn run(&self, verb: &str, args: &[&str]) -> Output {
        let mut command = helm::command();
        command.env("KUBECONFIG", self.control_plane.kubeconfig());
        command.args([verb, self.name]).args(args);
        command.args(["--namespace", NAMESPACE]).output().unwrap()
    }

    /// The same, of a chart, with the least that has to be set.
    fn try_put(&self, verb: &str, chart: &Path, args: &[&str]) -> Output {
        let (chart, least) = (chart.display().to_string(), helm::ci("default"));
        self.run(verb, &[&[&*chart, "-f", &*least][..], args].concat())
    }

    /// There is no node, so nothing to wait for.
    #[track_caller]
    fn put(&self, verb: &str, chart: &Path, args: &[&str]) {
        helm::done(&self.try_put(verb, chart, args));
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
    let get = ["--namespace", NAMESPACE, "get", kinds, "-o", "name"];
    let names = kubectl(control_plane, &get, "").unwrap();
    let ours = |name: &&str| name.contains("run") || name.contains("workspace");
    names.lines().filter(ours).map(str::to_owned).collect()
}

/// The chart as an earlier version, whose CRD of Run described itself in other words.
fn earlier(scratch: &Scratch) -> PathBuf {
    let copy = scratch.path().join("run-operator");
    let mut copying = Command::new("cp");
    helm::done(&copying.arg("-r").args([&chart(), &copy]).output().unwrap());
    let crd = copy.join("templates/crds/runs.yaml");
    let text = std::fs::read_to_string(&crd).unwrap();
    let changed = text.replace(WORDS, "Earlier words.");
    assert_ne!(text, changed);
    std::fs::write(crd, changed).unwrap();
    copy
}

/// The API server fills in what a strategy leaves out, and refuses it beside the other strategy.
/// Proves: I-crds, I-values
#[tokio::test]
async fn an_upgrade_brings_crds_and_strategy_and_a_rollback_what_was_before() {
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
    assert_eq!(field(&own, &RUNS, column), WORDS);
    assert!(args().contains("--poll-min=7s"));
    helm::done(&release.run("rollback", &["1"]));
    assert_eq!(field(&own, &RUNS, column), "Earlier words.");
    assert!(args().contains("--poll-min=6s"));

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

/// Proves: I-crds, I-doctor, I-uninstall
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
    assert_eq!(told.matches("run-operator.dev").count(), 7, "{told}");
    assert_eq!(left(&own, made), Vec::<String>::new());
    let crds = left(&own, "crd");
    assert_eq!(crds.len(), 5, "{crds:?}");
    let policy = "validatingadmissionpolicy,validatingadmissionpolicybinding";
    assert_eq!(left(&own, policy).len(), 2);
    assert_eq!(left(&own, "runs"), ["run.run-operator.dev/train"]);

    // Kept CRDs belong to the release of that name, which may come back.
    let stranger = Release {
        name: "another",
        ..release
    };
    let refused = stranger.try_put("install", &chart(), &[]);
    let told = String::from_utf8(refused.stderr).unwrap();
    assert!(told.contains("invalid ownership metadata"), "{told}");
    stranger.put("install", &chart(), &["--set", "crds.enabled=false"]);
    helm::done(&stranger.run("uninstall", &[]));
    stranger.put("install", &chart(), &["--take-ownership"]);
    helm::done(&stranger.run("uninstall", &[]));
}

/// The commands of docs/install.md.
/// Proves: I-taken, I-crds
#[tokio::test]
async fn the_plain_manifest_upgrades_with_its_edits_and_moves_to_helm() {
    let own = empty().await;
    let text = test_support::files::text("deploy/install.yaml");
    let text = text.replace("registry.example.com", "a.example");
    let text = text.replace("https://runs.example.com/api/v1", "https://a.example/v1");
    let apply = |text: &str| kubectl(&own, &["apply", "--server-side", "-f", "-"], text).unwrap();
    let version = || field(&own, &DEPLOYMENT, ".metadata.resourceVersion");
    apply(&text);
    let first = version();
    apply(&text);
    assert_eq!(version(), first, "the second apply changed something");

    apply(&text.replace("poll-max=5m", "poll-max=6m"));
    let spec = |path: &str| field(&own, &DEPLOYMENT, &format!(".spec.template.spec.{path}"));
    assert_eq!(spec("serviceAccountName"), "run-operator");
    assert!(spec("containers[0].image").starts_with("a.example/"));
    assert!(spec("containers[0].env").contains("https://a.example/v1"));
    assert!(spec("containers[0].args").contains("--poll-max=6m"));

    // And over to Helm, CRDs included, which then stay.
    let over = ["--install", "--take-ownership", "--force-conflicts"];
    release(&own).put("upgrade", &chart(), &over);
    assert!(spec("containers[0].args").contains("--poll-max=5m"));
    let owner = ".metadata.annotations.meta\\.helm\\.sh/release-name";
    assert_eq!(field(&own, &RUNS, owner), "run-operator");
    let without = ["--set", "crds.enabled=false"];
    release(&own).put("upgrade", &chart(), &without);
    assert_eq!(left(&own, "crd").len(), 5);
}
