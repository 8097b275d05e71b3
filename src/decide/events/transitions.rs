//! Changes of a status that deserve an Event. A status is reduced to a few facts; a fact that is not in the stored
//! status is new.
//!
//! The Event is published after the write. A process that ends in between never publishes it, so the next process
//! publishes facts younger than [`RECENT`] again. The Event then has the same name, and the API server rejects the
//! duplicate.

use std::borrow::Cow;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use crate::api::{
    ConditionType as Type, EventReason, Phase, Reason, RunStatus,
    conditions::{find, is_true},
    status::LastError,
};
use crate::decide::{time::later, truncate::escaped};

use super::{
    correlator::Correlator,
    event::{EventDraft, ServiceEvent},
};

mod workspace;

pub use workspace::of_workspace;

/// Time after a change in which another process still publishes it. Far less than the hour for which the API server
/// keeps an Event.
pub(crate) const RECENT: Duration = Duration::from_mins(5);
/// An intermittent failure is published once in this time, for which the API server keeps an Event. The hours are
/// of process time: the Events of an hour that the wall clock shows twice would be dropped.
const TROUBLE_APART: i64 = 3600;
/// Bytes of a condition's message in an Event, so that the ids after it are never cut. Counted after escaping, which
/// makes a character up to three times longer.
const MAX_SENTENCE: usize = 600;
/// Bytes of an id there, counted after escaping.
const MAX_ID: usize = 128;

/// A fact of a status that deserves an Event.
struct Fact<'a> {
    reason: EventReason,
    /// Distinguishes it from other facts of its reason; contains nothing that changes while the fact stays.
    gist: Cow<'a, str>,
    /// Makes it another Event although its gist is the same.
    occasion: Option<String>,
    /// Time since which it is true, if the status has that.
    since: Option<Timestamp>,
    /// Its text: few facts are new, and only theirs is needed.
    message: Box<dyn Fn() -> String + 'a>,
}

impl<'a> Fact<'a> {
    fn new(
        reason: EventReason,
        gist: impl Into<Cow<'a, str>>,
        message: impl Fn() -> String + 'a,
    ) -> Self {
        Self {
            reason,
            gist: gist.into(),
            occasion: None,
            since: None,
            message: Box::new(message),
        }
    }

    fn since(self, since: Option<Timestamp>) -> Self {
        Self { since, ..self }
    }

    fn at(self, occasion: impl std::fmt::Display) -> Self {
        let occasion = Some(occasion.to_string());
        Self { occasion, ..self }
    }

    fn same(&self, other: &Fact<'_>) -> bool {
        (self.reason, &self.gist) == (other.reason, &other.gist)
    }

    fn identity(&self) -> Cow<'_, str> {
        match &self.occasion {
            Some(occasion) => Cow::Owned(format!("{}@{occasion}", self.gist)),
            None => Cow::Borrowed(&self.gist),
        }
    }
}

/// Events for the change of a status from `before` to `after`.
pub(crate) fn of_run(
    before: &RunStatus,
    after: &RunStatus,
    correlator: &Correlator,
    now: Timestamp,
    wall: Timestamp,
) -> Vec<EventDraft> {
    let mut events = unpublished(
        &run_facts(before, now),
        &run_facts(after, now),
        correlator,
        wall,
    );
    events.extend(recovered(before, after));
    events
}

fn unpublished(
    before: &[Fact<'_>],
    after: &[Fact<'_>],
    correlator: &Correlator,
    wall: Timestamp,
) -> Vec<EventDraft> {
    let draft = |fact: &Fact<'_>| {
        let recent = fact.since.is_some_and(|at| wall < later(at, RECENT));
        let repeated = before.iter().any(|b| b.same(fact));
        let identity = fact.identity();
        let due = (recent || !repeated) && !correlator.knows(fact.reason, &identity);
        due.then(|| EventDraft {
            repeated,
            ..EventDraft::new(fact.reason, (fact.message)(), identity)
        })
    };
    after.iter().filter_map(draft).collect()
}

fn run_facts(status: &RunStatus, now: Timestamp) -> Vec<Fact<'_>> {
    let mut facts = Vec::new();
    // A copied status shows the outcome of another object.
    if is_true(&status.conditions, Type::Accepted) {
        facts.extend(submitted(status));
    }
    facts.extend(ended(status));
    if is_true(&status.conditions, Type::Finished) {
        return facts;
    }
    facts.extend(stalled(status));
    facts.extend(cancelling(status));
    facts.extend(in_trouble(status, now));
    facts.extend(nowhere(status, now));
    facts
}

fn submitted(status: &RunStatus) -> Option<Fact<'_>> {
    let run_id = status.run_id.as_deref()?;
    let message = move || {
        let key = status.idempotency_key.as_deref().unwrap_or("unknown");
        format!(
            "The service accepted the run as {} (idempotency key {}{}).",
            escaped(run_id, MAX_ID),
            escaped(key, MAX_ID),
            request(status)
        )
    };
    let since = status.submission_time.as_ref().map(|t| t.0);
    Some(Fact::new(EventReason::Submitted, run_id, message).since(since))
}

fn ended(status: &RunStatus) -> Option<Fact<'_>> {
    let finished = find(&status.conditions, Type::Finished).filter(|c| c.status == "True")?;
    let reason = match finished.reason.as_str() {
        "CancelledElsewhere" => EventReason::CancelledElsewhere,
        "DeadlineExceeded" => EventReason::DeadlineExceeded,
        "RunNotFound" => EventReason::RunNotFound,
        // The reason of the phase, or one of another version.
        _ => match status.phase {
            Some(Phase::Succeeded) => EventReason::Succeeded,
            Some(Phase::Cancelled) => EventReason::Cancelled,
            _ => EventReason::Failed,
        },
    };
    let message = move || {
        let ids = match &status.run_id {
            Some(run_id) => format!(" (run {}{})", escaped(run_id, MAX_ID), request(status)),
            None => String::new(),
        };
        format!("{}{ids}", sentence(finished))
    };
    let since = status.completion_time.as_ref().map(|t| t.0);
    Some(Fact::new(reason, "", message).since(since))
}

/// Each refusal is a new fact, even if the Run stayed stalled.
fn stalled(status: &RunStatus) -> Option<Fact<'_>> {
    let stalled = find(&status.conditions, Type::Stalled).filter(|c| c.status == "True")?;
    let epoch = status.refusal.as_ref().map_or(0, |r| r.epoch);
    let since = stalled.last_transition_time.0;
    let gist = format!("{}/{epoch}", stalled.reason);
    let message = move || format!("{}: {}{}", stalled.reason, sentence(stalled), ids(status));
    let fact = Fact::new(EventReason::Stalled, gist, message);
    Some(fact.since(Some(since)).at(since))
}

fn recovered(before: &RunStatus, after: &RunStatus) -> Option<EventDraft> {
    let was = find(&before.conditions, Type::Stalled).filter(|c| c.status == "True")?;
    let over =
        !is_true(&after.conditions, Type::Stalled) && !is_true(&after.conditions, Type::Finished);
    let message = format!("Recovered from {}{}.", was.reason, ids(after));
    let identity = format!("{}@{}", was.reason, was.last_transition_time.0);
    over.then(|| EventDraft::new(EventReason::Recovered, message, identity))
}

/// The Ready condition of a Run that is suspended or being cancelled.
fn cancelling(status: &RunStatus) -> Option<Fact<'_>> {
    let ready = find(&status.conditions, Type::Ready)?;
    if ready.reason == Reason::Suspended.as_str() {
        let generation = status.observed_generation.unwrap_or_default();
        let message = move || sentence(ready).into_owned();
        let fact = Fact::new(EventReason::Suspended, "", message);
        return Some(fact.at(generation));
    }
    if status.phase != Some(Phase::Cancelling) {
        return None;
    }
    let message = move || format!("{}{}", sentence(ready), ids(status));
    let since = status.cancel_accepted_time.as_ref().map(|t| t.0);
    Some(Fact::new(EventReason::Cancelling, "", message).since(since))
}

/// A call that fails and is repeated. Each kind of failure is published once an hour, however often it recurs.
fn in_trouble(status: &RunStatus, now: Timestamp) -> Option<Fact<'_>> {
    let reconciling = find(&status.conditions, Type::Reconciling).filter(|c| c.status == "True");
    let refused = reconciling.filter(|c| c.reason == Reason::CancelRefused.as_str());
    let retrying = reconciling.filter(|c| is_retried(&c.reason) || met_a_429(c, status));
    let stale = find(&status.conditions, Type::Synced)
        .filter(|c| c.status == "False" && (by_a_call(&c.reason) || met_a_429(c, status)))
        .filter(|_| !is_true(&status.conditions, Type::Stalled));
    let (reason, condition) = match (refused, retrying.or(stale)) {
        (Some(refused), _) => (EventReason::CancelRefused, refused),
        (None, Some(failed)) => (EventReason::Retrying, failed),
        (None, None) => return None,
    };
    let gist = format!(
        "{}/{}",
        condition.reason,
        sort_of(status.last_error.as_ref())
    );
    let message = move || format!("{}{}", sentence(condition), ids(status));
    let hour = now.as_second().div_euclid(TROUBLE_APART);
    Some(Fact::new(reason, gist, message).at(hour))
}

/// Facts about the Workspace that only the Run can show: it doesn't exist, or is a different one now.
fn nowhere(status: &RunStatus, now: Timestamp) -> Option<Fact<'_>> {
    let waits = find(&status.conditions, Type::Reconciling).filter(|c| c.status == "True");
    let stale = find(&status.conditions, Type::Synced).filter(|c| c.status == "False");
    let is = |c: &Condition, reasons: &[Reason]| reasons.iter().any(|r| r.as_str() == c.reason);
    let missing = |c: &&Condition| is(c, &[Reason::WorkspaceNotFound]);
    let moved = |c: &&Condition| is(c, &[Reason::WorkspaceChanged, Reason::IdentityChanged]);
    let stalled = is_true(&status.conditions, Type::Stalled);
    let hour = now.as_second().div_euclid(TROUBLE_APART);
    let (reason, condition) = if let Some(missing) = waits.filter(missing).or(stale.filter(missing))
    {
        (EventReason::WorkspaceNotFound, missing)
    } else {
        (
            EventReason::NotSynced,
            stale.filter(moved).filter(|_| !stalled)?,
        )
    };
    let message = move || {
        format!(
            "{}: {}{}",
            condition.reason,
            sentence(condition),
            ids(status)
        )
    };
    Some(Fact::new(reason, &condition.reason, message).at(hour))
}

/// Whether a call failed and is repeated.
fn is_retried(reason: &str) -> bool {
    [Reason::Retrying, Reason::SubmissionInProgress]
        .iter()
        .any(|r| r.as_str() == reason)
}

/// Whether the Run's own call was answered 429: a Run that only waits in a pause publishes nothing.
fn met_a_429(condition: &Condition, status: &RunStatus) -> bool {
    let error = status.last_error.as_ref();
    condition.reason == Reason::RateLimited.as_str()
        && error.is_some_and(|e| e.http_status == Some(429))
}

/// Whether a mirror is stale because of an answer to a call of the Run itself. A failure of the Workspace is published
/// once, by the Workspace.
fn by_a_call(reason: &str) -> bool {
    [
        Reason::ServiceUnavailable,
        Reason::Unauthorized,
        Reason::Forbidden,
        Reason::Refused,
        Reason::ServerError,
        Reason::ContractViolation,
        Reason::RunNotFound,
    ]
    .iter()
    .any(|r| r.as_str() == reason)
}

fn sort_of(error: Option<&LastError>) -> String {
    error.map_or_else(String::new, |e| {
        format!("{}/{}", e.code, e.http_status.unwrap_or_default())
    })
}

/// The service's latest event, for all those that this write adds. At most one in a while: the status keeps the last
/// ten, the service all of them.
pub(crate) fn service_event(
    before: &RunStatus,
    after: &RunStatus,
    correlator: &Correlator,
    now: Timestamp,
) -> Option<EventDraft> {
    let known = before.event_count.unwrap_or_default();
    let nth = after.event_count.unwrap_or_default();
    let event = after
        .events
        .last()
        .filter(|_| nth > known && correlator.allows_service_event(now))?;
    let shown = correlator
        .service_events_shown()
        .unwrap_or(known)
        .min(known);
    Some(EventDraft::service_event(&ServiceEvent {
        id: event.id.clone(),
        kind: event.kind.clone(),
        data: event.data.clone(),
        nth,
        more: nth.saturating_sub(shown).saturating_sub(1),
    }))
}

fn sentence(condition: &Condition) -> Cow<'_, str> {
    escaped(&condition.message, MAX_SENTENCE)
}

/// The run or the key, for support.
fn ids(status: &RunStatus) -> String {
    match (&status.run_id, &status.idempotency_key) {
        (Some(run_id), _) => format!(" (run {})", escaped(run_id, MAX_ID)),
        (None, Some(key)) => format!(" (idempotency key {})", escaped(key, MAX_ID)),
        (None, None) => String::new(),
    }
}

/// The request that showed it.
fn request(status: &RunStatus) -> String {
    let id = status.request_id.as_deref();
    id.map_or_else(String::new, |id| {
        format!(", request {}", escaped(id, MAX_ID))
    })
}

#[cfg(test)]
mod tests;
