//! Conditions that must hold at rest, and the next request to the object then.

use run_operator::api::{Phase, run::DeletionPolicy};

use super::Way;
use crate::cluster;
use crate::object::Object;
use crate::properties::{Broken, full, retried, settled, told};
use crate::state::{Fair, Ghost, State, Wake};

/// Goes on with what is asked next, where nothing is wrong.
pub(super) fn at_rest(mut s: State) -> Way {
    let mut objects = s.live.iter().flatten();
    if let Some(wrong) = objects.find_map(|o| wrong(&s, o)) {
        return Way::Wrong(wrong);
    }
    let owed = |g: &Ghost| g.owed && !g.orphaned;
    for (uid, ghost) in (1_u8..).zip(&s.ghosts) {
        if owed(ghost) && !settled(&s, uid) {
            return Way::Wrong(Broken::LeftBehind);
        }
    }
    match s.fair {
        Some(Fair::Held(_)) => {
            (s.world.holds, s.fair) = (false, Some(Fair::Alone(0)));
            Way::On("nothing is held any more".into(), Box::new(s))
        }
        _ if s.live.iter().flatten().next().is_none() => Way::Rest,
        Some(Fair::Alone(_)) => asked(s, Fair::Deleted(0)),
        Some(Fair::Deleted(_)) => asked(s, Fair::Orphaned(0)),
        _ => Way::Wrong(Broken::NoEnd),
    }
}

fn wrong(s: &State, object: &Object) -> Option<Broken> {
    let status = object.run.status.clone().unwrap_or_default();
    let is = |kind: &str| {
        let mut all = status.conditions.iter();
        all.any(|c| c.type_ == kind && c.status == "True")
    };
    let says = |reason: &str| status.conditions.iter().any(|c| c.reason == reason);
    if !told(s, object) {
        return Some(Broken::Untold);
    }
    if !retried(s, object) {
        return Some(Broken::RetryLost);
    }
    if matches!(s.fair, Some(Fair::Held(_))) {
        // A Run that waits for its first submission shows no more than that.
        return None;
    }
    let ended = status.phase.is_some_and(Phase::terminal);
    let explained = is("Stalled") || says("Suspended") || says("Queued") && full(s);
    if !ended && !explained || ended && object.held() && !says("RunNotFound") {
        return Some(Broken::NoEnd);
    }
    let mut entries = s.procs[0].iter().flat_map(|p| &p.entries);
    let asleep = entries.all(|e| e.uid != object.uid || e.wake == Wake::Never);
    (ended && !asleep && !object.deleting()).then_some(Broken::NotQuiet)
}

/// Every object is deleted, or set to leave its run.
fn asked(mut s: State, next: Fair) -> Way {
    s.fair = Some(next);
    for name in 0..2 {
        let Some(object) = s.live[name].clone() else {
            continue;
        };
        if next == Fair::Deleted(0) {
            cluster::delete(&mut s, name);
        } else {
            let mut run = object.run.clone();
            run.spec.deletion_policy = Some(DeletionPolicy::Orphan);
            run.metadata.generation = run.metadata.generation.map(|g| g + 1);
            cluster::put(&mut s, name, run);
        }
    }
    Way::On(format!("{next:?}"), Box::new(s))
}
