//! The real Helm, as a process.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{LazyLock, Mutex};

use serde_json::Value;

use test_cluster::Scratch;
use test_support::{root, says, tools::go_tool};

/// Helm's own files, out of the home directory.
static HOME: LazyLock<Scratch> = LazyLock::new(|| Scratch::new("helm").unwrap());

/// Helm, away from every cluster.
pub(crate) fn command() -> Command {
    static HELM: LazyLock<PathBuf> = LazyLock::new(|| go_tool("helm").unwrap());
    of_program(&HELM)
}

/// The same of another program, such as an older Helm.
pub(crate) fn of_program(helm: &Path) -> Command {
    let mut command = Command::new(helm);
    for name in ["HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME"] {
        command.env(name, HOME.path().join(name));
    }
    command.env("KUBECONFIG", "/nonexistent/kubeconfig");
    command
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
    says(&message, words);
}

/// `helm template NAME CHART --namespace NAMESPACE …`, with the least that has to be set.
pub(crate) fn template(chart: &Path, name: &str, namespace: &str, args: &[&str]) -> Output {
    let mut command = command();
    command.arg("template").arg(name).arg(chart);
    command.args(["--namespace", namespace, "-f", &ci("default")]);
    command.args(args).output().unwrap()
}

/// The chart's manifests as text, for a release `run-operator` in the namespace. What was rendered once is kept.
#[track_caller]
pub(crate) fn manifests(namespace: &str, args: &[&str]) -> String {
    static RENDERED: LazyLock<Mutex<HashMap<String, String>>> = LazyLock::new(Mutex::default);
    let key = format!("{namespace} {args:?}");
    let known = RENDERED.lock().unwrap().get(&key).cloned();
    known.unwrap_or_else(|| {
        let rendered = done(&template(&chart(), "run-operator", namespace, args));
        RENDERED.lock().unwrap().insert(key, rendered.clone());
        rendered
    })
}

/// Its objects with values set as `--set` takes them, such as `replicas=2,image.tag=x`.
#[track_caller]
pub(crate) fn with(values: &str) -> Vec<Value> {
    objects(&["--set", values])
}

/// Its objects with a file of values for tests.
#[track_caller]
pub(crate) fn with_file(name: &str) -> Vec<Value> {
    objects(&["-f", &ci(name)])
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

/// The one of a kind that has this name.
#[track_caller]
pub(crate) fn named<'a>(objects: &'a [Value], kind: &str, name: &str) -> &'a Value {
    let mut found = of_kind(objects, kind).into_iter();
    found.find(|o| o["metadata"]["name"] == name).unwrap()
}

/// The Pod that the Deployment makes.
#[track_caller]
pub(crate) fn pod(objects: &[Value]) -> &Value {
    &the(objects, "Deployment")["spec"]["template"]
}

/// The operator's container in it.
#[track_caller]
pub(crate) fn container(objects: &[Value]) -> &Value {
    &pod(objects)["spec"]["containers"][0]
}

/// The arguments of the operator.
#[track_caller]
pub(crate) fn args(objects: &[Value]) -> Vec<&str> {
    texts(&container(objects)["args"])
}

pub(crate) fn texts(value: &Value) -> Vec<&str> {
    let items = value.as_array().into_iter().flatten();
    items.filter_map(Value::as_str).collect()
}
