//! Kubernetes Events: the changes of a status that deserve one, and their texts. An Event's name is made of its object,
//! its reason and its occasion, of which there is one a minute or hour at most: the API server refuses a second. It is
//! published after the write. The process may end in between, so facts younger than [`RECENT`] are published again, by
//! the same names, of which a process sends each once.

use std::borrow::Cow;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

use crate::api::{
    ConditionType as Type, Contract, EventReason, Phase, Reason, RunScheduleStatus, RunStatus,
    WorkspaceStatus,
    conditions::{find, is_true},
    contract::StateClass,
    limits::MAX_CONSOLE_URL,
};
use crate::decide::{
    delays::{RECENT, later},
    truncate::escaped,
};

/// Seconds: of process time, where no stored time is at hand.
const MINUTE: i64 = 60;
/// Seconds for which the API server keeps an Event: an error of one kind is published once in them.
const HOUR: i64 = 3600;
const ONCE: &str = "";

/// Bytes of an Event's text that the API server takes.
const MAX_NOTE: usize = 1024;
/// Bytes of a condition's message in a text after escaping, so that the ids after it are not cut.
const MAX_SENTENCE: usize = 600;
/// Bytes of an id there.
const MAX_ID: usize = 256;
/// Bytes of the type of the service's event.
const MAX_KIND: usize = 128;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventDraft {
    pub reason: EventReason,
    /// Drafts with the same object, reason and occasion are the same Event, published once.
    pub occasion: String,
    /// One or two sentences, of at most 1 KiB.
    pub message: String,
    /// Time of the change, by the wall clock, if another process may have to publish it.
    pub since: Option<Timestamp>,
}

impl EventDraft {
    pub fn new(reason: EventReason, occasion: impl Into<String>, message: impl AsRef<str>) -> Self {
        Self {
            reason,
            occasion: occasion.into(),
            message: escaped(message.as_ref(), MAX_NOTE).into_owned(),
            since: None,
        }
    }

    /// The object is released and its run, if there is one, continues.
    pub fn orphaned(key: Option<&str>, run_id: Option<&str>) -> Self {
        let (run, key) = (id(run_id.unwrap_or("unknown")), id(key.unwrap_or("none")));
        let message = format!(
            "spec.deletionPolicy is Orphan: the finalizer is removed and the run, if there is one, continues (run {run}, idempotency key {key})."
        );
        Self::new(EventReason::Orphaned, ONCE, message)
    }

    /// The finalizer is removed although the run was only seen to be cancelling.
    pub fn cancel_unconfirmed(run_id: &str) -> Self {
        let run = id(run_id);
        let message = format!(
            "The service accepted the cancellation of the run {run} and shows it as cancelling, but not as ended; the finalizer is removed."
        );
        Self::new(EventReason::CancelUnconfirmed, ONCE, message)
    }

    /// `writes`: the part of the object. `condition`: what the refused status would show.
    pub fn write_refused(
        writes: &str,
        sentence: &str,
        condition: Option<&Condition>,
        now: Timestamp,
    ) -> Self {
        let sentence = escaped(sentence, MAX_SENTENCE);
        let mut message =
            format!("The API server refuses what the operator writes ({writes}): {sentence}");
        if let Some(condition) = condition {
            message = format!("{message} The status would show {}", why(condition));
        }
        let hour = now.as_second().div_euclid(HOUR);
        Self::new(
            EventReason::WriteRefused,
            format!("{writes}@{hour}"),
            message,
        )
    }

    /// The service names a page of the run that the status doesn't link to.
    pub(crate) fn console_url_refused(address: &str) -> Self {
        let address = escaped(address, MAX_ID);
        let message = format!(
            "The service names {address:?} as the page of the run in its console. It is not shown: it must be an https URL without a user name, of at most {MAX_CONSOLE_URL} bytes, at an origin of the operator's --console-origin."
        );
        Self::new(EventReason::ConsoleURLRefused, ONCE, message)
    }

    fn since(self, since: Option<&Time>) -> Self {
        let since = since.map(|time| time.0);
        Self { since, ..self }
    }

    fn same(&self, other: &Self) -> bool {
        (self.reason, &self.occasion) == (other.reason, &other.occasion)
    }

    fn is_recent(&self, wall: Timestamp) -> bool {
        self.since.is_some_and(|at| wall < later(at, RECENT))
    }
}

pub(crate) fn of_run(
    before: &RunStatus,
    after: &RunStatus,
    contract: &Contract,
    now: Timestamp,
    wall: Timestamp,
) -> Vec<EventDraft> {
    let known: Vec<_> = of_status(before, now).collect();
    let is_known = |event: &EventDraft| known.iter().any(|before| before.same(event));
    of_status(after, now)
        .filter(|event| event.is_recent(wall) || !is_known(event))
        .chain(unmapped_state(before, after, contract, now))
        .chain(recovered(before, after))
        .collect()
}

fn of_status(status: &RunStatus, now: Timestamp) -> impl Iterator<Item = EventDraft> {
    let once = [submitted(status), ended(status), kept(status)];
    let passing = [
        stalled(status),
        suspended(status, now),
        cancelling(status),
        failing(status, now),
    ];
    let finished = is_true(&status.conditions, Type::Finished);
    let passing = passing.into_iter().filter(move |_| !finished);
    once.into_iter().chain(passing).flatten()
}

fn submitted(status: &RunStatus) -> Option<EventDraft> {
    // A copied status shows the outcome of another object.
    let accepted = is_true(&status.conditions, Type::Accepted);
    let run_id = status.run_id.as_deref().filter(|_| accepted)?;
    let key = id(status.idempotency_key.as_deref().unwrap_or("unknown"));
    let (run, request) = (id(run_id), request(status));
    let message =
        format!("The service accepted the run as {run} (idempotency key {key}{request}).");
    let event = EventDraft::new(EventReason::Submitted, ONCE, message);
    Some(event.since(status.submission_time.as_ref()))
}

fn ended(status: &RunStatus) -> Option<EventDraft> {
    let finished = shown(status, Type::Finished, "True")?;
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
    let ids = match &status.run_id {
        Some(run_id) => format!(" (run {}{})", id(run_id), request(status)),
        None => String::new(),
    };
    let message = format!("{}{ids}", sentence(finished));
    Some(EventDraft::new(reason, ONCE, message).since(status.completion_time.as_ref()))
}

/// One Event, whichever tool tracks the object at that time.
fn kept(status: &RunStatus) -> Option<EventDraft> {
    let by = status.kept_by.as_deref()?;
    let message = format!(
        "ttlSecondsAfterFinished doesn't apply: {by} would create this object again, as a new Run. To delete it, remove it there."
    );
    let event = EventDraft::new(EventReason::TtlIgnored, ONCE, message);
    Some(event.since(status.completion_time.as_ref()))
}

/// Each refusal is a new fact, even if the Run stayed stalled.
fn stalled(status: &RunStatus) -> Option<EventDraft> {
    let stalled = shown(status, Type::Stalled, "True")?;
    let epoch = status.refusal.as_ref().map_or(0, |r| r.epoch);
    let event = of_condition(EventReason::Stalled, stalled, &ids(status));
    let occasion = format!("{epoch}/{}", event.occasion);
    Some(EventDraft { occasion, ..event })
}

fn recovered(before: &RunStatus, after: &RunStatus) -> Option<EventDraft> {
    let was = shown(before, Type::Stalled, "True")?;
    let over =
        !is_true(&after.conditions, Type::Stalled) && !is_true(&after.conditions, Type::Finished);
    let message = format!("Recovered from {}{}.", was.reason, ids(after));
    let event = of_condition(EventReason::Recovered, was, "");
    over.then(|| EventDraft::new(event.reason, event.occasion, message))
}

fn suspended(status: &RunStatus, now: Timestamp) -> Option<EventDraft> {
    let held = shown(status, Type::Suspended, "True")?;
    let event = EventDraft::new(EventReason::Suspended, minute(now), sentence(held));
    Some(event)
}

fn cancelling(status: &RunStatus) -> Option<EventDraft> {
    let ready = find(&status.conditions, Type::Ready)?;
    (status.phase == Some(Phase::Cancelling)).then(|| {
        let message = format!("{}{}", sentence(ready), ids(status));
        let event = EventDraft::new(EventReason::Cancelling, ONCE, message);
        event.since(status.cancel_accepted_time.as_ref())
    })
}

/// A call that fails and is repeated, or can't be made at all.
fn failing(status: &RunStatus, now: Timestamp) -> Option<EventDraft> {
    if is_true(&status.conditions, Type::Stalled) {
        return None;
    }
    let answer = status.last_error.as_ref().and_then(|e| e.http_status);
    let of = |(kind, is)| {
        let condition = shown(status, kind, is)?;
        Some((shown_failure(condition, answer)?, condition))
    };
    let kinds = [(Type::Reconciling, "True"), (Type::Synced, "False")];
    let (reason, condition) = kinds.into_iter().find_map(of)?;
    let hour = now.as_second().div_euclid(HOUR);
    let occasion = format!("{}/{}@{hour}", condition.reason, answer.unwrap_or_default());
    let message = why(condition) + &ids(status);
    Some(EventDraft::new(reason, occasion, message))
}

fn shown<'a>(status: &'a RunStatus, kind: Type, is: &str) -> Option<&'a Condition> {
    find(&status.conditions, kind).filter(|c| c.status == is)
}

/// The failure that a condition shows. A failure of the Workspace is published once, by the Workspace.
fn shown_failure(condition: &Condition, answer: Option<i32>) -> Option<EventReason> {
    match Reason::named(&condition.reason)? {
        Reason::CancelRefused => Some(EventReason::CancelRefused),
        Reason::WorkspaceNotFound => Some(EventReason::WorkspaceNotFound),
        Reason::WorkspaceChanged | Reason::IdentityChanged => Some(EventReason::NotSynced),
        // A Run that only waits in a pause publishes nothing.
        Reason::RateLimited => (answer == Some(429)).then_some(EventReason::Retrying),
        Reason::Retrying
        | Reason::SubmissionInProgress
        | Reason::ServiceUnavailable
        | Reason::Unauthorized
        | Reason::Forbidden
        | Reason::Refused
        | Reason::ServerError
        | Reason::ContractViolation
        | Reason::RunNotFound => Some(EventReason::Retrying),
        _ => None,
    }
}

fn unmapped_state(
    before: &RunStatus,
    after: &RunStatus,
    contract: &Contract,
    now: Timestamp,
) -> Option<EventDraft> {
    let state = after.state.as_deref();
    let state = state.filter(|_| before.state != after.state)?;
    (contract.state(state) == StateClass::Unmapped).then(|| {
        let message = format!(
            "The service names the state {state:?}, which the contract file doesn't map; it counts as active. Add it to the contract file if it is an end."
        );
        EventDraft::new(EventReason::UnmappedState, minute(now), message)
    })
}

/// The service's latest event, for all those that this write adds.
pub(crate) fn of_service(
    before: &RunStatus,
    after: &RunStatus,
    now: Timestamp,
) -> Option<EventDraft> {
    let more = after.event_count > before.event_count;
    let number = after.event_count.filter(|_| more)?;
    let event = after.events.last()?;
    let its_id = event.id.as_deref().map(|text| format!(", id {}", id(text)));
    let its_id = its_id.unwrap_or_default();
    let kind = escaped(&event.kind, MAX_KIND);
    let data = event.data.as_deref().unwrap_or("no data");
    let message = format!("The service's event number {number} ({kind}{its_id}): {data}");
    let reason = EventReason::ServiceEvent;
    Some(EventDraft::new(reason, minute(now), message))
}

/// The Event for the change of a Workspace's status, or for a recent one. `waits`: it is being deleted and waits for Runs.
pub fn of_workspace(
    before: Option<&WorkspaceStatus>,
    after: &WorkspaceStatus,
    waits: bool,
    wall: Timestamp,
) -> Option<EventDraft> {
    let before = before.and_then(|status| of_workspace_status(status, waits));
    let after = of_workspace_status(after, waits)?;
    let known = before.is_some_and(|before| before.same(&after)) && !after.is_recent(wall);
    (!known).then_some(after)
}

fn of_workspace_status(status: &WorkspaceStatus, waits: bool) -> Option<EventDraft> {
    let ready = find(&status.conditions, Type::Ready)?;
    let reason = match Reason::named(&ready.reason) {
        _ if ready.status == "True" => EventReason::Ready,
        Some(Reason::Checking) => return None,
        Some(Reason::WorkspaceDeleting) if !waits => return None,
        Some(Reason::WorkspaceDeleting) => EventReason::WorkspaceInUse,
        Some(Reason::Unauthorized | Reason::WorkspaceMismatch) => EventReason::CredentialsRejected,
        Some(Reason::VersionNotAccepted) => EventReason::VersionNotAccepted,
        _ => EventReason::NotReady,
    };
    Some(of_condition(reason, ready, ""))
}

/// The Event for a RunSchedule that stalls, recovers or is suspended.
pub(crate) fn of_schedule(
    before: &RunScheduleStatus,
    after: &RunScheduleStatus,
) -> Option<EventDraft> {
    let held = find(&after.conditions, Type::Suspended);
    if let Some(held) = held.filter(|_| !is_true(&before.conditions, Type::Suspended)) {
        return Some(of_condition(EventReason::Suspended, held, ""));
    }
    let reason = |status: &RunScheduleStatus| {
        let stalled = find(&status.conditions, Type::Stalled);
        stalled.map(|condition| condition.reason.clone())
    };
    match (reason(before), reason(after)) {
        (was, now) if was == now => None,
        (Some(was), None) => {
            let message = format!("Recovered from {was}.");
            let ready = find(&after.conditions, Type::Ready)?;
            let occasion = minute(ready.last_transition_time.0);
            Some(EventDraft::new(EventReason::Recovered, occasion, message))
        }
        _ => {
            let stalled = find(&after.conditions, Type::Stalled)?;
            Some(of_condition(EventReason::Stalled, stalled, ""))
        }
    }
}

fn of_condition(reason: EventReason, condition: &Condition, ids: &str) -> EventDraft {
    let since = &condition.last_transition_time;
    let occasion = format!("{}@{}", condition.reason, minute(since.0));
    EventDraft::new(reason, occasion, why(condition) + ids).since(Some(since))
}

fn minute(at: Timestamp) -> String {
    at.as_second().div_euclid(MINUTE).to_string()
}

fn sentence(condition: &Condition) -> Cow<'_, str> {
    escaped(&condition.message, MAX_SENTENCE)
}

fn why(condition: &Condition) -> String {
    format!("{}: {}", condition.reason, sentence(condition))
}

fn id(text: &str) -> Cow<'_, str> {
    escaped(text, MAX_ID)
}

fn ids(status: &RunStatus) -> String {
    match (&status.run_id, &status.idempotency_key) {
        (Some(run_id), _) => format!(" (run {})", id(run_id)),
        (None, Some(key)) => format!(" (idempotency key {})", id(key)),
        (None, None) => String::new(),
    }
}

fn request(status: &RunStatus) -> String {
    let shown = status.request_id.as_deref();
    shown.map_or_else(String::new, |text| format!(", request {}", id(text)))
}

#[cfg(test)]
mod tests;
