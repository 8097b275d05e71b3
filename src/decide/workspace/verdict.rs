//! Verdicts on the parts of a check: version, identity, the block on first submissions, and the need for a person to
//! act.

use crate::api::{Contract, Reason, limits::MAX_IDENTITY};
use crate::decide::{conditions::Why, truncate::cut};

use super::check::Check;

/// The accepted versions that a message lists; a contract file may hold many.
const LISTED_VERSIONS: usize = 8;

/// The Runs that a message names; there may be thousands.
pub const LISTED_RUNS: usize = 3;

/// Verdict on a version with its message (rule 13). `None` is an answer that names no version.
pub fn version_verdict(version: Option<&str>, contract: &Contract) -> Result<Why, Why> {
    let accepted = contract.accepted_versions();
    let listed = accepted
        .get(..LISTED_VERSIONS)
        .unwrap_or(accepted)
        .join(", ");
    match version {
        Some(v) if contract.accepts_version(v) => Ok(Why::new(
            Reason::VersionAccepted,
            format!(
                "The service reports version {}, which the contract file accepts.",
                cut(v, 64)
            ),
        )),
        Some(v) => Err(Why::new(
            Reason::VersionNotAccepted,
            format!(
                "The service reports version {}; the contract file accepts {listed}. New Runs are not submitted; submitted Runs continue. Review the change of contract, then add the version to the contract file.",
                cut(v, 64)
            ),
        )),
        None => Err(Why::new(
            Reason::VersionNotAccepted,
            format!(
                "The answer to GET /version names no version at the contract file's pointers (accepted: {listed}). Check the base URL and version.pointers."
            ),
        )),
    }
}

pub(super) fn identity_verdict(check: &Check, contract: &Contract) -> Result<(), Why> {
    match &check.identity {
        Some(None) if contract.knows_identity() => Err(Why::new(
            Reason::ContractViolation,
            "The answer to GET /workspaces/current names no workspace at the contract file's pointers, so Runs can't be pinned to one. Check workspace.identityPointers.",
        )),
        // Compared and pinned, so never cut: one too long for the status is refused.
        Some(Some(who)) if who.chars().count() > MAX_IDENTITY => Err(Why::new(
            Reason::ContractViolation,
            format!(
                "The answer to GET /workspaces/current names a workspace of more than {MAX_IDENTITY} characters, so Runs can't be pinned to it. Check workspace.identityPointers."
            ),
        )),
        _ => Ok(()),
    }
}

/// Reason why first submissions are blocked. The deletion of the Workspace comes first, since it waits for the Runs
/// already submitted.
pub(super) fn why_blocked(check: &Check, trouble: Option<Why>) -> Option<(Reason, String)> {
    let leaving = check.waits_for.as_ref().map(|_| {
        Why::new(
            Reason::WorkspaceDeleting,
            "The Workspace is being deleted and takes no new Runs. Create the Run with another one, or wait until this one exists again.",
        )
    });
    let suspended = check.suspended.then(|| {
        Why::new(
            Reason::WorkspaceSuspended,
            "The Workspace's spec.suspend blocks new submissions; set it to false to continue.",
        )
    });
    let why = leaving.or(suspended).or(trouble)?;
    Some((why.reason, why.message))
}

pub(super) fn being_deleted(waits_for: &[String]) -> Why {
    let listed = waits_for.get(..LISTED_RUNS).unwrap_or(waits_for).join(", ");
    let others = if waits_for.len() > LISTED_RUNS {
        " and others"
    } else {
        ""
    };
    let message = if waits_for.is_empty() {
        "Being deleted: it takes no new Runs, and its finalizer is removed.".to_owned()
    } else {
        format!(
            "Being deleted: it takes no new Runs, and waits for the submitted ones to end: {listed}{others}. Delete them to complete its deletion sooner."
        )
    };
    Why::new(Reason::WorkspaceDeleting, message)
}

/// Whether the operator can only wait for an edit. A missing Secret or an expired token is often fixed without one.
pub(super) fn needs_a_person(reason: Reason) -> bool {
    matches!(
        reason,
        Reason::BaseUrlNotAllowed
            | Reason::TokenMalformed
            | Reason::TokenIsProviderKey
            | Reason::CaInvalid
            | Reason::SecretForbidden
            | Reason::SecretKeyNotFound
            | Reason::VersionNotAccepted
            | Reason::WorkspaceMismatch
            | Reason::Forbidden
            | Reason::ContractViolation
            | Reason::WorkspaceInvalid
    )
}
