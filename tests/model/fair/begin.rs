//! The faults have ended.

use run_operator::api::status::ResolvedWorkspace;

use crate::object::{MOVED, OTHER_URL};
use crate::process;
use crate::state::{Budget, Fair, State, Token};

/// One process is left, and what it needs is there.
pub(super) fn begin(from: &State) -> State {
    let mut s = from.clone();
    s.left = Budget::default();
    s.fair = Some(if s.world.holds {
        Fair::Held(0)
    } else {
        Fair::Alone(0)
    });
    let number = |p: &Option<process::Proc>| p.as_ref().map(|p| p.number);
    let (first, second) = (number(&s.procs[0]), number(&s.procs[1]));
    match (first, second) {
        (Some(a), Some(b)) => process::crash(&mut s, usize::from(a > b)),
        (None, None) => process::start(&mut s, 0),
        _ => {}
    }
    if s.procs[0].is_none() {
        s.procs.swap(0, 1);
    }
    let pinned = pinned(&s);
    let identity = pinned.as_ref().and_then(|p| p.identity.as_deref());
    let good = Token {
        identity: u8::from(identity == Some("ws-1")),
        valid: true,
    };
    if s.world.tokens.last() != Some(&good) {
        s.world.tokens.push(good);
    }
    let moved = s.world.workspace == Some(MOVED);
    s.world.workspace = match pinned {
        Some(place) if (place.base_url == OTHER_URL) != moved => {
            s.world.leaving = false;
            Some(if moved { 2 } else { MOVED })
        }
        _ => s.world.workspace.or(Some(1)),
    };
    s.world.allowed = true;
    for entry in s.procs.iter_mut().flatten().flat_map(|p| &mut p.entries) {
        entry.streaming = false;
    }
    process::look_all(&mut s, 0);
    s
}

/// The place that the first object is pinned to: there Workspace and token are good in the end.
fn pinned(s: &State) -> Option<ResolvedWorkspace> {
    let object = s.live.iter().flatten().next();
    let intent = object.and_then(|o| o.run.intent_record().own());
    let intent = intent.map(|intent| intent.workspace);
    let stored = object.and_then(|o| o.run.status.as_ref()?.workspace.clone());
    // The writer of the intent knows better than the edited intent.
    let mut entries = s.procs.iter().flatten().flat_map(|p| &p.entries);
    let own = object.and_then(|o| entries.find(|e| e.uid == o.uid));
    let own = own.and_then(|e| Some(e.run.memory.intent.as_ref()?.workspace.clone()));
    stored.or(own).or(intent)
}
