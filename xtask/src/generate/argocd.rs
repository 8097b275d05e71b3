//! `deploy/argocd/argocd-cm.yaml` and `argocd-values.yaml`, from the scripts in
//! `deploy/argocd/resource_customizations`, which are laid out as in Argo CD's own tree.

use std::path::Path;

use test_support::root;

use super::Generated;
use crate::common::{Outcome, list, read};

const HEADER: &str = "# Generated from resource_customizations/ by `make generate`. Do not edit.\n";
const GROUP: &str = "run-operator.dev";
const KINDS: [&str; 5] = [
    "ClusterWorkspace",
    "Run",
    "RunSchedule",
    "RunTemplate",
    "Workspace",
];

/// Both files.
pub(crate) fn files() -> Outcome<Vec<Generated>> {
    let folder = Path::new("deploy/argocd");
    let scripts = root()
        .join(folder)
        .join("resource_customizations")
        .join(GROUP);
    let mut data = String::new();
    for kind in KINDS {
        let health = read(&scripts.join(kind).join("health.lua"))?;
        let key = format!("resource.customizations.health.{GROUP}_{kind}");
        data.push_str(&block(&key, &health));
    }
    for kind in KINDS {
        let folder = scripts.join(kind).join("actions");
        // There are none for a RunTemplate.
        if folder.is_dir() {
            let key = format!("resource.customizations.actions.{GROUP}_{kind}");
            data.push_str(&block(&key, &actions(&folder)?));
        }
    }
    let config_map = format!(
        "{HEADER}# Adds health and actions to Argo CD's own ConfigMap, and takes nothing away:\n\
         #   kubectl -n argocd patch configmap argocd-cm --patch-file argocd-cm.yaml\n\
         apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: argocd-cm\n  namespace: argocd\n  labels:\n    \
         app.kubernetes.io/name: argocd-cm\n    app.kubernetes.io/part-of: argocd\ndata:\n{}",
        indented(&data, 2)
    );
    let values = format!(
        "{HEADER}# The same as values of the argo-cd Helm chart: helm upgrade … -f argocd-values.yaml\n\
         configs:\n  cm:\n{}",
        indented(&data, 4)
    );
    Ok(vec![
        (folder.join("argocd-cm.yaml"), config_map),
        (folder.join("argocd-values.yaml"), values),
    ])
}

/// The content of `resource.customizations.actions` for Argo CD: the discovery, and a script for each action.
fn actions(folder: &Path) -> Outcome<String> {
    let discovery = read(&folder.join("discovery.lua"))?;
    let mut text = block("discovery.lua", &discovery) + "definitions:\n";
    for path in list(folder)? {
        let script = path.join("action.lua");
        if script.is_file() {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let action = indented(&block("action.lua", &read(&script)?), 2);
            text.extend(["- name: ", &*name, "\n", &action]);
        }
    }
    Ok(text)
}

/// A key with a text of several lines.
fn block(key: &str, text: &str) -> String {
    format!("{key}: |\n{}", indented(text, 2))
}

fn indented(text: &str, by: usize) -> String {
    let line = |line: &str| match line {
        "" => "\n".to_owned(),
        line => format!("{}{line}\n", " ".repeat(by)),
    };
    text.lines().map(line).collect()
}
