//! A Run whose runId is not known: from the first look to the answer of the create.

use crate::api::{Intent, Phase, Reason, RunStatus, status::Refusal};

use super::{
    Decision, Effect, Note, Session, WorkspaceView,
    body::{self, CURRENT_SERIALIZER},
    classify::{Call, Class},
    facts::{Facts, Known, answers},
    memory::{Trouble, later},
    need::needs_workspace,
    place,
    rules::{Rule, holds},
    situation::{Situation, Why},
    submitted::release,
    wording,
};

/// Tries of an answer that can't be read before a person has to look: enough for a rolling upgrade of the
/// service, few enough not to hide a wrong base URL.
const VIOLATIONS: u32 = 5;

pub(super) fn decide(f: &Facts<'_>) -> Decision {
    if f.o.vanished {
        // No run is known, and nothing is left that could hold the intent of another POST.
        return Decision::act(Effect::Release { end: None });
    }
    if f.deleting() {
        return deleting(f);
    }
    if f.spec().cancelled() && f.not_created() && holds(Rule::CancelUnsubmitted) {
        let why = Why::new(
            Reason::Cancelled,
            "Cancelled before it was submitted; no run was made.",
        );
        return Decision::tell(f.say(&Situation::Ended {
            phase: Phase::Cancelled,
            why,
        }));
    }
    let foreign = matches!(f.intent(), Known::Foreign);
    if foreign && !retried_afresh(f) && holds(Rule::ForeignWaits) {
        return restored(f);
    }
    if suspended(f) {
        return Decision::tell(f.say(&Situation::Suspended));
    }
    if let Some(refusal) = standing_refusal(f) {
        let ends = refusal.reason == Reason::CreateRefused && refusal.not_created && !foreign;
        if ends {
            return ended_by(f, refusal);
        }
        if !f.new_retry() {
            return refused(f, refusal);
        }
    }
    with_workspace(f)
}

/// From the intent on `suspend` is ignored: what is proved now may not be known after a restart.
fn suspended(f: &Facts<'_>) -> bool {
    let in_time = match f.intent() {
        Known::Nothing => true,
        Known::Own(_) => !holds(Rule::SuspendTooLate),
        Known::Foreign | Known::Unreadable => false,
    };
    in_time && f.spec().suspended()
}

/// Whether a person asked for a copy of another object to be submitted as a new run. Not where the
/// other's runId came along in the status: it is written once, and the new run would be mistaken for it.
fn retried_afresh(f: &Facts<'_>) -> bool {
    f.new_retry() && !f.spec().suspended() && f.status().run_id.is_none()
}

/// A copy of another object is left alone, and a retry annotation that came along with it is not a new
/// one.
fn restored(f: &Facts<'_>) -> Decision {
    let mut status = f.say(&Situation::Blocked(wording::restored(f)));
    if !f.new_retry() {
        status.handled_retry = f.retry_annotation();
    }
    Decision::tell(status)
}

fn deleting(f: &Facts<'_>) -> Decision {
    // Before `Orphan`: where no run was made none goes on, and nobody need look for it.
    if f.not_created() || !holds(Rule::DoubtHolds) {
        return release(f, Vec::new());
    }
    if f.orphaned() {
        let note = Note::Orphaned {
            key: f.own_intent().map(|i| i.key.clone()),
            run_id: None,
        };
        return release(f, vec![note]);
    }
    with_workspace(f)
}

fn with_workspace(f: &Facts<'_>) -> Decision {
    if matches!(f.intent(), Known::Unreadable) && holds(Rule::UnreadableWaits) {
        return blocked(f, wording::unreadable_intent());
    }
    let doubted = f.own_intent().filter(|_| !f.not_created());
    if let Some(intent) = doubted.filter(|i| f.key_forgotten(i)) {
        return blocked(f, wording::outcome_unknown(f, intent));
    }
    let session = match f.o.workspace {
        WorkspaceView::Unknown => return Decision::quiet(),
        WorkspaceView::Missing if f.deleting() => return blocked(f, wording::workspace_gone(f)),
        WorkspaceView::Missing => return pending(f, wording::workspace_missing(f)),
        _ if f.o.namespace_allowed.is_some() && !may_submit(f) => {
            let again = doubted.map(|i| f.when(f.key_forgotten_at(i)));
            return Decision {
                again,
                ..blocked(f, wording::namespace_not_allowed(f))
            };
        }
        // A namespace is told nothing of a Workspace before it is known to be allowed; but of one
        // that can't be read nobody knows whom it allows.
        view if f.o.namespace_allowed.is_none() && !invalid(view) => return Decision::quiet(),
        WorkspaceView::NotReady {
            reason,
            message,
            since,
        } => {
            let forgotten = doubted.map(|i| f.when(f.key_forgotten_at(i)));
            // A Run that has said nothing yet costs no further write.
            let said_at = f
                .not_said_yet(*since)
                .filter(|_| f.status().phase.is_some());
            let decision = match said_at {
                Some(_) => Decision::quiet(),
                None => pending(f, wording::workspace_not_ready(f, *reason, message)),
            };
            return Decision {
                again: forgotten.into_iter().chain(said_at).min(),
                ..decision
            };
        }
        WorkspaceView::Ready(session) => session,
    };
    if let Some(why) = held_back(f, session) {
        return pending(f, why);
    }
    match f.intent() {
        Known::Own(intent) => submit(f, intent, session),
        Known::Nothing | Known::Foreign | Known::Unreadable => afresh(f, session),
    }
}

fn invalid(view: &WorkspaceView) -> bool {
    matches!(view, WorkspaceView::NotReady { reason, .. } if *reason == Reason::WorkspaceInvalid)
}

/// Whether a POST may be made from the object's namespace. An intent grants nothing: whoever may edit the
/// object can write one. Only a deletion asks once more what became of a POST, and only where this very
/// process knows that it made the intent while the namespace was allowed.
fn may_submit(f: &Facts<'_>) -> bool {
    f.o.namespace_allowed == Some(true)
        || (f.deleting() && f.own_intent().is_some_and(|i| f.owned(i)))
        || !holds(Rule::NamespaceAllowed)
}

/// A new intent, pinned to what holds now. Only where no POST before can have made a run.
fn afresh(f: &Facts<'_>, session: &Session) -> Decision {
    if let Some(rival) = f.o.key_rival.filter(|_| holds(Rule::KeyInUse)) {
        return blocked(f, wording::key_in_use(f, rival)).at(later(f.o.now, f.o.settings.poll_max));
    }
    if let Some(paused) = paused(f) {
        // As long as no intent stands, the Run can still be suspended.
        return paused;
    }
    let body = body::body(f.spec(), CURRENT_SERIALIZER).unwrap_or_default();
    let intent = Intent {
        uid: f.uid.to_owned(),
        workspace: session.resolved.clone(),
        key: f.key(),
        sha256: body::sha256(&body),
        serializer: CURRENT_SERIALIZER,
        time: f.o.wall,
        owner: f.o.settings.process.clone(),
        epoch: next_epoch(f),
        retry: f.retry_annotation(),
        end: None,
    };
    if !holds(Rule::IntentFirst) {
        return post(intent.key, body);
    }
    write_intent(f, intent, true)
}

/// The epoch that begins now. Nothing that was known or answered before speaks of it: by it a takeover and
/// a retry withdraw the proof. A refusal may have outlived its intent.
pub(super) fn next_epoch(f: &Facts<'_>) -> i64 {
    let refused = f.status().refusal.as_ref().map_or(0, |r| r.epoch);
    let Some(intent) = f.own_intent() else {
        return refused.saturating_add(1);
    };
    let by = if f.new_retry() {
        Rule::RetryWithdraws
    } else {
        Rule::TakeoverWithdraws
    };
    let latest = intent.epoch.max(refused);
    latest.saturating_add(i64::from(holds(by)))
}

fn write_intent(f: &Facts<'_>, intent: Intent, clean: bool) -> Decision {
    Decision::act(Effect::WriteIntent {
        intent,
        finalizer: must_be_held(f),
        clean,
    })
}

/// Whether the finalizer stands before a POST; on an object that is being deleted none can be put.
fn must_be_held(f: &Facts<'_>) -> bool {
    !f.deleting() && holds(Rule::FinalizerFirst)
}

fn post(key: String, body: Vec<u8>) -> Decision {
    Decision::act(Effect::Submit { key, body })
}

/// Why a submission that proved made no run waits, whether it has its intent or not. A Workspace that is
/// being deleted holds nobody for whom it waits: the two would wait for each other.
fn held_back(f: &Facts<'_>, session: &Session) -> Option<Why> {
    let held = session.holds.as_ref().filter(|_| holds(Rule::HoldsFirst));
    let (reason, message) = held?;
    let awaited = *reason == Reason::WorkspaceDeleting
        && needs_workspace(f.o.run, session.base_url())
        && holds(Rule::AwaitedGoOn);
    let first = f.not_created() || !holds(Rule::HoldsOnlyFirst);
    (first && !awaited).then(|| Why::new(*reason, message.clone()))
}

fn submit(f: &Facts<'_>, intent: &Intent, session: &Session) -> Decision {
    let retry = f.new_retry();
    if f.not_created() && (retry || f.key_forgotten(intent)) {
        return afresh(f, session);
    }
    if let Some((reason, pinned)) = place::moved(f, session) {
        let why = wording::elsewhere(f, reason, pinned, session);
        let forgotten = (!f.not_created()).then(|| f.when(f.key_forgotten_at(intent)));
        return Decision {
            again: forgotten,
            ..blocked(f, why)
        };
    }
    let body = body::body(f.spec(), intent.serializer)
        .filter(|b| body::sha256(b) == intent.sha256 || !holds(Rule::SameBytes))
        .filter(|_| intent.key == f.key() || !holds(Rule::SameKey));
    let Some(body) = body else {
        return blocked(f, wording::body_changed(f));
    };
    let others = !f.owned(intent) && holds(Rule::OwnerPosts);
    if retry || others || (must_be_held(f) && !f.has_finalizer()) {
        return take_over(f, intent);
    }
    match due(f) {
        Due::Now => paused(f).unwrap_or_else(|| Decision {
            status: held(f),
            ..post(intent.key.clone(), body)
        }),
        Due::Wait(trouble) => retrying(f, trouble),
    }
}

/// A call is due and the Workspace's calls are paused.
fn paused(f: &Facts<'_>) -> Option<Decision> {
    let over = f.pause_over()?;
    Some(Decision {
        status: held(f),
        ..Decision::quiet().at(over)
    })
}

/// What to say of a call that waits for longer than a moment.
fn held(f: &Facts<'_>) -> Option<RunStatus> {
    let why = wording::held_back(f, f.o.held?);
    Some(f.say(&Situation::Pending(why)))
}

/// The same submission under a new epoch, which withdraws what an earlier one proved; or the same intent
/// once more, where only the finalizer is missing. An intent that somebody stripped is put back as a
/// takeover too: while it was gone another process may have had its turn.
fn take_over(f: &Facts<'_>, intent: &Intent) -> Decision {
    let kept = f.owned(intent) && !f.new_retry();
    let next = Intent {
        owner: f.o.settings.process.clone(),
        epoch: if kept { intent.epoch } else { next_epoch(f) },
        retry: f.retry_annotation(),
        ..intent.clone()
    };
    write_intent(f, next, kept && f.not_created())
}

enum Due<'a> {
    Now,
    Wait(&'a Trouble),
}

fn due<'a>(f: &Facts<'a>) -> Due<'a> {
    match f.trouble(Call::Create) {
        Some(trouble) if f.next_attempt(trouble) > f.o.now || f.unauthorized() => {
            Due::Wait(trouble)
        }
        _ => Due::Now,
    }
}

fn retrying(f: &Facts<'_>, trouble: &Trouble) -> Decision {
    if trouble.class == Class::Unauthorized && trouble.count <= 1 {
        // The Workspace is about to say what is wrong with the token; that is the news.
        return Decision::quiet();
    }
    let again = Some(f.next_attempt(trouble)).filter(|at| *at > f.o.now);
    Decision {
        again,
        ..pending(f, wording::retrying(f, trouble))
    }
}

fn pending(f: &Facts<'_>, why: Why) -> Decision {
    Decision::tell(f.say(&Situation::Pending(why)))
}

/// Nothing is done until a person acts. A retry that can't be served now stays unhandled: marked, it
/// would make the next look forget why, and be lost when the obstacle goes.
fn blocked(f: &Facts<'_>, why: Why) -> Decision {
    Decision::tell(f.say(&Situation::Blocked(why)))
}

/// The answer that ended the submission: from the status, where it outlives the process, or as just
/// learnt.
fn standing_refusal(f: &Facts<'_>) -> Option<Refusal> {
    let intent = match f.intent() {
        Known::Own(intent) => intent,
        // The intent was stripped: what the status says of it stands.
        Known::Nothing | Known::Foreign => return f.status().refusal.clone(),
        Known::Unreadable => return None,
    };
    if f.owned(intent)
        && let Some(trouble) = f.trouble(Call::Create)
    {
        let refusal = judge(f, intent, trouble)?;
        return Some(Refusal {
            epoch: intent.epoch,
            ..refusal
        });
    }
    f.status().refusal.clone().filter(|r| answers(r, intent))
}

/// Whether the last answer ends the submission. While in doubt a refusal answers only its own request,
/// and the same POST is asked again.
fn judge(f: &Facts<'_>, intent: &Intent, trouble: &Trouble) -> Option<Refusal> {
    let submission = &f.memory().submission;
    let proved = f.not_created();
    // An idempotency conflict is no proof: a request that was doubled on its way conflicts with itself. As the
    // first answer of all it is final all the same, and so it is as the first to a retry of one. Any other
    // refusal of such a retry leaves the doubt as it was.
    let lone = holds(Rule::LoneConflict)
        && (submission.sole || repeats_conflict(f, intent))
        && submission.attempts == 1
        && trouble.class == Class::Final(Reason::IdempotencyConflict);
    let ends = match trouble.class {
        Class::Retry | Class::InProgress | Class::Unauthorized | Class::Refused(_) => None,
        Class::Violation => (trouble.count >= VIOLATIONS && holds(Rule::ViolationStalls))
            .then_some(Reason::ContractViolation),
        Class::Final(Reason::ServerError) => {
            holds(Rule::HopelessIsFinal).then_some(Reason::ServerError)
        }
        Class::Final(reason) => (proved || lone || !holds(Rule::DoubtAsksAgain)).then_some(reason),
    };
    ends.map(|reason| Refusal {
        reason,
        not_created: proved,
        epoch: 0,
    })
}

/// Whether the epoch before this one was ended by an idempotency conflict, which only a lone answer does,
/// and nothing else was told of this one yet.
fn repeats_conflict(f: &Facts<'_>, intent: &Intent) -> bool {
    f.status().refusal.as_ref().is_some_and(|told| {
        let this_or_before = [told.epoch, told.epoch.saturating_add(1)];
        told.reason == Reason::IdempotencyConflict && this_or_before.contains(&intent.epoch)
    })
}

fn refused(f: &Facts<'_>, refusal: Refusal) -> Decision {
    let situation = Situation::Blocked(why_refused(f, &refusal));
    tell_refusal(f, &situation, refusal)
}

/// The service refused these bytes, and nothing can change them: the Run has ended, and a retry would be answered
/// the same.
fn ended_by(f: &Facts<'_>, refusal: Refusal) -> Decision {
    let situation = Situation::Ended {
        phase: Phase::Failed,
        why: why_refused(f, &refusal),
    };
    tell_refusal(f, &situation, refusal)
}

fn tell_refusal(f: &Facts<'_>, situation: &Situation, refusal: Refusal) -> Decision {
    let mut status = f.say(situation);
    status.refusal = Some(refusal).filter(|_| holds(Rule::RefusalKept));
    Decision::tell(status)
}

fn why_refused(f: &Facts<'_>, refusal: &Refusal) -> Why {
    f.trouble(Call::Create)
        .map(|t| wording::refused(f, refusal, t))
        .or_else(|| wording::as_said(f).filter(|why| why.reason == refusal.reason))
        .unwrap_or_else(|| wording::refused_before(refusal))
}
