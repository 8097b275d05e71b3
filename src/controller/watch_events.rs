//! The loop over each kind of object in each scope: from its watch into the stores and the queue, and on to reconciles.

use std::sync::Arc;

use futures::{FutureExt, Stream, StreamExt};
use kube::runtime::{
    reflector::{Store, store::Writer},
    watcher::Event,
};
use kube::{Api, Resource, ResourceExt};
use tokio::sync::Semaphore;
use tokio_util::task::AbortOnDropHandle;

use crate::api::{Run, RunSchedule, RunTemplate, WorkspaceKind, schedule::TemplateRef};

use super::{
    apiserver::{
        self, Maybe, Object, Scope,
        reconciler::{Name, Reconcile, Reconciler},
    },
    context::{Context, NamespaceMeta},
    enqueue,
    run::{self, settled},
    schedule::reconcile as schedule,
    state::run_store::{Known, Whose},
    workspace::{
        self,
        kind::{Kind, key_of},
    },
};

pub(crate) async fn runs(ctx: Arc<Context>, reconciler: Arc<Reconciler>) {
    let scope = reconciler.scope.clone();
    let api = scope.api::<Maybe<Run>>(ctx.client.clone());
    let host = Arc::clone(&ctx);
    let find = move |(_, uid): &Name| {
        let known = host.runs.get(uid)?;
        let [_, _, name] = known.identity();
        Some(Reconcile {
            kind: Run::kind(&()).into_owned(),
            name: name.to_owned(),
            steps: run::reconcile::reconcile(known, Arc::clone(&host)).boxed(),
        })
    };
    let most = usize::from(ctx.config.max_concurrent_reconciles);
    let of_scope = scope.clone();
    let apply = move |ctx: &Context, event| show_run(ctx, &of_scope, event);
    let request_all = |ctx: &Context| {
        enqueue::enqueue_runs(ctx, |known| {
            let [_, namespace, _] = known.identity();
            scope.covers(namespace) && !matches!(known, Known::Ended(_))
        });
    };
    let apply = counted(apply);
    serve(&ctx, reconciler, api, apply, request_all, most, find).await;
}

/// Takes in an event of the watch of Runs. A list takes effect at its end.
fn show_run(ctx: &Context, scope: &Scope, event: Event<Maybe<Run>>) {
    if let Event::InitApply(run) | Event::Apply(run) | Event::Delete(run) = &event
        && run.good().is_some_and(|run| run.spec.managed_elsewhere())
    {
        // The answer to its creation has shown it, where a webhook has set the field.
        if let Event::Delete(run) = &event {
            enqueue::unfollow_scheduled(ctx, run.meta().uid.as_deref().unwrap_or_default());
        }
        return;
    }
    if ctx.config.schedules
        && let Event::InitApply(run) | Event::Apply(run) = &event
    {
        enqueue::follow_scheduled(ctx, run);
    }
    match event {
        Event::Init => ctx.runs.begin(scope),
        Event::InitApply(run) => ctx.runs.list(scope, settled::known(ctx, run)),
        Event::InitDone => {
            let last = |uid: &str, shown: Option<&Arc<Run>>| {
                ctx.tracked_runs.get(uid)?.last_version(shown)
            };
            for change in ctx.runs.listed(scope, last) {
                enqueue::follow(ctx, &change);
            }
            let exists = |uid: &str| ctx.runs.get(uid).is_some();
            for (namespace, name) in ctx.schedules.listed(scope, exists) {
                ctx.enqueue_schedule(&namespace, &name);
            }
        }
        Event::Apply(run) => enqueue::follow(ctx, &ctx.runs.put(settled::known(ctx, run))),
        Event::Delete(run) => {
            let uid = run.meta().uid.as_deref().unwrap_or_default();
            let entry = ctx.tracked_runs.get(uid);
            let last = entry.and_then(|entry| entry.last_version(run.good()));
            enqueue::follow(ctx, &ctx.runs.gone(uid, last));
        }
    }
}

/// No limit on reconciles: checks have places of their own (`CheckPlaces`), and waiting for one must delay no other.
pub(crate) async fn workspaces<K: Kind>(
    ctx: Arc<Context>,
    reconciler: Arc<Reconciler>,
    api: Api<Maybe<K>>,
    mut writer: Writer<Maybe<K>>,
) {
    let host = Arc::clone(&ctx);
    let find = move |(namespace, name): &Name| {
        let workspace = apiserver::find(K::stores(&host), namespace, name)?;
        Some(Reconcile {
            kind: K::KIND.to_string(),
            name: name.clone(),
            steps: workspace::reconcile::reconcile(workspace, Arc::clone(&host)).boxed(),
        })
    };
    let store = writer.as_reader();
    let request_all = move |ctx: &Context| {
        for workspace in store.state() {
            ctx.enqueue_workspace(&key_of::<K>(workspace.as_ref()));
        }
    };
    let listed = request_all.clone();
    let apply = move |ctx: &Context, event: Event<Maybe<K>>| {
        writer.apply_watcher_event(&event);
        match event {
            Event::Init | Event::InitApply(_) => {}
            Event::InitDone => {
                enqueue::missing_workspaces(ctx);
                listed(ctx);
            }
            Event::Apply(workspace) => {
                let key = key_of::<K>(&workspace);
                enqueue::set_limits(ctx, &key);
                ctx.enqueue_workspace(&key);
                // Perhaps it became the default, or allows other namespaces.
                if K::KIND == WorkspaceKind::ClusterWorkspace {
                    ctx.wakes.ask(Whose::Undecided);
                }
            }
            Event::Delete(_) => enqueue::missing_workspaces(ctx),
        }
    };
    let most = Semaphore::MAX_PERMITS;
    let apply = counted(apply);
    serve(&ctx, reconciler, api, apply, request_all, most, find).await;
}

pub(crate) async fn schedules(
    ctx: Arc<Context>,
    reconciler: Arc<Reconciler>,
    mut writer: Writer<Maybe<RunSchedule>>,
) {
    let api = reconciler.scope.api(ctx.client.clone());
    let host = Arc::clone(&ctx);
    let find = move |(namespace, name): &Name| {
        let schedule = apiserver::find(&host.caches.schedules, namespace, name)?;
        Some(Reconcile {
            kind: RunSchedule::kind(&()).into_owned(),
            name: name.clone(),
            steps: schedule::reconcile(schedule, Arc::clone(&host)).boxed(),
        })
    };
    let store = writer.as_reader();
    let request_all = move |ctx: &Context| {
        for schedule in store.state() {
            enqueue_schedule(ctx, schedule.as_ref());
        }
    };
    let listed = request_all.clone();
    let apply = move |ctx: &Context, event: Event<Maybe<RunSchedule>>| {
        writer.apply_watcher_event(&event);
        match event {
            Event::Init | Event::InitApply(_) => {}
            Event::InitDone => {
                forget_schedules(ctx);
                listed(ctx);
            }
            Event::Apply(schedule) => enqueue_schedule(ctx, &schedule),
            Event::Delete(schedule) => {
                let uid = schedule.meta().uid.as_deref().unwrap_or_default();
                ctx.schedules.forget(uid);
            }
        }
    };
    let most = usize::from(ctx.config.max_concurrent_reconciles);
    serve(&ctx, reconciler, api, apply, request_all, most, find).await;
}

fn enqueue_schedule(ctx: &Context, schedule: &Maybe<RunSchedule>) {
    let namespace = schedule.namespace().unwrap_or_default();
    ctx.enqueue_schedule(&namespace, &schedule.name_any());
}

/// Those that a list lacks.
fn forget_schedules(ctx: &Context) {
    ctx.schedules.forget_all_but(|uid, (namespace, name)| {
        let same = |schedule: Arc<Maybe<RunSchedule>>| schedule.uid().as_deref() == Some(uid);
        apiserver::find(&ctx.caches.schedules, namespace, name).is_some_and(same)
    });
}

/// Enqueues the schedules that use this RunTemplate, or any.
fn enqueue_users(ctx: &Context, changed: Option<&(Option<String>, String)>) {
    let stores = ctx.caches.schedules.iter();
    for schedule in stores.flat_map(Store::state) {
        let template = schedule.good().and_then(|s| s.spec.template_ref.as_ref());
        let is_changed = |used: &TemplateRef| {
            changed.is_none_or(|(namespace, name)| {
                schedule.namespace() == *namespace && used.name == *name
            })
        };
        if template.is_some_and(is_changed) {
            enqueue_schedule(ctx, &schedule);
        }
    }
}

pub(crate) async fn templates(
    ctx: Arc<Context>,
    scope: Scope,
    mut writer: Writer<Maybe<RunTemplate>>,
) {
    let api: Api<Maybe<RunTemplate>> = scope.api(ctx.client.clone());
    let apply = move |ctx: &Context, event: Event<Maybe<RunTemplate>>| {
        writer.apply_watcher_event(&event);
        // A list may show what a watch that was interrupted has not.
        let changed = match event {
            Event::Init | Event::InitApply(_) => return,
            Event::InitDone => None,
            Event::Apply(template) | Event::Delete(template) => {
                Some((template.namespace(), template.name_any()))
            }
        };
        enqueue_users(ctx, changed.as_ref());
    };
    let watch = apiserver::watch(api, ctx.config.watcher());
    read_events(&ctx, watch, apply).await;
}

pub(crate) async fn namespaces(ctx: Arc<Context>, scope: Scope, mut writer: Writer<NamespaceMeta>) {
    let api: Api<NamespaceMeta> = Api::all(ctx.client.clone());
    let config = ctx.config.watcher();
    let config = match &scope {
        Scope::All => config,
        Scope::Namespace(name) => config.fields(&format!("metadata.name={name}")),
    };
    let apply = move |ctx: &Context, event: Event<NamespaceMeta>| {
        writer.apply_watcher_event(&event);
        match event {
            Event::Init | Event::InitApply(_) | Event::Delete(_) => {}
            Event::InitDone => ctx.wakes.ask(Whose::AllTenants),
            Event::Apply(namespace) => ctx.wakes.ask(Whose::Tenants(namespace.name_any())),
        }
    };
    read_events(&ctx, apiserver::watch(api, config), counted(apply)).await;
}

/// A standby only fills its stores, so that leading begins with full ones and with one request for each object.
async fn serve<K: Object>(
    ctx: &Arc<Context>,
    reconciler: Arc<Reconciler>,
    api: Api<Maybe<K>>,
    apply: impl FnMut(&Context, Event<Maybe<K>>) + Send + 'static,
    request_all: impl FnOnce(&Context),
    most: usize,
    find: impl Fn(&Name) -> Option<Reconcile> + Clone + Send + Sync + 'static,
) {
    let host = Arc::clone(ctx);
    let watch = apiserver::watch(api, ctx.config.watcher());
    // In a task of its own: decoding delays no reconcile.
    let followed = tokio::spawn(async move { read_events(&host, watch, apply).await });
    let followed = AbortOnDropHandle::new(followed);
    let work = async {
        tokio::select! {
            () = ctx.leading.clone().begun() => {}
            () = ctx.shutdown.cancelled() => return,
        }
        let requests = reconciler.open();
        request_all(ctx);
        reconciler.serve(requests, most, &ctx.shutdown, find).await;
    };
    tokio::select! {
        ended = followed => if let Err(error) = ended && let Ok(panic) = error.try_into_panic() {
            std::panic::resume_unwind(panic);
        },
        () = work => {}
    }
}

async fn read_events<K>(
    ctx: &Context,
    events: impl Stream<Item = Event<K>>,
    mut apply: impl FnMut(&Context, Event<K>),
) {
    let mut events = std::pin::pin!(events);
    while let Some(event) = events.next().await {
        apply(ctx, event);
    }
}

/// Of a store for whose first list the Runs wait.
fn counted<K>(
    mut apply: impl FnMut(&Context, Event<K>) + Send + 'static,
) -> impl FnMut(&Context, Event<K>) + Send + 'static {
    let mut filled = false;
    move |ctx, event| {
        let listed = matches!(event, Event::InitDone);
        apply(ctx, event);
        if listed && !std::mem::replace(&mut filled, true) {
            enqueue::store_filled(ctx);
        }
    }
}
