//! Handlers of the watches' events: they update the indexes and enqueue the objects concerned.

use std::sync::Arc;

use kube::{Resource, runtime::watcher::Event};

use crate::api::Run;

use super::{
    apiserver::{Maybe, controller::Watches, scope::Scope},
    context::Context,
    enqueue,
    run::{garbage_collector, settled},
    state::index::{Change, Record},
    workspace::kind::Kind,
};

impl Watches<Run> for Context {
    fn caches(&self, run: &Maybe<Run>) -> bool {
        !settled::seen(self, run)
    }

    fn known(&self, uid: &str, version: &str) -> Option<Arc<Run>> {
        let entry = self.tracked_runs.get(uid)?;
        let latest = entry.with(|state| state.run.latest().cloned());
        latest.filter(|run| run.metadata.resource_version.as_deref() == Some(version))
    }

    fn handle(&self, scope: &Scope, event: &Event<Maybe<Run>>, cached: bool) {
        runs(self, scope, event, !cached);
    }
}

impl<K: Kind> Watches<K> for Context {
    fn handle(&self, scope: &Scope, event: &Event<Maybe<K>>, _cached: bool) {
        workspaces(self, scope, event);
    }
}

fn runs(ctx: &Context, scope: &Scope, event: &Event<Maybe<Run>>, settled: bool) {
    let index = &ctx.run_index;
    match event {
        Event::Init => index.begin(scope),
        Event::InitApply(run) => index.list(scope, Record::of(run).settled(settled)),
        Event::InitDone => {
            let missing = |uids: &[Arc<str>]| uids.iter().for_each(|uid| ctx.absent.mark(uid));
            let changes = index.listed(scope, missing);
            for change in &changes {
                follow(ctx, change);
            }
            settled::retire_all(ctx);
        }
        Event::Apply(run) => {
            if let Some(change) = index.apply(Record::of(run).settled(settled)) {
                follow(ctx, &change);
            }
            if settled {
                ctx.tracked_runs
                    .retire(run.meta().uid.as_deref().unwrap_or_default());
            }
        }
        Event::Delete(run) => {
            let meta = run.meta();
            let text = |text: &Option<String>| text.clone().unwrap_or_default();
            garbage_collector::last_seen(ctx, run);
            ctx.absent.mark(&text(&meta.uid));
            let change = index.delete(&text(&meta.namespace), &text(&meta.name));
            if let Some(change) = change {
                follow(ctx, &change);
            }
            ctx.absent.report(&text(&meta.uid));
        }
    }
}

/// Carries out the consequences of a change.
fn follow(ctx: &Context, change: &Change) {
    if let Some(uid) = &change.ended {
        ctx.claims.release(uid);
    }
    if let Some((namespace, key)) = &change.freed {
        enqueue::sharing(ctx, namespace, key);
    }
    if let Some(key) = &change.unneeded
        && ctx.submissions_closed(key)
    {
        ctx.enqueue_workspace(key);
    }
    if let Some(uid) = &change.deleted {
        settled::forget(ctx, uid);
        ctx.absent.report(uid);
    }
}

fn workspaces<K: Kind>(ctx: &Context, scope: &Scope, event: &Event<Maybe<K>>) {
    let index = ctx.workspace_index(K::KIND);
    match event {
        Event::Init => index.begin(scope),
        Event::InitApply(workspace) => index.list(scope, workspace),
        Event::InitDone => {
            index.listed(scope);
            enqueue::missing_workspaces(ctx);
        }
        Event::Apply(workspace) => index.apply(workspace),
        Event::Delete(workspace) => {
            index.delete(workspace);
            enqueue::missing_workspaces(ctx);
        }
    }
}
