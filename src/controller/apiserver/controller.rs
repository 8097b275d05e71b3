//! The loop over one kind of object in one scope: the watch feeds a cache; objects that changed or were enqueued are
//! reconciled. Objects for which nothing is left to do are neither cached nor queued.

use std::sync::Arc;
use std::time::Duration;

use futures::{Stream, StreamExt};
use kube::{
    Api, Resource,
    runtime::{
        reflector::{ObjectRef, Store},
        watcher::Event,
    },
};
use tokio::task::{JoinError, JoinSet};
use tokio::time::Instant;
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

use crate::controller::{leader::Leading, metrics::Metrics};

use super::{
    Maybe, Object, Source,
    cache::Cache,
    reconciled::{Reconciled, again, counted},
    scope::Scope,
    trigger::{Trigger, reference},
    workqueue::{Name, Ready, WorkQueue},
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
    /// Called when a store has its first list.
    fn store_filled(&self);
}

/// What a context does with the objects of one kind.
pub(crate) trait Watches<K: Object>: Host {
    /// Takes in an object that the watch has shown. Returns whether it is cached: one for which nothing is left to do
    /// need not be.
    fn caches(&self, object: &Maybe<K>) -> bool {
        let _ = object;
        true
    }

    /// A version of an object that this process has decoded already, as the answer to a write.
    fn known(&self, uid: &str, version: &str) -> Option<Arc<K>> {
        let _ = (uid, version);
        None
    }

    /// Updates the indexes with an event and enqueues the objects concerned, after the cache has applied the event.
    /// `cached`: whether the event's object is cached.
    fn handle(&self, scope: &Scope, event: &Event<Maybe<K>>, cached: bool);
}

/// One scope's cache and queue.
pub(crate) struct Loop<K>
where
    K: Resource<DynamicType = ()> + Clone + 'static,
{
    /// The controller's name in the metrics.
    controller: &'static str,
    pub(crate) scope: Scope,
    /// The cache that the watch fills.
    pub(crate) cache: Arc<Cache<K>>,
    queue: Arc<WorkQueue>,
}

impl<K: Object> Loop<K> {
    /// The loop of each scope, with an empty cache, and the trigger of all.
    pub(crate) fn all(
        controller: &'static str,
        scopes: &[Scope],
        metrics: &Metrics,
    ) -> (Trigger, Vec<Self>) {
        let (trigger, queues) = Trigger::new(scopes, &metrics.queue(controller));
        let of_scope = |(scope, queue): (&Scope, _)| Self {
            controller,
            scope: scope.clone(),
            cache: Arc::new(Cache::new()),
            queue,
        };
        let loops = scopes.iter().zip(queues).map(of_scope).collect();
        (trigger, loops)
    }

    /// Feeds the cache, and reconciles objects that changed or were enqueued. Ends at shutdown, when the reconciles in
    /// flight have ended. `concurrency` limits these; 0 means no limit.
    pub(crate) async fn serve<C, R, F>(
        self,
        api: Api<K>,
        ctx: Arc<C>,
        concurrency: u16,
        reconcile: R,
    ) where
        C: Watches<K>,
        R: Fn(Arc<Maybe<K>>, Arc<C>) -> F + Send + 'static,
        F: Future<Output = Reconciled> + Send + 'static,
    {
        let source = Source::new(api, ctx.watch_timeout());
        let written = Arc::clone(&ctx);
        let source = source.known(move |uid, version| written.known(uid, version));
        let watch = super::watch(source);
        let shown = follow(
            watch,
            Arc::clone(&self.cache),
            Arc::clone(&self.queue),
            Arc::clone(&ctx),
            self.scope.clone(),
        );
        let shutdown = ctx.shutdown().clone();
        // In a task of its own: decoding delays no reconcile.
        let shown = AbortOnDropHandle::new(tokio::spawn(shown));
        tokio::select! {
            ended = shown => ended.unwrap_or_else(propagate),
            () = self.work(ctx, concurrency, reconcile, shutdown) => {}
        }
    }

    /// Reconciles queued objects, each in a task of its own, until shutdown.
    async fn work<C, R, F>(
        self,
        ctx: Arc<C>,
        concurrency: u16,
        reconcile: R,
        shutdown: CancellationToken,
    ) where
        C: Watches<K>,
        R: Fn(Arc<Maybe<K>>, Arc<C>) -> F,
        F: Future<Output = Reconciled> + Send + 'static,
    {
        tokio::select! {
            () = self.may_work(ctx.leading().clone()) => {}
            () = shutdown.cancelled() => return,
        }
        let mut running = JoinSet::new();
        loop {
            let full = concurrency > 0 && running.len() >= usize::from(concurrency);
            tokio::select! {
                () = shutdown.cancelled() => break,
                Some(ended) = running.join_next() => ended.unwrap_or_else(propagate),
                ready = self.queue.next(), if !full => {
                    let Ready { name, waited } = ready;
                    let (namespace, object) = name.as_ref();
                    match self.cache.get(&reference(namespace, object)) {
                        Some(object) => {
                            self.queue.begun(waited);
                            let reconciled = reconcile(object, Arc::clone(&ctx));
                            running.spawn(self.finish(name, reconciled, Arc::clone(&ctx)));
                        }
                        // It was enqueued after its deletion; the garbage collector handles the rest.
                        None => self.queue.missing(&name),
                    }
                }
            }
        }
        while let Some(ended) = running.join_next().await {
            ended.unwrap_or_else(propagate);
        }
    }

    /// Waits until this process leads and the cache has its first list. The watch fills the cache meanwhile.
    async fn may_work(&self, leading: Leading) {
        leading.begun().await;
        self.queue.open();
        // What was cached before the queue was open.
        let reader = self.cache.reader();
        enqueue_all(reader, &self.queue);
        // The writer is not dropped before the cache.
        let _ = reader.wait_until_ready().await;
    }

    /// Carries out a reconcile, and counts its result.
    fn finish<C: Host>(
        &self,
        name: Arc<Name>,
        reconciled: impl Future<Output = Reconciled> + Send + 'static,
        ctx: Arc<C>,
    ) -> impl Future<Output = ()> + Send + 'static {
        let (queue, controller) = (Arc::clone(&self.queue), self.controller);
        async move {
            let result = reconciled.await;
            let took = queue.done(&name, again(&result).pause(), Instant::now());
            ctx.metrics().reconciled(controller, counted(&result), took);
            if let Err(failed) = result {
                let (namespace, object) = name.as_ref();
                let namespace = (!namespace.is_empty()).then_some(namespace.as_str());
                failed.log(&K::kind(&()), namespace, object);
            }
        }
    }
}

/// A panic that no reconcile has caught ends the loop, and so the process.
fn propagate(error: JoinError) {
    if let Ok(panic) = error.try_into_panic() {
        std::panic::resume_unwind(panic);
    }
}

fn enqueue_all<K: Object>(stored: &Store<Maybe<K>>, queue: &WorkQueue) {
    let now = Instant::now();
    for object in stored.state() {
        queue.add(name_of(object.as_ref()), now);
    }
}

fn name_of(object: &impl Resource) -> Name {
    let meta = object.meta();
    (
        meta.namespace.clone().unwrap_or_default(),
        meta.name.clone().unwrap_or_default(),
    )
}

/// Shares the cache's data with a new version of the object.
fn sharing<K: Object>(event: Event<Maybe<K>>, known: &Store<Maybe<K>>) -> Event<Maybe<K>> {
    event.modify(|object| {
        if let Some(older) = known.get(&ObjectRef::from_obj(object)) {
            object.share(&older);
        }
    })
}

/// Applies the watch's events to the cache, and enqueues the objects that changed. A list replaces the cache at its end,
/// so that its objects are reconciled only then.
async fn follow<C, K>(
    events: impl Stream<Item = Event<Maybe<K>>> + Send,
    cache: Arc<Cache<K>>,
    queue: Arc<WorkQueue>,
    ctx: Arc<C>,
    scope: Scope,
) where
    C: Watches<K>,
    K: Object,
{
    let mut events = std::pin::pin!(events);
    let mut filled = false;
    while let Some(event) = events.next().await {
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
        match event {
            Event::Apply(object) if cached => queue.add(name_of(&object), Instant::now()),
            Event::InitDone => {
                if !std::mem::replace(&mut filled, true) {
                    ctx.store_filled();
                }
                enqueue_all(cache.reader(), &queue);
            }
            Event::Apply(_) | Event::Init | Event::InitApply(_) | Event::Delete(_) => {}
        }
    }
}
