//! Checks of the API server: it answers, it has the CRDs of this version, and it would accept a Run.

use k8s_openapi::apimachinery::pkg::version::Info;
use kube::api::{ApiResource, DynamicObject, Patch, PatchParams};
use kube::{Api, Client};
use serde_json::{Value, json};

use run_operator::api::kubernetes::{KubernetesVersion, MINIMUM};
use run_operator::api::{Run, names};

use super::ask::{CHECK_ACCESS, NO_ANSWER, Refused, bounded};
use super::served;
use crate::contract_tool::statements::{Finding, Statement};

/// Name of the Run that is applied and not stored, and its field manager.
const NAME: &str = "run-operator-doctor";
/// Number of missing fields that are named.
const NAMED_FIELDS: usize = 5;

const REACHED: Statement = Statement {
    check: "cluster.reached",
    title: "the API server answers",
};
const VERSION: Statement = Statement {
    check: "cluster.version",
    title: "Kubernetes is new enough",
};
const CRDS: Statement = Statement {
    check: "cluster.crds",
    title: "the CRDs are of this version",
};
const TAKEN: Statement = Statement {
    check: "cluster.run",
    title: "a Run would be accepted",
};
const APPLY: &str = "Apply them: `run-operator crds | kubectl apply --server-side -f -`, or `helm upgrade` with crds.enabled.";

/// The findings, in this order: each depends on the one before it. Without `apply` no Run is tried.
pub(super) async fn findings(client: &Client, namespace: &str, apply: bool) -> Vec<Finding> {
    let version = match bounded(client.apiserver_version()).await {
        Ok(version) => version,
        Err(Refused { why, code }) => {
            let todo = match code {
                Some(_) => "Check the credentials of the kubeconfig or the service account.",
                None => CHECK_ACCESS,
            };
            let reached = REACHED.fail(why, todo);
            let rest = [&VERSION, &CRDS, &TAKEN].map(|s| s.not_tried(NO_ANSWER));
            return std::iter::once(reached).chain(rest).collect();
        }
    };
    let reached = REACHED.ok(format!("It is Kubernetes {}.", version.git_version));
    let new_enough = new_enough(&version);
    let (crds, known) = crds(client).await;
    let taken = match (known, apply) {
        (false, _) => TAKEN.not_tried("the cluster doesn't serve Runs"),
        (true, false) => TAKEN.not_tried("--read-only applies none"),
        (true, true) => taken(client, namespace).await,
    };
    vec![reached, new_enough, crds, taken]
}

/// Compares the API server's version with the operator's minimum.
fn new_enough(info: &Info) -> Finding {
    match KubernetesVersion::served(info) {
        Some(found) if found < MINIMUM => VERSION.fail(
            format!("The API server serves {found}, and the operator needs {MINIMUM} or newer."),
            "Upgrade the cluster, or install a version of run-operator that supports it.",
        ),
        Some(found) => VERSION.ok(format!("{found}; the operator needs {MINIMUM} or newer.")),
        None => VERSION.not_tried("the API server reports no version number"),
    }
}

/// The finding on missing fields, and whether the cluster serves Runs at all. Uses the document that every
/// authenticated user may read: reading the CRDs needs a permission of its own.
async fn crds(client: &Client) -> (Finding, bool) {
    let path = format!("/openapi/v3/apis/{}/{}", names::GROUP, names::VERSION);
    let request = match http::Request::get(path).body(Vec::new()) {
        Ok(request) => request,
        Err(error) => {
            let fault = CRDS.fail(
                error.to_string(),
                "This is a bug of the program; please report it.",
            );
            return (fault, false);
        }
    };
    let document = match bounded(client.request::<Value>(request)).await {
        Ok(document) => document,
        Err(Refused {
            code: Some(404), ..
        }) => {
            let why = format!(
                "The cluster doesn't serve {}/{}: it has none of the CRDs.",
                names::GROUP,
                names::VERSION
            );
            return (CRDS.fail(why, APPLY), false);
        }
        Err(Refused { why, .. }) => return (CRDS.fail(why, APPLY), true),
    };
    let missing = served::missing(&document);
    let known = !missing.iter().any(|field| field == "Run");
    if missing.is_empty() {
        let ok = CRDS.ok("The cluster has every field of this version.");
        return (ok, known);
    }
    let named = missing.iter().take(NAMED_FIELDS).cloned();
    let more = match missing.len().saturating_sub(NAMED_FIELDS) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let named = named.collect::<Vec<_>>().join(", ");
    let lacking = CRDS.fail(format!("The cluster lacks {named}{more}."), APPLY);
    (lacking, known)
}

/// Checks admission, validation and permissions as for a real Run; nothing is stored.
async fn taken(client: &Client, namespace: &str) -> Finding {
    let kind = ApiResource::erase::<Run>(&());
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &kind);
    let run = json!({
        "apiVersion": format!("{}/{}", names::GROUP, names::VERSION), "kind": "Run",
        "metadata": {"name": NAME},
        "spec": {"suspend": true, "workload": {"image": NAME}},
    });
    let params = PatchParams {
        dry_run: true,
        ..PatchParams::apply(NAME)
    };
    match bounded(api.patch(NAME, &params, &Patch::Apply(run))).await {
        Ok(_) => TAKEN.ok(format!("In the namespace {namespace}, by a dry run.")),
        Err(refused) => TAKEN.fail(refused.why, what_to_do(refused.code)),
    }
}

fn what_to_do(code: Option<u16>) -> &'static str {
    match code {
        Some(403) => {
            "Applying a Run needs the permissions create and patch on runs; or an admission policy denies it."
        }
        Some(404) => "Create the namespace, or name another with --namespace.",
        Some(_) => "The API server refuses the Run: its message has the reason.",
        None => CHECK_ACCESS,
    }
}
