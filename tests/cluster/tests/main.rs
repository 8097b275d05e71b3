//! Tests of the tests' control plane.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod cleanup;
mod pods;

use std::path::Path;
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Secret};
use kube::api::{Api, DeleteParams, PostParams};

use tokio::sync::OnceCell;

use test_cluster::{ControlPlane, Options, Release};

/// Enough for a machine that compiles beside the tests.
const PATIENCE: Duration = Duration::from_mins(1);

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

/// A control plane for the tests that neither break it nor need it empty. Not the shared one: that may be a
/// given cluster, and these tests inspect our own.
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
    assert!(during.is_err(), "no server is there to answer: {during:?}");

    control_plane.start_apiserver().await.unwrap();
    let note = config_maps.get("note").await.unwrap();
    assert_eq!(note.data.unwrap()["text"], "kept");
}

#[tokio::test]
async fn the_controller_manager_deletes_a_namespace_and_its_objects() {
    let options = Options {
        controller_manager: true,
        ..Options::default()
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
        assert_eq!(version.git_version, Release::chosen().unwrap().version());
    }
}

#[tokio::test]
async fn a_custom_resource_can_be_applied_right_after_its_definition() {
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
async fn the_audit_log_records_only_our_resources_and_secrets() {
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
