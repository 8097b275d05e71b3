//! `deploy/`: what is rendered from the chart for those who don't use Helm.

use std::collections::BTreeMap;
use std::path::Path;

use rstest::rstest;
use serde_json::{Value, json};

use run_operator::service::{AllowList, BaseUrl};
use test_cluster::Scratch;
use test_support::root;

use crate::helm::{self, documents, named, of_kind, texts, the};
use crate::namespace::{DRY_RUN, Space, kubectl};

async fn built(overlay: &str) -> (Space, Vec<Value>) {
    built_in(&root().join("deploy/kustomize").join(overlay)).await
}

async fn built_in(directory: &Path) -> (Space, Vec<Value>) {
    let space = Space::new().await;
    let directory = directory.display().to_string();
    let yaml = space.kubectl(&["kustomize", &directory], "").unwrap();
    (space, documents(&yaml))
}

/// An overlay of somebody's own, of one of ours with one of our components.
async fn built_with(overlay: &str, component: &str) -> (Space, Vec<Value>) {
    let own = Scratch::new("overlay").unwrap();
    // From there to ours: it takes no absolute path.
    let up = "../".repeat(own.path().components().count() - 1);
    let ours = format!("{up}{}/deploy/kustomize", root().display());
    let kustomization = json!({
        "apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization",
        "resources": [format!("{ours}/{overlay}")],
        "components": [format!("{ours}/components/{component}")],
    });
    let file = own.path().join("kustomization.yaml");
    std::fs::write(file, kustomization.to_string()).unwrap();
    built_in(own.path()).await
}

fn by_name(objects: Vec<Value>) -> BTreeMap<String, Value> {
    let name = |o: &Value| format!("{} {}", o["kind"], o["metadata"]["name"]);
    objects.into_iter().map(|o| (name(&o), o)).collect()
}

/// That each object is the chart's is seen by `make drift`; here, that none is forgotten.
/// Proves: I-taken
#[tokio::test]
async fn the_base_and_the_plain_manifest_have_the_chart_s_objects_and_a_namespace() {
    let (_, base) = built("base").await;
    let plain = std::fs::read_to_string(root().join("deploy/install.yaml")).unwrap();
    assert!(!plain.contains("helm.sh/"), "a mark of Helm");
    let mut plain = by_name(documents(&plain));
    assert_eq!(by_name(base), plain);
    let namespace = plain.remove(r#""Namespace" "run-operator""#);
    assert!(namespace.is_some());
    let mut chart = helm::objects(&[]);
    chart.retain(|object| {
        object["metadata"]["annotations"]
            .get("helm.sh/hook")
            .is_none()
    });
    assert!(by_name(chart).keys().eq(plain.keys()));
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
    for namespace in ["run-operator", "team-a", "quickstart"] {
        space.create_namespace(namespace);
    }
    let list = json!({"apiVersion": "v1", "kind": "List", "items": objects});
    let taken = kubectl(space.control_plane, DRY_RUN, &list.to_string()).unwrap();
    assert_eq!(taken.lines().count(), objects.len(), "{taken}");
}

/// Proves: I-taken
#[tokio::test]
async fn the_namespaced_overlay_has_no_right_in_the_cluster() {
    let (_, objects) = built("overlays/namespaced").await;
    assert!(of_kind(&objects, "ClusterRoleBinding").is_empty());
    let bindings = of_kind(&objects, "RoleBinding").into_iter();
    let bound = bindings.map(|binding| binding["metadata"]["namespace"].as_str().unwrap());
    // In its own namespace, the Lease.
    let mut bound: Vec<&str> = bound.collect();
    bound.sort_unstable();
    assert_eq!(bound, ["run-operator", "team-a"]);
    let args = helm::args(&objects);
    assert!(args.contains(&"--namespace=team-a") && args.contains(&"--cluster-workspaces=false"));
}

/// The node's test of the quickstart puts it on loopback, where the flag is not needed.
/// Proves: P-recipes
#[tokio::test]
async fn the_quickstart_s_operator_takes_the_address_of_its_service() {
    let (_, objects) = built("../quickstart").await;
    let operator = named(&objects, "Deployment", "run-operator");
    let container = &operator["spec"]["template"]["spec"]["containers"][0];
    let mut env = container["env"].as_array().unwrap().iter();
    let url = env.find(|variable| variable["name"] == "RUN_OPERATOR_BASE_URL");
    let url = url.unwrap()["value"].as_str();
    let insecure = texts(&container["args"]).contains(&"--allow-insecure-http");
    let allowed = AllowList::parse(url, insecure).unwrap();
    let url = BaseUrl::parse(url.unwrap(), &allowed).unwrap();
    let service = named(&objects, "Service", "reference-service");
    let namespace = service["metadata"]["namespace"].as_str().unwrap();
    let port = &service["spec"]["ports"][0]["port"];
    assert_eq!(
        url.origin(),
        format!("http://reference-service.{namespace}.svc:{port}")
    );
}

/// Proves: I-values
#[tokio::test]
async fn the_production_overlay_has_what_the_chart_makes_of_two_pods() {
    let (_, built) = built("overlays/production").await;
    let chart = helm::with_file("ha");
    let of = |objects: &[Value], path: &str| the(objects, "Deployment").pointer(path).cloned();
    let spread = "/spec/template/spec/topologySpreadConstraints";
    for path in ["/spec/replicas", "/spec/strategy", spread] {
        assert_eq!(of(&built, path), of(&chart, path), "{path}");
    }
    let budget = |objects: &[Value]| the(objects, "PodDisruptionBudget")["spec"].clone();
    assert_eq!(budget(&built), budget(&chart));
}

/// Proves: I-values
#[rstest]
#[case::everywhere("base", "ClusterRole", "schedules.enabled=true")]
#[case::in_one_namespace(
    "overlays/namespaced",
    "Role",
    "schedules.enabled=true,watchNamespaces={team-a}"
)]
#[tokio::test]
async fn the_component_schedules_has_what_the_chart_makes_of_its_switch(
    #[case] overlay: &str,
    #[case] kind: &str,
    #[case] values: &str,
) {
    let (_, built) = built_with(overlay, "schedules").await;
    let chart = helm::with(values);
    let rules = |objects: &[Value]| {
        let rules = named(objects, kind, "run-operator")["rules"].clone();
        rules.as_array().unwrap().clone()
    };
    let (ours, charts) = (rules(&built), rules(&chart));
    assert_eq!(ours.len(), charts.len());
    for rule in &charts {
        assert!(ours.contains(rule), "{rule}");
    }
    assert!(helm::args(&chart).contains(&"--schedules"));
    assert!(helm::args(&built).contains(&"--schedules"));
}
