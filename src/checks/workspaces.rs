//! The Workspaces that the Runs of a namespace may name, by their status: whether they are Ready.

use std::time::Duration;

use k8s_openapi::api::core::v1::Namespace;
use kube::api::{ApiResource, DynamicObject, ListParams};
use kube::{Api, Client, ResourceExt};
use serde::de::DeserializeOwned;

use crate::api::{
    ClusterWorkspace, ClusterWorkspaceSpec, ConditionType, Reason, Workspace, WorkspaceSpec,
    WorkspaceStatus, conditions,
};

use super::{Check, Finding, Refused, bounded, first_five, pages};

/// The Workspace of a Run that names none.
const DEFAULT: &str = "default";
/// Attempts and interval of the wait for a new Workspace's first check.
const READS: usize = 20;
const BETWEEN: Duration = Duration::from_secs(1);

const REMEDIES: &str = "docs/reasons.md lists a remedy for each reason.";
const READY: Check = Check::new("workspaces.ready", "the Workspaces are Ready");
const SHARED: Check = Check::new("workspaces.shared", "the ClusterWorkspaces are known");

#[derive(Default)]
pub struct Workspaces {
    /// Whether they are Ready; of ClusterWorkspaces only if they are not known.
    pub findings: Vec<Finding>,
    pub taking: Vec<String>,
    pub specs: Vec<WorkspaceSpec>,
}

/// Waits for those that are still being checked, 20 s at most. That there is none fails, unless `may_lack`.
pub async fn workspaces(client: &Client, namespace: &str, may_lack: bool) -> Workspaces {
    let kind = ApiResource::erase::<Workspace>(&());
    let api = Api::namespaced_with(client.clone(), namespace, &kind);
    let mut seen = match checked(&api, |_| true).await {
        Ok(own) => own,
        Err(refused) => {
            let what = format!("list the Workspaces of {namespace}");
            return Workspaces {
                findings: vec![READY.unread(&refused, &what)],
                ..Workspaces::default()
            };
        }
    };
    let specs: Vec<WorkspaceSpec> = seen.iter().filter_map(|w| w.spec.clone()).collect();
    let mut findings = Vec::new();
    match shared(client, namespace).await {
        Ok(shared) => seen.extend(shared),
        Err(refused) => {
            let what = "list ClusterWorkspaces, or read the namespace, whose labels decide";
            findings.push(SHARED.unread(&refused, what));
        }
    }
    findings.push(judged(&seen, namespace, may_lack));
    let ready = seen.into_iter().filter(|w| w.trouble.is_none());
    Workspaces {
        findings,
        taking: ready.map(|workspace| workspace.name).collect(),
        specs,
    }
}

/// The ClusterWorkspaces whose selector allows the namespace.
async fn shared(client: &Client, namespace: &str) -> Result<Vec<State>, Refused> {
    let kind = ApiResource::erase::<ClusterWorkspace>(&());
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &kind);
    // Without one there is no need to know the namespace's labels.
    let any = bounded(api.list(&ListParams::default().limit(1))).await?;
    if any.items.is_empty() {
        return Ok(Vec::new());
    }
    let own = bounded(Api::<Namespace>::all(client.clone()).get(namespace)).await?;
    let labels = own.metadata.labels.unwrap_or_default();
    let allows = |workspace: &DynamicObject| {
        let spec: Option<ClusterWorkspaceSpec> = part(workspace, "spec");
        spec.is_some_and(|spec| spec.allows(&labels).unwrap_or_default())
    };
    let mut shared = checked(&api, allows).await?;
    for workspace in &mut shared {
        workspace.name.insert_str(0, "ClusterWorkspace ");
    }
    Ok(shared)
}

/// A Workspace of either kind. One that this version can't read is still one.
struct State {
    name: String,
    trouble: Option<String>,
    spec: Option<WorkspaceSpec>,
    /// The operator has not written its result yet.
    unchecked: bool,
}

async fn checked(
    api: &Api<DynamicObject>,
    keep: impl Fn(&DynamicObject) -> bool,
) -> Result<Vec<State>, Refused> {
    let mut reads = 0;
    loop {
        reads += 1;
        let all = pages(api, ListParams::default()).await?;
        let kept: Vec<State> = all.iter().filter(|w| keep(w)).map(state).collect();
        if reads == READS || !kept.iter().any(|workspace| workspace.unchecked) {
            return Ok(kept);
        }
        tokio::time::sleep(BETWEEN).await;
    }
}

fn part<T: DeserializeOwned>(object: &DynamicObject, field: &str) -> Option<T> {
    serde_json::from_value(object.data[field].clone()).ok()
}

fn state(object: &DynamicObject) -> State {
    let status: WorkspaceStatus = part(object, "status").unwrap_or_default();
    let spec: Option<WorkspaceSpec> = part(object, "spec");
    let ready = conditions::find(&status.conditions, ConditionType::Ready);
    let current = status.observed_generation == object.metadata.generation;
    let suspended = spec.as_ref().is_some_and(|spec| spec.suspend == Some(true));
    let trouble = match ready {
        None => Some("no operator has checked it".to_owned()),
        Some(_) if !current => Some("no operator has checked its latest spec".to_owned()),
        Some(_) if suspended => Some("spec.suspend blocks new Runs".to_owned()),
        Some(ready) if ready.status == "True" => None,
        Some(ready) => Some(format!("{}: {}", ready.reason, ready.message)),
    };
    let checking = ready.is_some_and(|c| c.reason == Reason::Checking.as_str());
    State {
        name: object.name_any(),
        trouble,
        unchecked: ready.is_none() || !current || checking,
        spec,
    }
}

fn judged(seen: &[State], namespace: &str, may_lack: bool) -> Finding {
    if seen.is_empty() && may_lack {
        return READY.not_tried(&format!("there is none in the namespace {namespace} yet"));
    }
    if seen.is_empty() {
        let none = "There is none in the namespace";
        return READY.fail(
            format!("{none} {namespace}: a Run without workspaceRef waits."),
            "Create one, or name another namespace with --namespace.",
        );
    }
    let troubled = seen.iter().filter_map(|workspace| {
        let trouble = workspace.trouble.as_ref()?.trim_end_matches('.');
        Some(format!("{}: {trouble}", workspace.name))
    });
    let troubled: Vec<String> = troubled.collect();
    if !troubled.is_empty() {
        let troubled = first_five(&troubled);
        let why = format!("Not Ready in the namespace {namespace}: {troubled}.");
        return READY.fail(why, REMEDIES);
    }
    let names: Vec<String> = seen.iter().map(|w| w.name.clone()).collect();
    let mut ok = format!(
        "In the namespace {namespace}, at the operator's last check: {}.",
        first_five(&names)
    );
    if !names.iter().any(|name| name == DEFAULT) {
        ok.push_str(" None is called default: a Run has to name its own.");
    }
    READY.ok(ok)
}
