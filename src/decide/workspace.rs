//! Policy of one Workspace: what a check means for its status and its Runs. One failed check is no outage: ignored.

use std::time::Duration;

use jiff::Timestamp;

use crate::api::{
    ConditionType as Type, Contract, Reason, WorkspaceStatus, conditions, limits::MAX_IDENTITY,
};

use super::{
    conditions::{Why, alike, set_condition},
    failure::{Call, Class, FailedCall},
    truncate::cut,
};

/// Results of a check, up to its obstacle.
#[derive(Clone, Debug, Default)]
pub struct Check {
    pub base_url: Option<String>,
    /// The version that the service reports; the inner value is absent if the answer names none.
    pub version: Option<Option<String>>,
    /// The workspace that the token acts for; the inner value is absent if the answer names none.
    pub identity: Option<Option<String>>,
    /// The workspace record, compact.
    pub record: Option<String>,
    pub request_id: Option<String>,
    /// The Secret that the token comes from, as named in a message.
    pub secret: Option<String>,
    /// The Secret was deleted, and the check used its last content.
    pub secret_deleted: Option<Why>,
    pub obstacle: Option<Obstacle>,
    pub suspended: bool,
    /// It has no finalizer, by [`unheld`].
    pub unheld: Option<Why>,
    /// The Workspace is being deleted and waits for these Runs, at least.
    pub waits_for: Option<Vec<String>>,
}

#[derive(Clone, Debug)]
pub enum Obstacle {
    /// Found before any call: a bad URL, a missing Secret, a malformed token.
    Config(Why),
    /// `GET /version` or `GET /workspaces/current` failed.
    Call(FailedCall),
}

impl Check {
    /// Whether the API server didn't return a Secret: that proves nothing about the Workspace.
    pub fn inconclusive(&self) -> bool {
        matches!(&self.obstacle, Some(Obstacle::Config(why)) if why.reason == Reason::Checking)
    }
}

impl Obstacle {
    pub fn failed_call(&self) -> Option<&FailedCall> {
        match self {
            Self::Config(_) => None,
            Self::Call(failed) => Some(failed),
        }
    }

    /// Whether the obstacle may pass before the next check. An error in the Workspace or its Secret needs an edit.
    pub fn may_pass(&self) -> bool {
        self.failed_call().is_some_and(|f| f.class.may_pass())
    }

    pub fn no_file(&self) -> bool {
        self.failed_call().is_some_and(|f| f.class == Class::NoFile)
    }

    pub fn retry_after(&self) -> Option<Duration> {
        self.failed_call()?.retry_after()
    }

    fn why(&self, secret: Option<&str>) -> Why {
        match self {
            Self::Config(why) => why.clone(),
            Self::Call(failed) => call_failed(failed, secret.unwrap_or("Secret")),
        }
    }
}

fn call_failed(failed: &FailedCall, secret: &str) -> Why {
    let call = match failed.call {
        Call::Workspace => "GET /workspaces/current",
        _ => "GET /version",
    };
    let reason = failed.reason();
    let todo: &str = match reason {
        Reason::Unauthorized => {
            &format!("Put a valid token into the {secret}; it is picked up automatically.")
        }
        Reason::WorkspaceMismatch => {
            "The token may not act for this workspace; check spec.workspaceID and the token."
        }
        Reason::ContractViolation if failed.class == Class::Unreadable => {
            "Check the base URL and the contract file."
        }
        Reason::ContractViolation => {
            "Check the base URL: it must contain the version segment, such as /api/v1."
        }
        _ if failed.class == Class::Passing && failed.failure.http_status == Some(403) => {
            "That is not the service's own answer: check the base URL and the proxies on the way. The call is retried automatically."
        }
        _ => "The call is retried automatically.",
    };
    let what = failed.failure.sentence();
    Why::new(reason, format!("{call}: {what} {todo}"))
}

#[derive(Clone, Debug)]
pub struct Assessment {
    pub status: WorkspaceStatus,
    /// Runs may make calls, or the reason why not.
    pub usable: Result<(), Why>,
    pub submissions_blocked: Option<(Reason, String)>,
    /// Every part of the check succeeded.
    pub ready: bool,
}

impl Assessment {
    /// Message of the Ready condition: the same as long as the failure is, since Runs repeat it.
    pub fn message(&self) -> String {
        let ready = conditions::find(&self.status.conditions, Type::Ready);
        ready.map_or_else(String::new, |ready| ready.message.clone())
    }
}

/// Assesses a check that ended at `wall`. `attempts` counts the consecutive failed checks, this one included.
pub fn assess(
    current: Option<&WorkspaceStatus>,
    check: &Check,
    generation: i64,
    attempts: u32,
    contract: &Contract,
    wall: Timestamp,
) -> Assessment {
    let version = check.version.as_ref();
    let version = version.map(|v| version_verdict(v.as_deref(), contract));
    let refused_version = version.clone().and_then(Result::err);
    let obstacle = check.obstacle.as_ref();
    let usable = match obstacle.map(|o| o.why(check.secret.as_deref())) {
        Some(why) => Err(rejected(why, check.secret_deleted.as_ref())),
        None => identity_verdict(check, contract),
    };
    let mut status = current.cloned().unwrap_or_default();
    status.observed_generation = Some(generation);
    status.base_url = check.base_url.clone().or(status.base_url);
    status.service_version = check.version.clone().flatten().or(status.service_version);
    status.identity = check.identity.clone().flatten().or(status.identity);
    status.record = check.record.clone().or(status.record);
    let failed = obstacle.and_then(Obstacle::failed_call);
    status.last_error = failed.map(|failed| failed.last_error(attempts, wall));
    let error = status.last_error.as_ref();
    let failed_request = error.and_then(|e| e.request_id.clone());
    let leaving = check.waits_for.as_deref().map(being_deleted);
    let secret_deleted = check.secret_deleted.as_ref().map(cached_token);
    let holds = secret_deleted.or(refused_version);
    let holds = holds.or_else(|| check.unheld.clone());
    let unready = usable.as_ref().err().or(holds.as_ref());
    let unready = unready.or(leaving.as_ref());
    let who = check.identity.as_ref().and_then(Option::as_deref);
    let who = cut(who.unwrap_or_default(), 256);
    let verified = format!("The service answered for the token as workspace {who}.");
    let verified = Why::new(Reason::Verified, verified);
    let ready = unready.map_or(Ok(verified), |why| Err(why.clone()));
    let changed = conditions::is_true(&status.conditions, Type::Ready) != ready.is_ok();
    if let Some(id) = failed_request.or_else(|| check.request_id.clone().filter(|_| changed)) {
        status.request_id = Some(id);
    }
    let authenticated = authenticated(check, &usable, who);
    let mut set = |kind, verdict: Option<&Result<Why, Why>>| {
        let (holds, why) = match verdict {
            Some(Ok(why)) => (Some(true), why.clone()),
            Some(Err(why)) => (Some(false), why.clone()),
            None => (None, Why::new(Reason::Checking, "")),
        };
        set_condition(&mut status.conditions, kind, holds, &why, generation, wall);
    };
    set(Type::VersionVerified, version.as_ref());
    set(Type::Authenticated, authenticated.as_ref());
    set(Type::Ready, Some(&ready));
    let unready = unready.cloned();
    let stalled = unready
        .as_ref()
        .is_some_and(|why| needs_a_person(why.reason));
    let unready = unready.map(Ok);
    set(Type::Reconciling, unready.as_ref().filter(|_| !stalled));
    set(Type::Stalled, unready.as_ref().filter(|_| stalled));
    if let Some(current) = current.filter(|c| same_failure(c, &status)) {
        status = current.clone();
    }
    Assessment {
        status,
        usable,
        submissions_blocked: why_blocked(check, holds),
        ready: ready.is_ok(),
    }
}

/// Whether a failed check met the failure that the status already shows: an outage must not cost a write per probe.
fn same_failure(current: &WorkspaceStatus, next: &WorkspaceStatus) -> bool {
    let (Some(then), Some(now)) = (&current.last_error, &next.last_error) else {
        return false;
    };
    current.observed_generation == next.observed_generation
        && (&then.code, then.http_status, &then.message)
            == (&now.code, now.http_status, &now.message)
        && alike(&current.conditions, &next.conditions)
}

/// Verdict for `Authenticated`, which is about only the token; absent if the check never asked the service for it.
fn authenticated(check: &Check, usable: &Result<(), Why>, who: &str) -> Option<Result<Why, Why>> {
    match (&check.obstacle, usable) {
        (Some(Obstacle::Call(failed)), _) if failed.call == Call::Version => None,
        (_, Err(why)) => Some(Err(why.clone())),
        (_, Ok(())) => {
            let message = format!("The token acts for workspace {who}.");
            Some(Ok(Why::new(Reason::Identified, message)))
        }
    }
}

/// The accepted versions that a message lists; a contract file may hold many.
const LISTED_VERSIONS: usize = 8;

/// The Runs that a message names; there may be thousands.
pub const LISTED_RUNS: usize = 3;

/// Verdict on a version with its message (rule 13). `None` is an answer that names no version.
pub fn version_verdict(version: Option<&str>, contract: &Contract) -> Result<Why, Why> {
    let accepted = contract.accepted_versions();
    let listed = accepted.get(..LISTED_VERSIONS).unwrap_or(accepted);
    let listed = listed.join(", ");
    let shown = cut(version.unwrap_or_default(), 64);
    let refusal = match version {
        Some(v) if contract.accepts_version(v) => {
            let message =
                format!("The service reports version {shown}, which the contract file accepts.");
            return Ok(Why::new(Reason::VersionAccepted, message));
        }
        Some(_) => format!(
            "The service reports version {shown}; the contract file accepts {listed}. New Runs are not submitted; submitted Runs continue. Review the change of contract, then add the version to the contract file."
        ),
        None => format!(
            "The answer to GET /version names no version at the contract file's pointers (accepted: {listed}). Check the base URL and version.pointers."
        ),
    };
    Err(Why::new(Reason::VersionNotAccepted, refusal))
}

fn identity_verdict(check: &Check, contract: &Contract) -> Result<(), Why> {
    let message = match &check.identity {
        Some(None) if contract.knows_identity() => {
            "The answer to GET /workspaces/current names no workspace at the contract file's pointers, so Runs can't be pinned to one. Check workspace.identityPointers.".to_owned()
        }
        // Compared and pinned, so never cut: one too long for the status is refused.
        Some(Some(who)) if who.chars().count() > MAX_IDENTITY => format!(
            "The answer to GET /workspaces/current names a workspace of more than {MAX_IDENTITY} characters, so Runs can't be pinned to it. Check workspace.identityPointers."
        ),
        _ => return Ok(()),
    };
    Err(Why::new(Reason::ContractViolation, message))
}

fn why_blocked(check: &Check, failed: Option<Why>) -> Option<(Reason, String)> {
    if check.waits_for.is_some() {
        let message = "The Workspace is being deleted and takes no new Runs. Create the Run with another one, or wait until this one exists again.";
        return Some((Reason::WorkspaceDeleting, message.to_owned()));
    }
    if check.suspended {
        let message =
            "The Workspace's spec.suspend blocks new submissions; set it to false to continue.";
        return Some((Reason::WorkspaceSuspended, message.to_owned()));
    }
    failed.map(|why| (why.reason, why.message))
}

/// Why a Workspace whose finalizer can't be written takes no new Runs. `refused`: the API server's sentence.
pub fn unheld(refused: Option<&str>) -> Why {
    let (reason, what) = match refused {
        Some(sentence) => (Reason::WriteRefused, sentence),
        None => (Reason::Checking, "the operator's log has the error."),
    };
    let message = format!(
        "The Workspace takes no new Runs, and submitted ones continue, until its finalizer is written, which is tried again: {what}"
    );
    Why::new(reason, message)
}

fn being_deleted(waits_for: &[String]) -> Why {
    let others = if waits_for.len() > LISTED_RUNS {
        " and others"
    } else {
        ""
    };
    let listed = waits_for.get(..LISTED_RUNS).unwrap_or(waits_for).join(", ");
    let next = if listed.is_empty() {
        "and its finalizer is removed.".to_owned()
    } else {
        format!(
            "and waits for the submitted ones to end: {listed}{others}. Delete them to complete its deletion sooner."
        )
    };
    let message = format!("Being deleted: it takes no new Runs, {next}");
    Why::new(Reason::WorkspaceDeleting, message)
}

/// Whether the operator can only wait for an edit. A missing Secret or an expired token is often fixed without one.
fn needs_a_person(reason: Reason) -> bool {
    matches!(
        reason,
        Reason::BaseURLNotAllowed
            | Reason::TokenMalformed
            | Reason::TokenIsProviderKey
            | Reason::CAInvalid
            | Reason::SecretForbidden
            | Reason::SecretKeyNotFound
            | Reason::VersionNotAccepted
            | Reason::WorkspaceMismatch
            | Reason::Forbidden
            | Reason::ContractViolation
            | Reason::WorkspaceInvalid
    )
}

/// The Workspace and base URL that a token was verified for; it is used for no other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verified {
    pub uid: String,
    pub base_url: String,
}

/// Whether the last good token may be used: a Secret that exists without a good one was changed on purpose.
pub fn outlives(why: &Why) -> bool {
    why.reason == Reason::SecretNotFound
}

fn cached_token(secret_deleted: &Why) -> Why {
    let what = &secret_deleted.message;
    let message = format!(
        "{what} Submitted Runs continue with the last good token; new submissions are blocked."
    );
    Why::new(secret_deleted.reason, message)
}

/// Reason why a check stopped, with a note if the service rejected the last good token.
fn rejected(why: Why, secret_deleted: Option<&Why>) -> Why {
    match secret_deleted {
        Some(deleted) if why.reason == Reason::Unauthorized => {
            let (what, deleted) = (why.message, &deleted.message);
            let message = format!("{what} It was the last good one. {deleted}");
            Why::new(why.reason, message)
        }
        _ => why,
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    /// A check of this same Workspace succeeded, also in the previous process, and its status is still Ready.
    pub verified: bool,
    /// The failure before this one was ignored.
    pub failure_ignored: bool,
}

/// Whether a check changes only the time of the next one: the first failure after a good check, if its cause may pass.
pub fn ignores_failure(check: &Check, standing: Standing) -> bool {
    let passing = check.obstacle.as_ref().is_some_and(Obstacle::may_pass);
    passing && standing.verified && !standing.failure_ignored
}

/// Reason why first submissions stay blocked after an ignored failure: the one found, or an earlier one left unchecked.
pub fn still_blocked(
    before: Option<(Reason, String)>,
    found: Option<(Reason, String)>,
) -> Option<(Reason, String)> {
    let unchecked = |(reason, _): &(Reason, String)| {
        matches!(reason, Reason::VersionNotAccepted | Reason::SecretNotFound)
    };
    found.or_else(|| before.filter(unchecked))
}
