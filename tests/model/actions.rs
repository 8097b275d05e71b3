//! Everything that can happen next.

mod possible;

use crate::cluster;
use crate::model::Model;
use crate::object::MOVED;
use crate::process::{self, Fate};
use crate::properties;
use crate::scenarios::{Turn, User};
use crate::service::{self, Answer};
use crate::state::{Budget, Packet, Place, RunState, State, Token};
pub(crate) use possible::possible;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Action {
    /// A process does what policy decides.
    Step {
        slot: usize,
        uid: u8,
        fate: Fate,
    },
    Watch {
        slot: usize,
        name: usize,
    },
    /// A list from the past lacks an object that exists.
    Lack {
        slot: usize,
        name: usize,
    },
    Verify {
        slot: usize,
    },
    Start {
        slot: usize,
    },
    Crash {
        slot: usize,
    },
    /// A call for somebody else's Run takes the place for calls.
    Taken {
        slot: usize,
    },
    /// It ends.
    Freed {
        slot: usize,
    },
    /// A request is carried out and answered.
    Serve(usize),
    /// A request is being worked on.
    Begin(usize),
    Answered(usize, Answer),
    /// Carried out, and the answer is lost.
    Unheard(usize),
    /// Never arrives.
    Lost(usize),
    /// Given up by its sender, and still on its way.
    Late(usize),
    Double(usize),
    LateWrite(usize),
    User(User),
    Turn(Turn),
    /// The finalizer of the Workspace that is being deleted is removed.
    WorkspaceGone,
    Run(usize, RunState),
    LoseRun(usize),
    Event {
        slot: usize,
        uid: u8,
        replay: bool,
    },
    Tick(Pause),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Pause {
    Moment,
    Minute,
    Patience,
    Day,
}

impl Pause {
    fn seconds(self) -> i64 {
        match self {
            Self::Moment => 5,
            Self::Minute => 70,
            Self::Patience => 310,
            Self::Day => 86_500,
        }
    }

    fn left(self, left: &mut Budget) -> &mut u8 {
        match self {
            Self::Moment => &mut left.moments,
            Self::Minute => &mut left.minutes,
            Self::Patience => &mut left.patience,
            Self::Day => &mut left.days,
        }
    }
}

/// The next state; none where the action has no effect.
pub(crate) fn take(m: &Model, before: &State, action: Action) -> Option<State> {
    let mut s = before.clone();
    if !apply(m, &mut s, action) {
        return None;
    }
    s.calls.sort();
    properties::remembered(&mut s);
    properties::place_kept(&mut s);
    Some(s)
}

fn apply(m: &Model, s: &mut State, action: Action) -> bool {
    match action {
        Action::Step { slot, uid, fate } => {
            s.left.writes -= u8::from(fate != Fate::Done);
            let (writes, calls) = (s.writes.len(), s.calls.len());
            let version = s.version;
            process::step(s, slot, uid, fate);
            // Only a write can go wrong here; a call does later.
            fate == Fate::Done
                || s.calls.len() == calls && (s.version, s.writes.len()) != (version, writes)
        }
        Action::Watch { slot, name } => process::watch(s, slot, name),
        Action::Lack { slot, name } => {
            s.left.lists -= 1;
            process::lack(s, slot, name)
        }
        Action::Verify { slot } => process::verify(s, slot),
        Action::Start { slot } => {
            let up = s.procs.iter().flatten().count();
            s.left.leases -= u8::from(up > 0);
            process::start(s, slot);
            true
        }
        Action::Crash { slot } => {
            s.left.crashes -= 1;
            process::crash(s, slot);
            true
        }
        Action::Taken { slot } => {
            s.left.busy -= 1;
            let proc = s.procs[slot].as_mut();
            proc.is_some_and(|p| p.place.replace(Place::Other).is_some())
        }
        Action::Freed { slot } => {
            process::freed(s, slot);
            true
        }
        Action::LateWrite(i) => {
            let write = s.writes.remove(i);
            let _ = cluster::execute(s, &write);
            true
        }
        Action::User(user) => {
            let before = s.clone();
            cluster::act(s, user, &m.scenario.spec);
            s.left.users -= 1;
            s.live != before.live || s.ghosts != before.ghosts
        }
        Action::Turn(turn) => turned(s, turn),
        Action::WorkspaceGone => {
            process::leave(s);
            true
        }
        Action::Run(number, to) => {
            let run = &mut s.service.runs[number];
            let by_itself = !(run.state() == RunState::Cancelling && to == RunState::Cancelled);
            run.passed.push(to);
            s.left.runs -= u8::from(by_itself);
            true
        }
        Action::LoseRun(number) => {
            s.service.runs[number].lost = true;
            s.left.runs -= 1;
            true
        }
        Action::Event { slot, uid, replay } => {
            s.left.events -= 1;
            let happened = process::event(s, slot, uid, replay);
            if s.left.events == 0 {
                for entry in s.procs.iter_mut().flatten().flat_map(|p| &mut p.entries) {
                    entry.streaming = false;
                }
            }
            happened
        }
        Action::Tick(pause) => {
            *pause.left(&mut s.left) -= 1;
            if pause == Pause::Day {
                for packet in s.calls.clone() {
                    process::answered(s, &packet, Err(service::lost()));
                }
                s.calls.clear();
                service::forget(s);
            }
            process::tick(s, s.now + pause.seconds());
            true
        }
        Action::Serve(_)
        | Action::Begin(_)
        | Action::Answered(..)
        | Action::Unheard(_)
        | Action::Lost(_)
        | Action::Late(_)
        | Action::Double(_) => requested(s, action),
    }
}

fn requested(s: &mut State, action: Action) -> bool {
    let (Action::Serve(i)
    | Action::Begin(i)
    | Action::Answered(i, _)
    | Action::Unheard(i)
    | Action::Lost(i)
    | Action::Late(i)
    | Action::Double(i)) = action
    else {
        return false;
    };
    s.left.calls -= u8::from(!matches!(action, Action::Serve(_) | Action::Begin(_)));
    let mut packet = s.calls.remove(i);
    match action {
        Action::Serve(_) => {
            let answer = service::serve(s, &packet);
            process::answered(s, &packet, answer);
        }
        Action::Begin(_) => {
            service::begin(s, &mut packet);
            s.calls.push(packet);
        }
        Action::Answered(_, Answer::GivenUp) => {
            let caller = packet.caller.take();
            s.calls.push(packet.clone());
            process::given_up(s, &Packet { caller, ..packet });
        }
        Action::Answered(_, answer) => {
            let mut text = answer.text();
            if answer.done() {
                text = service::serve(s, &packet).and(text);
            }
            if answer == Answer::Ignored {
                text = service::ignored(s, &packet);
            }
            service::told(s, &packet, &text);
            process::answered(s, &packet, text);
        }
        Action::Unheard(_) => {
            let _ = service::serve(s, &packet);
            process::answered(s, &packet, Err(service::lost()));
        }
        Action::Lost(_) => process::answered(s, &packet, Err(service::lost())),
        Action::Late(_) => {
            let caller = packet.caller.take();
            s.calls.push(packet.clone());
            process::answered(s, &Packet { caller, ..packet }, Err(service::lost()));
        }
        _ => {
            packet.doubled = true;
            s.calls.push(packet.clone());
            packet.caller = None;
            s.calls.push(packet);
        }
    }
    true
}

fn turned(s: &mut State, turn: Turn) -> bool {
    s.left.turns -= 1;
    let before = s.world.clone();
    let token = |identity| Token {
        identity,
        valid: true,
    };
    match turn {
        Turn::Expire => {
            if let Some(last) = s.world.tokens.last_mut() {
                last.valid = false;
            }
        }
        Turn::Rotate => s.world.tokens.push(token(0)),
        Turn::RotateToOther => s.world.tokens.push(token(1)),
        Turn::WorkspaceGoes => (s.world.workspace, s.world.leaving) = (None, false),
        Turn::WorkspaceComes => s.world.workspace = s.world.workspace.or(Some(2)),
        Turn::WorkspaceLeaves => s.world.leaving = s.world.workspace.is_some(),
        Turn::WorkspaceMoves => (s.world.workspace, s.world.leaving) = (Some(MOVED), false),
        Turn::Holds => s.world.holds = true,
        Turn::Goes => s.world.holds = false,
        Turn::Disallow => s.world.allowed = false,
        Turn::Allow => s.world.allowed = true,
        Turn::Unshared => s.world.shared = Some(false),
        Turn::Shared => s.world.shared = Some(true),
        Turn::Limit(limit) => {
            s.world.limit = Some(limit);
            s.world.highest = s.world.highest.map(|highest| highest.max(limit));
        }
    }
    if (s.world.allowed, s.world.shared) != (before.allowed, before.shared) {
        for slot in 0..2 {
            process::look_all(s, slot);
        }
    }
    s.world != before
}
