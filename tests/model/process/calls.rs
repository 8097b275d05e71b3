//! A process's calls to the service, and their answers.

use run_operator::decide::{
    Effect,
    failure::{Failure, RunView},
};

use super::{knows_better, look, names_an_end};
use crate::cluster;
use crate::object::{MOVED, Object, mark, place, report_context};
use crate::properties::{self, Broken, Sending};
use crate::state::{Call, Cancelled, Entry, Packet, RunState, State, View, Wake};

/// Sends a call.
pub(super) fn send(s: &mut State, slot: usize, number: u8, object: &Object, effect: &Effect) {
    let Some(proc) = s.procs[slot].as_ref() else {
        return;
    };
    let Some(entry) = proc.entries.iter().find(|e| e.uid == number) else {
        return;
    };
    let View::Ready {
        token,
        session,
        workspace,
        ..
    } = proc.view(&proc.choice(s, &object.run, &entry.run.memory))
    else {
        s.breaks(Broken::Unverified);
        return;
    };
    let hasty = hasty(entry, session, effect);
    // A place that was waited for is used for what is decided now.
    let known = entry.run.latest().is_some_and(|latest| **latest == *object);
    let stale = !known || proc.lacks(number) && !entry.deleted();
    let kept = names_an_end(object) && s.ghosts[usize::from(number) - 1].kept;
    let sending = Sending {
        process: proc.number,
        object,
        vanished: entry.deleted(),
        ended: entry.ended || kept && !knows_better(entry),
        // With the token that was verified, not with the one that the Secret holds now.
        place: place(s.world.tokens[usize::from(token)].identity, workspace),
    };
    let caller = proc.number;
    // It decides again when it has the place.
    let takes = s.procs[slot]
        .as_mut()
        .is_some_and(|p| p.takes_place(number));
    if let Some(entry) = s.procs[slot].as_mut().and_then(|p| p.entry(number)) {
        entry.waits = !takes;
    }
    if !takes {
        return;
    }
    if stale {
        s.breaks(Broken::StaleDecision);
    }
    if let Some(hasty) = hasty {
        s.breaks(hasty);
    }
    let run = |id: &str| crate::service::numbered(id).unwrap_or(usize::MAX);
    let call = match effect {
        Effect::Submit { key, body } => {
            sending.post(s, key, body);
            Call::Create {
                key: key.as_str().into(),
                bytes: mark(&String::from_utf8_lossy(body)),
            }
        }
        Effect::Refresh { run_id } => {
            sending.about(s, run(run_id), false);
            Call::Get(run(run_id))
        }
        Effect::Cancel { run_id } => {
            sending.about(s, run(run_id), true);
            Call::Cancel(run(run_id))
        }
        Effect::WriteIntent { .. } | Effect::Release { .. } | Effect::Delete => return,
    };
    let kind = call.kind();
    s.calls.push(Packet {
        uid: number,
        caller: Some(caller),
        call,
        token,
        session,
        moved: workspace == MOVED,
        begun: false,
        doubled: false,
    });
    let now = s.now;
    if let Some(entry) = s.procs[slot].as_mut().and_then(|p| p.entry(number)) {
        entry.wake = Wake::Never;
        report_context(number, u64::from(session), now, |with| {
            entry.run.sent(kind, with);
        });
    }
}

/// The violation of this call against the last answers, if there is one.
fn hasty(entry: &Entry, session: u8, effect: &Effect) -> Option<Broken> {
    let cancel = matches!(effect, Effect::Cancel { .. });
    if session <= entry.refused {
        Some(Broken::SameSession)
    } else if cancel && entry.cancel != Cancelled::No {
        Some(Broken::CancelledAgain)
    } else {
        None
    }
}

/// A call is answered, or given up.
pub(crate) fn answered(s: &mut State, packet: &Packet, answer: Result<RunView, Failure>) {
    let Some(slot) = packet.caller.and_then(|number| s.slot_of(number)) else {
        return;
    };
    let (now, number) = (s.now, packet.uid);
    if let (Call::Create { .. }, Some(process)) = (&packet.call, packet.caller) {
        properties::heard(s, number, process, &answer);
    }
    let Some(proc) = s.procs[slot].as_mut() else {
        return;
    };
    let unauthorized = matches!(&answer, Err(f) if f.http_status == Some(401));
    proc.suspects |= unauthorized && proc.session() == u64::from(packet.session);
    if let Some(entry) = proc.entry(number) {
        if unauthorized {
            entry.refused = packet.session;
        }
        entry.cancel = entry.cancel.after(&packet.call, &answer);
        let call = packet.call.kind();
        report_context(number, u64::from(packet.session), now, |with| {
            entry.run.answered(call, answer, with);
        });
        proc.leaves_place(number);
    }
    cluster::owed(s, number);
    look(s, slot, number);
}

impl Cancelled {
    /// After this call was answered so.
    fn after(self, call: &Call, answer: &Result<RunView, Failure>) -> Self {
        let denied = matches!(answer, Err(f) if f.http_status == Some(404));
        // A proxy refuses nothing.
        let refuses = |f: &Failure| {
            let status = matches!(f.http_status, Some(403 | 404 | 409 | 500));
            status && f.code.is_some()
        };
        match (call, answer) {
            (Call::Cancel(_), Ok(_)) => Self::Unlooked { accepted: true },
            (Call::Cancel(_), Err(f)) if refuses(f) => Self::Unlooked { accepted: false },
            (Call::Get(_), Ok(view)) => match self {
                Self::Unlooked { accepted: true } | Self::UnderWay
                    if view.state.as_deref() == Some(RunState::Cancelling.word()) =>
                {
                    Self::UnderWay
                }
                _ => Self::No,
            },
            (Call::Get(_), Err(_)) if denied => Self::No,
            _ => self,
        }
    }
}

/// A call is given up in the middle: its outcome stays unknown.
pub(crate) fn given_up(s: &mut State, packet: &Packet) {
    let Some(slot) = packet.caller.and_then(|number| s.slot_of(number)) else {
        return;
    };
    let number = packet.uid;
    if let Some(entry) = s.procs[slot].as_mut().and_then(|p| p.entry(number)) {
        entry.run.given_up();
    }
    if let Some(proc) = s.procs[slot].as_mut() {
        proc.leaves_place(number);
    }
    cluster::owed(s, number);
    look(s, slot, number);
}
