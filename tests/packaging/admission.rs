//! Every way to install, before a real API server, in a namespace with the strictest Pod Security profile.

use rstest::rstest;
use serde_json::{Value, json};

use crate::helm::{ci, documents, manifests, pod};
use crate::namespace::{DRY_RUN, Space, kubectl};
use test_cluster::ControlPlane;

fn as_list(objects: &[Value]) -> String {
    json!({"apiVersion": "v1", "kind": "List", "items": objects}).to_string()
}

async fn space_and_objects(values: &str, further: &[&str]) -> (Space, Vec<Value>) {
    let space = Space::new().await;
    for namespace in ["team-a", "team-b", "shared-tokens", "monitoring"] {
        space.create_namespace(namespace);
    }
    let values = ci(values);
    let args = [&["-f", values.as_str()], further].concat();
    let objects = documents(&manifests(&space.namespace, &args));
    // A Pod is refused without its ServiceAccount, in a dry run too.
    space.apply(&objects, &["ServiceAccount"]);
    (space, objects)
}

/// Proves: I-taken, I-pod
#[rstest]
#[case("default")]
#[case("full")]
#[case("namespaced")]
#[case("bare")]
#[case("shared")]
#[case("ha")]
#[case("platform")]
#[tokio::test]
async fn the_api_server_takes_every_object_without_a_warning(#[case] values: &str) {
    let control_plane = ControlPlane::shared().await;
    let further: &[&str] = match values {
        "full"
            if control_plane
                .lacks(36, "MutatingAdmissionPolicy")
                .await
                .unwrap() =>
        {
            &["--set", "finalizerPolicy.enabled=false"]
        }
        _ => &[],
    };
    let (space, objects) = space_and_objects(values, further).await;
    let taken = kubectl(space.control_plane, DRY_RUN, &as_list(&objects)).unwrap();
    assert_eq!(taken.lines().count(), objects.len(), "{taken}");
}

/// API groups of other projects, which this API server doesn't serve or that are none of its objects.
const FOREIGN: [&str; 3] = [
    "argoproj.io",
    "external-secrets.io",
    "apiserver.config.k8s.io",
];
/// Pipelines of CI systems.
const PIPELINES: [&str; 2] = ["github-actions.yaml", "gitlab-ci.yaml"];

/// Proves: I-taken
#[rstest]
#[case("deploy/examples")]
#[case("deploy/examples/recipes")]
#[tokio::test]
async fn the_api_server_takes_every_example_without_a_warning(#[case] folder: &str) {
    let space = Space::new().await;
    space.create_namespace("team-a");
    let mut tried = 0;
    for entry in std::fs::read_dir(test_support::root().join(folder)).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if !path.is_file() || PIPELINES.contains(&name.as_str()) {
            continue;
        }
        for mut object in documents(&std::fs::read_to_string(&path).unwrap()) {
            let version = object["apiVersion"].as_str();
            let version = version.unwrap_or_else(|| panic!("{name}"));
            if FOREIGN.iter().any(|group| version.starts_with(group)) {
                continue;
            }
            if object["metadata"].get("generateName").is_some() {
                object["metadata"] = json!({"name": "generated"});
            }
            let text = object.to_string();
            let taken = match object["metadata"].get("namespace") {
                Some(_) => kubectl(space.control_plane, DRY_RUN, &text),
                None => space.kubectl(DRY_RUN, &text),
            };
            taken.unwrap_or_else(|error| panic!("{name}: {error}"));
            tried += 1;
        }
    }
    assert!(tried >= 8, "{tried}");
}

/// The Pod that the Deployment would make.
fn as_pod(objects: &[Value]) -> String {
    let template = pod(objects);
    let mut pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "pod"}});
    pod["metadata"]["labels"] = template["metadata"]["labels"].clone();
    pod["spec"] = template["spec"].clone();
    pod.to_string()
}

/// Proves: I-pod
#[tokio::test]
async fn the_pod_fits_the_restricted_profile() {
    let (space, objects) = space_and_objects("default", &[]).await;
    space.kubectl(DRY_RUN, &as_pod(&objects)).unwrap();
    // And the profile is in force: it refuses the node's network.
    let (space, objects) = space_and_objects("default", &["--set", "hostNetwork=true"]).await;
    let told = space.kubectl(DRY_RUN, &as_pod(&objects)).unwrap_err();
    let by_profile = told.contains("restricted") && told.contains("hostNetwork");
    assert!(by_profile, "{told}");
}
