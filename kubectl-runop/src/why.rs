//! `why`: from a Run to its Workspace, to the Secret, to what is to be done.

mod schedules;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Event, Secret};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::Api;
use kube::api::ListParams;
use kube::core::PartialObjectMeta;
use serde::Serialize;
use serde_json::json;

use run_operator::api::AnyWorkspace;
use run_operator::api::status::LastError;
use run_operator::api::{
    ClusterWorkspace, ConditionType, EventReason, Reason, Workspace, WorkspaceKind, WorkspaceRef,
    WorkspaceSpec, WorkspaceStatus, conditions,
};
use run_operator::checks::{Refused, bounded, chosen};
use run_operator::clock::wall;
use run_operator::decide::choice::{self, Choice};

use crate::args::{Subject, WhyArgs};
use crate::cluster::Cluster;
use crate::details;
use crate::error::{End, ToolError};
use crate::explain::{between, retry_is_pointless, summary};
use crate::print;
use crate::queue;
use crate::remedy;
use crate::run::Run;

const UNSEEN: &str =
    "If it stays so, no operator serves this namespace: kubectl runop doctor finds out why.";

const UNCONFIRMED: &str = "Wait, and create no new Run yet: if three reads, a minute apart, say that the service has no such \
    run, this one ends as Failed.";

const OF_ANOTHER: &str =
    "Ask that controller. For run-operator create a new Run without spec.managedBy.";

/// Why a Run is where it is.
#[derive(Debug, Serialize)]
struct Explanation {
    /// The state, and since when.
    summary: String,
    /// The schedule and the template that the Run is from.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    origins: Vec<String>,
    /// What the service says of the run beside its state.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    details: Vec<String>,
    /// The causes, each that of the one before it.
    causes: Vec<Cause>,
    /// What to do; none if nothing is to be done.
    #[serde(skip_serializing_if = "Option::is_none")]
    remedy: Option<String>,
    /// Whether a retry submits once more.
    retry: bool,
}

/// A link of the chain.
#[derive(Debug, Serialize)]
struct Cause {
    /// The object's kind and name; none for what the service or the operator said.
    #[serde(skip_serializing_if = "Option::is_none")]
    object: Option<String>,
    /// The reason of its condition.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    /// A sentence for a person.
    message: String,
}

impl Cause {
    fn new(object: Option<String>, message: impl Into<String>) -> Self {
        Self {
            object,
            reason: None,
            message: message.into(),
        }
    }

    fn line(&self) -> String {
        let parts = [self.object.as_deref(), self.reason.as_deref()];
        let parts = parts.into_iter().flatten().chain([self.message.as_str()]);
        parts.collect::<Vec<_>>().join(": ")
    }
}

/// The Workspace to which a Run's state may be due.
struct WorkspaceSeen {
    reference: WorkspaceRef,
    workspace: Result<(WorkspaceSpec, Option<WorkspaceStatus>), Refused>,
    secret: Option<SecretSeen>,
}

/// The Secret to which the Workspace's state may be due.
struct SecretSeen {
    name: String,
    key: String,
    /// When it was last changed, as far as its metadata says; none for one in the operator's namespace.
    changed: Option<Result<Option<Timestamp>, Refused>>,
}

pub(crate) async fn run(cluster: &Cluster, args: &WhyArgs) -> Result<End, ToolError> {
    let name = match &args.subject {
        Subject::Run(name) => name,
        Subject::Schedule(name) => return schedules::run(cluster, name, args.output).await,
    };
    let run = cluster.run(name).await?;
    let behind = match workspace_to_read(cluster, &run).await {
        Some(reference) => Some(behind(cluster, reference).await),
        None => None,
    };
    let refused = status_refused(cluster, &run).await;
    let mut explanation = explain(&run, behind.as_ref(), refused, wall());
    if let Some(key) = queue::waits_at(&run) {
        let object = Some(format!("{} {}", key.kind, key.name));
        let told = queue::told(cluster, &run, &key).await.into_iter();
        let causes = told.map(|sentence| Cause::new(object.clone(), sentence));
        explanation.causes.extend(causes);
    }
    let mut document = json!(explanation);
    document["name"] = run.name().into();
    document["namespace"] = run.namespace().into();
    document["uid"] = run.uid().into();
    let text = || text(cluster, &run, &explanation);
    print::report(args.output, text, &document)?;
    Ok(End::Succeeded)
}

/// The Event that tells that the API server refuses the Run's status, unless the status was written since. Nothing if Events
/// can't be read.
async fn status_refused(cluster: &Cluster, run: &Run) -> Option<Event> {
    let api: Api<Event> = Api::namespaced(cluster.client.clone(), &cluster.namespace);
    let (uid, reason) = (run.uid(), EventReason::WriteRefused);
    let fields = format!("involvedObject.uid={uid},reason={reason}");
    let events = bounded(api.list(&ListParams::default().fields(&fields))).await;
    let latest = events.ok()?.items.into_iter().max_by_key(published)?;
    let written = run.metadata.managed_fields.iter().flatten();
    let written = written.filter(|entry| entry.subresource.as_deref() == Some("status"));
    let written = written.filter_map(|entry| entry.time.as_ref()).max();
    (published(&latest).as_ref() > written).then_some(latest)
}

fn published(event: &Event) -> Option<Time> {
    event.last_timestamp.clone()
}

/// The Workspace to look at, if the Run's state may be due to it. Where the rule gives none, or what it needs can't be
/// read, the Run says what it waits for.
async fn workspace_to_read(cluster: &Cluster, run: &Run) -> Option<WorkspaceRef> {
    let spec = run.spec.as_ref()?;
    if !is_due_to_workspace(run) {
        return None;
    }
    let bound = choice::bound(spec, run.status.as_ref(), || run.intent());
    if bound.is_some() {
        return bound;
    }
    match chosen(&cluster.client, run.namespace()).await {
        Ok(Choice::One(reference)) => Some(reference),
        Ok(Choice::Several(_) | Choice::None | Choice::Unknown) | Err(_) => None,
    }
}

fn is_due_to_workspace(run: &Run) -> bool {
    let is_of_workspace = run.reason().is_some_and(|reason| match reason {
        Reason::WorkspaceNotFound
        | Reason::WorkspaceNotReady
        | Reason::WorkspaceDeleting
        | Reason::WorkspaceSuspended
        | Reason::WorkspaceInvalid
        | Reason::WorkspaceChanged
        | Reason::NamespaceNotAllowed
        | Reason::ServiceUnavailable => true,
        reason => is_of_secret(reason),
    });
    is_of_workspace && !run.ended()
}

/// Name and key of the Secret to look at, if the Workspace's state may be due to it.
fn secret_to_read<'a>(
    spec: &'a WorkspaceSpec,
    status: Option<&WorkspaceStatus>,
) -> Option<(&'a str, &'a str)> {
    match Reason::named(&condition(status)?.reason)? {
        Reason::CAInvalid => spec.ca_secret(),
        reason => is_of_secret(reason).then(|| spec.token_secret()),
    }
}

/// Reasons of a Workspace that are about the token in its Secret.
fn is_of_secret(reason: Reason) -> bool {
    matches!(
        reason,
        Reason::Unauthorized
            | Reason::SecretNotFound
            | Reason::SecretKeyNotFound
            | Reason::SecretForbidden
            | Reason::TokenMalformed
            | Reason::TokenIsProviderKey
            | Reason::WorkspaceMismatch
            | Reason::IdentityChanged
    )
}

/// The condition of a Workspace to show first: Stalled=True, else Ready.
fn condition(status: Option<&WorkspaceStatus>) -> Option<&Condition> {
    let found = &status?.conditions;
    let stalled = conditions::find(found, ConditionType::Stalled).filter(|c| c.status == "True");
    stalled.or_else(|| conditions::find(found, ConditionType::Ready))
}

async fn behind(cluster: &Cluster, reference: WorkspaceRef) -> WorkspaceSeen {
    let workspace = match reference.kind() {
        WorkspaceKind::Workspace => {
            let api = Api::namespaced(cluster.client.clone(), &cluster.namespace);
            read::<Workspace>(&api, &reference.name).await
        }
        WorkspaceKind::ClusterWorkspace => {
            let api = Api::all(cluster.client.clone());
            read::<ClusterWorkspace>(&api, &reference.name).await
        }
    };
    let mut secret = None;
    if let Ok((spec, status)) = &workspace
        && let Some((name, key)) = secret_to_read(spec, status.as_ref())
    {
        secret = Some(SecretSeen {
            name: name.to_owned(),
            key: key.to_owned(),
            changed: match reference.kind() {
                WorkspaceKind::Workspace => Some(changed(cluster, name).await),
                WorkspaceKind::ClusterWorkspace => None,
            },
        });
    }
    WorkspaceSeen {
        reference,
        workspace,
        secret,
    }
}

async fn read<K>(
    api: &Api<K>,
    name: &str,
) -> Result<(WorkspaceSpec, Option<WorkspaceStatus>), Refused>
where
    K: AnyWorkspace + Clone + std::fmt::Debug + serde::de::DeserializeOwned,
{
    let workspace = bounded(api.get(name)).await?;
    Ok((workspace.common().clone(), workspace.stored().cloned()))
}

/// Reads the metadata only: the API server sends no more.
async fn changed(cluster: &Cluster, secret: &str) -> Result<Option<Timestamp>, Refused> {
    let api: Api<PartialObjectMeta<Secret>> =
        Api::namespaced(cluster.client.clone(), &cluster.namespace);
    let meta = bounded(api.get(secret)).await?.metadata;
    let writes = meta.managed_fields.into_iter().flatten();
    let writes = writes.filter_map(|entry| entry.time);
    let changes = writes.chain(meta.creation_timestamp).map(|time| time.0);
    Ok(changes.max())
}

/// What is said of an object that was not read.
fn unread(refused: &Refused) -> String {
    match refused.code() {
        Some(404) => "it doesn't exist".to_owned(),
        Some(401 | 403) => "you may not read it".to_owned(),
        _ => format!("it could not be read ({})", refused.why()),
    }
}

/// The chain from the Run to the cause, and the remedy.
fn explain(
    run: &Run,
    behind: Option<&WorkspaceSeen>,
    refused: Option<Event>,
    now: Timestamp,
) -> Explanation {
    if let Some(manager) = run.manager() {
        let message = format!(
            "Its spec.managedBy is {manager}: that controller runs it, and run-operator does nothing with it."
        );
        return Explanation {
            summary: summary(run, now),
            origins: schedules::origins(&run.metadata),
            details: Vec::new(),
            causes: vec![Cause::new(None, message)],
            remedy: Some(OF_ANOTHER.to_owned()),
            retry: false,
        };
    }
    let mut causes: Vec<Cause> = Vec::new();
    causes.extend(run.unreadable.as_ref().map(|why| Cause::new(None, why)));
    let mut reason = run.reason();
    if let Some(behind) = behind {
        let (cause, of_workspace) = cause_of_workspace(run, behind);
        reason = of_workspace.or(reason);
        causes.push(cause);
        causes.extend(behind.secret.as_ref().map(|secret| {
            let state = match &secret.changed {
                Some(Ok(Some(at))) => format!("changed {} ago", between(*at, now)),
                Some(Ok(None)) => "it exists".to_owned(),
                Some(Err(refused)) => unread(refused),
                None => "in the operator's namespace".to_owned(),
            };
            let object = Some(format!("Secret {}", secret.name));
            Cause::new(object, format!("key {}, {state}", secret.key))
        }));
    } else {
        causes.extend(causes_of_run(run, now));
    }
    let unwritten = refused.map(|event| Cause {
        object: None,
        reason: event.reason,
        message: event.message.unwrap_or_default(),
    });
    let is_unwritten = unwritten.is_some();
    causes.extend(unwritten);
    Explanation {
        summary: summary(run, now),
        origins: schedules::origins(&run.metadata),
        details: details::lines(run, now),
        causes,
        remedy: match run.phase() {
            _ if is_unwritten => remedy::plain(Reason::WriteRefused),
            None => Some(UNSEEN.to_owned()),
            // F-404: until it is confirmed a new Run might be a second run.
            Some(_) if reason == Some(Reason::RunNotFound) && !run.ended() => {
                Some(UNCONFIRMED.to_owned())
            }
            Some(_) => reason.and_then(remedy::plain),
        },
        retry: retry_is_pointless(run).is_none(),
    }
}

/// What the Workspace says, and the reason to mend. What the Run says stands for a Workspace that can't be read.
fn cause_of_workspace(run: &Run, behind: &WorkspaceSeen) -> (Cause, Option<Reason>) {
    let WorkspaceSeen { reference, .. } = behind;
    let object = Some(format!("{} {}", reference.kind(), reference.name));
    let told = run.condition().map_or("", |c| c.message.as_str());
    let status = match &behind.workspace {
        Ok((_, status)) => status.as_ref(),
        Err(refused) if refused.code() == Some(404) => {
            let cause = Cause::new(object, unread(refused));
            return (cause, Some(Reason::WorkspaceNotFound));
        }
        Err(refused) => {
            let message = format!("{}; the Run says: {told}", unread(refused));
            return (Cause::new(object, message), None);
        }
    };
    match condition(status) {
        None => (Cause::new(object, "no operator has checked it yet"), None),
        // It is not what it was when the Run was written, or the cause is not in it.
        Some(c) if c.status == "True" && c.type_ == ConditionType::Ready.as_str() => {
            let message = format!("it is Ready; the Run says: {told}");
            (Cause::new(object, message), None)
        }
        Some(condition) => {
            let mut message = condition.message.clone();
            let error = status.and_then(|status| status.last_error.as_ref());
            if let Some(id) = error.and_then(|error| error.request_id.as_deref())
                && !message.contains(id)
            {
                message = format!("{} (request {id})", message.trim_end_matches('.'));
            }
            let cause = Cause {
                object,
                reason: Some(condition.reason.clone()),
                message,
            };
            (cause, Reason::named(&condition.reason))
        }
    }
}

/// What the Run itself says: the condition's message, the latest error, and for a failed one its last event.
fn causes_of_run(run: &Run, now: Timestamp) -> Vec<Cause> {
    let Some(status) = &run.status else {
        return Vec::new();
    };
    let message = run.condition().map(|condition| condition.message.clone());
    let mut said: Vec<String> = message.into_iter().filter(|m| !m.is_empty()).collect();
    if let Some(error) = &status.last_error {
        said.push(error_line(error, now));
    }
    if run.is(ConditionType::Failed)
        && let Some(event) = status.events.last()
    {
        let ago = between(event.time.0, now);
        let data = event.data.as_deref().unwrap_or_default();
        let line = format!("last event, {ago} ago: {} {data}", event.kind);
        said.push(line.trim_end().to_owned());
    }
    let said = said.into_iter();
    said.map(|message| Cause::new(None, message)).collect()
}

fn error_line(error: &LastError, now: Timestamp) -> String {
    let message = error.message.trim_end_matches('.');
    let id = error.request_id.as_deref();
    let next = error.next_attempt_time.as_ref();
    let parts = [
        Some(format!("{}: {message}", error.code)),
        error.http_status.map(|status| format!("HTTP {status}")),
        (error.attempts > 1).then(|| format!("{} attempts", error.attempts)),
        id.filter(|id| !message.contains(*id))
            .map(|id| format!("request {id}")),
        next.map(|at| format!("next attempt in {}", between(now, at.0))),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

fn text(cluster: &Cluster, run: &Run, explanation: &Explanation) -> String {
    let mut lines = vec![explanation.summary.clone()];
    lines.extend(explanation.origins.iter().cloned());
    lines.extend(explanation.details.iter().cloned());
    let causes = explanation.causes.iter().enumerate();
    lines.extend(causes.map(|(depth, cause)| format!("{}└ {}", "  ".repeat(depth), cause.line())));
    lines.push(match &explanation.remedy {
        Some(remedy) => format!("To mend it: {remedy}"),
        None => "Nothing needs to be done.".to_owned(),
    });
    if explanation.retry {
        let again = cluster.command(&format!("retry {}", run.name()));
        lines.push(format!("To retry: {again}"));
    }
    print::lines(&lines)
}

#[cfg(test)]
mod tests;
