//! `support-bundle`: one file with what support needs to see, and without what it must not. What can't be read is named,
//! and the rest is read all the same.

use std::io;

use flate2::Compression;
use flate2::write::GzEncoder;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{ApiResource, DynamicObject, ListParams, LogParams};
use kube::{Api, ResourceExt};
use serde::Serialize;
use serde_json::{Value, json};

use run_operator::api::{ClusterWorkspace, Run, RunSchedule, RunTemplate, Workspace, crd, names};
use run_operator::checks::{Refused, bounded, pages};
use run_operator::util::sha256;

use crate::args::BundleArgs;
use crate::cluster::Cluster;
use crate::doctor;
use crate::error::{End, ToolError};
use crate::print::{out, progress};

/// The folder that everything in the archive is in.
const FOLDER: &str = "run-operator-support";
/// Lines of each log, from its end.
const LOG_LINES: i64 = 20_000;
/// The port of `/metrics`, unless the container names another.
const METRICS_PORT: i32 = 8080;
/// Where kubectl keeps a copy of an applied manifest, workload and all.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// The beginning of the operator's own variables.
const OWN: &str = "RUN_OPERATOR_";
const LEFT_OUT: &str = "(left out)";

/// Collects everything first: a file that is there is whole.
pub(crate) async fn run(cluster: &Cluster, args: &BundleArgs) -> Result<End, ToolError> {
    let shown = args.output.display().to_string();
    let mut bundle = Bundle {
        cluster,
        args,
        tar: tar::Builder::new(GzEncoder::new(Vec::new(), Compression::default())),
        missing: Vec::new(),
    };
    let failed = |error| ToolError::Write(shown.clone(), error);
    bundle.collect().await.map_err(failed)?;
    let missing = std::mem::take(&mut bundle.missing);
    let bytes = bundle.tar.into_inner().and_then(GzEncoder::finish);
    let bytes = bytes.map_err(failed)?;
    std::fs::write(&args.output, &bytes).map_err(failed)?;
    let mut text = format!("{shown}: {} bytes\n", bytes.len());
    for what in missing {
        text = format!("{text}not in it: {what}\n");
    }
    out(&text)?;
    Ok(End::Succeeded)
}

/// A compressed archive in memory.
struct Bundle<'a> {
    cluster: &'a Cluster,
    args: &'a BundleArgs,
    tar: tar::Builder<GzEncoder<Vec<u8>>>,
    /// What could not be read, and why.
    missing: Vec<String>,
}

impl Bundle<'_> {
    async fn collect(&mut self) -> io::Result<()> {
        progress("Reading versions and CRDs");
        self.versions().await?;
        progress("Reading Runs, Workspaces, schedules and templates");
        self.objects().await?;
        progress("Reading Events");
        self.events().await?;
        progress("Reading the operator's Pods, logs and metrics");
        self.operator().await?;
        let diagnosis = doctor::in_cluster(self.cluster, &self.args.operator, false).await;
        self.add("doctor.json", pretty(&diagnosis.document()))?;
        let readme = readme(self.args, &self.missing);
        self.add("README.txt", readme)
    }

    fn add(&mut self, path: &str, text: impl AsRef<[u8]>) -> io::Result<()> {
        let text = text.as_ref();
        let mut header = tar::Header::new_gnu();
        header.set_size(text.len() as u64);
        header.set_mode(0o644);
        let path = format!("{FOLDER}/{path}");
        self.tar.append_data(&mut header, path, text)
    }

    /// The answer, or a note that it is missing.
    fn got<T>(&mut self, what: &str, answer: Result<T, Refused>) -> Option<T> {
        let refused = match answer {
            Ok(value) => return Some(value),
            Err(refused) => refused,
        };
        self.missing.push(format!("{what}: {}", refused.why()));
        None
    }

    async fn versions(&mut self) -> io::Result<()> {
        let client = &self.cluster.client;
        let version = bounded(client.apiserver_version()).await;
        let kubernetes = self.got("the version of Kubernetes", version);
        let versions = json!({
            "kubectl-runop": env!("CARGO_PKG_VERSION"),
            "kubernetes": kubernetes.map(|version| version.git_version),
        });
        self.add("versions.json", pretty(&versions))?;
        let crds: Api<CustomResourceDefinition> = Api::all(client.clone());
        for ours in crd::all() {
            let name = ours.name_any();
            let crd = bounded(crds.get(&name)).await;
            if let Some(crd) = self.got(&format!("the CRD {name}"), crd) {
                self.add(&format!("crds/{name}.json"), pretty(&crd))?;
            }
        }
        Ok(())
    }

    async fn objects(&mut self) -> io::Result<()> {
        let client = &self.cluster.client;
        for (kind, namespaced) in [
            (ApiResource::erase::<Run>(&()), true),
            (ApiResource::erase::<Workspace>(&()), true),
            (ApiResource::erase::<ClusterWorkspace>(&()), false),
            (ApiResource::erase::<RunSchedule>(&()), true),
            (ApiResource::erase::<RunTemplate>(&()), true),
        ] {
            let api: Api<DynamicObject> = if namespaced && !self.args.all_namespaces {
                Api::namespaced_with(client.clone(), &self.cluster.namespace, &kind)
            } else {
                Api::all_with(client.clone(), &kind)
            };
            let objects = pages(&api, ListParams::default()).await;
            for object in self.got(&kind.plural, objects).unwrap_or_default() {
                let place = object.namespace().unwrap_or_else(|| "_cluster".to_owned());
                let path = format!("{}/{place}/{}.json", kind.plural, object.name_any());
                let object = redacted(&object, self.args.include_workloads);
                self.add(&path, pretty(&object))?;
            }
        }
        Ok(())
    }

    /// The Events about our objects, and all of the operator's namespace.
    async fn events(&mut self) -> io::Result<()> {
        let client = &self.cluster.client;
        let (own, operators) = (
            &self.cluster.namespace,
            &self.args.operator.operator_namespace,
        );
        let mut apis: Vec<Api<Event>> = Vec::new();
        if self.args.all_namespaces {
            apis.push(Api::all(client.clone()));
        } else {
            apis.push(Api::namespaced(client.clone(), operators));
            let other = (own != operators).then(|| Api::namespaced(client.clone(), own));
            apis.extend(other);
        }
        let mut ours = Vec::new();
        for api in apis {
            let all = pages(&api, ListParams::default()).await;
            let all = self.got("events", all).unwrap_or_default().into_iter();
            ours.extend(all.filter(|event| {
                let about = event.regarding.as_ref();
                let group = about.and_then(|object| object.api_version.as_deref());
                let in_place = event.namespace().as_ref() == Some(operators);
                in_place || group.is_some_and(|group| group.starts_with(names::GROUP))
            }));
        }
        self.add("events.json", pretty(&ours))
    }

    /// The operator itself: Lease, Deployment, Pods, logs, metrics.
    async fn operator(&mut self) -> io::Result<()> {
        let client = &self.cluster.client;
        let operator = &self.args.operator;
        let (place, name) = (&operator.operator_namespace, &operator.operator_name);
        let leases: Api<Lease> = Api::namespaced(client.clone(), place);
        let lease = bounded(leases.get(name)).await;
        if let Some(lease) = self.got("the Lease", lease) {
            self.add("operator/lease.json", pretty(&lease))?;
        }
        let deployments: Api<Deployment> = Api::namespaced(client.clone(), place);
        let deployment = bounded(deployments.get(name)).await;
        let what = "the Deployment, Pods, logs and metrics";
        let Some(deployment) = self.got(what, deployment) else {
            return Ok(());
        };
        let text = pretty(&redacted(&deployment, true));
        self.add("operator/deployment.json", text)?;
        let labels = deployment.spec.selector.match_labels;
        let labels = labels.unwrap_or_default().into_iter();
        let labels: Vec<String> = labels
            .map(|(key, value)| format!("{key}={value}"))
            .collect();
        let pods: Api<Pod> = Api::namespaced(client.clone(), place);
        let selected = ListParams::default().labels(&labels.join(","));
        let found = pages(&pods, selected).await;
        for pod in self.got("the Pods", found).unwrap_or_default() {
            self.pod(&pods, &pod, place).await?;
        }
        Ok(())
    }

    async fn pod(&mut self, pods: &Api<Pod>, pod: &Pod, place: &str) -> io::Result<()> {
        let name = pod.name_any();
        let text = pretty(&redacted(pod, true));
        self.add(&format!("operator/{name}/pod.json"), text)?;
        for (previous, file) in [(false, "current.log"), (true, "previous.log")] {
            let params = LogParams {
                tail_lines: Some(LOG_LINES),
                timestamps: true,
                previous,
                ..LogParams::default()
            };
            let log = bounded(pods.logs(&name, &params)).await;
            // Most Pods have no earlier container.
            if previous && matches!(&log, Err(refused) if refused.code() == Some(400)) {
                continue;
            }
            if let Some(log) = self.got(&format!("{file} of {name}"), log) {
                self.add(&format!("operator/{name}/{file}"), log)?;
            }
        }
        let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
        let mut ports = containers.flat_map(|container| container.ports.iter().flatten());
        let port = ports
            .next()
            .map_or(METRICS_PORT, |port| port.container_port);
        let path = format!("/api/v1/namespaces/{place}/pods/{name}:{port}/proxy/metrics");
        let metrics = bounded(async {
            let request = http::Request::get(path).body(Vec::new());
            let request = request.map_err(kube::Error::HttpError)?;
            self.cluster.client.request_text(request).await
        });
        let metrics = metrics.await;
        if let Some(metrics) = self.got(&format!("the metrics of {name}"), metrics) {
            self.add(&format!("operator/{name}/metrics.txt"), metrics)?;
        }
        Ok(())
    }
}

/// An object as it may leave the cluster: a workload as a hash unless that is asked for, no values of variables that may
/// be anything, and no copies of either in the metadata.
fn redacted(object: &impl Serialize, include_workloads: bool) -> Value {
    let mut object = json!(object);
    // The parameters of a template, and their values, become a workload.
    let workloads = [
        "/spec/workload",
        "/spec/template/spec/workload",
        "/spec/parameters",
    ];
    for path in workloads {
        if !include_workloads && let Some(workload) = object.pointer_mut(path) {
            let text = workload.to_string();
            *workload = json!({"bytes": text.len(), "sha256": sha256(text.as_bytes())});
        }
    }
    for path in ["", "/spec/template"] {
        let Some(part) = object.pointer_mut(path) else {
            continue;
        };
        for kind in ["containers", "initContainers", "ephemeralContainers"] {
            let containers = part.pointer_mut(&format!("/spec/{kind}"));
            let containers = containers.and_then(Value::as_array_mut);
            containers.into_iter().flatten().for_each(hide_variables);
        }
        let Some(metadata) = part["metadata"].as_object_mut() else {
            continue;
        };
        // The names of its fields are those of the workload.
        metadata.remove("managedFields");
        let annotations = metadata.get_mut("annotations");
        if let Some(applied) = annotations.and_then(|all| all.get_mut(LAST_APPLIED)) {
            *applied = LEFT_OUT.into();
        }
    }
    object
}

fn hide_variables(container: &mut Value) {
    for variable in container["env"].as_array_mut().into_iter().flatten() {
        let own = variable["name"]
            .as_str()
            .is_some_and(|name| name.starts_with(OWN));
        if !own && variable.get("value").is_some() {
            variable["value"] = LEFT_OUT.into();
        }
    }
}

fn readme(args: &BundleArgs, missing: &[String]) -> String {
    let workloads = if args.include_workloads {
        "Workloads are included, as --include-workloads asked."
    } else {
        "Of each workload there are its size and its SHA-256."
    };
    let missing = match missing {
        [] => "- nothing".to_owned(),
        missing => format!("- {}", missing.join("\n- ")),
    };
    format!(
        "A support bundle of kubectl runop {}.\n\n\
         It has no Secret: none was read. {workloads} Values of variables that are not the operator's own, and what\n\
         kubectl keeps of an applied manifest, are left out. Statuses, Events and logs have names, the service's texts\n\
         about runs and its request ids.\n\nWhat could not be read:\n{missing}\n",
        env!("CARGO_PKG_VERSION")
    )
}

fn pretty(value: &impl Serialize) -> String {
    format!("{:#}\n", json!(value))
}
