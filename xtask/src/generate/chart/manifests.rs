//! Manifests for those who don't use Helm, rendered from the chart by the real Helm.

use std::fmt::Write;
use std::path::Path;
use std::process::Command;

use super::CHART;
use crate::generate::{Generated, Outcome, root};
use test_support::tools::go_tool;

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
/// Lines that are only true of a release.
const OF_A_RELEASE: &[&str] = &[
    "helm.sh/chart:",
    "helm.sh/resource-policy:",
    "app.kubernetes.io/managed-by: Helm",
];

/// A file of `deploy/kustomize`, and which templates it holds, with which values.
struct Part {
    file: &'static str,
    templates: &'static [&'static str],
    set: &'static [&'static str],
}

const CRDS: Part = Part {
    file: "base/crds.yaml",
    templates: &[
        "crds/runs.yaml",
        "crds/workspaces.yaml",
        "crds/clusterworkspaces.yaml",
        "crds/policy.yaml",
    ],
    set: &["crds.keep=false"],
};
const RIGHTS: Part = Part {
    file: "base/rbac.yaml",
    templates: &["serviceaccount.yaml", "clusterrole.yaml"],
    set: &[],
};
const LEADER: Part = Part {
    file: "base/leader-election.yaml",
    templates: &["leaderelection.yaml"],
    set: &[],
};
const USERS: Part = Part {
    file: "base/user-roles.yaml",
    templates: &["aggregateroles.yaml"],
    set: &[],
};
const OPERATOR: Part = Part {
    file: "base/operator.yaml",
    templates: &["service.yaml", "deployment.yaml"],
    set: &[],
};
const OF_A_NAMESPACE: Part = Part {
    file: "overlays/namespaced/role.yaml",
    templates: &["role.yaml"],
    set: &["watchNamespaces={team-a}"],
};
const AVAILABLE: Part = Part {
    file: "components/high-availability/budget.yaml",
    templates: &["poddisruptionbudget.yaml"],
    set: &["replicas=2"],
};
const STATUS_POLICY: Part = Part {
    file: "components/status-policy/policy.yaml",
    templates: &["statuspolicy.yaml"],
    set: &["statusPolicy.enabled=true"],
};
const FINALIZER_POLICY: Part = Part {
    file: "components/finalizer-policy/policy.yaml",
    templates: &["finalizerpolicy.yaml"],
    set: &["finalizerPolicy.enabled=true"],
};
const MONITORING: Part = Part {
    file: "overlays/monitoring/monitoring.yaml",
    templates: &["monitors.yaml", "prometheusrule.yaml", "dashboard.yaml"],
    set: &[
        "metrics.serviceMonitor.enabled=true",
        "metrics.prometheusRule.enabled=true",
        "metrics.dashboard.enabled=true",
    ],
};

/// What everyone needs who doesn't use Helm.
const BASE: [Part; 5] = [CRDS, RIGHTS, LEADER, USERS, OPERATOR];

/// `deploy/install.yaml`, and the parts of the kustomizations.
pub(crate) fn manifests() -> Outcome<Vec<Generated>> {
    let helm = go_tool("helm")?;
    let directory = Path::new("deploy/kustomize");
    let chart = root().join(CHART);
    let mut files = vec![
        Generated::new(
            directory.join("base/namespace.yaml"),
            format!("{HEADER}{NAMESPACE}"),
        ),
        Generated::new("deploy/install.yaml", install(&helm, &chart, &[])?),
    ];
    for part in BASE.iter().chain(&[
        OF_A_NAMESPACE,
        STATUS_POLICY,
        FINALIZER_POLICY,
        AVAILABLE,
        MONITORING,
    ]) {
        let text = render(&helm, &chart, part, &[])?;
        files.push(Generated::new(
            directory.join(part.file),
            format!("{HEADER}{text}"),
        ));
    }
    Ok(files)
}

/// The plain manifest of the chart in a folder, with these values.
pub(crate) fn install(helm: &Path, chart: &Path, values: &[&str]) -> Outcome<String> {
    let mut install = format!("{HEADER}{NAMESPACE}");
    for part in &BASE {
        let text = render(helm, chart, part, values)?;
        let _ = write!(install, "---\n{text}");
    }
    Ok(install)
}

fn render(helm: &Path, chart: &Path, part: &Part, values: &[&str]) -> Outcome<String> {
    let mut command = Command::new(helm);
    command.args(["template", NAME]).arg(chart);
    command.args(["--namespace", NAME]);
    for template in part.templates {
        command.args(["--show-only", &format!("templates/{template}")]);
    }
    for value in part.set.iter().chain(values) {
        command.args(["--set", value]);
    }
    let rendered = command.output()?;
    if !rendered.status.success() {
        let said = String::from_utf8_lossy(&rendered.stderr);
        return Err(format!("failed to render {}: {said}", part.file).into());
    }
    Ok(plain(&String::from_utf8(rendered.stdout)?))
}

/// The documents in order, without Helm's own marks.
fn plain(rendered: &str) -> String {
    let of_a_release = |line: &&str| {
        let line = line.trim_start();
        line.starts_with("# Source: ")
            || line.starts_with("# Generated from")
            || OF_A_RELEASE.iter().any(|mark| line.starts_with(mark))
    };
    let lines: Vec<&str> = rendered
        .lines()
        .filter(|line| !of_a_release(line))
        .collect();
    let text = lines.join("\n");
    let documents = text.split("---\n").map(str::trim_end);
    let documents = documents.filter(|text| !text.trim().is_empty());
    documents.collect::<Vec<_>>().join("\n---\n") + "\n"
}
