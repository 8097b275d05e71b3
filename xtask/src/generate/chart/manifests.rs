//! Manifests for those who don't use Helm, rendered from the chart by the real Helm.

use std::path::Path;
use std::process::Command;

use test_cluster::{Error, run};
use test_support::root;
use test_support::tools::go_tool;

use super::CHART;
use crate::common::Outcome;
use crate::generate::Generated;

const NAME: &str = "run-operator";
const HEADER: &str = "# Rendered from charts/run-operator by `make generate`. Do not edit: the values are the chart's.\n";
/// The Pods fit the strictest profile; Pods that are added must fit it too.
const NAMESPACE: &str = "apiVersion: v1
kind: Namespace
metadata:
  name: run-operator
  labels:
    pod-security.kubernetes.io/enforce: restricted
";
/// What everyone has to replace: neither address exists. The base URL is a variable, so that an overlay can set it by its
/// name.
const EXAMPLES: [&str; 3] = [
    "image.registry=registry.example.com",
    "extraEnv[0].name=RUN_OPERATOR_BASE_URL",
    "extraEnv[0].value=https://runs.example.com/api/v1",
];
/// Lines that are only true of a release.
const OF_A_RELEASE: &[&str] = &[
    "helm.sh/chart:",
    "helm.sh/resource-policy:",
    "app.kubernetes.io/managed-by: Helm",
];

/// A file of `deploy/kustomize`, which templates it holds, and with which values.
type Part = (&'static str, &'static str, &'static str);

/// What everyone needs who doesn't use Helm.
const BASE: [Part; 5] = [
    (
        "base/crds.yaml",
        "crds/runs crds/workspaces crds/clusterworkspaces crds/runtemplates crds/runschedules crds/policy",
        "crds.keep=false",
    ),
    ("base/rbac.yaml", "serviceaccount clusterrole", ""),
    ("base/leader-election.yaml", "leaderelection", ""),
    ("base/user-roles.yaml", "aggregateroles", ""),
    ("base/operator.yaml", "service deployment", ""),
];
const OTHERS: [Part; 5] = [
    (
        "overlays/namespaced/role.yaml",
        "role",
        "watchNamespaces={team-a}",
    ),
    (
        "components/status-policy/policy.yaml",
        "statuspolicy",
        "statusPolicy.enabled=true",
    ),
    (
        "components/finalizer-policy/policy.yaml",
        "finalizerpolicy",
        "finalizerPolicy.enabled=true",
    ),
    (
        "components/high-availability/budget.yaml",
        "poddisruptionbudget",
        "replicas=2",
    ),
    (
        "overlays/monitoring/monitoring.yaml",
        "monitors prometheusrule dashboard",
        "metrics.serviceMonitor.enabled=true metrics.prometheusRule.enabled=true metrics.dashboard.enabled=true",
    ),
];

/// `deploy/install.yaml`, and the parts of the kustomizations.
pub(crate) fn manifests() -> Outcome<Vec<Generated>> {
    let folder = Path::new("deploy/kustomize");
    let chart = root().join(CHART);
    let examples = EXAMPLES.map(str::to_owned);
    let namespace = format!("{HEADER}{NAMESPACE}");
    let mut files = vec![
        (folder.join("base/namespace.yaml"), namespace),
        ("deploy/install.yaml".into(), install(&chart, &examples)?),
    ];
    for part in BASE.iter().chain(&OTHERS) {
        let text = format!("{HEADER}{}", render(&chart, part, &examples)?);
        files.push((folder.join(part.0), text));
    }
    Ok(files)
}

/// The plain manifest of the chart in a folder, with these values.
pub(crate) fn install(chart: &Path, values: &[String]) -> Outcome<String> {
    let mut install = format!("{HEADER}{NAMESPACE}");
    for part in &BASE {
        install.push_str("---\n");
        install.push_str(&render(chart, part, values)?);
    }
    Ok(install)
}

/// Helm, built first where it can't be found.
pub(crate) fn helm() -> Outcome<Command> {
    let helm = go_tool("helm").map_err(Error::file("build", "tools/helm"))?;
    Ok(Command::new(helm))
}

fn render(chart: &Path, (_, templates, set): &Part, values: &[String]) -> Outcome<String> {
    let mut helm = helm()?;
    helm.args(["template", NAME]).arg(chart);
    helm.args(["--namespace", NAME]);
    for template in templates.split(' ') {
        helm.arg(format!("--show-only=templates/{template}.yaml"));
    }
    for value in set
        .split_whitespace()
        .chain(values.iter().map(String::as_str))
    {
        helm.args(["--set", value]);
    }
    Ok(plain(&run(helm, "")?))
}

/// The documents in order, without Helm's own marks.
fn plain(rendered: &str) -> String {
    let of_a_release = |line: &&str| {
        let line = line.trim_start();
        line.starts_with("# Source: ")
            || line.starts_with("# Generated from")
            || OF_A_RELEASE.iter().any(|mark| line.starts_with(mark))
    };
    let lines = rendered.lines().filter(|line| !of_a_release(line));
    let text = lines.collect::<Vec<_>>().join("\n");
    let documents = text.split("---\n").map(str::trim_end);
    let documents = documents.filter(|text| !text.trim().is_empty());
    documents.collect::<Vec<_>>().join("\n---\n") + "\n"
}
