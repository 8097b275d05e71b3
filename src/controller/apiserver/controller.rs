//! The loop over one kind of object in one scope: the watch feeds a cache; objects that changed or were enqueued are
//! reconciled. Objects for which nothing is left to do are neither cached nor queued.

use std::convert::Infallible;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

use crate::controller::{leader::Leading, metrics::Metrics};

use super::{
    Guarded, Object, Source,
    cache::Cache,
    reconciled::{Action, Reconciled, again, counted},
    scope::Scope,
    trigger::Trigger,
};

use futures::channel::mpsc::UnboundedReceiver;
use futures::{FutureExt, Stream, StreamExt, stream};
use kube::{
    Api, Resource,
    runtime::{
        applier,
        controller::{Action as Applied, Config as LoopConfig, Error as LoopError},
        reflector::{ObjectRef, Store},
        watcher::Event,
    },
};

/// Interface that the loops need from their context.
pub(crate) trait Host: Send + Sync + 'static {
    /// Length of a watch.
    fn watch_timeout(&self) -> Duration;
    /// The metrics that count reconciles.
    fn metrics(&self) -> &Metrics;
    /// Leadership of this process.
    fn leading(&self) -> &Leading;
    /// Cancelled when the loops must end.
    fn shutdown(&self) -> &CancellationToken;
    /// Whether every store has its first list.
    fn synced(&self) -> bool;
    /// Called when a store has its first list.
    fn store_filled(&self);
}

/// What a context does with the objects of one kind.
pub(crate) trait Watches<K: Object>: Host {
    /// Takes in an object that the watch has shown. Returns whether it is cached: one for which nothing is left to do
    /// need not be.
    fn caches(&self, object: &Guarded<K>) -> bool {
        let _ = object;
        true
    }

    /// Updates the indexes with an event and enqueues the objects concerned, after the cache has applied the event.
    /// `cached`: whether the event's object is cached.
    fn handle(&self, scope: &Scope, event: &Event<Guarded<K>>, cached: bool);
}

/// One scope's cache and triggers.
pub(crate) struct Loop<K>
where
    K: Resource<DynamicType = ()> + Clone + 'static,
{
    /// The controller's name in the metrics.
    controller: &'static str,
    pub(crate) scope: Scope,
    /// The cache that the watch fills.
    pub(crate) cache: Arc<Cache<K>>,
    triggers: UnboundedReceiver<ObjectRef<Guarded<K>>>,
}

impl<K> Loop<K>
where
    K: Object + Debug,
{
    /// The loop of each scope, with an empty cache, and the trigger of all.
    pub(crate) fn all(
        controller: &'static str,
        scopes: &[Scope],
    ) -> (Trigger<Guarded<K>>, Vec<Self>) {
        let (trigger, receivers) = Trigger::new(scopes);
        let of_scope = |(scope, triggers): (&Scope, _)| Self {
            controller,
            scope: scope.clone(),
            cache: Arc::new(Cache::new()),
            triggers,
        };
        let loops = scopes.iter().zip(receivers).map(of_scope).collect();
        (trigger, loops)
    }

    /// Feeds the cache, and reconciles objects that changed or were enqueued.
    pub(crate) async fn serve<C, R, F>(
        self,
        api: Api<K>,
        ctx: Arc<C>,
        concurrency: u16,
        reconcile: R,
    ) where
        C: Watches<K>,
        R: Fn(Arc<Guarded<K>>, Arc<C>) -> F + Send + 'static,
        F: Future<Output = Reconciled> + Send + 'static,
    {
        let source = Source::new(api, ctx.watch_timeout());
        let reader = self.cache.reader().clone();
        let watched = touched(
            super::watch(source),
            self.cache,
            Arc::clone(&ctx),
            self.scope,
        );
        let shutdown = ctx.shutdown().clone();
        let controller = self.controller;
        let Some(backlog) = ctx.metrics().backlog(controller) else {
            return;
        };
        let asked = Arc::clone(&backlog);
        let wanted = stream::select(watched, self.triggers);
        let queue = once_leading(wanted, ctx.leading().clone(), reader.clone())
            .inspect(move |object| {
                asked.ask(object.namespace.as_deref(), &object.name, Instant::now());
            })
            .map(Ok::<_, Infallible>)
            .take_until(async move { shutdown.cancelled().await });
        let policy = |_: Arc<Guarded<K>>, never: &Infallible, _: Arc<C>| match *never {};
        let config = LoopConfig::default().concurrency(concurrency);
        let queued = Arc::clone(&backlog);
        let run = move |object: Arc<Guarded<K>>, ctx: Arc<C>| {
            let one = ObjectRef::from_obj(object.as_ref());
            queued.begin(one.namespace.as_deref(), &one.name, Instant::now());
            let reconciled = reconcile(object, Arc::clone(&ctx));
            let backlog = Arc::clone(&queued);
            let ended = reconciled.map(move |result| {
                let namespace = one.namespace.as_deref();
                let action = again(&result);
                let took = backlog.end(namespace, &one.name, action.pause(), Instant::now());
                ctx.metrics().reconciled(controller, counted(&result), took);
                if let Err(failed) = result {
                    failed.log(&K::kind(&()), namespace, &one.name);
                }
                Ok(applied(action))
            });
            ended.boxed()
        };
        let unfilled = unfilled_at_shutdown(Arc::clone(&ctx));
        let served =
            applier(run, policy, ctx, reader, Box::pin(queue), config).for_each(|result| {
                if let Err(error) = result {
                    // An object that was enqueued after its deletion; the garbage collector handles the rest.
                    if let LoopError::ObjectNotFound(object) = &error {
                        backlog.missing(object.namespace.as_deref(), &object.name);
                    }
                    tracing::debug!(error = %error, "an object to reconcile is missing from the cache; skipped");
                }
                std::future::ready(())
            });
        tokio::select! {
            () = served => {}
            () = unfilled => {}
        }
    }
}

fn applied(action: Action) -> Applied {
    action
        .pause()
        .map_or_else(Applied::await_change, Applied::requeue)
}

/// Ends at a shutdown before every cache had its first list. Nothing was reconciled yet, and kube's loop would wait for
/// the list forever.
async fn unfilled_at_shutdown(ctx: Arc<impl Host>) {
    ctx.shutdown().cancelled().await;
    if ctx.synced() {
        std::future::pending::<()>().await;
    }
}

/// Drops all triggers until this process leads; the watch continues to fill its cache. Then passes on all stored
/// objects and all further triggers.
fn once_leading<K>(
    wanted: impl Stream<Item = ObjectRef<Guarded<K>>> + Send + 'static,
    leading: Leading,
    reader: Store<Guarded<K>>,
) -> impl Stream<Item = ObjectRef<Guarded<K>>> + Send
where
    K: Resource<DynamicType = ()> + Clone + Send + Sync + 'static,
{
    let begun = async move {
        let mut wanted = wanted.boxed();
        let mut led = std::pin::pin!(leading.begun());
        loop {
            tokio::select! {
                biased;
                () = &mut led => break,
                passed = wanted.next() => if passed.is_none() { break },
            }
        }
        stream::iter(stored(&reader)).chain(wanted)
    };
    stream::once(begun).flatten()
}

fn stored<K>(reader: &Store<Guarded<K>>) -> Vec<ObjectRef<Guarded<K>>>
where
    K: Resource<DynamicType = ()> + Clone + 'static,
{
    let objects = reader.state();
    let refs = objects.iter().map(|o| ObjectRef::from_obj(o.as_ref()));
    refs.collect()
}

/// Shares the cache's data with a new version of the object.
fn sharing<K: Object>(event: Event<Guarded<K>>, known: &Store<Guarded<K>>) -> Event<Guarded<K>> {
    event.modify(|object| {
        if let Some(older) = known.get(&ObjectRef::from_obj(object))
            && let (Ok(object), Ok(older)) = (&mut object.0, &older.0)
        {
            object.share(older);
        }
    })
}

/// The objects that a watch changed. A list replaces the cache at its end, so that its objects are reconciled only
/// then.
fn touched<C, K>(
    events: impl Stream<Item = Event<Guarded<K>>> + Send,
    cache: Arc<Cache<K>>,
    ctx: Arc<C>,
    scope: Scope,
) -> impl Stream<Item = ObjectRef<Guarded<K>>> + Send
where
    C: Watches<K>,
    K: Object,
{
    let mut filled = false;
    events.flat_map(move |event| {
        let event = sharing(event, cache.reader());
        let cached = match &event {
            Event::Apply(object) | Event::InitApply(object) => ctx.caches(object),
            Event::Init | Event::InitDone | Event::Delete(_) => true,
        };
        match &event {
            Event::InitApply(_) if !cached => {}
            Event::Apply(object) if !cached => cache.apply(&Event::Delete(object.clone())),
            event => cache.apply(event),
        }
        ctx.handle(&scope, &event, cached);
        let refs: Vec<_> = match event {
            Event::Apply(object) if cached => vec![ObjectRef::from_obj(&object)],
            Event::InitDone => {
                if !std::mem::replace(&mut filled, true) {
                    ctx.store_filled();
                }
                stored(cache.reader())
            }
            Event::Apply(_) | Event::Init | Event::InitApply(_) | Event::Delete(_) => Vec::new(),
        };
        stream::iter(refs)
    })
}
