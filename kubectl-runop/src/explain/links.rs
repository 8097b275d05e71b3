//! The links of the chain, and what each says.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use serde::Serialize;

use crate::api::{
    ConditionType, Phase, Reason, WorkspaceKind, WorkspaceRef, conditions, status::LastError,
};

use super::duration;
use super::looks::{Look, SecretLook, SecretName, WorkspaceLook};
use super::stored::Stored;

/// A link of the chain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Cause {
    /// The object's kind and name; none for what the service or the operator said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub object: Option<String>,
    /// The reason of its condition.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// A sentence for a person.
    pub message: String,
}

impl Cause {
    fn said(message: String) -> Self {
        Self {
            object: None,
            reason: None,
            message,
        }
    }

    /// The link in one line.
    pub fn line(&self) -> String {
        let parts = [self.object.as_deref(), self.reason.as_deref()];
        let parts = parts.into_iter().flatten().chain([self.message.as_str()]);
        parts.collect::<Vec<_>>().join(": ")
    }
}

pub(super) fn telling(workspace: &WorkspaceLook) -> Option<&Condition> {
    let found = &workspace.status.as_ref()?.conditions;
    conditions::find(found, ConditionType::Stalled)
        .filter(|c| c.status == "True")
        .or_else(|| conditions::find(found, ConditionType::Ready))
}

/// What the Workspace says, and the reason to mend. What the Run says stands for a Workspace that can't be read.
pub(super) fn of_workspace(
    run: Stored<'_>,
    reference: &WorkspaceRef,
    look: &Look<WorkspaceLook>,
) -> (Cause, Option<Reason>) {
    let object = Some(format!("{} {}", reference.kind(), reference.name));
    let said = |message: String| Cause {
        object: object.clone(),
        reason: None,
        message,
    };
    let told = run.telling().map_or("", |c| c.message.as_str());
    let instead = |what: &str| {
        (
            said(format!("{what}; the Run says: {told}")),
            named_in(told),
        )
    };
    match look {
        Look::Missing => (
            said("it doesn't exist".to_owned()),
            Some(Reason::WorkspaceNotFound),
        ),
        Look::NotNeeded => (Cause::said(told.to_owned()), None),
        Look::NotAllowed => instead("you may not read it"),
        Look::Failed(why) => instead(&format!("it could not be read ({why})")),
        Look::Found(workspace) => match telling(workspace) {
            None => (said("no operator has checked it yet".to_owned()), None),
            // It is not what it was when the Run was written, or the cause is not in it.
            Some(c) if c.status == "True" && c.type_ == ConditionType::Ready.as_str() => {
                (said(format!("it is Ready; the Run says: {told}")), None)
            }
            Some(condition) => {
                let error = workspace
                    .status
                    .as_ref()
                    .and_then(|s| s.last_error.as_ref());
                let cause = Cause {
                    object,
                    reason: Some(condition.reason.clone()),
                    message: with_request(&condition.message, error),
                };
                (cause, Reason::named(&condition.reason))
            }
        },
    }
}

/// The reason that a message names in parentheses.
fn named_in(message: &str) -> Option<Reason> {
    let words = message.split('(').skip(1);
    words
        .filter_map(|rest| rest.split_once(')'))
        .find_map(|(word, _)| Reason::named(word))
}

/// A message with the id of the request that it is about.
fn with_request(message: &str, error: Option<&LastError>) -> String {
    match error.and_then(|error| error.request_id.as_deref()) {
        Some(id) if !message.contains(id) => {
            format!("{} (request {id})", message.trim_end_matches('.'))
        }
        _ => message.to_owned(),
    }
}

pub(super) fn of_secret(
    secret: &SecretName,
    kind: WorkspaceKind,
    look: &Look<SecretLook>,
    now: Timestamp,
) -> Cause {
    let place = match kind {
        WorkspaceKind::Workspace => "",
        WorkspaceKind::ClusterWorkspace => " in the operator's namespace",
    };
    let state = match look {
        Look::Found(SecretLook { changed: Some(at) }) => {
            format!("changed {} ago", duration::between(*at, now))
        }
        Look::Found(SecretLook { changed: None }) => "it exists".to_owned(),
        Look::Missing => "it doesn't exist".to_owned(),
        Look::NotAllowed => "you may not read it".to_owned(),
        Look::Failed(why) => format!("it could not be read ({why})"),
        Look::NotNeeded => "not looked at".to_owned(),
    };
    Cause {
        object: Some(format!("Secret {}{place}", secret.name)),
        reason: None,
        message: format!("key {}, {state}", secret.key),
    }
}

/// What the Run itself says: the condition's message, the latest error, and for a failed one its last event.
pub(super) fn of_run(run: Stored<'_>, now: Timestamp) -> Vec<Cause> {
    let Some(status) = run.status else {
        return Vec::new();
    };
    let condition = run.telling().filter(|c| !c.message.is_empty());
    let mut said: Vec<String> = condition.map(|c| c.message.clone()).into_iter().collect();
    if let Some(error) = &status.last_error {
        said.push(error_line(error, now));
    }
    if run.phase() == Some(Phase::Failed)
        && let Some(event) = status.events.last()
    {
        let data = event
            .data
            .as_deref()
            .map_or(String::new(), |d| format!(" {d}"));
        let ago = duration::between(event.time.0, now);
        said.push(format!("last event, {ago} ago: {}{data}", event.kind));
    }
    said.into_iter().map(Cause::said).collect()
}

fn error_line(error: &LastError, now: Timestamp) -> String {
    let message = error.message.trim_end_matches('.');
    let id = error.request_id.as_deref();
    let next = error.next_attempt.as_ref();
    let parts = [
        Some(format!("{}: {message}", error.code)),
        error.http_status.map(|status| format!("HTTP {status}")),
        (error.attempts > 1).then(|| format!("{} attempts", error.attempts)),
        id.filter(|id| !message.contains(*id))
            .map(|id| format!("request {id}")),
        next.map(|at| format!("next attempt in {}", duration::between(now, at.0))),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}
