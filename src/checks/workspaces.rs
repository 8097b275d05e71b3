//! The Workspaces that the Runs of a namespace may name, by their status: whether they are Ready.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::core::v1::Namespace;
use kube::api::{ApiResource, DynamicObject, ListParams};
use kube::{Api, Client, ResourceExt};
use serde::de::DeserializeOwned;

use crate::api::{
    ClusterWorkspace, ClusterWorkspaceSpec, ConditionType, Reason, Workspace, WorkspaceKey,
    WorkspaceKind, WorkspaceRef, WorkspaceSpec, WorkspaceStatus, conditions, names,
    workspace::{RunLimits, is_default},
};
use crate::decide::choice::{Choice, by_rule};

use super::{Check, Deployed, Finding, NAMED, Refused, SHARED, Verdict, bounded, first, pages};

/// Attempts and interval of the wait for a new Workspace's first check.
const READS: usize = 20;
const BETWEEN: Duration = Duration::from_secs(1);

const REMEDIES: &str = "docs/reasons.md lists a remedy for each reason.";
const ONE_DEFAULT: &str = "A Run without workspaceRef waits: leave the annotation run-operator.dev/is-default on one of them.";
const READY: Check = Check::new("workspaces.ready", "the Workspaces are Ready");

#[derive(Default)]
pub struct Workspaces {
    /// Whether they are Ready; of ClusterWorkspaces only if they are not known or not served.
    pub findings: Vec<Finding>,
    pub taking: Vec<String>,
    pub specs: Vec<WorkspaceSpec>,
    /// Those that limit their active Runs.
    pub limited: Vec<(WorkspaceKey, RunLimits)>,
}

/// Waits for those that are still being checked, 20 s at most. That there is none fails, unless `may_lack`.
pub async fn workspaces(
    client: &Client,
    namespace: &str,
    operator: Option<&Deployed>,
    may_lack: bool,
) -> Workspaces {
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
    let own = seen.iter().any(|w| w.name == names::DEFAULT_WORKSPACE);
    let mut choice = own.then(|| Choice::One(WorkspaceRef::own_default()));
    let shared = if operator.is_none_or(Deployed::serves_cluster_workspaces) {
        Some(shared(client, namespace).await)
    } else {
        None
    };
    match shared {
        None => findings.push(SHARED.ok("The operator serves none (--cluster-workspaces=false).")),
        Some(Ok(mut shared)) => {
            let defaults = shared.iter().filter(|w| w.default);
            choice = Some(of_allowed(own, defaults.map(|w| w.name.as_str())));
            for workspace in &mut shared {
                workspace.name.insert_str(0, "ClusterWorkspace ");
            }
            seen.extend(shared);
        }
        Some(Err(refused)) => {
            let what = "list ClusterWorkspaces, or read the namespace, whose labels decide";
            findings.push(SHARED.unread(&refused, what));
        }
    }
    findings.push(judged(&seen, choice.as_ref(), namespace, may_lack));
    let limited = seen.iter().filter(|w| w.limits != RunLimits::default());
    let limited = limited.map(|w| (w.key.clone(), w.limits)).collect();
    let ready = seen.into_iter().filter(|w| w.trouble.is_none());
    Workspaces {
        findings,
        taking: ready.map(|workspace| workspace.name).collect(),
        specs,
        limited,
    }
}

/// The Workspace that a Run uses in this namespace which names none and is not submitted yet.
pub async fn chosen(client: &Client, namespace: &str) -> Result<Choice, Refused> {
    let kind = ApiResource::erase::<Workspace>(&());
    let own: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &kind);
    match bounded(own.get_metadata_opt(names::DEFAULT_WORKSPACE)).await {
        Ok(None) => {}
        Ok(Some(_)) => return Ok(Choice::One(WorkspaceRef::own_default())),
        // It is the one to name.
        Err(refused) if refused.code() == Some(403) => {
            return Ok(Choice::One(WorkspaceRef::own_default()));
        }
        Err(refused) => return Err(refused),
    }
    let kind = ApiResource::erase::<ClusterWorkspace>(&());
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &kind);
    let mut defaults = pages(&api, ListParams::default()).await?;
    defaults.retain(is_default);
    if !defaults.is_empty() {
        let labels = labels(client, namespace).await?;
        defaults.retain(|workspace| allows(workspace, &labels));
    }
    let names = defaults.iter().filter_map(|w| w.metadata.name.as_deref());
    Ok(of_allowed(false, names))
}

/// The rule, by the names of the default ClusterWorkspaces that allow the namespace.
fn of_allowed<'a>(own: bool, defaults: impl Iterator<Item = &'a str>) -> Choice {
    by_rule(own, Some(defaults.map(|name| (name, Some(true)))))
}

async fn labels(client: &Client, namespace: &str) -> Result<BTreeMap<String, String>, Refused> {
    let own = bounded(Api::<Namespace>::all(client.clone()).get(namespace)).await?;
    Ok(own.metadata.labels.unwrap_or_default())
}

/// One that this version can't read may allow the namespace, as for the operator.
fn allows(workspace: &DynamicObject, labels: &BTreeMap<String, String>) -> bool {
    let spec: Option<ClusterWorkspaceSpec> = part(workspace, "spec");
    spec.is_none_or(|spec| spec.allows(labels).unwrap_or_default())
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
    let labels = labels(client, namespace).await?;
    checked(&api, |workspace| allows(workspace, &labels)).await
}

/// A Workspace of either kind. One that this version can't read is still one.
struct State {
    key: WorkspaceKey,
    /// As it is shown.
    name: String,
    trouble: Option<String>,
    spec: Option<WorkspaceSpec>,
    limits: RunLimits,
    /// The operator has not written its result yet.
    unchecked: bool,
    /// It is annotated as the default.
    default: bool,
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
    // It has the fields of both kinds.
    let spec: Option<ClusterWorkspaceSpec> = part(object, "spec");
    let ready = conditions::find(&status.conditions, ConditionType::Ready);
    let current = status.observed_generation == object.metadata.generation;
    let suspend = spec.as_ref().and_then(|spec| spec.workspace.suspend);
    let suspended = suspend == Some(true);
    let trouble = match ready {
        None => Some("no operator has checked it".to_owned()),
        Some(_) if !current => Some("no operator has checked its latest spec".to_owned()),
        Some(_) if suspended => Some("spec.suspend blocks new Runs".to_owned()),
        Some(ready) if ready.status == "True" => None,
        Some(ready) => Some(format!("{}: {}", ready.reason, ready.message)),
    };
    let checking = ready.is_some_and(|c| c.reason == Reason::Checking.as_str());
    let namespace = object.namespace();
    let kind = match namespace {
        Some(_) => WorkspaceKind::Workspace,
        None => WorkspaceKind::ClusterWorkspace,
    };
    State {
        key: WorkspaceKey {
            kind,
            namespace: namespace.unwrap_or_default(),
            name: object.name_any(),
        },
        name: object.name_any(),
        trouble,
        unchecked: ready.is_none() || !current || checking,
        default: is_default(object),
        limits: spec
            .as_ref()
            .map(ClusterWorkspaceSpec::limits)
            .unwrap_or_default(),
        spec: spec.map(|spec| spec.workspace),
    }
}

fn judged(seen: &[State], choice: Option<&Choice>, namespace: &str, may_lack: bool) -> Finding {
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
        let troubled = first(NAMED, &troubled);
        let why = format!("Not Ready in the namespace {namespace}: {troubled}.");
        return READY.fail(why, REMEDIES);
    }
    let mut ok = format!(
        "In the namespace {namespace}, at the operator's last check: {}.",
        first(NAMED, seen.iter().map(|w| &w.name))
    );
    match choice {
        Some(Choice::Several(names)) => {
            let names = first(NAMED, names);
            let why = format!("Several ClusterWorkspaces are the default of {namespace}: {names}.");
            return READY.finding(Verdict::Warn, why, Some(ONE_DEFAULT));
        }
        Some(Choice::One(reference)) if reference.kind() == WorkspaceKind::ClusterWorkspace => {
            let uses = format!(
                " A Run without workspaceRef uses ClusterWorkspace {}.",
                reference.name
            );
            ok.push_str(&uses);
        }
        Some(Choice::None) => ok.push_str(" None is the default: a Run has to name its own."),
        Some(Choice::One(_) | Choice::Unknown) | None => {}
    }
    READY.ok(ok)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Proves: P-default-workspace
    #[test]
    fn a_namespace_may_use_what_selects_it_and_perhaps_what_cannot_be_read() {
        let kind = ApiResource::erase::<ClusterWorkspace>(&());
        for (selector, allowed) in [
            (json!(null), false),
            (json!({}), true),
            (json!("all"), true),
        ] {
            let spec = json!({"spec": {"namespaceSelector": selector}});
            let workspace = DynamicObject::new("shared", &kind).data(spec);
            assert_eq!(allows(&workspace, &BTreeMap::new()), allowed, "{selector}");
        }
    }
}
