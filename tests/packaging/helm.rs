//! The real Helm, as a process.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::LazyLock;

use serde_json::Value;

use test_cluster::{ControlPlane, Scratch};
use test_support::{root, tools::go_tool};

/// Helm's own files, out of the home directory.
static HOME: LazyLock<Scratch> = LazyLock::new(|| Scratch::new("helm").unwrap());

/// The versions of Helm that the chart is tested with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Helm {
    V3,
    V4,
}

impl Helm {
    fn program(self) -> &'static Path {
        static V3: LazyLock<PathBuf> = LazyLock::new(|| go_tool("helm3").unwrap());
        static V4: LazyLock<PathBuf> = LazyLock::new(|| go_tool("helm").unwrap());
        match self {
            Self::V3 => &V3,
            Self::V4 => &V4,
        }
    }

    /// Helm, away from every cluster.
    pub(crate) fn command(self) -> Command {
        let mut command = Command::new(self.program());
        let home = HOME.path().join(format!("{self:?}"));
        for (name, directory) in [
            ("HELM_CACHE_HOME", "cache"),
            ("HELM_CONFIG_HOME", "config"),
            ("HELM_DATA_HOME", "data"),
        ] {
            command.env(name, home.join(directory));
        }
        command.env("KUBECONFIG", "/nonexistent/kubeconfig");
        command
    }

    /// `helm template NAME CHART --namespace NAMESPACE …`.
    pub(crate) fn template(
        self,
        chart: &Path,
        name: &str,
        namespace: &str,
        args: &[&str],
    ) -> Output {
        let mut command = self.command();
        command.arg("template").arg(name).arg(chart);
        command.args(["--namespace", namespace]).args(args);
        command.output().unwrap()
    }
}

pub(crate) fn chart() -> PathBuf {
    root().join("charts/run-operator")
}

/// The files of values for tests.
pub(crate) const CI: [&str; 7] = [
    "bare",
    "default",
    "full",
    "ha",
    "namespaced",
    "platform",
    "shared",
];

/// A file of values for tests, by name.
pub(crate) fn ci(name: &str) -> String {
    let file = chart().join(format!("ci/{name}-values.yaml"));
    file.display().to_string()
}

/// The newest Helm, away from every cluster.
pub(crate) fn command() -> Command {
    Helm::V4.command()
}

/// The output of a program, which has to succeed.
#[track_caller]
pub(crate) fn done(output: &Output) -> String {
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{told}");
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// Helm refuses these values, and its message has all of these words.
#[track_caller]
pub(crate) fn refused(args: &[&str], words: &[&str]) {
    let output = template(&chart(), "release", "release", args);
    assert!(!output.status.success(), "{args:?} was not refused");
    let message = String::from_utf8(output.stderr).unwrap();
    for word in words {
        assert!(message.contains(word), "{word:?} is not in {message:?}");
    }
}

pub(crate) fn template(chart: &Path, name: &str, namespace: &str, args: &[&str]) -> Output {
    Helm::V4.template(chart, name, namespace, args)
}

/// The chart's manifests as text, for a release `run-operator` in the namespace.
#[track_caller]
pub(crate) fn manifests(namespace: &str, args: &[&str]) -> String {
    done(&template(&chart(), "run-operator", namespace, args))
}

/// The chart's objects, for a release `run-operator` in a namespace of the same name.
#[track_caller]
pub(crate) fn objects(args: &[&str]) -> Vec<Value> {
    documents(&manifests("run-operator", args))
}

pub(crate) fn documents(yaml: &str) -> Vec<Value> {
    let documents: Vec<Value> = serde_saphyr::from_multiple(yaml).unwrap();
    documents.into_iter().filter(|d| !d.is_null()).collect()
}

/// Those of a kind.
pub(crate) fn of_kind<'a>(objects: &'a [Value], kind: &str) -> Vec<&'a Value> {
    objects.iter().filter(|o| o["kind"] == kind).collect()
}

/// The one of a kind.
#[track_caller]
pub(crate) fn the<'a>(objects: &'a [Value], kind: &str) -> &'a Value {
    match of_kind(objects, kind).as_slice() {
        [one] => one,
        other => panic!("{} of {kind}", other.len()),
    }
}

/// The Pod that the Deployment makes.
#[track_caller]
pub(crate) fn pod(objects: &[Value]) -> &Value {
    &the(objects, "Deployment")["spec"]["template"]
}

pub(crate) fn texts(value: &Value) -> Vec<&str> {
    let items = value.as_array().into_iter().flatten();
    items.filter_map(Value::as_str).collect()
}

/// A release on a cluster.
pub(crate) struct Release<'a> {
    pub(crate) helm: Helm,
    pub(crate) control_plane: &'a ControlPlane,
    pub(crate) name: &'a str,
    pub(crate) namespace: &'a str,
}

impl Release<'_> {
    /// `helm VERB NAME … --namespace NAMESPACE`.
    pub(crate) fn run(&self, verb: &str, args: &[&str]) -> Output {
        let mut command = self.helm.command();
        command.env("KUBECONFIG", self.control_plane.kubeconfig());
        command.args([verb, self.name]).args(args);
        command.args(["--namespace", self.namespace]);
        command.output().unwrap()
    }

    /// The same, of a chart; there is no node, so nothing to wait for.
    #[track_caller]
    pub(crate) fn put(&self, verb: &str, chart: &Path, args: &[&str]) -> String {
        let chart = chart.display().to_string();
        let args: Vec<&str> = [chart.as_str()].iter().chain(args).copied().collect();
        done(&self.run(verb, &args))
    }
}
