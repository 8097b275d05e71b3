//! Every way to install, before a real API server, in a namespace with the strictest Pod Security profile.

use rstest::rstest;
use serde_json::{Value, json};

use crate::helm::{ci, documents, manifests, of_kind, pod};
use crate::namespace::{Space, kubectl};

const DRY_RUN: &[&str] = &[
    "apply",
    "--server-side",
    "--force-conflicts",
    "--dry-run=server",
    "--validate=strict",
    "-f",
    "-",
];

fn as_list(objects: &[Value]) -> String {
    json!({"apiVersion": "v1", "kind": "List", "items": objects}).to_string()
}

async fn space_and_objects(values: &str, further: &[&str]) -> (Space, Vec<Value>) {
    let space = Space::new().await;
    for namespace in ["team-a", "team-b", "shared-tokens", "monitoring"] {
        space.create_namespace(namespace);
    }
    let values = ci(values);
    let args: Vec<&str> = ["-f", &values]
        .into_iter()
        .chain(further.iter().copied())
        .collect();
    let objects = documents(&manifests(&space.namespace, &args));
    // A Pod is refused without its ServiceAccount, in a dry run too.
    space.apply(&objects, &["ServiceAccount"]);
    (space, objects)
}

// Proves: I-taken, I-network
#[rstest]
#[case("default")]
#[case("full")]
#[case("namespaced")]
#[case("bare")]
#[case("shared")]
#[case("ha")]
#[tokio::test]
async fn the_api_server_takes_every_object_without_a_warning(#[case] values: &str) {
    let (space, objects) = space_and_objects(values, &[]).await;
    let taken = kubectl(space.control_plane, DRY_RUN, &as_list(&objects)).unwrap();
    assert_eq!(taken.lines().count(), objects.len(), "{taken}");
}

/// The Pod that the Deployment would make.
fn as_pod(objects: &[Value]) -> String {
    let template = pod(objects);
    let mut pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "pod"}});
    pod["metadata"]["labels"] = template["metadata"]["labels"].clone();
    pod["spec"] = template["spec"].clone();
    pod.to_string()
}

// Proves: I-pod
#[tokio::test]
async fn the_pod_fits_the_restricted_profile() {
    let (space, objects) = space_and_objects("default", &[]).await;
    space.kubectl(DRY_RUN, &as_pod(&objects)).unwrap();
    // And the profile is in force: it refuses the node's network.
    let (space, objects) = space_and_objects("default", &["--set", "hostNetwork=true"]).await;
    let told = space.kubectl(DRY_RUN, &as_pod(&objects)).unwrap_err();
    assert!(
        told.contains("restricted") && told.contains("hostNetwork"),
        "{told}"
    );
}

// Proves: I-taken
#[tokio::test]
async fn a_second_server_side_apply_changes_nothing() {
    let (space, objects) = space_and_objects("default", &[]).await;
    // What is in no namespace is shared with other tests.
    let own: Vec<Value> = ["ServiceAccount", "Service", "Deployment"]
        .iter()
        .flat_map(|kind| of_kind(&objects, kind))
        .cloned()
        .collect();
    let apply = ["apply", "--server-side", "-f", "-"];
    let versions = || {
        space
            .kubectl(
                &[
                    &apply[..],
                    &["-o", "jsonpath={.items[*].metadata.resourceVersion}"],
                ]
                .concat(),
                &as_list(&own),
            )
            .unwrap()
    };
    assert_eq!(versions(), versions());
}
