//! From a Run to the cause of its state, and to what is to be done: the chain that `kubectl runs why` prints.

use jiff::Timestamp;
use serde::Serialize;

use crate::api::{Reason, RunSpec, WorkspaceRef};

use super::links::{Cause, of_run, of_secret, of_workspace, telling};
use super::looks::{Look, SecretLook, SecretName, WorkspaceLook};
use super::stored::Stored;
use super::{remedy, retry, summary::summary};

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

#[cfg(test)]
mod tests;
