//! From a Run to the cause of its state, and to what is to be done: the chain that `kubectl runs why` prints.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use serde::Serialize;

use crate::api::{
    ConditionType, Phase, Reason, RunSpec, WorkspaceKind, WorkspaceRef, WorkspaceSpec,
    WorkspaceStatus, conditions, status::LastError,
};

use super::stored::Stored;
use super::{duration, remedy, retry, summary::summary};

/// What is known of an object beside the Run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Look<T> {
    /// It is no part of the cause.
    NotNeeded,
    /// It is there.
    Found(T),
    /// It doesn't exist.
    Missing,
    /// The user may not read it.
    NotAllowed,
    /// It could not be read, for this reason.
    Failed(String),
}

/// A Workspace of either kind.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkspaceLook {
    /// What both kinds have.
    pub spec: WorkspaceSpec,
    /// Its stored status.
    pub status: Option<WorkspaceStatus>,
}

/// A Secret's metadata.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SecretLook {
    /// When it was last changed, as far as its metadata says.
    pub changed: Option<Timestamp>,
}

/// The Secret that a Workspace's state is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecretName {
    /// Its name.
    pub name: String,
    /// The key in it.
    pub key: String,
}

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

/// Why a Run is where it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Explanation {
    /// The state, and since when.
    pub summary: String,
    /// The causes, each that of the one before it.
    pub causes: Vec<Cause>,
    /// What to do; none if nothing is to be done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
    /// Whether a retry is part of the remedy and submits once more.
    pub retry: bool,
}

/// The Workspace to look at, if the Run's state may be due to it.
pub fn workspace_to_read(run: Stored<'_>) -> Option<WorkspaceRef> {
    let reason = run.reason()?;
    (!run.ended() && is_of_workspace(reason)).then(|| run.spec.map(RunSpec::workspace_ref))?
}

/// The Secret to look at, if the Workspace's state may be due to it.
pub fn secret_to_read(workspace: &WorkspaceLook) -> Option<SecretName> {
    let reason = Reason::named(&telling(workspace)?.reason)?;
    let (name, key) = match reason {
        Reason::CaInvalid => workspace.spec.ca_secret()?,
        reason if is_of_secret(reason) => workspace.spec.token_secret(),
        _ => return None,
    };
    Some(SecretName {
        name: name.to_owned(),
        key: key.to_owned(),
    })
}

/// The chain from the Run to the cause, and the remedy.
pub fn explain(
    run: Stored<'_>,
    workspace: &Look<WorkspaceLook>,
    secret: &Look<SecretLook>,
    now: Timestamp,
) -> Explanation {
    let mut causes = Vec::new();
    let mut decisive = run.reason();
    if let Some(reference) = workspace_to_read(run) {
        let (cause, reason) = of_workspace(run, &reference, workspace);
        causes.push(cause);
        decisive = reason.or(decisive);
        if let Look::Found(workspace) = workspace
            && let Some(name) = secret_to_read(workspace)
        {
            causes.push(of_secret(&name, reference.kind(), secret, now));
        }
    } else {
        causes.extend(of_run(run, now));
    }
    let remedy = match run.phase() {
        None => Some(UNSEEN.to_owned()),
        Some(_) => decisive.and_then(remedy::plain),
    };
    let asks_retry = remedy
        .as_deref()
        .is_some_and(|text| text.to_lowercase().contains("retry"));
    Explanation {
        summary: summary(run, now),
        causes,
        retry: asks_retry && retry::pointless(run).is_none(),
        remedy,
    }
}

const UNSEEN: &str =
    "If it stays so, no operator serves this namespace: run-operator doctor finds out why.";

/// Reasons of a Run that its Workspace has more to say of.
fn is_of_workspace(reason: Reason) -> bool {
    matches!(
        reason,
        Reason::WorkspaceNotFound
            | Reason::WorkspaceNotReady
            | Reason::WorkspaceDeleting
            | Reason::WorkspaceSuspended
            | Reason::WorkspaceInvalid
            | Reason::WorkspaceChanged
            | Reason::NamespaceNotAllowed
            | Reason::ServiceUnavailable
    ) || is_of_secret(reason)
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

fn telling(workspace: &WorkspaceLook) -> Option<&Condition> {
    let found = &workspace.status.as_ref()?.conditions;
    conditions::find(found, ConditionType::Stalled)
        .filter(|c| c.status == "True")
        .or_else(|| conditions::find(found, ConditionType::Ready))
}

/// What the Workspace says, and the reason to mend. What the Run says stands for a Workspace that can't be read.
fn of_workspace(
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

fn of_secret(
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
fn of_run(run: Stored<'_>, now: Timestamp) -> Vec<Cause> {
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::api::conditions::ConditionUpdate;
    use crate::decide::explain::fixtures::{Example, at, ended, pending, stalled};

    fn workspace(reason: Reason) -> Look<WorkspaceLook> {
        let mut status = WorkspaceStatus::default();
        let update = ConditionUpdate {
            kind: ConditionType::Ready,
            status: Some(reason == Reason::Verified),
            reason,
            message: format!("the message of {reason}."),
        };
        conditions::set(&mut status.conditions, update, 1, at(0));
        Look::Found(WorkspaceLook {
            spec: WorkspaceSpec::default(),
            status: Some(status),
        })
    }

    fn spec() -> RunSpec {
        serde_json::from_value(json!({"workload": {"image": "i"}})).unwrap()
    }

    fn lines(
        run: &Example,
        workspace: &Look<WorkspaceLook>,
        secret: &Look<SecretLook>,
    ) -> (Vec<String>, Option<String>) {
        let spec = spec();
        let run = Stored {
            spec: Some(&spec),
            ..run.stored()
        };
        let explanation = explain(run, workspace, secret, at(3600));
        let lines = explanation.causes.iter().map(Cause::line).collect();
        (lines, explanation.remedy)
    }

    #[test]
    fn the_remedy_is_that_of_the_last_cause() {
        let secret = Look::Found(SecretLook {
            changed: Some(at(0)),
        });
        let run = pending(Reason::WorkspaceNotReady);
        let (lines, remedy) = lines(&run, &workspace(Reason::Unauthorized), &secret);
        let expected = [
            "Workspace default: Unauthorized: the message of Unauthorized.",
            "Secret run-operator-token: key token, changed 60m ago",
        ];
        assert_eq!(lines, expected);
        assert_eq!(remedy, remedy::plain(Reason::Unauthorized));
    }

    #[test]
    fn a_workspace_that_may_not_be_read_is_known_by_the_run() {
        let mut run = pending(Reason::WorkspaceNotReady);
        for condition in &mut run.status_mut().conditions {
            condition.message = "Waiting for it to be Ready (CaInvalid): bad.".to_owned();
        }
        let (lines, remedy) = lines(&run, &Look::NotAllowed, &Look::NotNeeded);
        assert_eq!(
            lines,
            [
                "Workspace default: you may not read it; the Run says: Waiting for it to be Ready (CaInvalid): bad."
            ]
        );
        assert_eq!(remedy, remedy::plain(Reason::CaInvalid));
    }

    #[test]
    fn a_workspace_that_is_ready_by_now_is_not_to_blame() {
        let run = pending(Reason::WorkspaceNotReady);
        let (lines, _) = lines(&run, &workspace(Reason::Verified), &Look::NotNeeded);
        assert_eq!(lines.len(), 1);
        // Ready is False in the fixture of any other reason: this one says that it is verified.
        assert!(
            lines[0].starts_with("Workspace default: it is Ready; the Run says: "),
            "{lines:?}"
        );
    }

    #[test]
    fn what_the_service_said_is_shown_with_its_code_and_request() {
        let mut run = stalled(Reason::Forbidden);
        run.status_mut().last_error = Some(LastError {
            code: "forbidden".to_owned(),
            http_status: Some(403),
            request_id: Some("req-1".to_owned()),
            retryable: false,
            message: "no access.".to_owned(),
            time: k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(at(60)),
            attempts: 1,
            next_attempt: None,
        });
        let (lines, remedy) = lines(&run, &Look::NotNeeded, &Look::NotNeeded);
        assert_eq!(
            lines,
            [
                "the message of Forbidden.",
                "forbidden: no access, HTTP 403, request req-1"
            ]
        );
        assert_eq!(remedy, remedy::plain(Reason::Forbidden));
    }

    #[test]
    fn a_run_that_has_succeeded_needs_nothing() {
        let run = ended(Phase::Succeeded, Reason::Succeeded);
        let (_, remedy) = lines(&run, &Look::NotNeeded, &Look::NotNeeded);
        assert_eq!(remedy, None);
    }
}
