//! Which turns of a status deserve an Event. A status amounts to a few facts; one that the stored status
//! doesn't hold yet is news.
//!
//! The Event comes after the write. A process that ends in between never sends it, and so the next one
//! tells of what is younger than [`RECENT`] as well: an Event has the same name then, and the API server
//! keeps it from being said twice.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use crate::api::{
    ConditionType as Type, EventReason, Phase, Reason, RunStatus,
    conditions::{find, is_true},
    status::LastError,
};

use super::{
    memory::later,
    notes::{Heard, News, Note},
    text::escaped,
    voice::Voice,
};

mod workspace;

pub use workspace::of_workspace;

/// How long after a turn another process still tells of it. Far less than the hour for which the API
/// server keeps an Event.
pub(super) const RECENT: Duration = Duration::from_mins(5);
/// Trouble that comes and goes is told of once in this time, as long as the API server keeps an Event. The hours
/// are those of process time: one that the wall clock shows twice would swallow the second's Events.
const TROUBLE_APART: i64 = 3600;
/// Bytes of a condition's message in an Event, so that the ids behind it are never cut: as it is shown, since
/// an escaped character takes up to three times its bytes.
const MAX_SENTENCE: usize = 600;
/// Bytes of an id there, as it is shown.
const MAX_ID: usize = 128;

/// What a status says and deserves an Event.
struct Fact {
    news: News,
    /// Tells it from others of its reason; without anything that changes while the fact stays.
    gist: String,
    /// Since when it holds, where the status says so.
    since: Option<Timestamp>,
}

impl Fact {
    fn new(reason: EventReason, message: impl AsRef<str>, gist: &str) -> Self {
        Self {
            news: News::new(reason, message, gist),
            gist: gist.to_owned(),
            since: None,
        }
    }

    fn since(self, since: Option<Timestamp>) -> Self {
        Self { since, ..self }
    }

    /// What makes it another Event although its gist is the same.
    fn at(mut self, occasion: impl std::fmt::Display) -> Self {
        self.news.once = format!("{}@{occasion}", self.news.once);
        self
    }

    fn same(&self, other: &Self) -> bool {
        (self.news.reason, &self.gist) == (other.news.reason, &other.gist)
    }
}

/// What deserves an Event when `after` stands where `before` stood.
pub(super) fn of_run(
    before: &RunStatus,
    after: &RunStatus,
    voice: &Voice,
    now: Timestamp,
    wall: Timestamp,
) -> Vec<Note> {
    let mut notes = unsaid(&run_facts(before, now), run_facts(after, now), voice, wall);
    notes.extend(recovered(before, after));
    notes.extend(heard(before, after, voice, now));
    notes
}

fn unsaid(before: &[Fact], after: Vec<Fact>, voice: &Voice, wall: Timestamp) -> Vec<Note> {
    let news = |mut fact: Fact| {
        let recent = fact.since.is_some_and(|at| wall < later(at, RECENT));
        fact.news.again = before.iter().any(|b| b.same(&fact));
        let unsaid = (recent || !fact.news.again) && !voice.said(&fact.news);
        unsaid.then_some(Note::Turned(fact.news))
    };
    after.into_iter().filter_map(news).collect()
}

fn run_facts(status: &RunStatus, now: Timestamp) -> Vec<Fact> {
    let mut facts = Vec::new();
    // A copied status says what became of another object.
    if is_true(&status.conditions, Type::Accepted) {
        facts.extend(submitted(status));
        facts.extend(started(status));
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

fn submitted(status: &RunStatus) -> Option<Fact> {
    let run_id = status.run_id.as_deref()?;
    let key = status.idempotency_key.as_deref().unwrap_or("unknown");
    let message = format!(
        "The service accepted the run as {} (idempotency key {}{}).",
        escaped(run_id, MAX_ID),
        escaped(key, MAX_ID),
        request(status)
    );
    let since = status.submission_time.as_ref().map(|t| t.0);
    Some(Fact::new(EventReason::Submitted, message, run_id).since(since))
}

fn started(status: &RunStatus) -> Option<Fact> {
    let since = status.start_time.as_ref()?.0;
    let run_id = status.run_id.as_deref()?;
    let message = format!(
        "The run is running (run {}{}).",
        escaped(run_id, MAX_ID),
        request(status)
    );
    Some(Fact::new(EventReason::Active, message, run_id).since(Some(since)))
}

fn ended(status: &RunStatus) -> Option<Fact> {
    let finished = find(&status.conditions, Type::Finished).filter(|c| c.status == "True")?;
    let reason = match finished.reason.as_str() {
        "CancelledElsewhere" => EventReason::CancelledElsewhere,
        "DeadlineExceeded" => EventReason::DeadlineExceeded,
        "RunNotFound" => EventReason::RunNotFound,
        // The phase's own word, or one of another version.
        _ => match status.phase {
            Some(Phase::Succeeded) => EventReason::Succeeded,
            Some(Phase::Cancelled) => EventReason::Cancelled,
            _ => EventReason::Failed,
        },
    };
    let ids = match &status.run_id {
        Some(run_id) => format!(" (run {}{})", escaped(run_id, MAX_ID), request(status)),
        None => String::new(),
    };
    // Finished says besides what becomes of the object.
    let told = find(&status.conditions, Type::Ready).filter(|c| c.reason == finished.reason);
    let message = format!("{}{ids}", sentence(told.unwrap_or(finished)));
    let since = status.completion_time.as_ref().map(|t| t.0);
    Some(Fact::new(reason, message, "").since(since))
}

/// Each refusal is another one, though the Run was stalled all the time.
fn stalled(status: &RunStatus) -> Option<Fact> {
    let stalled = find(&status.conditions, Type::Stalled).filter(|c| c.status == "True")?;
    let epoch = status.refusal.as_ref().map_or(0, |r| r.epoch);
    let since = stalled.last_transition_time.0;
    let message = format!("{}: {}{}", stalled.reason, sentence(stalled), ids(status));
    let gist = format!("{}/{epoch}", stalled.reason);
    let fact = Fact::new(EventReason::Stalled, message, &gist);
    Some(fact.since(Some(since)).at(since))
}

fn recovered(before: &RunStatus, after: &RunStatus) -> Option<Note> {
    let was = find(&before.conditions, Type::Stalled).filter(|c| c.status == "True")?;
    let over =
        !is_true(&after.conditions, Type::Stalled) && !is_true(&after.conditions, Type::Finished);
    let message = format!(
        "Not stalled by {} any more; it goes on{}.",
        was.reason,
        ids(after)
    );
    let once = format!("{}@{}", was.reason, was.last_transition_time.0);
    over.then(|| Note::Turned(News::new(EventReason::Recovered, message, once)))
}

/// What Ready says of a Run that is held, or is to end.
fn cancelling(status: &RunStatus) -> Option<Fact> {
    let ready = find(&status.conditions, Type::Ready)?;
    if ready.reason == Reason::Suspended.as_str() {
        let generation = status.observed_generation.unwrap_or_default();
        let fact = Fact::new(EventReason::Suspended, sentence(ready), "");
        return Some(fact.at(generation));
    }
    if status.phase != Some(Phase::Cancelling) {
        return None;
    }
    let message = format!("{}{}", sentence(ready), ids(status));
    let since = status.cancel_accepted_time.as_ref().map(|t| t.0);
    Some(Fact::new(EventReason::Cancelling, message, "").since(since))
}

/// A call that fails and is made again. Each sort of failure is told of once an hour, however often it
/// comes back and goes.
fn in_trouble(status: &RunStatus, now: Timestamp) -> Option<Fact> {
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
    let message = format!("{}{}", sentence(condition), ids(status));
    let hour = now.as_second().div_euclid(TROUBLE_APART);
    Some(Fact::new(reason, message, &gist).at(hour))
}

/// What only the Run can say of its Workspace: that it isn't there, or is another one now.
fn nowhere(status: &RunStatus, now: Timestamp) -> Option<Fact> {
    let waits = find(&status.conditions, Type::Reconciling).filter(|c| c.status == "True");
    let stale = find(&status.conditions, Type::Synced).filter(|c| c.status == "False");
    let is = |c: &Condition, reasons: &[Reason]| reasons.iter().any(|r| r.as_str() == c.reason);
    let missing = |c: &&Condition| is(c, &[Reason::WorkspaceNotFound]);
    let moved = |c: &&Condition| is(c, &[Reason::WorkspaceChanged, Reason::IdentityChanged]);
    let stalled = is_true(&status.conditions, Type::Stalled);
    let hour = now.as_second().div_euclid(TROUBLE_APART);
    let (reason, told) = if let Some(missing) = waits.filter(missing).or(stale.filter(missing)) {
        (EventReason::WorkspaceNotFound, missing)
    } else {
        (
            EventReason::NotSynced,
            stale.filter(moved).filter(|_| !stalled)?,
        )
    };
    let message = format!("{}: {}{}", told.reason, sentence(told), ids(status));
    Some(Fact::new(reason, message, &told.reason).at(hour))
}

/// Whether a call failed and is made again.
fn is_retried(reason: &str) -> bool {
    [Reason::Retrying, Reason::SubmissionInProgress]
        .iter()
        .any(|r| r.as_str() == reason)
}

/// Whether the Run's own call was answered 429: a Run that only waits in a pause tells of nothing.
fn met_a_429(condition: &Condition, status: &RunStatus) -> bool {
    let error = status.last_error.as_ref();
    condition.reason == Reason::RateLimited.as_str()
        && error.is_some_and(|e| e.http_status == Some(429))
}

/// Whether a mirror is stale for an answer to a call of the Run itself. What the Workspace is in the way of
/// is told of once, by the Workspace.
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

/// The service's latest event, for those that this write brings. At most one in a while, and the latest:
/// the status keeps the last ten, the service all of them.
fn heard(before: &RunStatus, after: &RunStatus, voice: &Voice, now: Timestamp) -> Option<Note> {
    let known = before.event_count.unwrap_or_default();
    let nth = after.event_count.unwrap_or_default();
    let event = after
        .events
        .last()
        .filter(|_| nth > known && voice.may_hear(now))?;
    let told = voice.heard_count().unwrap_or(known).min(known);
    Some(Note::Heard(Heard {
        id: event.id.clone(),
        kind: event.kind.clone(),
        data: event.data.clone(),
        nth,
        more: nth.saturating_sub(told).saturating_sub(1),
    }))
}

fn sentence(condition: &Condition) -> String {
    escaped(&condition.message, MAX_SENTENCE)
}

/// The run and the key, for support.
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
