//! The loop over one kind of object in one scope: the watch tells the context what it shows; objects that are requested
//! are reconciled.

use std::sync::Arc;

use futures::{Stream, StreamExt};
use kube::{
    Api, Resource, ResourceExt,
    runtime::watcher::{self, Event},
};
use tokio::sync::Notify;
use tokio::task::{JoinError, JoinSet};
use tokio::time::Instant;
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

use crate::controller::{leader::Leading, metrics::Metrics};

use super::{
    Maybe, Object,
    reconciled::{Reconciled, again, counted},
    scope::Scope,
    trigger::Trigger,
    workqueue::{Name, WorkQueue},
};

/// Interface that the loops need from their context.
pub(crate) trait Host: Send + Sync + 'static {
    /// Configuration of the watches.
    fn watcher(&self) -> watcher::Config;
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
    /// What is known of an object when it is reconciled.
    type Known: Named + Send + 'static;

    /// Takes in an event of the watch, and requests the reconciles that it calls for. A list takes effect at its end.
    fn apply(&self, scope: &Scope, event: Event<Maybe<K>>);

    /// The object with this key in the queue, if it is known.
    fn find(&self, key: &Name) -> Option<Self::Known>;

    /// Requests a reconcile of every object of this scope that may need something.
    fn request_all(&self, scope: &Scope);
}

/// Has a name for the log.
pub(crate) trait Named {
    /// The object's name.
    fn name(&self) -> String;
}

impl<K: Resource + Clone> Named for Arc<Maybe<K>> {
    fn name(&self) -> String {
        self.name_any()
    }
}

/// One scope's watch and queue.
pub(crate) struct Loop {
    /// The controller's name in the metrics.
    controller: &'static str,
    pub(crate) scope: Scope,
    queue: Arc<WorkQueue>,
    /// Signals the end of the first list.
    filled: Arc<Notify>,
}

impl Loop {
    /// The loop of each scope, and the trigger of all.
    pub(crate) fn all(controller: &'static str, scopes: &[Scope]) -> (Trigger, Vec<Self>) {
        let (trigger, queues) = Trigger::new(scopes);
        let of_scope = |(scope, queue): (&Scope, _)| Self {
            controller,
            scope: scope.clone(),
            queue,
            filled: Arc::default(),
        };
        let loops = scopes.iter().zip(queues).map(of_scope).collect();
        (trigger, loops)
    }

    /// Follows the watch, and reconciles objects that are requested. Ends at shutdown, when the reconciles in flight have
    /// ended. `concurrency` limits these; 0 means no limit.
    pub(crate) async fn serve<K, C, R, F>(
        self,
        api: Api<Maybe<K>>,
        ctx: Arc<C>,
        concurrency: u16,
        reconcile: R,
    ) where
        K: Object,
        C: Watches<K>,
        R: Fn(C::Known, Arc<C>) -> F + Send + 'static,
        F: Future<Output = Reconciled> + Send + 'static,
    {
        let watch = super::watch(api, ctx.watcher());
        let shown = follow(
            watch,
            Arc::clone(&ctx),
            self.scope.clone(),
            Arc::clone(&self.filled),
        );
        let shutdown = ctx.shutdown().clone();
        // In a task of its own: decoding delays no reconcile.
        let shown = AbortOnDropHandle::new(tokio::spawn(shown));
        tokio::select! {
            ended = shown => ended.unwrap_or_else(propagate),
            () = self.work::<K, C, R, F>(ctx, concurrency, reconcile, shutdown) => {}
        }
    }

    /// Reconciles queued objects, each in a task of its own, until shutdown.
    async fn work<K, C, R, F>(
        self,
        ctx: Arc<C>,
        concurrency: u16,
        reconcile: R,
        shutdown: CancellationToken,
    ) where
        K: Object,
        C: Watches<K>,
        R: Fn(C::Known, Arc<C>) -> F,
        F: Future<Output = Reconciled> + Send + 'static,
    {
        tokio::select! {
            () = self.may_work::<K, C>(&ctx) => {}
            () = shutdown.cancelled() => return,
        }
        let mut running = JoinSet::new();
        loop {
            let full = concurrency > 0 && running.len() >= usize::from(concurrency);
            tokio::select! {
                () = shutdown.cancelled() => break,
                Some(ended) = running.join_next() => ended.unwrap_or_else(propagate),
                key = self.queue.next(), if !full => {
                    match ctx.find(&key) {
                        Some(object) => {
                            let name = object.name();
                            let reconciled = reconcile(object, Arc::clone(&ctx));
                            let ctx = Arc::clone(&ctx);
                            running.spawn(self.finish::<K, _>((key, name), reconciled, ctx));
                        }
                        // It is gone, and nothing is left to do for it.
                        None => self.queue.missing(&key),
                    }
                }
            }
        }
        while let Some(ended) = running.join_next().await {
            ended.unwrap_or_else(propagate);
        }
    }

    /// Waits until this process leads and the first list has ended. The watch is followed meanwhile.
    async fn may_work<K: Object, C: Watches<K>>(&self, ctx: &C) {
        ctx.leading().clone().begun().await;
        self.queue.open();
        // What came before the queue was open.
        ctx.request_all(&self.scope);
        self.filled.notified().await;
    }

    /// Carries out a reconcile, and counts its result.
    fn finish<K: Object, C: Host>(
        &self,
        (key, name): (Arc<Name>, String),
        reconciled: impl Future<Output = Reconciled> + Send + 'static,
        ctx: Arc<C>,
    ) -> impl Future<Output = ()> + Send + 'static {
        let (queue, controller) = (Arc::clone(&self.queue), self.controller);
        async move {
            let result = reconciled.await;
            let took = queue.done(&key, again(&result).pause(), Instant::now());
            ctx.metrics().reconciled(controller, counted(&result), took);
            if let Err(failed) = result {
                let (namespace, _) = key.as_ref();
                let namespace = (!namespace.is_empty()).then_some(namespace.as_str());
                failed.log(&K::kind(&()), namespace, &name);
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

/// Tells the context what the watch shows.
async fn follow<C, K>(
    events: impl Stream<Item = Event<Maybe<K>>> + Send,
    ctx: Arc<C>,
    scope: Scope,
    filled: Arc<Notify>,
) where
    C: Watches<K>,
    K: Object,
{
    let mut events = std::pin::pin!(events);
    let mut first = true;
    while let Some(event) = events.next().await {
        let listed = matches!(event, Event::InitDone);
        ctx.apply(&scope, event);
        if listed && std::mem::replace(&mut first, false) {
            filled.notify_one();
            ctx.store_filled();
        }
    }
}
