//! What is read from the cluster. What can't be read is named, and the rest is read all the same.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{ApiResource, DynamicObject, ListParams, LogParams};
use kube::{Api, Client, ResourceExt};
use serde::Serialize;
use serde_json::Value;

use run_operator::api::{ClusterWorkspace, Run, Workspace, crd, names};

use crate::cli::BundleArgs;
use crate::doctor::ask::{Refused, bounded};

use super::archive::Archive;
use super::redact;

/// Objects asked for at a time.
const PAGE: u32 = 500;
/// Lines of each log, from its end.
const LOG_LINES: i64 = 20_000;
/// The port of `/metrics`, unless the container names another.
const METRICS_PORT: i32 = 8080;

/// What could not be read.
#[derive(Default)]
pub(super) struct Collected {
    pub(super) missing: Vec<String>,
}

impl Collected {
    /// The answer, or a note that it is missing.
    fn got<T>(&mut self, what: &str, answer: Result<T, Refused>) -> Option<T> {
        match answer {
            Ok(value) => Some(value),
            Err(refused) => {
                self.missing
                    .push(format!("{what}: {}", refused.why.trim_end_matches('.')));
                None
            }
        }
    }
}

/// Reads everything, and adds it to the archive.
pub(super) async fn all(
    client: &Client,
    namespace: &str,
    args: &BundleArgs,
    archive: &mut Archive,
) -> Collected {
    let mut collected = Collected::default();
    versions(client, archive, &mut collected).await;
    objects(client, namespace, args, archive, &mut collected).await;
    events(client, namespace, args, archive, &mut collected).await;
    operator(client, args, archive, &mut collected).await;
    collected
}

async fn versions(client: &Client, archive: &mut Archive, collected: &mut Collected) {
    let version = bounded(client.apiserver_version()).await;
    let kubernetes = collected.got("the version of Kubernetes", version);
    archive.add(
        "versions.json",
        pretty(&serde_json::json!({
            "run-operator": env!("CARGO_PKG_VERSION"),
            "kubernetes": kubernetes.map(|version| version.git_version),
        })),
    );
    let crds: Api<CustomResourceDefinition> = Api::all(client.clone());
    for ours in [crd::run(), crd::workspace(), crd::cluster_workspace()] {
        let name = ours.name_any();
        if let Some(crd) = collected.got(&format!("the CRD {name}"), bounded(crds.get(&name)).await)
        {
            archive.add(&format!("crds/{name}.json"), pretty(&crd));
        }
    }
}

async fn objects(
    client: &Client,
    namespace: &str,
    args: &BundleArgs,
    archive: &mut Archive,
    collected: &mut Collected,
) {
    for (kind, namespaced) in [
        (ApiResource::erase::<Run>(&()), true),
        (ApiResource::erase::<Workspace>(&()), true),
        (ApiResource::erase::<ClusterWorkspace>(&()), false),
    ] {
        let api: Api<DynamicObject> = if namespaced && !args.all_namespaces {
            Api::namespaced_with(client.clone(), namespace, &kind)
        } else {
            Api::all_with(client.clone(), &kind)
        };
        for object in listed(&api, &kind.plural, collected).await {
            let place = object.namespace().unwrap_or_else(|| "_cluster".to_owned());
            let path = format!("{}/{place}/{}.json", kind.plural, object.name_any());
            let object = serde_json::to_value(&object).unwrap_or_default();
            archive.add(
                &path,
                pretty(&redact::object(object, args.include_workloads)),
            );
        }
    }
}

async fn events(
    client: &Client,
    namespace: &str,
    args: &BundleArgs,
    archive: &mut Archive,
    collected: &mut Collected,
) {
    let mut api: Vec<Api<Event>> = vec![Api::namespaced(client.clone(), &args.operator_namespace)];
    if args.all_namespaces {
        api = vec![Api::all(client.clone())];
    } else if namespace != args.operator_namespace {
        api.push(Api::namespaced(client.clone(), namespace));
    }
    let mut ours = Vec::new();
    for api in api {
        let all = listed(&api, "events", collected).await;
        ours.extend(all.into_iter().filter(|event| {
            let about = event.regarding.as_ref();
            let group = about.and_then(|object| object.api_version.as_deref());
            let in_place = event.namespace().as_deref() == Some(&args.operator_namespace);
            in_place || group.is_some_and(|group| group.starts_with(names::GROUP))
        }));
    }
    archive.add("events.json", pretty(&ours));
}

/// The operator itself: Deployment, Lease, Pods, logs, metrics.
async fn operator(
    client: &Client,
    args: &BundleArgs,
    archive: &mut Archive,
    collected: &mut Collected,
) {
    let (place, name) = (&args.operator_namespace, &args.operator_name);
    let leases: Api<Lease> = Api::namespaced(client.clone(), place);
    if let Some(lease) = collected.got("the Lease", bounded(leases.get(name)).await) {
        archive.add("operator/lease.json", pretty(&lease));
    }
    let deployments: Api<Deployment> = Api::namespaced(client.clone(), place);
    let deployment = bounded(deployments.get(name)).await;
    let Some(deployment) = collected.got("the Deployment, Pods, logs and metrics", deployment)
    else {
        return;
    };
    let value = serde_json::to_value(&deployment).unwrap_or_default();
    archive.add(
        "operator/deployment.json",
        pretty(&redact::pod_owner(value)),
    );
    let labels = deployment.spec.and_then(|spec| spec.selector.match_labels);
    let labels = labels.unwrap_or_default().into_iter();
    let labels: Vec<String> = labels
        .map(|(key, value)| format!("{key}={value}"))
        .collect();
    let pods: Api<Pod> = Api::namespaced(client.clone(), place);
    let selected = ListParams::default().labels(&labels.join(","));
    let Some(list) = collected.got("the Pods", bounded(pods.list(&selected)).await) else {
        return;
    };
    for pod in list.items {
        one_pod(client, &pods, &pod, archive, collected).await;
    }
}

async fn one_pod(
    client: &Client,
    pods: &Api<Pod>,
    pod: &Pod,
    archive: &mut Archive,
    collected: &mut Collected,
) {
    let name = pod.name_any();
    let value = serde_json::to_value(pod).unwrap_or_default();
    archive.add(
        &format!("operator/{name}/pod.json"),
        pretty(&redact::pod_owner(value)),
    );
    for previous in [false, true] {
        let params = LogParams {
            tail_lines: Some(LOG_LINES),
            timestamps: true,
            previous,
            ..LogParams::default()
        };
        let which = if previous {
            "previous.log"
        } else {
            "current.log"
        };
        let log = bounded(pods.logs(&name, &params)).await;
        // Most Pods have no earlier container.
        if let Err(Refused {
            code: Some(400), ..
        }) = &log
            && previous
        {
            continue;
        }
        if let Some(log) = collected.got(&format!("{which} of {name}"), log) {
            archive.add(&format!("operator/{name}/{which}"), log);
        }
    }
    let place = pod.namespace().unwrap_or_default();
    let path = format!(
        "/api/v1/namespaces/{place}/pods/{name}:{}/proxy/metrics",
        port(pod)
    );
    if let Ok(request) = http::Request::get(path).body(Vec::new()) {
        let metrics = bounded(client.request_text(request)).await;
        if let Some(metrics) = collected.got(&format!("the metrics of {name}"), metrics) {
            archive.add(&format!("operator/{name}/metrics.txt"), metrics);
        }
    }
}

/// The port that the Pod names for its metrics.
fn port(pod: &Pod) -> i32 {
    let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
    let mut ports = containers.flat_map(|container| container.ports.iter().flatten());
    ports
        .next()
        .map_or(METRICS_PORT, |port| port.container_port)
}

/// All objects of a kind, page by page.
async fn listed<K>(api: &Api<K>, what: &str, collected: &mut Collected) -> Vec<K>
where
    K: Clone + std::fmt::Debug + serde::de::DeserializeOwned,
{
    let mut params = ListParams::default().limit(PAGE);
    let mut objects = Vec::new();
    loop {
        let Some(page) = collected.got(what, bounded(api.list(&params)).await) else {
            return objects;
        };
        objects.extend(page.items);
        params.continue_token = page.metadata.continue_.filter(|token| !token.is_empty());
        if params.continue_token.is_none() {
            return objects;
        }
    }
}

fn pretty(value: &impl Serialize) -> String {
    let value: Value = serde_json::to_value(value).unwrap_or_default();
    format!("{value:#}\n")
}
