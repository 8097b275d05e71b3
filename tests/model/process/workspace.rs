//! A process's check of the Workspace, and the removal of one that is being deleted.

use run_operator::{
    api::{Reason, WorkspaceKey, workspace::RunLimits},
    decide::claims::{may_use, needs_workspace, pinned_elsewhere},
};

use super::look_all;
use crate::object::place;
use crate::properties;
use crate::state::{Known, Proc, State, View};

/// The result that a check of the Workspace would have now.
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

/// True if the finalizer of a Workspace that is being deleted may be removed: by a list of the objects as
/// they are, and by the objects that vanished.
pub(crate) fn may_leave(s: &State) -> bool {
    let here = s
        .world
        .workspace
        .map(|workspace| place(0, workspace).base_url);
    let mut live = s.live.iter().flatten();
    let own = WorkspaceKey::own_default("team");
    let needed = live.any(|o| may_use(&o.run, &own) && needs_workspace(&o.run, here.as_deref()));
    let known = s.procs.iter().flatten().flat_map(|p| &p.store);
    let vanishing = known.into_iter().any(|known| match known {
        Known::Gone(o) => may_use(&o.run, &own) && !pinned_elsewhere(&o.run, here.as_deref()),
        Known::Shown(_) => false,
    });
    s.world.leaving && s.world.workspace.is_some() && !needed && !vanishing
}

/// Removes its finalizer.
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
    let limit = s.world.limit;
    if found == proc.view && !proc.suspects && limit == proc.limit {
        return false;
    }
    let Some(proc) = s.procs[slot].as_mut() else {
        return false;
    };
    proc.limit = limit;
    proc.suspects = false;
    if let View::Ready { session, .. } = found {
        proc.sessions = proc.sessions.max(session);
    }
    proc.view = found;
    let open = matches!(found, View::Ready { holds: None, .. });
    let limits = RunLimits {
        all: limit.map(usize::from),
        per_namespace: None,
    };
    if limit.is_some() {
        let own = WorkspaceKey::own_default("team");
        let granted = proc.queues.set(&own, open.then_some(limits));
        proc.granted(&granted);
    }
    for entry in &mut proc.entries {
        entry.streaming = false;
    }
    look_all(s, slot);
    true
}
