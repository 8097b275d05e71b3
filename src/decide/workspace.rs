//! What a check of a Workspace amounts to: its status, and what its Runs may do.

use std::time::Duration;

use jiff::Timestamp;

use crate::api::{
    ConditionType as Type, Contract, Reason, WorkspaceStatus,
    conditions::{self, ConditionUpdate},
    limits::{MAX_CODE, MAX_IDENTITY},
    status::{LastError, whole_seconds},
};

use super::{
    answer::{Failure, FailureKind},
    last_token::{goes_on, rejected},
    situation::Why,
    text::{MAX_ERROR, MAX_SENTENCES, cut},
    wording,
};

/// The accepted versions that a message lists; a contract file may hold many.
const LISTED_VERSIONS: usize = 8;

/// What a check found, as far as it got.
#[derive(Clone, Debug, Default)]
pub struct Check {
    /// The base URL in force.
    pub base_url: Option<String>,
    /// The version that the service reports; the inner value is absent where the answer names none.
    pub version: Option<Option<String>>,
    /// Who the token acts for; the inner value is absent where the answer names nobody.
    pub identity: Option<Option<String>>,
    /// The workspace record, compact.
    pub record: Option<String>,
    /// The latest request id.
    pub request_id: Option<String>,
    /// The Secret that the token comes from, as a sentence names it.
    pub secret: Option<String>,
    /// The Secret is gone, and the check was made with what it last held.
    pub secret_gone: Option<Why>,
    /// What stopped the check.
    pub obstacle: Option<Obstacle>,
    /// `spec.suspend`.
    pub suspended: bool,
    /// The Workspace is being deleted and waits for these Runs, at least.
    pub waits_for: Option<Vec<String>>,
}

/// What stopped a check.
#[derive(Clone, Debug)]
pub enum Obstacle {
    /// Found before any call: a bad URL, a missing Secret, a malformed token.
    Config(Why),
    /// `GET /version` failed.
    Version(Failure),
    /// `GET /workspaces/current` failed.
    Identity(Failure),
}

/// A check, judged.
#[derive(Clone, Debug)]
pub struct Assessment {
    /// The next status.
    pub status: WorkspaceStatus,
    /// Whether Runs may make calls.
    pub usable: Result<(), Why>,
    /// Why first submissions are held although calls may be made.
    pub holds: Option<(Reason, String)>,
    /// Whether the check went well all through.
    pub ready: bool,
}

impl Assessment {
    /// What the Ready condition says: the same words as long as the trouble is the same, so that the
    /// Runs that repeat them are not written for each probe.
    pub fn message(&self) -> String {
        let ready = conditions::find(&self.status.conditions, Type::Ready);
        ready
            .map(|condition| condition.message.clone())
            .unwrap_or_default()
    }
}

/// Judges a check that ended at `wall`. `attempts` counts the checks in a row that failed, this one included.
pub fn assess(
    current: Option<&WorkspaceStatus>,
    check: &Check,
    generation: i64,
    attempts: u32,
    contract: &Contract,
    wall: Timestamp,
) -> Assessment {
    let version = check
        .version
        .as_ref()
        .map(|v| version_verdict(v.as_deref(), contract));
    let refused_version = version.clone().and_then(Result::err);
    let usable = match &check.obstacle {
        Some(obstacle) => Err(rejected(
            obstacle.why(check.secret.as_deref()),
            check.secret_gone.as_ref(),
        )),
        None => identity_verdict(check, contract),
    };
    let mut status = current.cloned().unwrap_or_default();
    status.observed_generation = Some(generation);
    status.base_url = check.base_url.clone().or(status.base_url);
    status.service_version = check.version.clone().flatten().or(status.service_version);
    status.identity = check.identity.clone().flatten().or(status.identity);
    status.record = check.record.clone().or(status.record);
    status.last_error = check
        .obstacle
        .as_ref()
        .and_then(|o| o.last_error(attempts, wall));
    let first = status
        .last_error
        .as_ref()
        .and_then(|e| e.request_id.clone());
    let leaving = check.waits_for.as_deref().map(being_deleted);
    let gone = check.secret_gone.as_ref().map(goes_on);
    let unready = gone
        .as_ref()
        .or(refused_version.as_ref())
        .or(leaving.as_ref());
    let ready = match (&usable, unready) {
        (Err(why), _) | (Ok(()), Some(why)) => Err(why.clone()),
        (Ok(()), None) => {
            let who = check.identity.clone().flatten().unwrap_or_default();
            Ok(Why::new(
                Reason::Verified,
                format!(
                    "The service answered for the token as workspace {}.",
                    cut(&who, 256)
                ),
            ))
        }
    };
    let changed = conditions::is_true(&status.conditions, Type::Ready) != ready.is_ok();
    if let Some(id) = first.or_else(|| check.request_id.clone().filter(|_| changed)) {
        status.request_id = Some(id);
    }
    let authenticated = authenticated(check, &usable);
    let mut set = |kind, verdict: Option<&Result<Why, Why>>| {
        let (holds, why) = match verdict {
            Some(Ok(why)) => (Some(true), why.clone()),
            Some(Err(why)) => (Some(false), why.clone()),
            None => (None, Why::new(Reason::Checking, "")),
        };
        let message = cut(&why.message, MAX_SENTENCES).to_owned();
        let update = ConditionUpdate {
            kind,
            status: holds,
            reason: why.reason,
            message,
        };
        conditions::set(&mut status.conditions, update, generation, wall);
    };
    set(Type::VersionVerified, version.as_ref());
    set(Type::Authenticated, authenticated.as_ref());
    set(Type::Ready, Some(&ready));
    let stalled = ready
        .as_ref()
        .err()
        .filter(|why| needs_a_person(why.reason));
    let reconciling = ready
        .as_ref()
        .err()
        .filter(|why| !needs_a_person(why.reason));
    set(
        Type::Reconciling,
        reconciling.map(|w| Ok(w.clone())).as_ref(),
    );
    set(Type::Stalled, stalled.map(|w| Ok(w.clone())).as_ref());
    if let Some(current) = current.filter(|c| same_trouble(c, &status)) {
        status = current.clone();
    }
    Assessment {
        status,
        usable,
        holds: holds(check, gone.or(refused_version)),
        ready: ready.is_ok(),
    }
}

/// Why first submissions are held. A Workspace that is being deleted says so whatever else it lacks, since
/// it waits for those that have begun.
fn holds(check: &Check, trouble: Option<Why>) -> Option<(Reason, String)> {
    let leaving = check.waits_for.as_ref().map(|_| {
        Why::new(
            Reason::WorkspaceDeleting,
            "The Workspace is being deleted and takes no new Runs. Create the Run with another one, or wait until this one exists again.",
        )
    });
    let suspended = check.suspended.then(|| {
        Why::new(
            Reason::WorkspaceSuspended,
            "The Workspace's spec.suspend holds new submissions; set it to false to go on.",
        )
    });
    let why = leaving.or(suspended).or(trouble)?;
    Some((why.reason, why.message))
}

/// Whether a failed check met the very trouble that the status already tells of: an outage is not to
/// cost a write a probe.
fn same_trouble(current: &WorkspaceStatus, next: &WorkspaceStatus) -> bool {
    let (Some(then), Some(now)) = (&current.last_error, &next.last_error) else {
        return false;
    };
    let gist = |s: &WorkspaceStatus| -> Vec<(String, String, String)> {
        s.conditions
            .iter()
            .map(|c| (c.type_.clone(), c.status.clone(), c.reason.clone()))
            .collect()
    };
    current.observed_generation == next.observed_generation
        && (&then.code, then.http_status, &then.message)
            == (&now.code, now.http_status, &now.message)
        && gist(current) == gist(next)
}

/// `Authenticated` speaks of the token alone: absent where the check never got to ask.
fn authenticated(check: &Check, usable: &Result<(), Why>) -> Option<Result<Why, Why>> {
    match (&check.obstacle, usable) {
        (Some(Obstacle::Version(_)), _) => None,
        (_, Err(why)) => Some(Err(why.clone())),
        (_, Ok(())) => {
            let who = check.identity.clone().flatten().unwrap_or_default();
            Some(Ok(Why::new(
                Reason::Identified,
                format!("The token acts for workspace {}.", cut(&who, 256)),
            )))
        }
    }
}

/// The Runs that a message names; there may be thousands.
pub const LISTED_RUNS: usize = 3;

fn being_deleted(waits_for: &[String]) -> Why {
    let listed = waits_for.get(..LISTED_RUNS).unwrap_or(waits_for).join(", ");
    let others = if waits_for.len() > LISTED_RUNS {
        " and others"
    } else {
        ""
    };
    let message = if waits_for.is_empty() {
        "Being deleted: it takes no new Runs, and goes.".to_owned()
    } else {
        format!(
            "Being deleted: it takes no new Runs, and waits for the submitted ones to end: {listed}{others}. Delete them to let it go sooner."
        )
    };
    Why::new(Reason::WorkspaceDeleting, message)
}

/// Whether a version is accepted, and a sentence that says so (rule 13). `None` is an answer that names none.
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
                "The service reports version {}; the contract file accepts {listed}. New Runs are held, submitted ones go on. Review the change of contract, then add the version to the contract file.",
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

fn identity_verdict(check: &Check, contract: &Contract) -> Result<(), Why> {
    match &check.identity {
        Some(None) if contract.knows_identity() => Err(Why::new(
            Reason::ContractViolation,
            "The answer to GET /workspaces/current names no workspace at the contract file's pointers, so Runs can't be pinned to one. Check workspace.identityPointers.",
        )),
        // Compared and pinned, so never cut: one that the status can't keep is refused.
        Some(Some(who)) if who.chars().count() > MAX_IDENTITY => Err(Why::new(
            Reason::ContractViolation,
            format!(
                "The answer to GET /workspaces/current names a workspace of more than {MAX_IDENTITY} characters, so Runs can't be pinned to it. Check workspace.identityPointers."
            ),
        )),
        _ => Ok(()),
    }
}

/// Whether the operator can do nothing but wait for an edit. A missing Secret or an expired token is
/// often on its way.
fn needs_a_person(reason: Reason) -> bool {
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

impl Check {
    /// Whether the check came to nothing because the API server didn't give a Secret: that says nothing of
    /// the Workspace.
    pub fn learnt_nothing(&self) -> bool {
        matches!(&self.obstacle, Some(Obstacle::Config(why)) if why.reason == Reason::Checking)
    }
}

impl Obstacle {
    /// Whether this process had no file left for the call, which says nothing about the service.
    pub fn no_file(&self) -> bool {
        match self {
            Self::Config(_) => false,
            Self::Version(failure) | Self::Identity(failure) => failure.kind == FailureKind::NoFile,
        }
    }

    fn why(&self, secret: Option<&str>) -> Why {
        match self {
            Self::Config(why) => why.clone(),
            Self::Version(failure) => call_failed(failure, "GET /version", None),
            Self::Identity(failure) => call_failed(
                failure,
                "GET /workspaces/current",
                Some(secret.unwrap_or("Secret")),
            ),
        }
    }

    fn last_error(&self, attempts: u32, wall: Timestamp) -> Option<LastError> {
        let (Self::Version(failure) | Self::Identity(failure)) = self else {
            return None;
        };
        Some(LastError {
            code: failure
                .code
                .as_deref()
                .map_or_else(|| "no_code".to_owned(), |c| cut(c, MAX_CODE).to_owned()),
            http_status: failure.http_status.map(i32::from),
            request_id: failure.request_id.clone(),
            retryable: failure.retryable.unwrap_or(true),
            message: cut(&failure.message, MAX_ERROR).to_owned(),
            time: whole_seconds(wall),
            attempts: i64::from(attempts),
            next_attempt: None,
        })
    }

    /// The answer's `Retry-After`, unclamped.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Config(_) => None,
            Self::Version(failure) | Self::Identity(failure) => failure.retry_after,
        }
    }
}

/// `secret` is where the token came from, absent where the call has none.
fn call_failed(failure: &Failure, call: &str, secret: Option<&str>) -> Why {
    let what = wording::what_happened(failure);
    if let (Some(secret), Some(401)) = (secret, failure.http_status) {
        let todo = format!("Put a valid token into the {secret}; it is picked up by itself.");
        return Why::new(Reason::Unauthorized, format!("{call}: {what} {todo}"));
    }
    let (reason, todo) = match (failure.kind, failure.http_status) {
        (FailureKind::Bare, Some(403)) => (
            Reason::ServiceUnavailable,
            "That is not the service's own answer: check the base URL and the proxies on the way. It is asked again by itself.",
        ),
        (_, Some(403)) if secret.is_some() => (
            Reason::WorkspaceMismatch,
            "The token may not act for this workspace; check spec.workspaceId and the token.",
        ),
        (FailureKind::Unreadable, _) => (
            Reason::ContractViolation,
            "Check the base URL and the contract file.",
        ),
        (FailureKind::Problem | FailureKind::Bare, Some(404)) => (
            Reason::ContractViolation,
            "Check the base URL: it must hold the version segment, such as /api/v1.",
        ),
        _ => (Reason::ServiceUnavailable, "It is asked again by itself."),
    };
    Why::new(reason, format!("{call}: {what} {todo}"))
}
