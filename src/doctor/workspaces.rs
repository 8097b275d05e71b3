//! The Workspaces of a namespace, by their status: whether a Run there has one that is Ready.

use std::time::Duration;

use kube::api::{ApiResource, DynamicObject, ListParams};
use kube::{Api, Client, ResourceExt};
use serde_json::Value;

use run_operator::api::{ConditionType, Reason, Workspace};

use super::ask::{CHECK_ACCESS, Refused, bounded};
use crate::contract_tool::statements::{Finding, Statement};

/// Limit of the list from the API server.
const MOST: u32 = 500;
/// Number of not Ready Workspaces that are named.
const NAMED: usize = 5;
/// The Workspace of a Run that names none.
const DEFAULT: &str = "default";
/// Attempts and interval of the wait for a new Workspace's first check.
const READS: usize = 20;
const BETWEEN: Duration = Duration::from_secs(1);

const READY: Statement = Statement {
    check: "workspaces.ready",
    title: "the Workspaces are Ready",
};

/// Not checked: the API server did not answer.
pub(super) fn not_tried(why: &str) -> Finding {
    READY.not_tried(why)
}

/// The finding for a namespace. A namespace without a Workspace fails, unless it `may_lack` one. Waits for a Workspace
/// that is still being checked, for 20 s at most.
pub(super) async fn finding(client: &Client, namespace: &str, may_lack: bool) -> Finding {
    let kind = ApiResource::erase::<Workspace>(&());
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &kind);
    let params = ListParams::default().limit(MOST);
    let mut reads = 0;
    loop {
        reads += 1;
        let workspaces = match bounded(api.list(&params)).await {
            Ok(list) => list.items.iter().map(Seen::of).collect::<Vec<_>>(),
            Err(refused) => return unread(refused, namespace),
        };
        if reads == READS || !workspaces.iter().any(|workspace| workspace.unchecked) {
            return judged(&workspaces, namespace, may_lack);
        }
        tokio::time::sleep(BETWEEN).await;
    }
}

/// A Workspace, and the reason why it is not Ready.
struct Seen {
    name: String,
    trouble: Option<String>,
    /// The operator has not written its result yet.
    unchecked: bool,
}

impl Seen {
    fn of(workspace: &DynamicObject) -> Self {
        let data = &workspace.data;
        let conditions = data["status"]["conditions"].as_array();
        let wanted = |c: &&Value| c["type"] == ConditionType::Ready.as_str();
        let ready = conditions.into_iter().flatten().find(wanted);
        let current =
            data["status"]["observedGeneration"].as_i64() == workspace.metadata.generation;
        let trouble = match ready {
            None => Some("no operator has checked it".to_owned()),
            Some(_) if !current => Some("no operator has checked its latest spec".to_owned()),
            Some(_) if data["spec"]["suspend"] == true => {
                Some("spec.suspend blocks new Runs".to_owned())
            }
            Some(ready) if ready["status"] == "True" => None,
            Some(ready) => {
                let word = |field: &str| ready[field].as_str().unwrap_or_default().to_owned();
                Some(format!("{}: {}", word("reason"), word("message")))
            }
        };
        let checking = ready.is_some_and(|c| c["reason"] == Reason::Checking.as_str());
        Self {
            name: workspace.name_any(),
            trouble,
            unchecked: ready.is_none() || !current || checking,
        }
    }
}

fn unread(refused: Refused, namespace: &str) -> Finding {
    match refused.code {
        Some(403) => READY.not_tried(&format!(
            "these credentials may not list the Workspaces of {namespace}"
        )),
        Some(404) => READY.not_tried("the cluster doesn't serve Workspaces"),
        _ => READY.fail(refused.why, CHECK_ACCESS),
    }
}

fn judged(workspaces: &[Seen], namespace: &str, may_lack: bool) -> Finding {
    if workspaces.is_empty() && may_lack {
        return READY.not_tried(&format!("there is none in the namespace {namespace} yet"));
    }
    if workspaces.is_empty() {
        let none = format!(
            "There is none in the namespace {namespace}: a Run without workspaceRef waits."
        );
        let todo = "Create one, or name another namespace with --namespace; ClusterWorkspaces are not checked.";
        return READY.fail(none, todo);
    }
    let troubled = workspaces
        .iter()
        .filter_map(|workspace| Some((&workspace.name, workspace.trouble.as_ref()?)));
    let mut troubled: Vec<String> = troubled
        .map(|(name, trouble)| format!("{name}: {trouble}"))
        .collect();
    if troubled.is_empty() {
        let names: Vec<&str> = workspaces
            .iter()
            .map(|workspace| workspace.name.as_str())
            .take(NAMED)
            .collect();
        let mut ok = format!(
            "In the namespace {namespace}, at the operator's last check: {}.",
            list(&names, workspaces.len())
        );
        if !workspaces.iter().any(|workspace| workspace.name == DEFAULT) {
            ok.push_str(" None is called default: a Run has to name its own.");
        }
        return READY.ok(ok);
    }
    let all = troubled.len();
    troubled.truncate(NAMED);
    let named: Vec<&str> = troubled.iter().map(String::as_str).collect();
    READY.fail(
        format!(
            "Not Ready in the namespace {namespace}: {}.",
            list(&named, all).trim_end_matches('.')
        ),
        "docs/reasons.md lists a remedy for each reason.",
    )
}

fn list(named: &[&str], all: usize) -> String {
    let text = named.join(", ");
    match all.saturating_sub(named.len()) {
        0 => text,
        more => format!("{text} and {more} more"),
    }
}
