//! When a run that is at the service is read, cancelled, cancelled again, or let go.

use std::time::Duration;

use jiff::Timestamp;

use crate::api::{Reason, contract::StateClass};

use super::{
    Note, Stream, backoff,
    classify::{Call, Class},
    facts::Facts,
    memory::{CONFIRM_APART, Seen, Trouble, later},
    outlook::{Outlook, Wish},
    rules::{Rule, holds},
};

/// A Run without a stream because the places are taken is read at least this often, up to a tenth of jitter
/// included.
const UNSTREAMED: Duration = Duration::from_secs(27);
/// How long an accepted cancellation may take to show before the finalizer goes all the same.
const CANCEL_PATIENCE: Duration = Duration::from_mins(5);

/// What is done next for a run.
pub(super) enum Step {
    Release(Vec<Note>),
    Cancel,
    Refresh,
    Wait(Option<Timestamp>),
}

/// The one thing that is due, or when something is.
pub(super) fn next_step(f: &Facts<'_>, outlook: &Outlook) -> Step {
    let refresh = refresh_at(f);
    let cancel = match outlook.wish {
        Some(Wish::Deleted) => match deletion_done(f, outlook) {
            Some(notes) => return Step::Release(notes),
            None => cancel_at(f, outlook),
        },
        Some(Wish::Asked | Wish::Deadline) => cancel_at(f, outlook),
        None => None,
    };
    if cancel.is_some_and(|at| at <= f.o.now) {
        return Step::Cancel;
    }
    if refresh <= f.o.now {
        return Step::Refresh;
    }
    Step::Wait(
        [Some(refresh), cancel, outlook.deadline_ahead(f)]
            .into_iter()
            .flatten()
            .min(),
    )
}

/// Whether a run that is not seen to have ended may be let go: both cancel and GET deny it, or it is
/// seen cancelling for long enough.
fn deletion_done(f: &Facts<'_>, outlook: &Outlook) -> Option<Vec<Note>> {
    let cancel = &f.memory().cancel;
    let by_cancel = cancel.refused == Some(Reason::RunNotFound) || !holds(Rule::CancelDenies);
    let by_get = denied_at(f).is_some() && cancel.denied_since || !holds(Rule::GetDenies);
    if by_cancel && by_get {
        return Some(Vec::new());
    }
    let run_id = f.run_id().filter(|_| patience_over(f, outlook))?;
    Some(vec![Note::CancelUnconfirmed {
        run_id: run_id.to_owned(),
    }])
}

/// When a GET last said that the run doesn't exist, if the last one said so.
fn denied_at(f: &Facts<'_>) -> Option<Timestamp> {
    f.trouble(Call::Get)
        .filter(|t| t.class == Class::Refused(Reason::RunNotFound))
        .map(|t| t.at)
}

/// When the run is to be cancelled, or cancelled again; nothing while a cancellation is under way.
fn cancel_at(f: &Facts<'_>, outlook: &Outlook) -> Option<Timestamp> {
    let memory = f.memory();
    let stored = f.status().cancel_accepted_time.as_ref().map(|t| t.0);
    let retry = f
        .trouble(Call::Cancel)
        .filter(|t| !matches!(t.class, Class::Refused(_)));
    let allowed = retry.map_or(f.o.now, |t| f.next_attempt(t));
    let refused = f
        .trouble(Call::Cancel)
        .filter(|_| memory.cancel.refused.is_some());
    let again = match (refused, memory.cancel.answered_at, stored) {
        (Some(refused), _, _) => f.next_attempt(refused),
        (None, Some(answered), _) => later(answered, gap(f)),
        (None, None, Some(accepted)) => later(f.o.now, gap(f).saturating_sub(f.since(accepted))),
        (None, None, None) => return Some(allowed),
    };
    // What was seen of a run that the service denies since shows nothing any more.
    let under_way = holds(Rule::CancelOnce)
        && outlook.class == Some(StateClass::Cancelling)
        && memory.cancel.refused.is_none()
        && denied_at(f).is_none();
    // First the effect of the last one is looked at: GET is truth.
    let unseen = !memory.cancel.looked_since && holds(Rule::LookAfterCancel);
    if under_way || unseen || !holds(Rule::CancelAgain) {
        return None;
    }
    Some(again.max(allowed))
}

/// How far apart the repetitions of a cancellation are that was accepted and left the run plainly active.
fn gap(f: &Facts<'_>) -> Duration {
    let settings = f.o.settings;
    let count = f.memory().cancel.count;
    backoff::poll_interval(
        count,
        settings.poll_min,
        settings.poll_max,
        backoff::seed(f.uid, count),
    )
}

/// Five minutes after the later of deletion and the latest accepted cancel, a GET later than that showed
/// the run cancelling. Two of these times are stored, so all go by the wall clock; five minutes of the process
/// that cancelled have passed in any case.
fn patience_over(f: &Facts<'_>, outlook: &Outlook) -> bool {
    let stored = f.status().cancel_accepted_time.as_ref().map(|t| t.0);
    let Some(accepted) = stored.max(f.memory().cancel.accepted_at) else {
        return false;
    };
    let since = f
        .deletion_requested_at()
        .filter(|_| holds(Rule::PatienceFromDeletion))
        .map_or(accepted, |deleted| deleted.max(accepted));
    let patience = if holds(Rule::Patience) {
        CANCEL_PATIENCE
    } else {
        Duration::ZERO
    };
    let over = later(since, patience);
    let answered = f.memory().cancel.answered_at;
    let waited = |s: &Seen| answered.is_none_or(|at| s.at >= later(at, patience));
    let seen_since = |s: &Seen| s.by_get && s.wall >= over && waited(s);
    let cancelling = outlook.class == Some(StateClass::Cancelling) || !holds(Rule::SeenCancelling);
    cancelling && f.memory().seen.as_ref().is_some_and(seen_since)
}

/// When the run is read next: at its regular time, or before that for a hint.
fn refresh_at(f: &Facts<'_>) -> Timestamp {
    let regular = regular_at(f);
    hinted_at(f).map_or(regular, |at| at.min(regular))
}

/// When a hint leads to a GET. A GET that fails doesn't hold up the next hint, but for what asks to be left alone.
fn hinted_at(f: &Facts<'_>) -> Option<Timestamp> {
    let memory = f.memory();
    let due = memory.hint_due(f.o.now);
    let Some(trouble) = f.trouble(Call::Get) else {
        return memory.feed.refresh_wanted().then_some(due);
    };
    let waits = trouble.class == Class::Unauthorized
        || trouble.failure.http_status == Some(429)
        || trouble.failure.retry_after.is_some();
    (memory.feed.fresh_hint() && !waits).then_some(due)
}

/// When the run is read where no hint says that it changed.
fn regular_at(f: &Facts<'_>) -> Timestamp {
    let memory = f.memory();
    let settings = f.o.settings;
    if let Some(trouble) = f.trouble(Call::Get) {
        return again_at(f, trouble);
    }
    let Some(seen) = memory
        .seen
        .as_ref()
        .filter(|s| s.by_get || s.state.is_some())
    else {
        return f.o.now;
    };
    if f.still_stale().is_some() {
        return f.o.now;
    }
    let quiet = match memory.lagging {
        0 => memory.quiet_polls,
        // The end that an event names is on its way.
        lagging => lagging.saturating_sub(1),
    };
    let (since, quiet, longest) = match f.o.stream {
        Stream::Open if memory.lagging == 0 => (seen.at, u32::MAX, settings.poll_max),
        Stream::Open | Stream::Closed => (seen.at, quiet, settings.poll_max),
        // Up to then the stream brought what was new.
        Stream::Waiting { since } => (
            since.max(seen.at),
            quiet,
            settings.poll_max.min(UNSTREAMED).max(settings.poll_min),
        ),
    };
    let jitter = backoff::seed(f.uid, memory.quiet_polls);
    later(
        since,
        backoff::poll_interval(quiet, settings.poll_min, longest, jitter),
    )
}

/// When a GET that failed is made again: whatever was answered, no later than `--poll-max`, unless the answer asked
/// for more.
fn again_at(f: &Facts<'_>, trouble: &Trouble) -> Timestamp {
    let asked = backoff::asked(trouble.failure.retry_after);
    let latest = later(trouble.at, f.o.settings.poll_max.max(asked));
    let at = f.next_attempt(trouble).min(latest);
    let confirms = Duration::from_secs(CONFIRM_APART.unsigned_abs());
    match f.memory().not_found.at {
        // The next 404 that counts is not waited for longer than it has to be.
        Some(counted) if trouble.class == Class::Refused(Reason::RunNotFound) => {
            at.min(later(counted, confirms).max(later(trouble.at, asked)))
        }
        _ => at,
    }
}
