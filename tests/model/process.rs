//! A process of the operator, as `src/controller` runs it round `decide`: what it reads is its watch's view or
//! its own last write; what it remembers is gone with it; a call is one at a time.

use std::sync::Arc;
use std::time::Duration;

use run_operator::{
    api::{Intent, Reason, RunStatus, intent::IntentRecord},
    decide::{
        Decision, Effect, Follow, Learned, Memory, Observed, Session, Settings, WorkspaceView,
        answer::{Failure, RunView},
        decide,
        feed::Received,
        need::needs_workspace,
    },
};

use crate::cluster::{self, Refused};
use crate::object::{CONTRACT, MOVED, Object, Remembered, at, mark, place, second};
use crate::properties::{self, Broken, Sending};
use crate::rules::{Fence, Fences};
pub(crate) use crate::state::Proc;
use crate::state::{Call, Cancelled, Entry, Hold, Op, Packet, RunState, State, View, Wake, Write};

/// What becomes of a write to the API server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Fate {
    Done,
    /// Carried out, and the answer is lost.
    Unheard,
    /// Given up, and still on its way.
    Late,
}

/// The pace of whatever waits for a regular look.
const POLL: Duration = Duration::from_mins(1);
/// After the API server refused a write.
const AFTER_REFUSAL: i64 = 60;
/// How often a vanished object is looked at.
const PAUSE: i64 = 5;

impl Proc {
    fn entry(&mut self, uid: u8) -> Option<&mut Entry> {
        self.entries.iter_mut().find(|e| e.uid == uid)
    }

    /// The Workspace as Runs see it.
    fn workspace(&self, s: &State) -> WorkspaceView {
        match self.view {
            View::Unknown => WorkspaceView::Unknown,
            View::Missing => WorkspaceView::Missing,
            View::NotReady(reason) => WorkspaceView::NotReady {
                reason,
                message: "it isn't".into(),
            },
            View::Ready {
                token,
                session,
                workspace,
                holds,
            } => WorkspaceView::Ready(Session {
                number: u64::from(session),
                resolved: place(s.world.tokens[usize::from(token)].identity, workspace),
                holds: holds.map(|reason| (reason, "held".into())),
            }),
        }
    }

    fn session(&self) -> u64 {
        match self.view {
            View::Ready { session, .. } => u64::from(session),
            _ => 0,
        }
    }

    /// The name of the Run that has the older claim to this one's key (`controller::rivals`).
    fn rival(&self, object: &Object) -> Option<String> {
        let key = object.run.spec.idempotency_key.as_ref()?;
        let others = || {
            let live = self.store.iter().flatten().filter(|o| !o.run.ended());
            live.filter(|o| o.uid != object.uid)
        };
        let before = |other: &Object| match other.intent() {
            IntentRecord::Own(_) | IntentRecord::Unreadable => true,
            IntentRecord::Absent => other.run_id().is_some() || other.uid < object.uid,
            IntentRecord::Foreign => false,
        };
        let same = |o: &&Arc<Object>| o.run.spec.idempotency_key.as_ref() == Some(key);
        let rival = others().filter(same).find(|o| before(o));
        let rival = rival.or_else(|| others().find(|o| self.claim == Some(o.uid)));
        rival.map(|o| format!("uid-{}", o.uid))
    }
}

/// Asks policy about one entry; nothing where there is nothing to look at.
fn ask(s: &State, slot: usize, number: u8) -> Option<(Arc<Object>, Decision)> {
    let proc = s.procs[slot].as_ref()?;
    let entry = proc.entries.iter().find(|e| e.uid == number)?;
    let vanished = entry.vanishing.is_some();
    let object = entry.vanishing.clone().or_else(|| entry.latest.clone())?;
    let workspace = proc.workspace(s);
    let rival = proc.rival(&object);
    let settings = Settings {
        process: format!("p{}", proc.number),
        poll_min: POLL,
        poll_max: POLL,
    };
    let decision = decide(&Observed {
        run: &object.run,
        workspace: &workspace,
        namespace_allowed: (proc.view != View::Unknown).then_some(s.world.allowed),
        memory: &entry.memory,
        key_rival: rival.as_deref(),
        vanished,
        streaming: entry.streaming,
        held: None,
        contract: &CONTRACT,
        settings: &settings,
        now: at(s.now),
    });
    Some((object, decision))
}

/// The status that is to be written, if it differs from what stands.
fn news(object: &Object, decision: &Decision, vanished: bool) -> Option<RunStatus> {
    let status = decision.status.as_ref().filter(|_| !vanished)?;
    (object.run.status.as_ref() != Some(status)).then(|| status.clone())
}

/// A reconcile that finds nothing to do sleeps; one that finds something does it as a step of its own.
pub(crate) fn look(s: &mut State, slot: usize, number: u8) {
    let asked = ask(s, slot, number);
    let (now, events) = (s.now, s.left.events > 0);
    let Some(entry) = s.procs[slot].as_mut().and_then(|p| p.entry(number)) else {
        return;
    };
    if entry.calling {
        return;
    }
    let Some((object, decision)) = asked.filter(|_| entry.hold != Hold::Gone) else {
        entry.wake = Wake::Never;
        return;
    };
    let vanished = entry.vanishing.is_some();
    entry.ended |= object.run.ended();
    let believes = names_an_end(&object) && !knows_better(entry);
    match decision.follow {
        Follow::Keep => {}
        Follow::Open => entry.streaming = events,
        Follow::Close => entry.streaming = false,
    }
    let something = decision.effect.is_some() || news(&object, &decision, vanished).is_some();
    let again = decision.again.map_or(Wake::Never, |t| Wake::At(second(t)));
    entry.wake = match again {
        _ if something => Wake::Now,
        Wake::Never if vanished => Wake::At(now + PAUSE),
        again => again,
    };
    let ghost = s.ghost(number);
    ghost.misled |= ghost.forged && believes;
    if !something && !vanished {
        properties::held(s, &object);
    }
}

/// It knows of a submission itself and has seen no end: it believes no intent that speaks of one.
fn knows_better(entry: &Entry) -> bool {
    let memory = &entry.memory;
    !memory.ended && (memory.run_id.is_some() || memory.submission.epoch > 0)
}

fn names_an_end(object: &Object) -> bool {
    matches!(object.intent(), IntentRecord::Own(intent) if intent.end.is_some())
}

pub(crate) fn look_all(s: &mut State, slot: usize) {
    let entries = s.procs[slot].iter().flat_map(|p| &p.entries);
    let numbers: Vec<u8> = entries.map(|e| e.uid).collect();
    for number in numbers {
        look(s, slot, number);
    }
}

/// A process starts: it knows nothing.
pub(crate) fn start(s: &mut State, slot: usize) {
    s.started += 1;
    s.procs[slot] = Some(Proc {
        number: s.started,
        store: [None, None],
        view: View::Unknown,
        sessions: 0,
        suspects: false,
        entries: Vec::new(),
        claim: None,
    });
    verify(s, slot);
    for name in 0..2 {
        watch(s, slot, name);
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

/// The watch brings the newest version of an object, or that it is gone.
pub(crate) fn watch(s: &mut State, slot: usize, name: usize) -> bool {
    let seen = s.live[name].clone();
    let Some(proc) = s.procs[slot].as_mut() else {
        return false;
    };
    if proc.store[name] == seen {
        return false;
    }
    proc.store[name].clone_from(&seen);
    if let Some(seen) = seen {
        match proc.entry(seen.uid) {
            Some(entry) => newest(entry, seen),
            None => proc.entries.push(Entry::new(seen, name)),
        }
    }
    let rest = proc.entries.iter().filter(|e| e.name == name);
    let numbers: Vec<u8> = rest.map(|e| e.uid).collect();
    for number in numbers {
        part(s, slot, number);
    }
    // Another Run's key may be free now.
    look_all(s, slot);
    true
}

impl Entry {
    fn new(seen: Arc<Object>, name: usize) -> Self {
        let mut memory = Memory::default();
        if let Some(status) = &seen.run.status {
            memory.feed.remember(status);
        }
        Self {
            uid: seen.uid,
            name,
            memory: Remembered::new(memory),
            latest: Some(seen),
            hold: Hold::Held,
            calling: false,
            streaming: false,
            vanishing: None,
            wake: Wake::Now,
            ended: false,
            refused: 0,
            cancel: Cancelled::No,
        }
    }
}

/// `Entry::newest`.
fn newest(entry: &mut Entry, seen: Arc<Object>) {
    match entry.latest.take() {
        Some(own) if own.version > seen.version => {
            entry.latest = Some(own);
            return;
        }
        Some(own) if own.run.status != seen.run.status => {
            entry.memory.change(Memory::overtaken);
            entry.latest = Some(seen);
        }
        _ => entry.latest = Some(seen),
    }
    // Somebody may have taken the end away.
    entry.ended = false;
}

/// `State::part`: of an object that is gone from the store, what is left to be done.
fn part(s: &mut State, slot: usize, number: u8) {
    let Some(proc) = s.procs[slot].as_mut() else {
        return;
    };
    let there = proc.store.iter().flatten().any(|o| o.uid == number);
    let Some(entry) = proc.entry(number).filter(|e| !there && !e.calling) else {
        return;
    };
    if entry.vanishing.is_none() {
        let held = entry.latest.clone().filter(|_| entry.hold == Hold::Held);
        let known = |o: &Arc<Object>| {
            (o.run_id().is_some() || entry.memory.run_id.is_some()) && !o.run.ended()
        };
        match held.filter(known) {
            Some(run) => {
                entry.vanishing = Some(run);
                entry.streaming = false;
            }
            None => forget(proc, number),
        }
    }
}

fn forget(proc: &mut Proc, number: u8) {
    proc.entries.retain(|e| e.uid != number);
    proc.claim = proc.claim.filter(|c| *c != number);
}

/// What a check of the Workspace would find now.
fn truth(s: &State, proc: &Proc) -> View {
    let token = u8::try_from(s.world.tokens.len() - 1).unwrap();
    let Some(workspace) = s.world.workspace else {
        return View::Missing;
    };
    if !s.world.tokens[usize::from(token)].valid {
        return View::NotReady(Reason::Unauthorized);
    }
    let same = match proc.view {
        View::Ready {
            token: old,
            session,
            workspace: kept,
            ..
        } if old == token && kept == workspace && !proc.suspects => Some(session),
        _ => None,
    };
    View::Ready {
        token,
        session: same.unwrap_or(proc.sessions + 1),
        workspace,
        holds: if s.world.leaving {
            Some(Reason::WorkspaceDeleting)
        } else {
            s.world.holds.then_some(Reason::VersionNotAccepted)
        },
    }
}

/// Whether a Workspace that is being deleted may go: by a list of the objects as they are, and by the objects
/// that vanished.
pub(crate) fn may_leave(s: &State) -> bool {
    let needed = s.live.iter().flatten().any(|o| needs_workspace(&o.run));
    let entries = s.procs.iter().flatten().flat_map(|p| &p.entries);
    let vanishing = entries.into_iter().any(|e| e.vanishing.is_some());
    s.world.leaving && s.world.workspace.is_some() && !needed && !vanishing
}

/// It goes.
pub(crate) fn leave(s: &mut State) {
    properties::outlived(s);
    (s.world.workspace, s.world.leaving) = (None, false);
}

/// The Workspace is checked. Whether that is due.
pub(crate) fn verify(s: &mut State, slot: usize) -> bool {
    let Some(proc) = &s.procs[slot] else {
        return false;
    };
    let found = truth(s, proc);
    if found == proc.view && !proc.suspects {
        return false;
    }
    let Some(proc) = s.procs[slot].as_mut() else {
        return false;
    };
    proc.suspects = false;
    if let View::Ready { session, .. } = found {
        proc.sessions = proc.sessions.max(session);
    }
    proc.view = found;
    for entry in &mut proc.entries {
        entry.streaming = false;
    }
    look_all(s, slot);
    true
}

/// Does what policy decides for one object: one write, or one call.
pub(crate) fn step(s: &mut State, fences: Fences, slot: usize, number: u8, fate: Fate) {
    let Some((object, decision)) = ask(s, slot, number) else {
        return;
    };
    let entry = s.procs[slot].as_mut().and_then(|p| p.entry(number));
    let Some(entry) = entry.filter(|e| e.wake == Wake::Now) else {
        return;
    };
    let vanished = entry.vanishing.is_some();
    let shown = entry.memory.feed.shown();
    let counted = |s: Option<&RunStatus>| s.and_then(|s| s.event_count);
    let folds = counted(decision.status.as_ref()) != counted(object.run.status.as_ref());
    if let Some(status) = news(&object, &decision, vanished) {
        let write = (object, Op::Status(Box::new(status)), None);
        wrote(
            s,
            fences,
            slot,
            number,
            fate,
            write,
            if folds { shown } else { 0 },
        );
    } else if let Some(effect) = decision.effect {
        act(s, fences, slot, number, fate, object, effect);
    }
    look(s, slot, number);
}

fn act(
    s: &mut State,
    fences: Fences,
    slot: usize,
    number: u8,
    fate: Fate,
    object: Arc<Object>,
    effect: Effect,
) {
    match effect {
        Effect::WriteIntent {
            intent,
            finalizer,
            clean,
        } => {
            if intent.epoch == 1 && clean && object.run.spec.idempotency_key.is_some() {
                let Some(proc) = s.procs[slot].as_mut() else {
                    return;
                };
                proc.claim = Some(number);
            }
            let text = serde_json::to_string(&intent).unwrap();
            let learned = Learned::IntentWritten { intent, clean };
            let finalizer = finalizer && !object.held();
            let write = (object, Op::Intent(text, finalizer), Some(learned));
            wrote(s, fences, slot, number, fate, write, 0);
        }
        Effect::Release { end } => {
            if object_is_vanishing(s, slot, number) {
                if let Some(proc) = s.procs[slot].as_mut() {
                    forget(proc, number);
                }
                let orphan = object.run.spec.deletion_policy()
                    == run_operator::api::run::DeletionPolicy::Orphan;
                s.ghost(number).orphaned |= orphan;
                return;
            }
            let kept = match (end, object.intent()) {
                (Some(end), IntentRecord::Own(intent)) => {
                    let intent = Intent {
                        end: Some(end),
                        ..*intent
                    };
                    Some(serde_json::to_string(&intent).unwrap())
                }
                _ => None,
            };
            wrote(
                s,
                fences,
                slot,
                number,
                fate,
                (object, Op::Release(kept), None),
                0,
            );
        }
        Effect::Delete => wrote(s, fences, slot, number, fate, (object, Op::Delete, None), 0),
        Effect::Submit { .. } | Effect::Refresh { .. } | Effect::Cancel { .. } => {
            send(s, fences, slot, number, &object, &effect);
        }
    }
}

fn object_is_vanishing(s: &State, slot: usize, number: u8) -> bool {
    let entries = s.procs[slot].iter().flat_map(|p| &p.entries);
    entries
        .into_iter()
        .any(|e| e.uid == number && e.vanishing.is_some())
}

/// A write goes out, and what becomes of it is heard, or isn't.
fn wrote(
    s: &mut State,
    fences: Fences,
    slot: usize,
    number: u8,
    fate: Fate,
    (object, op, learned): (Arc<Object>, Op, Option<Learned>),
    shown: usize,
) {
    let Some(sender) = s.procs[slot].as_ref().map(|p| p.number) else {
        return;
    };
    let name = usize::from(object.run.metadata.name.as_deref() == Some("run-1"));
    let status = matches!(op, Op::Status(_));
    let release = matches!(op, Op::Release(_));
    let write = Write {
        name,
        uid: number,
        version: object.version,
        sender,
        op,
    };
    if fate == Fate::Late {
        s.writes.push(write);
        return;
    }
    let answer = cluster::execute(s, fences, &write);
    if fate == Fate::Unheard {
        return;
    }
    let now = s.now;
    let Some(proc) = s.procs[slot].as_mut() else {
        return;
    };
    let session = proc.session();
    let Some(entry) = proc.entry(number) else {
        return;
    };
    match answer {
        Ok(written) => {
            if let Some(learned) = learned {
                entry.refused = 0;
                entry.memory.learn(learned, number, session, now);
            }
            if status {
                entry
                    .memory
                    .learn(Learned::StatusWritten, number, session, now);
                entry.memory.change(|m| m.feed.written(shown));
            }
            if release {
                entry.hold = if written.is_none() {
                    Hold::Gone
                } else {
                    Hold::Released
                };
            }
            if let Some(written) = written.filter(|_| fences.holds(Fence::OwnWrites)) {
                entry.ended |= written.run.ended();
                entry.latest = Some(written);
            } else if status {
                entry.ended |= matches!(&write.op, Op::Status(s) if s.phase.is_some_and(run_operator::api::Phase::terminal));
            }
        }
        Err(Refused::Gone) if release => entry.hold = Hold::Released,
        Err(Refused::Gone | Refused::Conflict) => {}
        Err(Refused::Invalid) => entry.wake = Wake::At(now + AFTER_REFUSAL),
    }
}

/// A call goes out.
fn send(s: &mut State, fences: Fences, slot: usize, number: u8, object: &Object, effect: &Effect) {
    let Some(proc) = s.procs[slot].as_ref() else {
        return;
    };
    let View::Ready {
        token,
        session,
        workspace,
        ..
    } = proc.view
    else {
        s.breaks(Broken::Unverified);
        return;
    };
    let Some(entry) = proc.entries.iter().find(|e| e.uid == number) else {
        return;
    };
    let repeats = session <= entry.refused;
    let hasty = matches!(effect, Effect::Cancel { .. }) && entry.cancel != Cancelled::No;
    // The token that was verified, not the one that the Secret holds now.
    let token = if fences.holds(Fence::Session) {
        token
    } else {
        u8::try_from(s.world.tokens.len() - 1).unwrap()
    };
    let sending = Sending {
        process: proc.number,
        object,
        vanished: entry.vanishing.is_some(),
        ended: entry.ended,
        knows: knows_better(entry),
        kept: names_an_end(object) && s.ghosts[usize::from(number) - 1].kept,
        place: place(s.world.tokens[usize::from(token)].identity, workspace),
    };
    let caller = proc.number;
    if repeats {
        s.breaks(Broken::SameSession);
    }
    if hasty {
        s.breaks(Broken::CancelledAgain);
    }
    let run = |id: &str| crate::service::numbered(id).unwrap_or(usize::MAX);
    let (call, started) = match effect {
        Effect::Submit { key, body } => {
            sending.post(s, key, body);
            let call = Call::Create {
                key: key.as_str().into(),
                bytes: mark(&String::from_utf8_lossy(body)),
            };
            (call, Some(Learned::SubmitStarted))
        }
        Effect::Refresh { run_id } => {
            sending.about(s, run(run_id), false);
            (Call::Get(run(run_id)), Some(Learned::RefreshStarted))
        }
        Effect::Cancel { run_id } => {
            sending.about(s, run(run_id), true);
            (Call::Cancel(run(run_id)), None)
        }
        Effect::WriteIntent { .. } | Effect::Release { .. } | Effect::Delete => return,
    };
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
        entry.calling = true;
        entry.wake = Wake::Never;
        if let Some(started) = started {
            entry.memory.learn(started, number, u64::from(session), now);
        }
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
        let news = match packet.call {
            Call::Create { .. } => Learned::Submitted(answer),
            Call::Get(_) => Learned::Refreshed(answer),
            Call::Cancel(_) => Learned::CancelAnswered(answer),
        };
        entry.calling = false;
        entry
            .memory
            .learn(news, number, u64::from(packet.session), now);
    }
    cluster::owed(s, number);
    part(s, slot, number);
    look(s, slot, number);
}

impl Cancelled {
    /// After this call was answered so.
    fn after(self, call: &Call, answer: &Result<RunView, Failure>) -> Self {
        let denied = matches!(answer, Err(f) if f.http_status == Some(404));
        let is_final = |f: &Failure| matches!(f.http_status, Some(403 | 404 | 409 | 500));
        match (call, answer) {
            (Call::Cancel(_), Ok(_)) => Self::Unlooked { accepted: true },
            (Call::Cancel(_), Err(f)) if is_final(f) => Self::Unlooked { accepted: false },
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

/// A call is given up in the middle: nobody learns what became of it.
pub(crate) fn given_up(s: &mut State, packet: &Packet) {
    let Some(slot) = packet.caller.and_then(|number| s.slot_of(number)) else {
        return;
    };
    let number = packet.uid;
    if let Some(entry) = s.procs[slot].as_mut().and_then(|p| p.entry(number)) {
        entry.calling = false;
    }
    cluster::owed(s, number);
    part(s, slot, number);
    look(s, slot, number);
}

/// The next event of the stream after what was received, or the first one once more.
pub(crate) fn event(s: &mut State, slot: usize, number: u8, replay: bool) -> bool {
    let now = s.now;
    let Some(entry) = s.procs[slot]
        .as_ref()
        .and_then(|p| p.entries.iter().find(|e| e.uid == number))
    else {
        return false;
    };
    let run = entry
        .latest
        .as_ref()
        .and_then(|o| crate::service::numbered(o.run_id()?));
    let (true, Some(run)) = (entry.streaming, run.and_then(|n| s.service.runs.get(n))) else {
        return false;
    };
    let cursor = entry
        .memory
        .feed
        .cursor()
        .and_then(|c| c.strip_prefix('e')?.parse().ok());
    let next = if replay { 0 } else { cursor.unwrap_or(0_usize) };
    if replay && cursor.is_none() {
        return false;
    }
    let Some(state) = run.passed.get(next).map(|state| state.word()) else {
        return false;
    };
    let received = Received {
        id: Some(format!("e{}", next + 1)),
        kind: "state".into(),
        data: state.into(),
    };
    let Some(entry) = s.procs[slot].as_mut().and_then(|p| p.entry(number)) else {
        return false;
    };
    entry.memory.change(|memory| {
        let mirrored = memory.seen.as_ref().and_then(|seen| seen.state.clone());
        memory
            .feed
            .receive(&received, Some(state), mirrored.as_deref(), at(now));
    });
    look(s, slot, number);
    true
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

/// What is done next, for people.
pub(crate) fn plan(s: &State, slot: usize, number: u8) -> String {
    let Some((object, decision)) = ask(s, slot, number) else {
        return "nothing".into();
    };
    let process = s.procs[slot].as_ref().map_or(0, |p| p.number);
    let vanished = object_is_vanishing(s, slot, number);
    match (news(&object, &decision, vanished), decision.effect) {
        (Some(status), _) => {
            let said = status.conditions.iter().find(|c| c.type_ == "Ready");
            let said = said.map_or("", |c| c.reason.as_str());
            format!(
                "p{process} writes status {:?} {said} {:?}",
                status.phase, status.run_id
            )
        }
        (None, Some(Effect::WriteIntent { intent, clean, .. })) => {
            format!(
                "p{process} writes intent {} of {} (clean {clean})",
                intent.epoch, intent.owner
            )
        }
        (None, Some(Effect::Submit { key, .. })) => format!("p{process} POSTs {key}"),
        (None, effect) => format!("p{process}: {effect:?}"),
    }
}
