//! Decides if an answer ends the submission, and the status that follows.

use crate::api::{ConditionType, Intent, Phase, Reason, status::Refusal};
use crate::decide::{
    Decision,
    conditions::{Conditions, Why},
    failure::{Call, CallFailures, Class},
    messages,
    observation::{Known, Observation, refusal_is_for_this_epoch},
};

/// Unreadable answers to the POST before the Run stalls for a person: enough for a rolling upgrade of the service, few
/// enough not to hide a wrong base URL.
const VIOLATIONS: u32 = 5;

/// The answer that ended the submission: the one just received, or the one in the status, which survives a restart.
pub(crate) fn standing_refusal(f: &Observation<'_>) -> Option<Refusal> {
    let intent = match f.intent() {
        Known::Own(intent) => intent,
        // The intent was removed by an edit: the refusal in the status still counts.
        Known::Nothing | Known::Foreign => return f.status().refusal.clone(),
        Known::Unreadable => return None,
    };
    if f.owned_by_this_process(intent)
        && let Some(failed) = f.failures_of(Call::Create)
    {
        let refusal = judge(f, intent, failed)?;
        return Some(Refusal {
            epoch: intent.epoch,
            ..refusal
        });
    }
    let stored = f.status().refusal.clone();
    stored.filter(|refusal| refusal_is_for_this_epoch(refusal, intent))
}

/// Returns the refusal if the last answer ends the submission.
fn judge(f: &Observation<'_>, intent: &Intent, failed: &CallFailures) -> Option<Refusal> {
    let ends = match (failed.last.class, failed.last.class.refusal()) {
        (Class::Unreadable, _) => (failed.count >= VIOLATIONS).then_some(Reason::ContractViolation),
        // In doubt too, it is repeated only for a deletion or a retry.
        (_, Some(Reason::ServerError)) => Some(Reason::ServerError),
        (_, Some(reason)) => {
            // In doubt a refusal answers only its own request, and the same POST is repeated.
            let ends = f.not_created() || is_lone_conflict(f, intent, failed);
            ends.then_some(reason)
        }
        (_, None) => None,
    };
    ends.map(|reason| Refusal {
        reason,
        not_created: f.not_created(),
        epoch: 0,
    })
}

/// Whether this is a lone idempotency conflict, which is final.
///
/// It is no proof: a request that was duplicated in transit conflicts with itself. It is final all the same as the
/// first answer of all, and as the first answer to a retry of one. Any other refusal of such a retry leaves the doubt
/// as it was.
fn is_lone_conflict(f: &Observation<'_>, intent: &Intent, failed: &CallFailures) -> bool {
    let submission = &f.memory().submission;
    (submission.sole || repeats_conflict(f, intent))
        && submission.attempts == 1
        && failed.last.class == Class::Refused(Reason::IdempotencyConflict)
}

/// Whether the epoch before this one ended with an idempotency conflict, which only a lone conflict does, and this
/// epoch has no other refusal yet.
fn repeats_conflict(f: &Observation<'_>, intent: &Intent) -> bool {
    f.status().refusal.as_ref().is_some_and(|refusal| {
        let this_or_before = [refusal.epoch, refusal.epoch.saturating_add(1)];
        refusal.reason == Reason::IdempotencyConflict && this_or_before.contains(&intent.epoch)
    })
}

pub(crate) fn refused(f: &Observation<'_>, refusal: Refusal) -> Decision {
    let conditions = Conditions::Blocked(why_refused(f, &refusal));
    write_refusal(f, &conditions, refusal)
}

/// Ends the Run: the service refused these bytes, and they can't change. A retry would get the same answer.
pub(crate) fn ended_by(f: &Observation<'_>, refusal: Refusal) -> Decision {
    let conditions = Conditions::Ended {
        phase: Phase::Failed,
        why: why_refused(f, &refusal),
    };
    write_refusal(f, &conditions, refusal)
}

fn write_refusal(f: &Observation<'_>, conditions: &Conditions, refusal: Refusal) -> Decision {
    let mut status = f.status_with(conditions);
    // Its proof must outlive this process.
    status.refusal = Some(refusal);
    Decision::write(status)
}

fn why_refused(f: &Observation<'_>, refusal: &Refusal) -> Why {
    f.failures_of(Call::Create)
        .map(|t| messages::refused(f, refusal, t))
        .or_else(|| {
            messages::as_shown(f, ConditionType::Stalled, "True")
                .filter(|why| why.reason == refusal.reason)
        })
        .unwrap_or_else(|| messages::refused_before(refusal))
}
