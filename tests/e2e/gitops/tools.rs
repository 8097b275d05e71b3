//! The programs of `tools/`: built once into the cache, then run like any other program.

use std::path::PathBuf;
use std::process::Command;

use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use test_support::tools::go_tool;

pub(super) use test_support::files::text as text_of;

use crate::support::{World, eventually, output_of};

/// A file of the repository.
pub(super) fn file(path: &str) -> PathBuf {
    test_support::root().join(path)
}

/// The output of `tools/NAME` for arguments and input; or its error.
async fn tool(name: &'static str, args: &[&str], input: &str) -> Result<String, String> {
    let program = tokio::task::spawn_blocking(move || go_tool(name).unwrap());
    let mut command = Command::new(program.await.unwrap());
    command.args(args);
    output_of(command, input).await
}

/// The same, as JSON.
pub(super) async fn asked<T: DeserializeOwned>(
    name: &'static str,
    args: &[&str],
    input: &str,
) -> T {
    let text = tool(name, args, input).await;
    let text = text.unwrap_or_else(|complaint| panic!("{name} {args:?}: {complaint}"));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error} in {text}"))
}

/// The `ConfigMap` that a user puts into Argo CD.
pub(super) fn argocd_cm() -> String {
    file("deploy/argocd/argocd-cm.yaml").display().to_string()
}

impl World {
    /// `argocd COMMAND`, on this world's cluster and namespace, with manifests.
    pub(super) async fn argo(
        &self,
        command: &str,
        more: &[&str],
        manifests: &str,
    ) -> Result<Value, String> {
        let app = ["--cm", &argocd_cm(), "--app", "demo"];
        self.gitops("argocd", command, &[&app, more].concat(), manifests)
            .await
    }

    /// `flux COMMAND`, likewise.
    pub(super) async fn flux(
        &self,
        command: &str,
        more: &[&str],
        manifests: &str,
    ) -> Result<Value, String> {
        self.gitops("flux", command, more, manifests).await
    }

    async fn gitops(
        &self,
        name: &'static str,
        command: &str,
        more: &[&str],
        manifests: &str,
    ) -> Result<Value, String> {
        let kubeconfig = self.control_plane.kubeconfig().display().to_string();
        let place = ["--kubeconfig", &kubeconfig, "--namespace", &self.namespace];
        let args = [&[command], &place[..], more].concat();
        let printed = tool(name, &args, manifests).await?;
        Ok(serde_json::from_str(&printed).unwrap())
    }

    /// An object as the API server shows it, whatever our types know.
    pub(super) async fn raw(&self, kind: &str, name: &str) -> Value {
        let place = match kind {
            "ClusterWorkspace" => String::new(),
            _ => format!("namespaces/{}/", self.namespace),
        };
        let plural = format!("{}s", kind.to_lowercase());
        let path = format!("/apis/run-operator.dev/v1alpha1/{place}{plural}/{name}");
        let request = http::Request::get(path).body(Vec::new()).unwrap();
        self.client.request(request).await.unwrap()
    }
}

/// Waits until the Ready condition of a Workspace of either kind has this reason.
pub(super) async fn ready(world: &World, kind: &str, name: &str, reason: &str) {
    let what = format!("the {kind} {name} has {reason}");
    eventually(&what, async || {
        let object = world.raw(kind, name).await;
        let conditions = object["status"]["conditions"].as_array();
        let mut conditions = conditions.into_iter().flatten();
        let found = conditions.find(|c| c["type"] == "Ready" && c["reason"] == reason);
        found.map(drop).ok_or_else(|| object["status"].to_string())
    })
    .await;
}

/// A manifest in `deploy/examples/gitops`.
pub(super) fn example(name: &str) -> String {
    text_of(&format!("deploy/examples/gitops/{name}.yaml"))
}

/// A manifest whose runs have this outcome: the reference service reads `simulate`.
pub(super) fn simulating(manifest: &str, outcome: &str) -> String {
    let image = "    image: ghcr.io/acme/train:1.4\n";
    assert!(manifest.contains(image), "{manifest}");
    let with = format!("{image}    simulate: {{outcome: {outcome}}}\n");
    manifest.replace(image, &with)
}

/// A manifest whose runs continue until the test ends them.
pub(super) fn endless(manifest: &str) -> String {
    simulating(manifest, "never")
}

/// The first run was cancelled once, the second has succeeded, and there is no other.
pub(super) async fn cancelled_and_succeeded(world: &World) {
    let runs = world.service.runs().await;
    let ends: Vec<_> = runs
        .iter()
        .map(|run| (&run["state"], &run["cancels"]))
        .collect();
    let [cancelled, succeeded] = ["cancelled", "succeeded"].map(Value::from);
    assert_eq!(ends, [(&cancelled, &json!(1)), (&succeeded, &json!(0))]);
}
