//! A Run whose runId is not known: from the first look to the answer of the create.

use crate::api::{
    Intent, Phase, Reason,
    status::{Refusal, ResolvedWorkspace},
};

use super::{
    Decision, Effect, Note, Session, WorkspaceView,
    body::{self, CURRENT_SERIALIZER},
    classify::{Call, Class},
    facts::{Facts, Known},
    memory::Trouble,
    situation::{Situation, Why},
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
    if f.spec().cancelled() && f.not_created() {
        let why = Why::new(
            Reason::Cancelled,
            "Cancelled before it was submitted; no run was made.",
        );
        return Decision::tell(f.say(&Situation::Ended {
            phase: Phase::Cancelled,
            why,
        }));
    }
    match f.intent() {
        Known::Foreign if f.new_retry().is_none() => return blocked(f, wording::restored(f)),
        Known::Unreadable => return blocked(f, wording::unreadable_intent()),
        Known::Nothing | Known::Foreign | Known::Own(_) => {}
    }
    if f.spec().suspended() && f.not_created() {
        return Decision::tell(f.say(&Situation::Suspended));
    }
    if let Some(refusal) = standing_refusal(f)
        && f.new_retry().is_none()
    {
        return refused(f, refusal);
    }
    with_workspace(f)
}

fn deleting(f: &Facts<'_>) -> Decision {
    if f.orphaned() {
        return Decision {
            notes: vec![orphaned(f)],
            ..release(f)
        };
    }
    if f.not_created() {
        return release(f);
    }
    if matches!(f.intent(), Known::Unreadable) {
        return blocked(f, wording::unreadable_intent());
    }
    with_workspace(f)
}

fn release(f: &Facts<'_>) -> Decision {
    if f.has_finalizer() {
        Decision::act(Effect::Release { end: None })
    } else {
        Decision::quiet()
    }
}

fn orphaned(f: &Facts<'_>) -> Note {
    Note::Orphaned {
        key: f.own_intent().map(|i| i.key.clone()),
        run_id: None,
    }
}

fn with_workspace(f: &Facts<'_>) -> Decision {
    let session = match f.o.workspace {
        WorkspaceView::Unknown => return Decision::quiet(),
        WorkspaceView::Missing if f.deleting() => return blocked(f, wording::workspace_gone(f)),
        WorkspaceView::Missing => return pending(f, wording::workspace_missing(f)),
        WorkspaceView::NotReady { reason, message } => {
            return pending(f, wording::workspace_not_ready(f, *reason, message));
        }
        WorkspaceView::Ready(session) => session,
    };
    match f.intent() {
        Known::Own(intent) => submit(f, intent, session),
        Known::Nothing | Known::Foreign | Known::Unreadable => first_intent(f, session),
    }
}

fn first_intent(f: &Facts<'_>, session: &Session) -> Decision {
    if let Some((reason, message)) = &session.holds {
        return pending(f, Why::new(*reason, message.clone()));
    }
    if let Some(rival) = f.o.key_rival {
        return blocked(f, wording::key_in_use(f, rival));
    }
    write_intent(f, fresh_intent(f, session, 1), true)
}

/// A new intent, pinned to what holds now. Only where nothing POSTed before can have made a run.
fn fresh_intent(f: &Facts<'_>, session: &Session, epoch: i64) -> Intent {
    let body = body::body(f.spec(), CURRENT_SERIALIZER).unwrap_or_default();
    Intent {
        uid: f.uid.to_owned(),
        workspace: session.resolved.clone(),
        key: f.key(),
        sha256: body::sha256(&body),
        serializer: CURRENT_SERIALIZER,
        time: f.o.now,
        owner: f.o.settings.process.clone(),
        epoch,
        retry: f.retry_annotation().cloned(),
        end: None,
    }
}

fn write_intent(f: &Facts<'_>, intent: Intent, clean: bool) -> Decision {
    Decision::act(Effect::WriteIntent {
        intent,
        finalizer: !f.deleting(),
        clean,
    })
}

fn submit(f: &Facts<'_>, intent: &Intent, session: &Session) -> Decision {
    let clean = f.not_created();
    let retry = f.new_retry();
    if clean && (retry.is_some() || f.key_forgotten(intent)) {
        if let Some((reason, message)) = &session.holds {
            return pending(f, Why::new(*reason, message.clone()));
        }
        return write_intent(f, fresh_intent(f, session, intent.epoch + 1), true);
    }
    if !same_place(&intent.workspace, &session.resolved) {
        return blocked(f, wording::workspace_changed(intent, session));
    }
    let body = body::body(f.spec(), intent.serializer).filter(|b| body::sha256(b) == intent.sha256);
    let Some(body) = body else {
        return blocked(f, wording::body_changed());
    };
    if f.key_forgotten(intent) {
        return blocked(f, wording::outcome_unknown(f, intent));
    }
    if retry.is_some() || !f.owned(intent) || !(f.has_finalizer() || f.deleting()) {
        return take_over(f, intent);
    }
    match due(f) {
        Due::Now => Decision::act(Effect::Submit {
            key: intent.key.clone(),
            body,
        }),
        Due::Wait(trouble) => retrying(f, trouble),
    }
}

/// The same submission under a new epoch, or the same intent put back after somebody stripped it. Who
/// takes over withdraws what an earlier epoch proved.
fn take_over(f: &Facts<'_>, intent: &Intent) -> Decision {
    let ours = intent.owner == f.o.settings.process;
    let mended = ours && f.new_retry().is_none();
    let next = Intent {
        owner: f.o.settings.process.clone(),
        epoch: if mended {
            intent.epoch
        } else {
            intent.epoch + 1
        },
        retry: f.retry_annotation().cloned(),
        ..intent.clone()
    };
    // What was proved of the epoch before holds for this one, since no POST lies between.
    write_intent(f, next, f.not_created())
}

/// A Run is pinned to a base URL and an identity; a Workspace that was re-created with both unchanged
/// is the same place.
pub(super) fn same_place(pinned: &ResolvedWorkspace, now: &ResolvedWorkspace) -> bool {
    pinned.base_url == now.base_url && pinned.identity == now.identity
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
    let again = f.next_attempt(trouble);
    if trouble.class == Class::Unauthorized {
        // The Workspace is about to say what is wrong with the token; that is the news.
        return Decision::quiet().at(again);
    }
    pending(f, wording::retrying(f, trouble)).at(again)
}

fn pending(f: &Facts<'_>, why: Why) -> Decision {
    Decision::tell(f.say(&Situation::Pending(why)))
}

/// Nothing is done until a person acts. A retry that can't be served is marked as handled all the same.
fn blocked(f: &Facts<'_>, why: Why) -> Decision {
    let mut status = f.say(&Situation::Blocked(why));
    if let Some(retry) = f.retry_annotation() {
        status.handled_retry = Some(retry.clone());
    }
    Decision::tell(status)
}

/// The answer that ended the submission: from the status, where it outlives the process, or as just
/// learnt.
fn standing_refusal(f: &Facts<'_>) -> Option<Refusal> {
    let intent = f.own_intent()?;
    if f.owned(intent)
        && let Some(trouble) = f.trouble(Call::Create)
    {
        let refusal = judge(f, trouble)?;
        return Some(Refusal {
            epoch: intent.epoch,
            ..refusal
        });
    }
    f.status()
        .refusal
        .clone()
        .filter(|r| r.epoch == intent.epoch)
}

/// Whether the last answer ends the submission. While in doubt a refusal answers only its own request,
/// and the same POST is asked again.
fn judge(f: &Facts<'_>, trouble: &Trouble) -> Option<Refusal> {
    let submission = &f.memory().submission;
    let lone = submission.sole && submission.attempts == 1;
    let proved = f.not_created();
    let ends = match trouble.class {
        Class::Retry | Class::Unauthorized => None,
        Class::Violation => (trouble.count >= VIOLATIONS).then_some(Reason::ContractViolation),
        Class::Final(Reason::ServerError) => Some(Reason::ServerError),
        Class::Final(reason) => (proved || lone).then_some(reason),
    };
    ends.map(|reason| Refusal {
        reason,
        not_created: proved,
        epoch: 0,
    })
}

fn refused(f: &Facts<'_>, refusal: Refusal) -> Decision {
    let trouble = f.trouble(Call::Create);
    let Some(why) = trouble
        .map(|t| wording::refused(f, &refusal, t))
        .or_else(|| wording::as_said(f))
    else {
        return Decision::quiet();
    };
    let mut status = f.say(&Situation::Blocked(why));
    status.refusal = Some(refusal);
    Decision::tell(status)
}
