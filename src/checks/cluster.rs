//! The API server: it answers, is new enough, and has the CRDs of this version.

use kube::Client;
use serde_json::{Value, json};

use crate::api::kubernetes::{KubernetesVersion, MINIMUM};
use crate::api::{crd, names};

use super::{CHECK_ACCESS, Check, Finding, NO_ANSWER, bounded, first_five};

const REACHED: Check = Check::new("cluster.reached", "the API server answers");
const VERSION: Check = Check::new("cluster.version", "Kubernetes is new enough");
const CRDS: Check = Check::new("cluster.crds", "the CRDs are of this version");
const APPLY: &str = "Apply them: `run-operator crds | kubectl apply --server-side -f -`, or `helm upgrade` with crds.enabled.";

/// Asks the API server for what everything else depends on. If the first finding is not ok it doesn't answer, and if the
/// last one isn't it may not know Runs.
pub async fn api_server(client: &Client) -> [Finding; 3] {
    let version = match bounded(client.apiserver_version()).await {
        Ok(version) => version,
        Err(refused) => {
            let todo = match refused.code() {
                Some(_) => "Check the credentials of the kubeconfig or the service account.",
                None => CHECK_ACCESS,
            };
            let reached = REACHED.fail(format!("{}.", refused.why()), todo);
            let [version, crds] = [VERSION, CRDS].map(|check| check.not_tried(NO_ANSWER));
            return [reached, version, crds];
        }
    };
    let reached = REACHED.ok(format!("It is Kubernetes {}.", version.git_version));
    let new_enough = match KubernetesVersion::served(&version) {
        Some(found) if found < MINIMUM => VERSION.fail(
            format!("The API server serves {found}, and the operator needs {MINIMUM} or newer."),
            "Upgrade the cluster, or install a version of run-operator that supports it.",
        ),
        Some(found) => VERSION.ok(format!("{found}; the operator needs {MINIMUM} or newer.")),
        None => VERSION.not_tried("the API server reports no version number"),
    };
    [reached, new_enough, crds(client).await]
}

/// Uses the document that every authenticated user may read: reading the CRDs needs a permission of its own.
async fn crds(client: &Client) -> Finding {
    let (group, version) = (names::GROUP, names::VERSION);
    let request = http::Request::get(format!("/openapi/v3/apis/{group}/{version}"));
    let document = bounded(async {
        let request = request.body(Vec::new()).map_err(kube::Error::HttpError)?;
        client.request::<Value>(request).await
    });
    let missing = match document.await {
        Ok(document) => missing(&document),
        Err(refused) if refused.code() == Some(404) => {
            let why = "The cluster doesn't serve";
            return CRDS.fail(
                format!("{why} {group}/{version}: it has none of the CRDs."),
                APPLY,
            );
        }
        Err(refused) => return CRDS.fail(format!("{}.", refused.why()), APPLY),
    };
    match missing.as_slice() {
        [] => CRDS.ok("The cluster has every field of this version."),
        missing => CRDS.fail(format!("The cluster lacks {}.", first_five(missing)), APPLY),
    }
}

/// The fields of our types, such as `Run.spec.readyWhen`, that the API server's `OpenAPI` document of the group lacks:
/// it would drop or refuse them.
fn missing(document: &Value) -> Vec<String> {
    let mut missing = Vec::new();
    let schemas = document["components"]["schemas"].as_object();
    for crd in [crd::run(), crd::workspace(), crd::cluster_workspace()] {
        let kind = &crd.spec.names.kind;
        // By the kind that a schema declares, and not by its key.
        let served = schemas.into_iter().flatten().find(|(_, schema)| {
            let kinds = schema["x-kubernetes-group-version-kind"].as_array();
            let mut kinds = kinds.into_iter().flatten();
            kinds.any(|known| known["kind"] == **kind)
        });
        let ours = &json!(crd.spec.versions)[0]["schema"]["openAPIV3Schema"];
        compare(kind, ours, served.map(|(_, schema)| schema), &mut missing);
    }
    missing
}

fn compare(path: &str, ours: &Value, served: Option<&Value>, missing: &mut Vec<String>) {
    let Some(served) = served else {
        missing.push(path.to_owned());
        return;
    };
    for (name, field) in ours["properties"].as_object().into_iter().flatten() {
        let path = format!("{path}.{name}");
        compare(&path, field, served["properties"].get(name), missing);
    }
    if let Some(items) = ours.get("items") {
        compare(&format!("{path}[]"), items, Some(&served["items"]), missing);
    }
}
