//! The programs of `tools/`: built once into the cache, then run like any other program.

use std::path::PathBuf;

use serde::de::DeserializeOwned;
use serde_json::Value;

pub(super) use test_support::files::text as text_of;

use crate::support::{World, eventually};

/// A file of the repository.
pub(super) fn file(path: &str) -> PathBuf {
    test_support::root().join(path)
}

/// The output of `tools/NAME` for arguments and input; or its error.
pub(super) async fn tool(name: &'static str, args: &[&str], input: &str) -> Result<String, String> {
    let args: Vec<String> = args.iter().map(|&arg| arg.to_owned()).collect();
    let input = input.to_owned();
    let run = move || {
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        test_support::tools::run(name, &args, &input)
    };
    let output = tokio::task::spawn_blocking(run).await.unwrap();
    if output.status.success() {
        Ok(String::from_utf8(output.stdout).unwrap())
    } else {
        Err(String::from_utf8_lossy(&output.stderr).into_owned())
    }
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
        let cm = argocd_cm();
        let kubeconfig = self.control_plane.kubeconfig().display().to_string();
        let mut args = vec![command, "--cm", &cm, "--app", "demo"];
        args.extend(["--kubeconfig", &kubeconfig, "--namespace", &self.namespace]);
        args.extend(more);
        let printed = tool("argocd", &args, manifests).await?;
        Ok(serde_json::from_str(&printed).unwrap())
    }

    /// `flux COMMAND`, likewise.
    pub(super) async fn flux(
        &self,
        command: &str,
        more: &[&str],
        manifests: &str,
    ) -> Result<Value, String> {
        let kubeconfig = self.control_plane.kubeconfig().display().to_string();
        let mut args = vec![command, "--kubeconfig", &kubeconfig];
        args.extend(["--namespace", &self.namespace]);
        args.extend(more);
        let printed = tool("flux", &args, manifests).await?;
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

/// Waits until the Ready condition of an object has this status and reason.
pub(super) async fn ready(world: &World, kind: &str, name: &str, status: &str, reason: &str) {
    let what = format!("the {kind} {name} has Ready={status} ({reason})");
    eventually(&what, async || {
        let object = world.raw(kind, name).await;
        let conditions = object["status"]["conditions"].as_array();
        let mut conditions = conditions.into_iter().flatten();
        let wanted =
            |c: &&Value| c["type"] == "Ready" && c["status"] == status && c["reason"] == reason;
        let found = conditions.find(wanted);
        found.map(drop).ok_or_else(|| object["status"].to_string())
    })
    .await;
}

/// A manifest whose runs continue until the test ends them. The reference service reads `simulate`.
pub(super) fn endless(manifest: &str) -> String {
    let image = "image: ghcr.io/acme/train:1.4\n";
    assert!(manifest.contains(image), "{manifest}");
    manifest.replace(
        &format!("    {image}"),
        &format!("    {image}    simulate: {{outcome: never}}\n"),
    )
}
