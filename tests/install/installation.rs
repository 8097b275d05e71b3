//! A cluster, a service, and a release of the chart between the two.

use std::path::PathBuf;
use std::process::Command;

use k8s_openapi::api::apps::v1::Deployment;
use kube::Client;
use kube::api::{Api, PostParams};
use serde_json::{Value, json};

use crate::image::on_a_node;
use crate::service::{Service, TOKEN};
use test_cluster::{ControlPlane, Options, Scratch, free_port, run, skipped};
use test_support::tools::go_tool;

/// The release, and by the chart's rules the name of nearly every object of it.
pub(crate) const RELEASE: &str = "run-operator";
/// Its namespace.
pub(crate) const RELEASED_TO: &str = "operators";
/// The namespace of the Runs.
pub(crate) const WORK: &str = "work";

/// A version of the chart and of its operator.
#[derive(Debug, Clone)]
pub(crate) struct Version {
    pub(crate) chart: PathBuf,
    /// The image's tag, where it is not the chart's version.
    pub(crate) tag: Option<&'static str>,
}

impl Version {
    /// That of this source.
    pub(crate) fn today() -> Self {
        Self {
            chart: concat!(env!("CARGO_MANIFEST_DIR"), "/charts/run-operator").into(),
            tag: None,
        }
    }
}

/// Dropped from top to bottom: the cluster after the service.
pub(crate) struct Installation {
    /// The version that is installed, or will be.
    pub(crate) version: Version,
    pub(crate) service: Service,
    pub(crate) client: Client,
    pub(crate) control_plane: ControlPlane,
    helm: PathBuf,
    pub(crate) scratch: Scratch,
}

impl Installation {
    /// A cluster with everything but the release; none where there can be no node.
    pub(crate) async fn prepare() -> Option<Self> {
        let image = match on_a_node() {
            Ok(image) => image,
            Err(because) => {
                skipped("the installation", &because);
                return None;
            }
        };
        let options = Options {
            controller_manager: true,
            node: true,
        };
        let control_plane = ControlPlane::start(options).await.unwrap();
        control_plane.import_image(&image).await.unwrap();
        let scratch = Scratch::new("install").unwrap();
        let helm = tokio::task::spawn_blocking(|| go_tool("helm").unwrap());
        let installation = Self {
            version: Version::today(),
            service: Service::start(&scratch, &[]).await,
            client: control_plane.client().await.unwrap(),
            control_plane,
            helm: helm.await.unwrap(),
            scratch,
        };
        installation.write_values();
        installation.create_namespaces().await;
        Some(installation)
    }

    /// `helm install`, until the operator is ready; and the Workspace of the Runs.
    pub(crate) async fn install(&self) {
        self.change("install", &[]).await;
        self.make_workspace().await;
    }

    /// The Workspace `default` of the Runs' namespace, where it isn't there yet.
    pub(crate) async fn make_workspace(&self) {
        let workspace = json!({
            "apiVersion": "run-operator.dev/v1alpha1", "kind": "Workspace",
            "metadata": {"name": "default", "namespace": WORK}, "spec": {},
        });
        let apply = ["apply", "--server-side", "-f", "-"];
        self.kubectl(&apply, &workspace.to_string()).await.unwrap();
    }

    /// `helm install` or `helm upgrade` with further flags, until the operator is ready.
    pub(crate) async fn change(&self, verb: &str, values: &[&str]) {
        let version = self.version.clone();
        let file = self.scratch.path().join("values.json");
        let (file, chart) = (file.to_str().unwrap(), version.chart.to_str().unwrap());
        let tag = format!("image.tag={}", version.tag.unwrap_or_default());
        let args = [verb, RELEASE, chart, "--values", file, "--set", &tag];
        self.helm_and_wait(&[&args[..], values].concat()).await;
    }

    /// `helm rollback` to a revision, until the operator is ready.
    pub(crate) async fn rollback(&self, revision: &str) {
        self.helm_and_wait(&["rollback", RELEASE, revision]).await;
    }

    /// `helm uninstall`, until the operator has ended.
    pub(crate) async fn uninstall(&self) {
        let args = ["uninstall", RELEASE, "--wait", "--timeout", "2m"];
        self.helm(&args).await.unwrap();
        self.operator_ends().await;
    }

    async fn helm_and_wait(&self, args: &[&str]) {
        let wait = ["--wait", "--timeout", "2m"];
        let done = self.helm(&[args, &wait].concat()).await;
        done.unwrap_or_else(|error| panic!("{error}"));
    }

    /// Runs helm on the release's namespace. What it printed, or what it complained about.
    pub(crate) async fn helm(&self, args: &[&str]) -> Result<String, String> {
        let mut helm = Command::new(&self.helm);
        helm.args(args).args(["--namespace", RELEASED_TO]);
        helm.env("KUBECONFIG", self.control_plane.kubeconfig());
        for place in ["CACHE", "CONFIG", "DATA"] {
            let folder = self.scratch.path().join(place);
            helm.env(format!("HELM_{place}_HOME"), folder);
        }
        in_the_background(helm, String::new()).await
    }

    /// Runs kubectl as the administrator.
    pub(crate) async fn kubectl(&self, args: &[&str], input: &str) -> Result<String, String> {
        let mut kubectl = self.control_plane.kubectl();
        kubectl.args(args);
        in_the_background(kubectl, input.to_owned()).await
    }

    /// The chart's Deployment as it is in the cluster.
    pub(crate) async fn deployment(&self) -> Deployment {
        let api: Api<Deployment> = Api::namespaced(self.client.clone(), RELEASED_TO);
        api.get(RELEASE).await.unwrap()
    }

    /// The arguments of the operator in the Deployment.
    pub(crate) async fn arguments(&self) -> Vec<String> {
        let spec = self.deployment().await.spec.template.spec.unwrap();
        spec.containers[0].args.clone().unwrap()
    }

    /// Values for this cluster only: everything is on loopback, and the image is already there.
    fn write_values(&self) {
        let port = self.control_plane.api_port().unwrap().to_string();
        let values = json!({
            "image": {"pullPolicy": "Never"},
            "hostNetwork": true,
            "dnsPolicy": "Default",
            "listen": {"address": "127.0.0.1", "port": free_port().unwrap()},
            "extraEnv": [
                {"name": "KUBERNETES_SERVICE_HOST", "value": "127.0.0.1"},
                {"name": "KUBERNETES_SERVICE_PORT", "value": port},
            ],
            "service": {"baseURL": self.service.base_url()},
            "poll": {"min": "500ms", "max": "3s"},
            "readinessProbe": {"periodSeconds": 1},
            "test": {"namespace": WORK},
        });
        std::fs::write(self.scratch.path().join("values.json"), values.to_string()).unwrap();
    }

    async fn create_namespaces(&self) {
        for name in [RELEASED_TO, WORK] {
            let namespace = json!({"metadata": {"name": name}});
            let created = self.create("/api/v1/namespaces", &namespace).await;
            created.unwrap();
        }
        let name = "run-operator-token";
        let token = json!({"metadata": {"name": name}, "stringData": {"token": TOKEN}});
        let secrets = format!("/api/v1/namespaces/{WORK}/secrets");
        self.create(&secrets, &token).await.unwrap();
    }

    /// A POST to the API server, as the administrator.
    pub(crate) async fn create(&self, path: &str, object: &Value) -> Result<Value, kube::Error> {
        let request = kube::core::Request::new(path);
        let object = serde_json::to_vec(object).unwrap();
        let request = request.create(&PostParams::default(), object).unwrap();
        self.client.request(request).await
    }

    /// Requests of the operator and of the release's test that the API server refused, by its audit log.
    pub(crate) fn refusals(&self) -> Vec<Value> {
        let log = std::fs::read_to_string(self.control_plane.audit_log().unwrap()).unwrap();
        // Its last line may be half written.
        let entries = log
            .lines()
            .filter_map(|line| serde_json::from_str(line).ok());
        let accounts = format!("system:serviceaccount:{RELEASED_TO}:");
        let mut own: Vec<Value> = entries.collect();
        own.retain(|entry| {
            let user = entry["user"]["username"].as_str();
            user.is_some_and(|user| user.starts_with(&accounts))
        });
        let operator = format!("{accounts}{RELEASE}");
        let asked = |entry: &Value| entry["user"]["username"] == *operator;
        assert!(own.iter().any(asked), "{operator} has asked for nothing");
        let refused = [401, 403].map(Value::from);
        own.retain(|entry| refused.contains(&entry["responseStatus"]["code"]));
        own
    }
}

pub(crate) async fn in_the_background(command: Command, input: String) -> Result<String, String> {
    let output = tokio::task::spawn_blocking(move || run(command, &input));
    output.await.unwrap().map_err(|error| error.to_string())
}
