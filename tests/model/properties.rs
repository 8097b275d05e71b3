//! Properties of every state, judged by what is true and not by what the operator believes.

mod quiescence;
mod sending;
mod status;

use std::sync::Arc;

use run_operator::api::{
    WorkspaceKey, intent::IntentRecord, run::DeletionPolicy, workspace::RunLimits,
};
use run_operator::decide::failure::{Failure, FailureKind, RunView};
use run_operator::decide::{claims::holds_slot, queue::RunRef};

use crate::object::{MOVED, Object, SHARED_IDENTITY, uid};
use crate::service;
use crate::state::{Call, Entry, Home, Packet, Place, Proc, RunState, State, Wake};
pub(crate) use quiescence::{held, retried, told};
pub(crate) use sending::{Sending, spot};
pub(crate) use status::status_written;

macro_rules! broken {
    ($($(#[doc = $says:literal])+ $name:ident,)+) => {
        /// What went against the promise.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub(crate) enum Broken { $($(#[doc = $says])+ $name,)+ }

        impl Broken {
            /// What should have held.
            pub(crate) const fn says(self) -> &'static str {
                match self { $(Self::$name => concat!($($says,)+).trim_ascii(),)+ }
            }
        }
    };
}

broken! {
    /// At most one run is made for an object.
    TwoRuns,
    /// No POST goes without an intent in the object that its sender wrote and owns.
    UnownedPost,
    /// What a POST sends is what the intent says, byte for byte.
    OtherBytes,
    /// The finalizer goes only as the deletion table says.
    Finalizer,
    /// Nothing is live at the service once the object is gone, orphans aside.
    LeftBehind,
    /// `runID` and workspace are written once.
    WrittenOnce,
    /// Terminal is absorbing.
    Terminal,
    /// An end in the status is one: seen at the service, proved, or denied three times.
    FalseEnd,
    /// An object that cancelled its run does not show that somebody else did.
    FalseCause,
    /// What is kept as proof that no run was made is true.
    FalseProof,
    /// The cursor is never ahead of what was mirrored.
    CursorAhead,
    /// What was mirrored is not taken back.
    TakenBack,
    /// What is mirrored is what the run went through, and nothing of another run.
    OtherState,
    /// An event is counted once.
    CountedTwice,
    /// No call is made after the end.
    CallAfterEnd,
    /// A call goes where the Run is pinned to, with a token of that identity.
    OtherPlace,
    /// From its first intent on a Run stays with one Workspace.
    Moved,
    /// Nothing is submitted or cancelled that was not asked for, or that is held.
    Unasked,
    /// What was answered for good is not asked again, unless a person or a deletion asks for it.
    AskedAgain,
    /// A retry that a person asked for is acted on.
    RetryLost,
    /// A cancellation is repeated only after a look that showed that it came to nothing.
    CancelledAgain,
    /// No call is made with a token that was not verified.
    Unverified,
    /// A Workspace outlives the runs of its objects.
    Outlived,
    /// After a 401 no call is made with the same verified token.
    SameSession,
    /// The object of a run that lives has its finalizer, as soon as its operator is at rest.
    Unheld,
    /// What is told to have been refused, or held, made no run.
    Untold,
    /// Of the live Runs with one key one is submitted.
    KeyShared,
    /// No more Runs of a Workspace have a slot than its limit ever allowed, while one process leads.
    SlotsExceeded,
    /// A slot goes to no Run while one of a higher priority could go.
    Overtaken,
    /// From every state, with the faults ended, the object reaches its end in a bounded number of steps.
    NoEnd,
    /// At its end it is quiet.
    NotQuiet,
    /// A call is decided by what its process knows when it has the place for it.
    StaleDecision,
    /// While a Run waits for the place for calls, a call has it, or a Run that decides now.
    PlaceLost,
    /// A process remembers the objects that its watch shows, and those that it lacks until nothing is left to do.
    Forgotten,
}

/// Answers in a row that can't be read, after which a person has to look.
const VIOLATIONS: u8 = 5;

/// Patience with a cancellation that shows no end, in seconds.
const PATIENCE: i64 = 300;

/// Runs that have a slot by their objects.
fn slots(s: &State) -> usize {
    let holds = |o: &&Arc<Object>| holds_slot(&o.run) && !s.ghosts[usize::from(o.uid) - 1].unseen;
    s.live.iter().flatten().filter(holds).count()
}

/// True if as many Runs are active as the Workspace allows.
pub(crate) fn full(s: &State) -> bool {
    s.world
        .limit
        .is_some_and(|limit| slots(s) >= usize::from(limit))
}

/// Checks the limit after an intent was written.
pub(crate) fn within_limit(s: &mut State) {
    let highest = s.world.highest.map(usize::from);
    if highest.is_some_and(|highest| slots(s) > highest) {
        s.breaks(Broken::SlotsExceeded);
    }
}

/// Checks that of the Runs that wait for a slot, or were not decided yet and could be submitted, none has a higher
/// priority than one that got it.
pub(crate) fn order(s: &mut State, slot: usize, granted: &[RunRef]) {
    let Some(proc) = s.procs[slot].as_ref() else {
        return;
    };
    let shown: Vec<_> = (0..2).filter_map(|name| proc.shown(name)).collect();
    let got: Vec<_> = shown
        .iter()
        .filter(|o| granted.iter().any(|(_, run)| **run == *uid(o.uid)))
        .collect();
    // Without a limit each that waits would get one.
    let mut unlimited = proc.queues.clone();
    let waiting = unlimited.set(
        &WorkspaceKey::own_default("team"),
        Some(RunLimits::default()),
    );
    let could = |o: &Object| {
        let decided = proc.entries.iter().any(|e| e.uid == o.uid && e.decided);
        let open = !o.run.spec.suspended() && !o.run.spec.cancelled() && !o.deleting();
        let new = matches!(o.run.intent_record(), IntentRecord::Absent) && !o.run.ended();
        waiting.iter().any(|(_, run)| **run == *uid(o.uid)) || !decided && open && new
    };
    let first = got.iter().map(|o| o.run.spec.priority()).min();
    let mut others = shown.iter().filter(|o| could(o));
    if first.is_some_and(|first| others.any(|o| o.run.spec.priority() > first)) {
        s.breaks(Broken::Overtaken);
    }
}

/// A request that creates, on its way, may make a run for this object yet.
fn may_come(s: &State, uid: u8) -> bool {
    may_come_of(s, |packet| packet.uid == uid)
}

fn may_come_of(s: &State, wanted: impl Fn(&Packet) -> bool) -> bool {
    let creates = |c: &&Packet| wanted(c) && matches!(c.call, Call::Create { .. });
    !s.service.refuses
        && s.calls
            .iter()
            .filter(creates)
            .any(|c| !service::known(s, c))
}

/// True if nothing of this object is live at the service, or the design releases the object all the same.
pub(crate) fn settled(s: &State, uid: u8) -> bool {
    let ghost = &s.ghosts[usize::from(uid) - 1];
    if ghost.orphaned || ghost.misled {
        return true;
    }
    let accepted = |at: i64| at.max(ghost.deleted.unwrap_or(at)) + PATIENCE;
    let mut live = s.service.runs.iter().filter(|r| r.uid == uid && r.live());
    !may_come(s, uid)
        && live.all(|run| {
            let waited = run.accepted.is_some_and(|at| {
                run.state() == RunState::Cancelling
                    && ghost.cancelling.is_some_and(|seen| seen >= accepted(at))
            });
            waited || ghost.both_denied
        })
}

/// The finalizer of this object is removed.
pub(crate) fn released(s: &mut State, object: &Object) {
    let uid = object.uid;
    let orphan = object.run.spec.deletion_policy() == DeletionPolicy::Orphan;
    if object.deleting() && orphan {
        s.ghost(uid).orphaned = true;
    }
    let foreign = matches!(object.run.intent_record(), IntentRecord::Foreign);
    if !foreign && !settled(s, uid) {
        s.breaks(Broken::Finalizer);
    }
}

/// An object was removed, or a run was made.
pub(crate) fn nothing_left(s: &mut State, uid: u8) {
    let ghost = s.ghost(uid).clone();
    if ghost.gone && !ghost.forced && !settled(s, uid) {
        s.breaks(Broken::LeftBehind);
    }
}

/// A deleted Workspace is removed.
pub(crate) fn outlived(s: &mut State) {
    let moved = s.world.workspace == Some(MOVED);
    let needs = |o: &Object| {
        let mut runs = s.service.runs.iter();
        let own = |identity: u8| identity != SHARED_IDENTITY;
        let here = |home: Home| home.moved == moved && own(home.identity);
        let live = runs.any(|r| r.uid == o.uid && here(r.home) && r.live())
            || may_come_of(s, |p| p.uid == o.uid && here(service::home(s, p)));
        live && !s.ghosts[usize::from(o.uid) - 1].forced
    };
    if s.live.iter().flatten().any(|o| needs(o)) {
        s.breaks(Broken::Outlived);
    }
}

/// A create was answered: whether that ends the submission, as far as this process can know.
pub(crate) fn heard(s: &mut State, uid: u8, process: u8, answer: &Result<RunView, Failure>) {
    let ghost = s.ghost(uid);
    let violation = match answer {
        Ok(view) => view.run_id.is_none(),
        Err(failure) => failure.kind == FailureKind::Unreadable,
    };
    ghost.unreadable = if violation { ghost.unreadable + 1 } else { 0 };
    let ends = answer.as_ref().is_err_and(|failure| {
        let hopeless = failure.http_status == Some(500) && failure.retryable == Some(false);
        // Only this process ever sent the request, and no other can have.
        let lone = ghost.first && ghost.owners == 1 << process;
        let works = failure.code.as_deref() == Some("idempotency_in_progress");
        let conflict = failure.http_status == Some(409) && !works;
        hopeless || lone && conflict
    });
    ghost.answered = (ends || ghost.unreadable >= VIOLATIONS).then_some(process);
}

/// Checks that each process has a memory of every object that it knows, and of no other.
pub(crate) fn remembered(s: &mut State) {
    let agrees = |proc: &Proc| {
        let mut remembered: Vec<u8> = proc.entries.iter().map(|entry| entry.uid).collect();
        remembered.sort_unstable();
        let known = proc.store.iter().map(|known| known.object().uid);
        known.eq(remembered)
    };
    if !s.procs.iter().flatten().all(agrees) {
        s.breaks(Broken::Forgotten);
    }
}

/// Checks that no place for calls is lost: it is free and nobody waits, or whoever has it gives it back.
pub(crate) fn place_kept(s: &mut State) {
    let acts = |e: &Entry| e.calling() || e.wake == Wake::Now;
    let kept = |proc: &Proc| match proc.place {
        None | Some(Place::Other) => true,
        Some(Place::Free) => !proc.entries.iter().any(|e| e.waits),
        Some(Place::Run(uid)) => proc.entries.iter().any(|e| e.uid == uid && acts(e)),
    };
    if !s.procs.iter().flatten().all(kept) {
        s.breaks(Broken::PlaceLost);
    }
}
