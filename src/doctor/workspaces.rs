//! The Workspaces of a namespace, by their status: whether a Run there has one that is Ready.

use std::collections::BTreeSet;
use std::time::Duration;

use k8s_openapi::api::core::v1::Namespace;
use kube::api::{ApiResource, DynamicObject, ListParams};
use kube::{Api, Client, ResourceExt};
use serde_json::Value;

use run_operator::api::conditions::is_true;
use run_operator::api::{ClusterWorkspace, ConditionType, Reason, Workspace, WorkspaceSpec};

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

/// What was seen of the Workspaces that the Runs of a namespace may name.
pub(super) struct Examined {
    pub(super) finding: Finding,
    /// Those that take Runs.
    pub(super) taking: Vec<String>,
    /// The Secrets that those of the namespace name.
    pub(super) secrets: Vec<String>,
    /// The base URLs that they name themselves.
    pub(super) base_urls: Vec<String>,
}

impl Examined {
    fn only(finding: Finding) -> Self {
        Self {
            finding,
            taking: Vec::new(),
            secrets: Vec::new(),
            base_urls: Vec::new(),
        }
    }
}

/// Reads the Workspaces of a namespace. One without a Workspace fails, unless it `may_lack` one. Waits for a Workspace
/// that is still being checked, for 20 s at most.
pub(super) async fn examine(client: &Client, namespace: &str, may_lack: bool) -> Examined {
    let kind = ApiResource::erase::<Workspace>(&());
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &kind);
    let params = ListParams::default().limit(MOST);
    let mut reads = 0;
    loop {
        reads += 1;
        let items = match bounded(api.list(&params)).await {
            Ok(list) => list.items,
            Err(refused) => return Examined::only(unread(refused, namespace)),
        };
        let workspaces: Vec<Seen> = items.iter().map(Seen::of).collect();
        if reads == READS || !workspaces.iter().any(|workspace| workspace.unchecked) {
            let specs: Vec<WorkspaceSpec> = items.iter().filter_map(spec).collect();
            let taking = workspaces.iter().filter(|w| w.trouble.is_none());
            return Examined {
                taking: taking.map(|w| w.name.clone()).collect(),
                secrets: secrets(&specs),
                base_urls: specs.into_iter().filter_map(|spec| spec.base_url).collect(),
                finding: judged(&workspaces, namespace, may_lack),
            };
        }
        tokio::time::sleep(BETWEEN).await;
    }
}

fn spec(workspace: &DynamicObject) -> Option<WorkspaceSpec> {
    serde_json::from_value(workspace.data["spec"].clone()).ok()
}

/// The names of the Secrets that the Workspaces refer to, each once.
fn secrets(specs: &[WorkspaceSpec]) -> Vec<String> {
    let tokens = specs.iter().map(|spec| spec.token_secret().0);
    let bundles = specs.iter().filter_map(|spec| Some(spec.ca_secret()?.0));
    let names: BTreeSet<&str> = tokens.chain(bundles).collect();
    names.into_iter().map(str::to_owned).collect()
}

/// The ClusterWorkspaces that take the Runs of a namespace; none if these credentials may not read them.
pub(super) async fn shared(client: &Client, namespace: &str) -> Vec<String> {
    let workspaces: Api<ClusterWorkspace> = Api::all(client.clone());
    let params = ListParams::default().limit(MOST);
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let (Ok(list), Ok(own)) = (
        bounded(workspaces.list(&params)).await,
        bounded(namespaces.get(namespace)).await,
    ) else {
        return Vec::new();
    };
    let labels = own.metadata.labels.unwrap_or_default();
    let takes = |workspace: &ClusterWorkspace| {
        let status = workspace.status.as_ref();
        let ready = status.is_some_and(|s| is_true(&s.conditions, ConditionType::Ready));
        let open = !workspace.spec.workspace.suspend.unwrap_or_default();
        ready && open && workspace.spec.allows(&labels).unwrap_or_default()
    };
    let taking = list.items.into_iter().filter(takes);
    taking
        .map(|workspace| format!("ClusterWorkspace {}", workspace.name_any()))
        .collect()
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
