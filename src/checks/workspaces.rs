//! The Workspaces of a namespace, by their status: whether a Run there has one that is Ready.

use std::collections::BTreeSet;
use std::time::Duration;

use kube::api::{ApiResource, DynamicObject, ListParams};
use kube::{Api, Client, ResourceExt};
use serde_json::Value;

use run_operator::api::{ConditionType, Reason, Workspace, WorkspaceSpec};

use super::ask::{CHECK_ACCESS, Refused, bounded};
use crate::contract_tool::statements::{Finding, Statement};

/// Limit of the list from the API server.
const MOST: u32 = 500;
/// Number of Workspaces that are named.
const NAMED: usize = 5;
/// The Workspace of a Run that names none.
const DEFAULT: &str = "default";
/// Attempts and interval of the wait for a new Workspace's first check.
const READS: usize = 20;
const BETWEEN: Duration = Duration::from_secs(1);

pub(super) const REMEDIES: &str = "docs/reasons.md lists a remedy for each reason.";

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
    let workspaces = match checked(&api, |_| true).await {
        Ok(workspaces) => workspaces,
        Err(refused) => return Examined::only(unread(refused, namespace)),
    };
    let specs: Vec<WorkspaceSpec> = workspaces.iter().filter_map(|w| w.spec.clone()).collect();
    let taking = workspaces.iter().filter(|w| w.trouble.is_none());
    Examined {
        taking: taking.map(|w| w.name.clone()).collect(),
        secrets: secrets(&specs),
        base_urls: specs.into_iter().filter_map(|spec| spec.base_url).collect(),
        finding: judged(&workspaces, namespace, may_lack),
    }
}

/// Lists what is to be kept of these Workspaces, until the operator has checked each; for 20 s at most.
pub(super) async fn checked(
    api: &Api<DynamicObject>,
    keep: impl Fn(&DynamicObject) -> bool,
) -> Result<Vec<Seen>, Refused> {
    let params = ListParams::default().limit(MOST);
    let mut reads = 0;
    loop {
        reads += 1;
        let list = bounded(api.list(&params)).await?.items;
        let kept: Vec<Seen> = list.iter().filter(|w| keep(w)).map(Seen::of).collect();
        if reads == READS || !kept.iter().any(|workspace| workspace.unchecked) {
            return Ok(kept);
        }
        tokio::time::sleep(BETWEEN).await;
    }
}

/// The names of the Secrets that the Workspaces refer to, each once.
fn secrets(specs: &[WorkspaceSpec]) -> Vec<String> {
    let tokens = specs.iter().map(|spec| spec.token_secret().0);
    let bundles = specs.iter().filter_map(|spec| Some(spec.ca_secret()?.0));
    let names: BTreeSet<&str> = tokens.chain(bundles).collect();
    names.into_iter().map(str::to_owned).collect()
}

/// A Workspace, and the reason why it is not Ready.
pub(super) struct Seen {
    pub(super) name: String,
    pub(super) trouble: Option<String>,
    spec: Option<WorkspaceSpec>,
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
            spec: serde_json::from_value(data["spec"].clone()).ok(),
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
        let todo = "Create one, or name another namespace with --namespace.";
        return READY.fail(none, todo);
    }
    if let Some(troubles) = troubles(workspaces) {
        let why = format!("Not Ready in the namespace {namespace}: {troubles}.");
        return READY.fail(why, REMEDIES);
    }
    let mut ok = format!(
        "In the namespace {namespace}, at the operator's last check: {}.",
        names(workspaces)
    );
    if !workspaces.iter().any(|workspace| workspace.name == DEFAULT) {
        ok.push_str(" None is called default: a Run has to name its own.");
    }
    READY.ok(ok)
}

/// The Workspaces that are not Ready, and why; none if all are.
pub(super) fn troubles(workspaces: &[Seen]) -> Option<String> {
    let troubled = workspaces.iter().filter_map(|workspace| {
        let trouble = workspace.trouble.as_ref()?;
        Some(format!("{}: {trouble}", workspace.name))
    });
    let troubled: Vec<String> = troubled.collect();
    let named = list(&troubled);
    (!troubled.is_empty()).then(|| named.trim_end_matches('.').to_owned())
}

/// The names of Workspaces.
pub(super) fn names(workspaces: &[Seen]) -> String {
    let names: Vec<String> = workspaces.iter().map(|w| w.name.clone()).collect();
    list(&names)
}

/// The first of them, and how many more there are.
fn list(all: &[String]) -> String {
    let text = all[..all.len().min(NAMED)].join(", ");
    match all.len().saturating_sub(NAMED) {
        0 => text,
        more => format!("{text} and {more} more"),
    }
}
