//! What must never happen, judged by what is true and not by what the operator believes.

use run_operator::api::{Phase, RunStatus, intent::IntentRecord, status::ResolvedWorkspace};
use run_operator::decide::answer::{Failure, FailureKind, RunView};
use run_operator::decide::body::sha256;

use crate::object::{OTHER_URL, Object, mark};
use crate::service;
use crate::state::{Call, Home, RunState, State};

macro_rules! broken {
    ($($(#[doc = $says:literal])+ $name:ident,)+) => {
        /// What went against the promise.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub(crate) enum Broken { $($(#[doc = $says])+ $name,)+ }

        impl Broken {
            pub(crate) const ALL: &'static [Self] = &[$(Self::$name,)+];

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
    /// `runId` and workspace are written once.
    WrittenOnce,
    /// Terminal is absorbing.
    Terminal,
    /// An end in the status is one: seen at the service, proved, or denied three times.
    FalseEnd,
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
    /// Nothing is submitted or cancelled that nobody asked for, or that is held.
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
    /// From every state, with the faults ended, the object reaches its end in a bounded number of steps.
    NoEnd,
    /// At its end it is quiet.
    NotQuiet,
}

/// Answers in a row that can't be read, after which a person has to look.
const VIOLATIONS: u8 = 5;

/// Patience with a cancellation that shows no end, in seconds.
const PATIENCE: i64 = 300;

/// A request that creates, on its way, may make a run for this object yet.
fn may_come(s: &State, uid: u8) -> bool {
    let creates = |c: &&crate::state::Packet| c.uid == uid && matches!(c.call, Call::Create { .. });
    !s.service.refuses
        && s.calls
            .iter()
            .filter(creates)
            .any(|c| !service::known(s, c))
}

/// Whether nothing may be left of this object that lives, or the design lets it go all the same.
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

/// The finalizer of this object goes.
pub(crate) fn released(s: &mut State, object: &Object) {
    let uid = object.uid;
    let orphan =
        object.run.spec.deletion_policy() == run_operator::api::run::DeletionPolicy::Orphan;
    if object.deleting() && orphan {
        s.ghost(uid).orphaned = true;
    }
    let foreign = matches!(object.intent(), IntentRecord::Foreign);
    if !foreign && !settled(s, uid) {
        s.breaks(Broken::Finalizer);
    }
}

/// An object is gone, or a run was made.
pub(crate) fn nothing_left(s: &mut State, uid: u8) {
    let ghost = s.ghost(uid).clone();
    if ghost.gone && !ghost.forced && !settled(s, uid) {
        s.breaks(Broken::LeftBehind);
    }
}

/// A status stands where another stood.
pub(crate) fn status_written(s: &mut State, old: &Object, new: &RunStatus) {
    let before = old.run.status.clone().unwrap_or_default();
    let uid = old.uid;
    let known = s.ghost(uid).run_id.clone().or(before.run_id.clone());
    let foreign = matches!(old.intent(), IntentRecord::Foreign);
    if known.is_some() && new.run_id.is_some() && new.run_id != known && !foreign {
        s.breaks(Broken::WrittenOnce);
    }
    let lost = |old: bool, same: bool| old && !same;
    if lost(before.run_id.is_some(), before.run_id == new.run_id)
        || lost(
            before.workspace.is_some(),
            before.workspace == new.workspace,
        )
    {
        s.breaks(Broken::WrittenOnce);
    }
    s.ghost(uid).run_id = new.run_id.clone().or(known).filter(|_| !foreign);
    if !foreign {
        if before.phase.is_some_and(Phase::terminal) && before.phase != new.phase {
            s.breaks(Broken::Terminal);
        }
        mirrored(s, &before, new);
        end_is_true(s, uid, &before, new);
        proof_is_true(s, old, &before, new);
    }
}

/// The place of a state among those that the run went through, from 1.
fn place_of(s: &State, status: &RunStatus) -> Option<usize> {
    let run = service::numbered(status.run_id.as_deref()?)?;
    let run = s.service.runs.get(run)?;
    let state = status.state.as_deref()?;
    run.passed
        .iter()
        .position(|p| p.word() == state)
        .map(|p| p + 1)
}

fn mirrored(s: &mut State, before: &RunStatus, new: &RunStatus) {
    let place = place_of(s, new);
    let cursor = new.last_event_id.as_deref();
    let cursor = cursor.and_then(|id| id.strip_prefix('e')?.parse::<usize>().ok());
    if let Some(cursor) = cursor {
        if place.is_none_or(|p| p < cursor) {
            s.breaks(Broken::CursorAhead);
        }
        let counted = usize::try_from(new.event_count.unwrap_or_default()).unwrap();
        let mut ids: Vec<_> = new.events.iter().filter_map(|e| e.id.clone()).collect();
        ids.sort();
        ids.dedup();
        if counted > cursor || ids.len() < new.events.len() {
            s.breaks(Broken::CountedTwice);
        }
    }
    if before.run_id == new.run_id && place < place_of(s, before) {
        s.breaks(Broken::TakenBack);
    }
    let made = new.run_id.as_deref().and_then(service::numbered);
    let made = made.is_some_and(|run| run < s.service.runs.len());
    if made && new.state.is_some() && place.is_none() {
        s.breaks(Broken::OtherState);
    }
}

fn end_is_true(s: &mut State, uid: u8, before: &RunStatus, new: &RunStatus) {
    let Some(phase) = new
        .phase
        .filter(|p| p.terminal() && before.phase != Some(*p))
    else {
        return;
    };
    if s.ghost(uid).misled {
        return;
    }
    let Some(run_id) = &new.run_id else {
        let made = s.service.runs.iter().any(|r| r.uid == uid);
        if made || may_come(s, uid) {
            s.breaks(Broken::FalseEnd);
        }
        return;
    };
    let run = service::numbered(run_id).and_then(|n| s.service.runs.get(n));
    let state = run.map(crate::state::ServiceRun::state);
    let denied = {
        let mut apart = 0;
        let mut last = None;
        for at in &s.ghosts[usize::from(uid) - 1].denials {
            if last.is_none_or(|last| at - last >= 60) {
                apart += 1;
                last = Some(*at);
            }
        }
        apart >= 3
    };
    let right = match phase {
        Phase::Succeeded => state == Some(RunState::Succeeded),
        // The deadline makes a failure of a cancellation.
        Phase::Failed => denied || matches!(state, Some(RunState::Failed | RunState::Cancelled)),
        _ => state == Some(RunState::Cancelled),
    };
    if !right {
        s.breaks(Broken::FalseEnd);
    }
}

fn proof_is_true(s: &mut State, old: &Object, before: &RunStatus, new: &RunStatus) {
    let IntentRecord::Own(intent) = old.intent() else {
        return;
    };
    let proof = new
        .refusal
        .as_ref()
        .filter(|r| r.not_created && r.epoch == intent.epoch);
    if proof.is_none() || before.refusal == new.refusal {
        return;
    }
    let made = s.service.runs.iter().any(|r| r.uid == old.uid);
    if made || may_come(s, old.uid) {
        s.breaks(Broken::FalseProof);
    }
}

/// Whether a status says that the service refused the run for good.
fn finally(status: &RunStatus) -> bool {
    let refusals = ["Forbidden", "CreateRefused", "ApprovalConflict"];
    let mut all = status.conditions.iter();
    all.any(|c| c.type_ == "Stalled" && refusals.contains(&c.reason.as_str()))
}

/// Whether a status says that the submission is held.
fn waits(status: &RunStatus) -> bool {
    let held = ["Suspended", "VersionNotAccepted", "WorkspaceDeleting"];
    let mut all = status.conditions.iter();
    all.any(|c| held.contains(&c.reason.as_str()))
}

/// A Workspace goes that was deleted.
pub(crate) fn outlived(s: &mut State) {
    let needs = |o: &Object| {
        let mut runs = s.service.runs.iter();
        let live = runs.any(|r| r.uid == o.uid && r.live()) || may_come(s, o.uid);
        live && !s.ghosts[usize::from(o.uid) - 1].forced
    };
    if s.live.iter().flatten().any(|o| needs(o)) {
        s.breaks(Broken::Outlived);
    }
}

/// At rest an object that says that no run was made for it, and why, says the truth.
pub(crate) fn told(s: &State, object: &Object) -> bool {
    let status = object.run.status.clone().unwrap_or_default();
    let made = s.service.runs.iter().any(|r| r.uid == object.uid);
    let own = matches!(object.intent(), IntentRecord::Own(_));
    !(own && made && (waits(&status) || finally(&status)))
}

/// At rest nothing says that it was refused what was not asked for since a person asked for a retry.
pub(crate) fn retried(s: &State, object: &Object) -> bool {
    let status = object.run.status.clone().unwrap_or_default();
    let annotations = object.run.metadata.annotations.as_ref();
    let wish = annotations.and_then(|a| a.get(crate::object::RETRY));
    let own = matches!(object.intent(), IntentRecord::Own(_));
    let ghost = &s.ghosts[usize::from(object.uid) - 1];
    object.deleting()
        || !own
        || !finally(&status)
        || wish.is_none_or(|w| ghost.retried.as_ref() == Some(w))
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
        // Nobody but this process ever asked, and nobody else can have.
        let lone = ghost.first && ghost.owners == 1 << process;
        hopeless || lone && failure.http_status == Some(409)
    });
    ghost.answered = (ends || ghost.unreadable >= VIOLATIONS).then_some(process);
}

/// Its operator is at rest: it knows the object as it is, and has nothing to do.
pub(crate) fn held(s: &mut State, seen: &Object) {
    let now = s.live.iter().flatten().any(|o| **o == *seen);
    let known = seen.run_id().is_some()
        && matches!(seen.intent(), IntentRecord::Own(_) | IntentRecord::Absent);
    if now && known && !seen.held() && !seen.deleting() && !seen.run.ended() {
        s.breaks(Broken::Unheld);
    }
}

/// A mark of a place, whichever object stands for it.
pub(crate) fn spot(place: &ResolvedWorkspace) -> u64 {
    let ResolvedWorkspace {
        kind,
        name,
        base_url,
        identity,
        ..
    } = place;
    mark(&format!("{kind:?} {name} {base_url} {identity:?}"))
}

/// Who calls, with which token, on the ground of what.
pub(crate) struct Sending<'a> {
    pub(crate) process: u8,
    pub(crate) object: &'a Object,
    pub(crate) vanished: bool,
    /// It saw or wrote the end.
    pub(crate) ended: bool,
    /// It knows better than an intent that speaks of an end.
    pub(crate) knows: bool,
    /// What it sees of the object is the end that the operator itself kept in the intent.
    pub(crate) kept: bool,
    pub(crate) place: ResolvedWorkspace,
}

impl Sending<'_> {
    fn over(&self) -> bool {
        let status = self.object.run.status.clone().unwrap_or_default();
        let denied = status
            .conditions
            .iter()
            .any(|c| c.reason == "RunNotFound" && c.type_ == "Finished");
        let kept = self.kept && !self.knows;
        let ended = self.ended || kept || status.phase.is_some_and(Phase::terminal);
        ended && !(denied && (self.vanished || self.object.deleting()))
    }

    /// The object says that the service refused it for good, nothing can have made a run, and nobody asked for a
    /// retry. (In doubt the same POST is asked again.)
    fn refused(&self, s: &State) -> bool {
        let status = self.object.run.status.clone().unwrap_or_default();
        let annotations = self.object.run.metadata.annotations.as_ref();
        let retry = annotations.and_then(|a| a.get(crate::object::RETRY));
        let asked = retry != status.handled_retry.as_ref() || self.object.deleting();
        let uid = self.object.uid;
        let doubted = s.service.runs.iter().any(|r| r.uid == uid) || may_come(s, uid);
        !doubted && !asked && finally(&status)
    }

    /// A POST is sent.
    pub(crate) fn post(&self, s: &mut State, key: &str, body: &[u8]) {
        let name = format!("p{}", self.process);
        let IntentRecord::Own(intent) = self.object.intent() else {
            s.breaks(Broken::UnownedPost);
            return;
        };
        let going = self.vanished || self.object.deleting();
        let ghost = s.ghost(self.object.uid);
        let again = ghost.answered.take() == Some(self.process);
        ghost.first = !ghost.posted && intent.epoch == 1;
        ghost.posted = true;
        ghost.retried.clone_from(&intent.retry);
        let wrote = ghost.owners & (1 << self.process) != 0;
        if again && !going {
            s.breaks(Broken::AskedAgain);
        }
        if intent.owner != name || !wrote {
            s.breaks(Broken::UnownedPost);
        }
        if sha256(body) != intent.sha256 || intent.key != key {
            s.breaks(Broken::OtherBytes);
        }
        let here = spot(&self.place);
        let pinned = [
            s.ghost(self.object.uid).pinned,
            Some(spot(&intent.workspace)),
        ];
        if pinned != [Some(here); 2] {
            s.breaks(Broken::OtherPlace);
        }
        if self.over() {
            s.breaks(Broken::CallAfterEnd);
        }
        if !going && !s.world.allowed || self.refused(s) {
            s.breaks(Broken::Unasked);
        }
        if self.object.run.spec.idempotency_key.is_some() {
            let holder = |o: &Object| {
                o.uid != self.object.uid
                    && !o.run.ended()
                    && matches!(o.intent(), IntentRecord::Own(_))
            };
            if s.live.iter().flatten().any(|o| holder(o)) {
                s.breaks(Broken::KeyShared);
            }
        }
    }

    /// A run is read or cancelled.
    pub(crate) fn about(&self, s: &mut State, run: usize, cancel: bool) {
        let found = s.service.runs.get(run).map(|r| (r.home, r.uid));
        let home = found.map(|f| f.0);
        let shared = self.object.run.spec.idempotency_key.is_some();
        // A run of somebody else, or none that was ever made.
        if found.is_none_or(|f| f.1 != self.object.uid && !shared) {
            s.breaks(Broken::Unasked);
        }
        let here = |home: Home| {
            let identity = Some(format!("ws-{}", home.identity));
            identity == self.place.identity && home.moved == (self.place.base_url == OTHER_URL)
        };
        if home.is_some_and(|home| !here(home)) {
            s.breaks(Broken::OtherPlace);
        }
        if self.over() {
            s.breaks(Broken::CallAfterEnd);
        }
        let spec = &self.object.run.spec;
        let going = self.vanished || self.object.deleting();
        let orphan =
            going && spec.deletion_policy() == run_operator::api::run::DeletionPolicy::Orphan;
        let asked = going || spec.cancelled() || spec.active_deadline_seconds.is_some();
        if cancel && (orphan || !asked) {
            s.breaks(Broken::Unasked);
        }
    }
}
