//! A process of the operator, as `src/controller` runs it round `decide`: it reads its watch's view or its
//! own last write; its memory is lost with it; it makes one call at a time.

mod calls;
mod watch;
mod workspace;
mod writes;

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use jiff::Timestamp;
use kube::ResourceExt;
use run_operator::api::{
    Run, WorkspaceKey, WorkspaceRef, WorkspaceSpec, intent::IntentRecord, workspace::RunLimits,
};
use run_operator::decide::{
    Choice, Effect, Follow, Inputs, Memory, Report, Session, Settings, Stream, WorkspaceView,
    choice,
    claims::{KeyClaim, created},
    decide,
    queue::{Claim, Queues, RunRef},
    stream::StreamEnd,
    turn::{Step, TrackedRun, Turn},
};

use crate::cluster;
use crate::object::{CONTRACT, Object, Remembered, SHARED, SHARED_TOKEN, at, place, second, uid};
use crate::properties;
pub(crate) use crate::state::Proc;
use crate::state::{Entry, Place, State, View, Wake, Write};
pub(crate) use calls::{answered, given_up};
pub(crate) use watch::{event, lack, watch};
pub(crate) use workspace::{leave, may_leave, verify};
pub(crate) use writes::step;

/// The fate of a write to the API server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Fate {
    Done,
    /// Carried out, and the answer is lost.
    Unheard,
    /// Given up, and still on its way.
    Late,
}

/// The controller's own record of one object.
type Tracked = TrackedRun<Object, Remembered>;

/// The Workspaces' spec.
static RULES: LazyLock<WorkspaceSpec> = LazyLock::new(WorkspaceSpec::default);

/// The pace of whatever waits for a regular look.
const POLL: Duration = Duration::from_mins(1);
/// Interval of reconciling a vanished object.
const PAUSE: i64 = 5;

impl Proc {
    fn entry(&mut self, uid: u8) -> Option<&mut Entry> {
        self.entries.iter_mut().find(|e| e.uid == uid)
    }

    /// The Workspace that a Run uses, as far as this process knows.
    fn choice(&self, s: &State, run: &Run, memory: &Memory) -> Choice {
        let intent = || memory.deciding_intent(run);
        if let Some(bound) = choice::bound(&run.spec, run.status.as_ref(), intent) {
            return Choice::One(bound);
        }
        if self.view == View::Unknown {
            return Choice::Unknown;
        }
        let shared = s
            .world
            .shared
            .map(|is| is.then_some(("shared", Some(true))));
        choice::by_rule(self.view != View::Missing, shared)
    }

    fn view(&self, choice: &Choice) -> View {
        match choice {
            Choice::One(reference) if *reference == WorkspaceRef::shared("shared".into()) => {
                View::Ready {
                    token: SHARED_TOKEN,
                    session: 1,
                    workspace: SHARED,
                    holds: None,
                }
            }
            Choice::One(reference) if reference.name == "default" => self.view,
            Choice::Unknown => View::Unknown,
            Choice::One(_) | Choice::Several(_) | Choice::None => View::Missing,
        }
    }

    /// The Workspace as Runs see it.
    fn workspace(s: &State, view: View) -> WorkspaceView {
        match view {
            View::Unknown => WorkspaceView::Unknown,
            View::Missing => WorkspaceView::Missing,
            View::NotReady(reason) => WorkspaceView::NotReady {
                reason,
                message: "it isn't".into(),
                // It lasts already.
                since: Timestamp::UNIX_EPOCH,
            },
            View::Ready {
                token,
                session,
                workspace,
                holds,
            } => WorkspaceView::Ready(Session {
                number: u64::from(session),
                resolved: place(s.world.tokens[usize::from(token)].identity, workspace),
                submissions_blocked: holds.map(|reason| (reason, "held".into())),
            }),
        }
    }

    fn session(&self) -> u64 {
        match self.view {
            View::Ready { session, .. } => u64::from(session),
            _ => 0,
        }
    }

    /// The limits of the Workspace, while this Run has no slot.
    fn needs_slot(&self, number: u8) -> Option<RunLimits> {
        let all = self.limit.map(usize::from);
        let limits = all.map(|all| RunLimits {
            all: Some(all),
            per_namespace: None,
        });
        let own = WorkspaceKey::own_default("team");
        limits.filter(|_| !self.queues.has_slot(&uid(number), &own))
    }

    /// These Runs have got a slot.
    fn granted(&mut self, runs: &[RunRef]) {
        let here = |e: &&mut Entry| runs.iter().any(|(_, run)| **run == *uid(e.uid));
        for entry in self.entries.iter_mut().filter(here) {
            entry.wake = Wake::Now;
        }
    }

    /// The name of the Run that has the older claim to this one's key (`controller::state::keys`).
    fn key_holder(&self, object: &Object) -> Option<String> {
        let key = object.run.spec.idempotency_key.as_ref()?;
        let others = || {
            let shown = (0..2).filter_map(|name| self.shown(name));
            shown.filter(|o| !o.run.ended() && o.uid != object.uid)
        };
        let claimed = self.claim == Some(object.uid);
        let age = |o: &Object| (created(&o.run), o.run.uid().unwrap_or_default());
        let (created_at, uid) = age(object);
        let before = |other: &Object| {
            let (at, other_uid) = age(other);
            let claim = KeyClaim::of(&other.run, &other.run.intent_record());
            claim.has_priority((at, &other_uid), (created_at, &uid), claimed)
        };
        let same = |o: &&Arc<Object>| o.run.spec.idempotency_key.as_ref() == Some(key);
        let key_holder = others().filter(same).find(|o| before(o));
        let key_holder = key_holder.or_else(|| others().find(|o| self.claim == Some(o.uid)));
        key_holder.map(|o| format!("uid-{}", o.uid))
    }
}

/// The next turn of one entry, by the version that its process has, and the entry after it; none where there is nothing to
/// reconcile.
fn ask(s: &State, slot: usize, number: u8) -> Option<(Arc<Object>, Tracked, Turn)> {
    let proc = s.procs[slot].as_ref()?;
    let entry = proc.entries.iter().find(|e| e.uid == number)?;
    let object = entry.run.latest().cloned()?;
    let choice = proc.choice(s, &object.run, &entry.run.memory);
    let needs_slot = proc.needs_slot(number);
    let view = proc.view(&choice);
    let workspace = Proc::workspace(s, view);
    let key_holder = proc.key_holder(&object);
    let settings = Settings {
        process: format!("p{}", proc.number),
        poll_min: POLL,
        poll_max: POLL,
        service_events: false,
        console_origins: run_operator::decide::console::ConsoleOrigins::default(),
    };
    let stream = if entry.streaming {
        Stream::Open
    } else {
        Stream::Closed
    };
    let mut run = entry.run.clone();
    let turn = run.next(
        proc.lacks(number),
        None,
        |object, memory, deleted_without_release| {
            decide(&Inputs {
                run: &object.run,
                choice: &choice,
                workspace: &workspace,
                rules: Some(&*RULES),
                namespace_allowed: (view != View::Unknown).then_some(s.world.allowed),
                memory,
                key_holder: key_holder.as_deref(),
                needs_slot,
                deleted_without_release,
                stream,
                call_delay: None,
                contract: &CONTRACT,
                settings: &settings,
                now: at(s.now),
                wall: at(s.now),
            })
        },
    );
    Some((object, run, turn))
}

/// The same, after its claim on a slot is taken in; decided again if it has got one by it.
fn decide_next(s: &mut State, slot: usize, number: u8) -> Option<(Arc<Object>, Tracked, Turn)> {
    let (object, run, turn) = ask(s, slot, number)?;
    if s.world.limit.is_none() {
        return Some((object, run, turn));
    }
    let proc = s.procs[slot].as_mut()?;
    proc.entry(number)?.decided = true;
    let claim = run.claim(&turn);
    let needed = proc.needs_slot(number).is_some();
    let name = uid(number);
    let own = WorkspaceKey::own_default("team");
    let granted = proc.queues.claim(("team", &name), &own, claim);
    proc.granted(&granted);
    properties::order(s, slot, &granted);
    let proc = s.procs[slot].as_ref()?;
    let got = needed && proc.needs_slot(number).is_none();
    if got && matches!(claim, Claim::Wants { .. }) {
        return ask(s, slot, number);
    }
    Some((object, run, turn))
}

/// A reconcile that finds nothing to do sleeps; one that finds something does it as a step of its own.
pub(crate) fn look(s: &mut State, slot: usize, number: u8) {
    watch::observe(s, slot, number);
    let Some((object, _, turn)) = decide_next(s, slot, number) else {
        return;
    };
    let (now, events) = (s.now, s.left.events > 0);
    let Some(entry) = s.procs[slot].as_mut().and_then(|p| p.entry(number)) else {
        return;
    };
    if entry.calling() {
        return;
    }
    entry.wake = Wake::Now;
    if matches!(turn.step, Step::ReadLive | Step::Forget) {
        return;
    }
    entry.ended |= object.run.ended();
    let believes = names_an_end(&object) && !knows_better(entry);
    match turn.follow {
        Follow::Keep => {}
        Follow::Open => entry.streaming = events,
        Follow::Close => entry.streaming = false,
        // The service closes the stream and has nothing more.
        Follow::Finish => {
            entry.streaming = false;
            for news in [
                Report::ReadingOn,
                Report::StreamOpened,
                Report::StreamEnded(StreamEnd::Closed),
            ] {
                entry.run.memory.record(news, number, 0, now);
            }
        }
    }
    let vanished = entry.deleted();
    let rests = match &turn.step {
        _ if turn.follow == Follow::Finish => false,
        // The grant of a place has it decided again.
        Step::Act(effect) if entry.waits && effect.call().is_some() => {
            entry.wake = Wake::Never;
            false
        }
        Step::Rest(again) => {
            let nothing = if vanished && entry.run.owes() {
                Wake::At(now + PAUSE)
            } else {
                Wake::Never
            };
            entry.wake = again.map_or(nothing, |t| Wake::At(second(t)));
            true
        }
        _ => false,
    };
    let ghost = s.ghost(number);
    ghost.misled |= ghost.forged && believes;
    if rests {
        leaves_place(s, slot, number);
    }
    if rests && !vanished {
        properties::held(s, &object);
    }
}

fn leaves_place(s: &mut State, slot: usize, number: u8) {
    if let Some(proc) = s.procs[slot].as_mut() {
        proc.leaves_place(number);
    }
}

/// True if it knows of a submission itself and has seen no end: it believes no intent that records one.
fn knows_better(entry: &Entry) -> bool {
    let memory = &entry.run.memory;
    !memory.ended && (memory.run_id.is_some() || memory.submission.epoch > 0)
}

/// True if the sender of a write knows better, or did as far as the model can determine.
pub(crate) fn doubts_the_end(s: &State, write: &Write) -> bool {
    let proc = s.procs.iter().flatten().find(|p| p.number == write.sender);
    let mut entries = proc.iter().flat_map(|p| &p.entries);
    entries
        .find(|e| e.uid == write.uid)
        .is_none_or(knows_better)
}

fn names_an_end(object: &Object) -> bool {
    matches!(object.run.intent_record(), IntentRecord::Own(intent) if intent.end.is_some())
}

pub(crate) fn look_all(s: &mut State, slot: usize) {
    let entries = s.procs[slot].iter().flat_map(|p| &p.entries);
    let numbers: Vec<u8> = entries.map(|e| e.uid).collect();
    for number in numbers {
        look(s, slot, number);
    }
}

/// Starts a process, with an empty memory.
pub(crate) fn start(s: &mut State, slot: usize) {
    s.started += 1;
    s.procs[slot] = Some(Proc {
        number: s.started,
        store: Vec::new(),
        view: View::Unknown,
        sessions: 0,
        suspects: false,
        entries: Vec::new(),
        claim: None,
        place: s.left.one_place.then_some(Place::Free),
        queues: Queues::default(),
        limit: None,
    });
    if let Some(proc) = s.procs[slot].as_mut() {
        for object in s.live.iter().flatten() {
            proc.queues.expect(&uid(object.uid));
        }
        proc.queues.open();
    }
    verify(s, slot);
    watch::list(s, slot);
}

/// The call for somebody else's Run ends.
pub(crate) fn freed(s: &mut State, slot: usize) {
    if let Some(proc) = s.procs[slot].as_mut() {
        proc.frees_place();
    }
}

/// A process ends, in the middle of whatever it does.
pub(crate) fn crash(s: &mut State, slot: usize) {
    let Some(proc) = s.procs[slot].take() else {
        return;
    };
    for packet in &mut s.calls {
        packet.caller = packet.caller.filter(|c| *c != proc.number);
    }
    for entry in &proc.entries {
        cluster::owed(s, entry.uid);
    }
}

/// Time passes.
pub(crate) fn tick(s: &mut State, to: i64) {
    s.now = to;
    for slot in 0..2 {
        let entries = s.procs[slot].iter().flat_map(|p| &p.entries);
        let due: Vec<u8> = entries
            .filter(|e| matches!(e.wake, Wake::At(at) if at <= to))
            .map(|e| e.uid)
            .collect();
        for number in due {
            look(s, slot, number);
        }
    }
}

/// The next step, for people.
pub(crate) fn plan(s: &State, slot: usize, number: u8) -> String {
    let Some((_, _, turn)) = ask(s, slot, number) else {
        return "nothing".into();
    };
    let process = s.procs[slot].as_ref().map_or(0, |p| p.number);
    match &turn.step {
        Step::WriteStatus { status, .. } => {
            let said = status.conditions.iter().find(|c| c.type_ == "Ready");
            let said = said.map_or("", |c| c.reason.as_str());
            format!(
                "p{process} writes status {:?} {said} {:?}",
                status.phase, status.run_id
            )
        }
        Step::Act(Effect::WriteIntent { intent, clean, .. }) => {
            format!(
                "p{process} writes intent {} of {} (clean {clean})",
                intent.epoch, intent.owner
            )
        }
        Step::Act(Effect::Submit { key, .. }) => format!("p{process} POSTs {key}"),
        step => format!("p{process}: {step:?}"),
    }
}
