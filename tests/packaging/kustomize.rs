//! `deploy/`: what is rendered from the chart for those who don't use Helm.

use std::collections::BTreeMap;

use rstest::rstest;
use serde_json::{Value, json};

use run_operator::service::{AllowList, BaseUrl};
use test_support::root;

use crate::helm::{self, documents, of_kind, texts, the};
use crate::namespace::{DRY_RUN, Space, kubectl};

async fn built(overlay: &str) -> (Space, Vec<Value>) {
    let space = Space::new().await;
    let directory = root().join("deploy/kustomize").join(overlay);
    let yaml = space
        .kubectl(&["kustomize", &directory.display().to_string()], "")
        .unwrap();
    (space, documents(&yaml))
}

fn by_name(objects: Vec<Value>) -> BTreeMap<String, Value> {
    let name = |o: &Value| format!("{} {}", o["kind"], o["metadata"]["name"]);
    objects.into_iter().map(|o| (name(&o), o)).collect()
}

/// Proves: I-plain
#[tokio::test]
async fn the_base_is_the_plain_manifest() {
    let (_, base) = built("base").await;
    let plain = std::fs::read_to_string(root().join("deploy/install.yaml")).unwrap();
    assert!(!plain.contains("helm.sh/"), "a mark of Helm");
    assert_eq!(by_name(base), by_name(documents(&plain)));
}

/// Removes what is only true of a release of Helm, wherever it is below.
fn remove_helm_marks(value: &mut Value) {
    if let Some(map) = value.as_object_mut() {
        map.retain(|key, _| !key.starts_with("helm.sh/") && key != "app.kubernetes.io/managed-by");
        map.values_mut().for_each(remove_helm_marks);
        map.retain(|key, below| key != "annotations" || *below != json!({}));
    } else if let Some(items) = value.as_array_mut() {
        items.iter_mut().for_each(remove_helm_marks);
    }
}

/// Proves: I-plain
#[test]
fn the_plain_manifest_is_the_chart_s_with_a_namespace() {
    let mut rendered = helm::objects(&[]);
    rendered.retain(|object| {
        object["metadata"]["annotations"]
            .get("helm.sh/hook")
            .is_none()
    });
    rendered.iter_mut().for_each(remove_helm_marks);
    let plain = std::fs::read_to_string(root().join("deploy/install.yaml")).unwrap();
    let (namespaces, plain): (Vec<Value>, Vec<Value>) = documents(&plain)
        .into_iter()
        .partition(|object| object["kind"] == "Namespace");
    assert_eq!(namespaces.len(), 1);
    assert_eq!(namespaces[0]["metadata"]["name"], "run-operator");
    assert_eq!(plain.len(), rendered.len());
    assert_eq!(by_name(plain), by_name(rendered));
}

/// Proves: I-taken
#[rstest]
#[case("base")]
#[case("overlays/production")]
#[case("overlays/namespaced")]
#[case("overlays/monitoring")]
#[case("../quickstart")]
#[case("../quickstart/runs")]
#[tokio::test]
async fn the_api_server_takes_every_overlay_without_a_warning(#[case] overlay: &str) {
    let (space, objects) = built(overlay).await;
    space.create_namespace("run-operator");
    space.create_namespace("team-a");
    space.create_namespace("quickstart");
    let list = json!({"apiVersion": "v1", "kind": "List", "items": objects});
    let taken = kubectl(space.control_plane, DRY_RUN, &list.to_string()).unwrap();
    assert_eq!(taken.lines().count(), objects.len(), "{taken}");
}

/// Proves: I-plain
#[tokio::test]
async fn the_namespaced_overlay_has_no_right_in_the_cluster() {
    let (_, objects) = built("overlays/namespaced").await;
    assert!(of_kind(&objects, "ClusterRoleBinding").is_empty());
    let bound: Vec<_> = of_kind(&objects, "RoleBinding")
        .into_iter()
        .map(|binding| binding["metadata"]["namespace"].as_str().unwrap())
        .collect();
    // In its own namespace, the Lease.
    assert_eq!(bound.len(), 2);
    assert!(bound.contains(&"team-a") && bound.contains(&"run-operator"));
    let args = helm::args(&objects);
    assert!(args.contains(&"--namespace=team-a") && args.contains(&"--cluster-workspaces=false"));
}

/// The node's test of the quickstart puts it on loopback, where the flag is not needed.
/// Proves: I-quickstart
#[tokio::test]
async fn the_quickstart_s_operator_takes_the_address_of_its_service() {
    let (_, objects) = built("../quickstart").await;
    let named = |kind: &str, name: &str| {
        let mut found = of_kind(&objects, kind).into_iter();
        found.find(|o| o["metadata"]["name"] == name).unwrap()
    };
    let operator = named("Deployment", "run-operator");
    let args = texts(&operator["spec"]["template"]["spec"]["containers"][0]["args"]);
    let url = args.iter().find_map(|arg| arg.strip_prefix("--base-url="));
    let insecure = args.contains(&"--allow-insecure-http");
    let allowed = AllowList::parse(url, insecure).unwrap();
    let url = BaseUrl::parse(url.unwrap(), &allowed).unwrap();
    let service = named("Service", "reference-service");
    let namespace = service["metadata"]["namespace"].as_str().unwrap();
    let port = &service["spec"]["ports"][0]["port"];
    assert_eq!(
        url.origin(),
        format!("http://reference-service.{namespace}.svc:{port}")
    );
}

/// Proves: I-several-pods
#[tokio::test]
async fn the_production_overlay_has_what_the_chart_makes_of_two_pods() {
    let (_, built) = built("overlays/production").await;
    let chart = helm::with_file("ha");
    let of = |objects: &[Value], path: &str| the(objects, "Deployment").pointer(path).cloned();
    for path in [
        "/spec/replicas",
        "/spec/strategy",
        "/spec/template/spec/topologySpreadConstraints",
    ] {
        assert_eq!(of(&built, path), of(&chart, path), "{path}");
    }
    let budget = |objects: &[Value]| the(objects, "PodDisruptionBudget")["spec"].clone();
    assert_eq!(budget(&built), budget(&chart));
}
