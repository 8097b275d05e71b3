//! Ways to talk to a control plane: clients, kubectl, YAML, metrics.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use kube::config::{Config, KubeConfigOptions, Kubeconfig};

use super::control_plane::ControlPlane;
use super::error::Error;
use super::process;
use super::skipped::left_out;

/// Time limit of one request to the API server.
const PROBE_TIMEOUT: Duration = Duration::from_secs(5);

impl ControlPlane {
    /// The administrator's kubeconfig (mode 0600).
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// A new client with the administrator's rights and the user agent `run-operator-tests`. It belongs
    /// to the runtime it is made on: each test makes its own.
    pub async fn client(&self) -> Result<kube::Client, Error> {
        Self::client_of(&self.kubeconfig).await
    }

    pub(crate) async fn client_of(kubeconfig: &Path) -> Result<kube::Client, Error> {
        // With two TLS providers in the tree, and none of them chosen, the first connection panics. An error
        // means that it was chosen before.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let kubeconfig = Kubeconfig::read_from(kubeconfig).map_err(Error::ReadKubeconfig)?;
        let options = KubeConfigOptions::default();
        let config = Config::from_custom_kubeconfig(kubeconfig, &options).await;
        let mut config = config.map_err(Error::ReadKubeconfig)?;
        // kube sends none, and the audit log couldn't distinguish the tests from the operator.
        let name = http::HeaderValue::from_static("run-operator-tests");
        config.headers.push((http::header::USER_AGENT, name));
        kube::Client::try_from(config).map_err(Error::Request)
    }

    /// A `kubectl` that talks to this control plane and keeps its own cache out of the home directory.
    pub fn kubectl(&self) -> Command {
        let mut command = Command::new(&self.kubectl);
        command.env("KUBECONFIG", &self.kubeconfig);
        if let Some(directory) = self.directory() {
            command.env("KUBECACHEDIR", directory.join("kubectl"));
        }
        command
    }

    /// The API server's own metrics, in the text format.
    pub async fn metrics(&self) -> Result<String, Error> {
        get(&self.client().await?, "/metrics").await
    }

    /// Applies a text of one or more YAML documents by server-side apply, and waits until every CRD in
    /// it is established. Gives back what kubectl printed.
    pub async fn apply_yaml(&self, yaml: &str) -> Result<String, Error> {
        self.apply(&["-f", "-"], yaml).await
    }

    /// Like [`Self::apply_yaml`], with a namespace for the documents that name none.
    pub async fn apply_yaml_in(&self, namespace: &str, yaml: &str) -> Result<String, Error> {
        self.apply(&["-n", namespace, "-f", "-"], yaml).await
    }

    /// Like [`Self::apply_yaml`], for a file or a directory of files.
    pub async fn apply_file(&self, path: &Path) -> Result<String, Error> {
        self.apply(&["-f", &path.to_string_lossy()], "").await
    }

    /// True if the API server is older than Kubernetes 1.`minor`. Then prints that `what` is left out, for a test that
    /// can't run without it.
    pub async fn lacks(&self, minor: u32, what: &str) -> Result<bool, Error> {
        let version = self.client().await?.apiserver_version().await;
        let version = version.map_err(Error::Request)?;
        // Some clouds write `35+`.
        let digits = version
            .minor
            .trim_end_matches(|c: char| !c.is_ascii_digit());
        let lacking = digits.parse::<u32>().is_ok_and(|found| found < minor);
        if lacking {
            let because = format!("{} is older than Kubernetes 1.{minor}", version.git_version);
            left_out(what, &because);
        }
        Ok(lacking)
    }

    /// True if the API server answers `path` with 200 now. A new client each time: its certificate may have
    /// been created only a moment ago.
    pub(crate) async fn answers(&self, path: &str) -> bool {
        let attempt = async { get(&self.client().await?, path).await };
        let answer = tokio::time::timeout(PROBE_TIMEOUT, attempt).await;
        answer.is_ok_and(|answer| answer.is_ok())
    }

    async fn apply(&self, source: &[&str], stdin: &str) -> Result<String, Error> {
        let mut apply = self.kubectl();
        apply
            .args(["apply", "--server-side", "--force-conflicts"])
            .args(source);
        let stdin = stdin.to_owned();
        let applied = blocking(move || process::run(apply, &stdin)).await?;
        let crds: Vec<&str> = applied
            .lines()
            .filter_map(|line| line.split_whitespace().next())
            .filter(|name| name.starts_with("customresourcedefinition.apiextensions.k8s.io/"))
            .collect();
        if !crds.is_empty() {
            let mut wait = self.kubectl();
            wait.args(["wait", "--for=condition=Established", "--timeout=60s"])
                .args(crds);
            blocking(move || process::run(wait, "")).await?;
        }
        Ok(applied)
    }
}

/// The body of a 2xx answer to a GET of `path`.
pub(crate) async fn get(client: &kube::Client, path: &str) -> Result<String, Error> {
    let request = http::Request::get(path).body(Vec::new());
    let request = request.map_err(|error| Error::Request(kube::Error::HttpError(error)))?;
    client.request_text(request).await.map_err(Error::Request)
}

/// Runs blocking work outside the runtime, so that a test's other tasks continue.
pub(crate) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    }
}
