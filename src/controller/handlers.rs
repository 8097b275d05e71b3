//! Handlers of the watches' events: they keep the indexes and wake whom a change concerns.

use std::sync::Arc;

use kube::{Resource, runtime::watcher::Event};

use crate::api::Run;

use super::{
    context::{Context, Guarded},
    index::{Change, Record},
    kinds::Kind,
    reaper,
    scope::Scope,
    wake,
};

/// Takes in an event of the Runs of a scope; their store has it already.
pub(super) fn runs(ctx: &Context, scope: &Scope, event: &Event<Guarded<Run>>) {
    let index = &ctx.run_index;
    match event {
        Event::Init => index.begin(scope),
        Event::InitApply(run) => index.list(scope, Record::of(run)),
        Event::InitDone => {
            let missing = |uids: &[Arc<str>]| uids.iter().for_each(|uid| ctx.absent.expect(uid));
            let changes = index.listed(scope, missing);
            for change in &changes {
                follow(ctx, change);
            }
        }
        Event::Apply(run) => {
            if let Some(change) = index.apply(Record::of(run)) {
                follow(ctx, &change);
            }
        }
        Event::Delete(run) => {
            let meta = run.meta();
            let text = |text: &Option<String>| text.clone().unwrap_or_default();
            reaper::last_seen(ctx, run);
            ctx.absent.expect(&text(&meta.uid));
            let change = index.delete(&text(&meta.namespace), &text(&meta.name));
            if let Some(change) = change {
                follow(ctx, &change);
            }
            ctx.absent.tell(&text(&meta.uid));
        }
    }
}

/// Carries out the consequences of a change.
fn follow(ctx: &Context, change: &Change) {
    if let Some(uid) = &change.ended {
        ctx.claims.release(uid);
    }
    if let Some((namespace, key)) = &change.freed {
        wake::sharing(ctx, namespace, key);
    }
    if let Some(key) = &change.unneeded
        && ctx.doors.closed(key)
    {
        ctx.wake_workspace(key);
    }
    if let Some(uid) = &change.gone {
        ctx.absent.tell(uid);
    }
}

/// Takes in an event of the Workspaces of one kind in a scope; their store has it already.
pub(super) fn workspaces<K: Kind>(ctx: &Context, scope: &Scope, event: &Event<Guarded<K>>) {
    let index = ctx.workspace_index(K::KIND);
    match event {
        Event::Init => index.begin(scope),
        Event::InitApply(workspace) => index.list(scope, workspace),
        Event::InitDone => {
            index.listed(scope);
            wake::missing_workspaces(ctx);
        }
        Event::Apply(workspace) => index.apply(workspace),
        Event::Delete(workspace) => {
            index.delete(workspace);
            wake::missing_workspaces(ctx);
        }
    }
}
