//! The oldest Kubernetes that the chart, the operator and `doctor` take. An API server that emulates an older version
//! stands for that version.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use rstest::rstest;
use run_operator::checks::MINIMUM;

use crate::doctor::doctor;
use crate::helm;
use test_cluster::{ControlPlane, Options, Output, Process, Scratch};

/// Enough for a machine that compiles beside the tests.
const TIMEOUT: Duration = Duration::from_mins(1);

/// Proves: I-minimum-kubernetes
#[rstest]
#[case::below(&["--kube-version", "1.34.9"], &["requires kubeVersion: >=1.35.0-0", "v1.34.9"])]
#[case::below_on_a_cloud(&["--kube-version", "1.34.5-gke.1162000"], &["requires kubeVersion: >=1.35.0-0", "v1.34.5-gke.1162000"])]
#[case::a_policy_below_its_own(
    &["--kube-version", "1.35.4", "--set", "finalizerPolicy.enabled=true"],
    &["finalizerPolicy.enabled needs Kubernetes 1.36, which has MutatingAdmissionPolicy; this is v1.35.4"]
)]
fn the_chart_refuses_an_older_kubernetes(#[case] args: &[&str], #[case] words: &[&str]) {
    helm::refused(args, words);
}

/// Proves: I-minimum-kubernetes
#[rstest]
#[case::the_minimum(&["--kube-version", "1.35.0"])]
#[case::the_minimum_on_a_cloud(&["--kube-version", "1.35.1-gke.1162000"])]
#[case::the_policy_at_its_own(&["--kube-version", "1.36.0-eks-3025e55", "--set", "finalizerPolicy.enabled=true"])]
#[case::a_later_one(&["--kube-version", "1.40.2"])]
fn the_chart_takes_its_minimum_and_later(#[case] args: &[&str]) {
    assert!(!helm::objects(args).is_empty());
}

/// Proves: I-minimum-kubernetes
#[test]
fn the_chart_and_the_program_have_the_same_minimum() {
    let chart = std::fs::read_to_string(helm::chart().join("Chart.yaml")).unwrap();
    let line = format!("\nkubeVersion: \">={MINIMUM}.0-0\"\n");
    assert!(chart.contains(&line), "{line:?} is not in {chart}");
}

/// An operator that is started on a cluster.
fn operator(kubeconfig: &Path, scratch: &Scratch) -> Process {
    let mut command = Command::new(env!("CARGO_BIN_EXE_run-operator"));
    command.args(["controller", "--base-url", "http://127.0.0.1:9/api/v1"]);
    command.args(["--listen", "127.0.0.1:0"]);
    command.env("KUBECONFIG", kubeconfig);
    Process::spawn(&command, Output::File(scratch.path().join("log"))).unwrap()
}

/// Proves: I-minimum-kubernetes, I-doctor
#[tokio::test]
async fn the_operator_and_doctor_refuse_an_older_kubernetes() {
    let scratch = Scratch::new("old").unwrap();
    let older = ControlPlane::start_emulating("1.34").await.unwrap();
    let mut started = operator(older.kubeconfig(), &scratch);
    let code = started.wait_exit(TIMEOUT).await;
    let log = started.log_tail();
    assert_eq!(code, Some(2), "{log}");
    let found = log.strip_prefix("run-operator: found Kubernetes 1.34 (v1.");
    let remedy = "), and 1.35 or newer is needed: upgrade the cluster, or install";
    assert!(found.is_some_and(|rest| rest.contains(remedy)), "{log}");

    let (told, code) = doctor(older.kubeconfig(), &[]);
    assert_eq!(code, 1, "{told}");
    assert!(told.contains("ok    the API server answers"), "{told}");
    let line = "FAIL  Kubernetes is new enough        The API server serves 1.34, and the operator needs 1.35 or newer. \
                Upgrade the cluster, or install a version of run-operator that supports it.";
    assert!(told.contains(line), "{told}");
}

/// Proves: I-minimum-kubernetes
#[tokio::test]
async fn an_unreadable_version_is_only_a_warning() {
    let scratch = Scratch::new("away").unwrap();
    let own = ControlPlane::start(Options::default()).await.unwrap();
    own.stop_apiserver().unwrap();
    let mut started = operator(own.kubeconfig(), &scratch);
    let deadline = Instant::now() + TIMEOUT;
    loop {
        let log = started.log_tail();
        if log.contains("run-operator is starting") {
            let warning = "the API server's version could not be checked";
            assert!(log.contains(warning), "{log}");
            break;
        }
        let waits = started.exit_code().is_none() && Instant::now() < deadline;
        assert!(waits, "{log}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
