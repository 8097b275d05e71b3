//! The ClusterWorkspaces that take the Runs of a namespace, by their status.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Namespace;
use kube::api::{ApiResource, DynamicObject, ListParams};
use kube::{Api, Client};

use run_operator::api::{ClusterWorkspace, ClusterWorkspaceSpec};

use super::ask::{CHECK_ACCESS, Refused, bounded};
use super::workspaces::{self, REMEDIES, Seen};
use crate::contract_tool::statements::{Finding, Statement};

const READY: Statement = Statement {
    check: "clusterWorkspaces.ready",
    title: "the ClusterWorkspaces that allow the namespace are Ready",
};

/// Not checked: the API server did not answer.
pub(super) fn not_tried(why: &str) -> Finding {
    READY.not_tried(why)
}

/// What was seen of the ClusterWorkspaces that allow a namespace.
pub(super) struct Examined {
    pub(super) finding: Finding,
    /// Those that take its Runs.
    pub(super) taking: Vec<String>,
}

/// Reads the ClusterWorkspaces. Waits for one that is still being checked, for 20 s at most.
pub(super) async fn examine(client: &Client, namespace: &str) -> Examined {
    let allowing = match allowing(client, namespace).await {
        Ok(allowing) => allowing,
        Err(finding) => {
            let taking = Vec::new();
            return Examined { finding, taking };
        }
    };
    let taking = allowing.iter().filter(|w| w.trouble.is_none());
    let taking = taking.map(|workspace| format!("ClusterWorkspace {}", workspace.name));
    Examined {
        taking: taking.collect(),
        finding: judged(&allowing, namespace),
    }
}

/// Those whose selector allows the namespace, or why they are not known.
async fn allowing(client: &Client, namespace: &str) -> Result<Vec<Seen>, Finding> {
    let kind = ApiResource::erase::<ClusterWorkspace>(&());
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &kind);
    let unlisted = |refused| unread(refused, "list ClusterWorkspaces");
    // Without one there is no need to know the namespace's labels.
    let first = bounded(api.list(&ListParams::default().limit(1))).await;
    if first.map_err(unlisted)?.items.is_empty() {
        return Ok(Vec::new());
    }
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let what = format!("read the namespace {namespace}, whose labels decide");
    let own = bounded(namespaces.get(namespace)).await;
    let own = own.map_err(|refused| unread(refused, &what))?;
    let labels = own.metadata.labels.unwrap_or_default();
    let allowed = workspaces::checked(&api, |workspace| allows(workspace, &labels)).await;
    allowed.map_err(unlisted)
}

fn allows(workspace: &DynamicObject, labels: &BTreeMap<String, String>) -> bool {
    let spec = serde_json::from_value::<ClusterWorkspaceSpec>(workspace.data["spec"].clone());
    spec.is_ok_and(|spec| spec.allows(labels).unwrap_or_default())
}

fn unread(refused: Refused, what: &str) -> Finding {
    match refused.code {
        Some(403) => READY.not_tried(&format!("these credentials may not {what}")),
        Some(404) => READY.not_tried(refused.why.trim_end_matches('.')),
        _ => READY.fail(refused.why, CHECK_ACCESS),
    }
}

fn judged(allowing: &[Seen], namespace: &str) -> Finding {
    if allowing.is_empty() {
        return READY.ok(format!("None allows the namespace {namespace}."));
    }
    match workspaces::troubles(allowing) {
        None => READY.ok(format!(
            "For the namespace {namespace}, at the operator's last check: {}.",
            workspaces::names(allowing)
        )),
        Some(troubles) => READY.fail(
            format!("Not Ready for the namespace {namespace}: {troubles}."),
            REMEDIES,
        ),
    }
}
