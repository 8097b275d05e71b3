//! Assessment of a Workspace's check: its status, and the calls that its Runs may make.

use jiff::Timestamp;

use crate::api::{ConditionType as Type, Contract, Reason, WorkspaceStatus, conditions};
use crate::decide::{
    conditions::{Why, set_condition},
    failure::Call,
    truncate::cut,
};

use super::{
    cached_token::{cached_token, rejected},
    check::{Check, Obstacle},
    verdict::{being_deleted, identity_verdict, needs_a_person, version_verdict, why_blocked},
};

/// Assessment of a check.
#[derive(Clone, Debug)]
pub struct Assessment {
    /// The next status.
    pub status: WorkspaceStatus,
    /// Runs may make calls, or the reason why not.
    pub usable: Result<(), Why>,
    /// Reason why first submissions are blocked although calls may be made.
    pub submissions_blocked: Option<(Reason, String)>,
    /// Every part of the check succeeded.
    pub ready: bool,
}

impl Assessment {
    /// Message of the Ready condition. It is the same as long as the failure is the same, so that the Runs that repeat
    /// it are not written at each probe.
    pub fn message(&self) -> String {
        let ready = conditions::find(&self.status.conditions, Type::Ready);
        ready
            .map(|condition| condition.message.clone())
            .unwrap_or_default()
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
    let version = check
        .version
        .as_ref()
        .map(|v| version_verdict(v.as_deref(), contract));
    let refused_version = version.clone().and_then(Result::err);
    let usable = match &check.obstacle {
        Some(obstacle) => Err(rejected(
            obstacle.why(check.secret.as_deref()),
            check.secret_deleted.as_ref(),
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
    let secret_deleted = check.secret_deleted.as_ref().map(cached_token);
    let unready = secret_deleted
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
        set_condition(&mut status.conditions, kind, holds, &why, generation, wall);
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
        submissions_blocked: why_blocked(check, secret_deleted.or(refused_version)),
        ready: ready.is_ok(),
    }
}

/// Whether a failed check met the failure that the status already shows: an outage must not cost a write per probe.
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

/// Verdict for `Authenticated`, which is about only the token; absent if the check never asked the service for it.
fn authenticated(check: &Check, usable: &Result<(), Why>) -> Option<Result<Why, Why>> {
    match (&check.obstacle, usable) {
        (Some(Obstacle::Call(failed)), _) if failed.call == Call::Version => None,
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
