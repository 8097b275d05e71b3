//! What the API server says: that it is there, that it has the CRDs of this version, and that it would
//! take a Run.

use std::time::Duration;

use kube::api::{ApiResource, DynamicObject, Patch, PatchParams};
use kube::{Api, Client};
use serde_json::{Value, json};

use run_operator::api::{Run, names};

use super::served;
use crate::contract_tool::statements::{Finding, Statement};

/// Somebody waits for the command.
const LONGEST_CALL: Duration = Duration::from_secs(30);
/// Name of the Run that is applied and not stored, and the field manager that does it.
const NAME: &str = "run-operator-doctor";
/// Fields that are named of those that are missing.
const NAMED_FIELDS: usize = 5;

const REACHED: Statement = Statement {
    check: "cluster.reached",
    title: "the API server answers",
};
const CRDS: Statement = Statement {
    check: "cluster.crds",
    title: "the CRDs are of this version",
};
const TAKEN: Statement = Statement {
    check: "cluster.run",
    title: "a Run would be taken",
};
const APPLY: &str = "Apply them: `run-operator crds | kubectl apply --server-side -f -`, or `helm upgrade` with crds.enabled.";

/// Three findings, in this order: each means little without the one before it.
pub(super) async fn findings(client: &Client, namespace: &str) -> Vec<Finding> {
    let version = match bounded(client.apiserver_version()).await {
        Ok(version) => version.git_version,
        Err(why) => {
            let reached = REACHED.fail(why, "Check the kubeconfig, or the Pod's network.");
            let rest = [&CRDS, &TAKEN].map(|s| s.not_tried("there was no answer"));
            return std::iter::once(reached).chain(rest).collect();
        }
    };
    vec![
        REACHED.ok(format!("It is Kubernetes {version}.")),
        crds(client).await,
        taken(client, namespace).await,
    ]
}

/// By the document that every authenticated user may read: the CRDs themselves need a right of their own.
async fn crds(client: &Client) -> Finding {
    let path = format!("/openapi/v3/apis/{}/{}", names::GROUP, names::VERSION);
    let request = match http::Request::get(path).body(Vec::new()) {
        Ok(request) => request,
        Err(error) => return CRDS.fail(error.to_string(), "This is a fault of the program."),
    };
    let document = match bounded(client.request::<Value>(request)).await {
        Ok(document) => document,
        Err(why) => return CRDS.fail(why, APPLY),
    };
    let missing = served::missing(&document);
    if missing.is_empty() {
        return CRDS.ok("The cluster has every field that this version knows.");
    }
    let named = missing.iter().take(NAMED_FIELDS).cloned();
    let more = match missing.len().saturating_sub(NAMED_FIELDS) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let named = named.collect::<Vec<_>>().join(", ");
    CRDS.fail(format!("The cluster lacks {named}{more}."), APPLY)
}

/// Admission, validation and rights as for a real one; nothing is stored.
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
        Err(why) => TAKEN.fail(
            why,
            "Whoever applies a Run needs create and patch on runs; else see what the API server says.",
        ),
    }
}

/// The answer, or a sentence that says why there is none.
async fn bounded<T>(call: impl Future<Output = Result<T, kube::Error>>) -> Result<T, String> {
    match tokio::time::timeout(LONGEST_CALL, call).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(kube::Error::Api(status))) => Err(sentence(&status.message)),
        Ok(Err(error)) => Err(sentence(&run_operator::controller::chain(&error))),
        Err(_) => Err(format!("No answer within {} s.", LONGEST_CALL.as_secs())),
    }
}

fn sentence(text: &str) -> String {
    format!("{}.", text.trim().trim_end_matches('.'))
}
