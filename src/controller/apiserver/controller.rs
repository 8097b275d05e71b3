//! The loop over one kind of object in one scope: the watch feeds a store; objects that changed or were enqueued are
//! reconciled.

use std::convert::Infallible;
use std::fmt::Debug;
use std::hash::Hash;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

use crate::controller::{leader::Leading, metrics::Metrics};

use super::{
    Guarded, Object, Source,
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
        reflector::{ObjectRef, Store, reflector, store, store::Writer},
        watcher::{self, Event},
    },
};

/// Handler of a watch's events, called after the store has applied the event.
type Handler<C, K> = fn(&C, &Scope, &Event<Guarded<K>>);

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

/// One scope's store and triggers.
pub(crate) struct Loop<K>
where
    K: Resource<DynamicType = ()> + Clone + 'static,
{
    /// The controller's name in the metrics.
    controller: &'static str,
    pub(crate) scope: Scope,
    writer: Writer<Guarded<K>>,
    /// The store that the watch fills.
    pub(crate) reader: Store<Guarded<K>>,
    triggers: UnboundedReceiver<ObjectRef<Guarded<K>>>,
}

impl<K> Loop<K>
where
    K: Object + Debug,
{
    /// The loop of each scope, with an empty store, and the trigger of all.
    pub(crate) fn all(
        controller: &'static str,
        scopes: &[Scope],
    ) -> (Trigger<Guarded<K>>, Vec<Self>) {
        let (trigger, receivers) = Trigger::new(scopes);
        let of_scope = |(scope, triggers): (&Scope, _)| {
            let (reader, writer) = store();
            Self {
                controller,
                scope: scope.clone(),
                writer,
                reader,
                triggers,
            }
        };
        let loops = scopes.iter().zip(receivers).map(of_scope).collect();
        (trigger, loops)
    }

    /// Feeds the store, and reconciles objects that changed or were enqueued.
    pub(crate) async fn serve<C, R, F>(
        self,
        api: Api<K>,
        ctx: Arc<C>,
        concurrency: u16,
        reconcile: R,
        handler: Handler<C, K>,
    ) where
        C: Host,
        R: Fn(Arc<Guarded<K>>, Arc<C>) -> F + Send + 'static,
        F: Future<Output = Reconciled> + Send + 'static,
    {
        let source = Source::new(api, ctx.watch_timeout());
        let known = self.reader.clone();
        let events = super::watch(source).map(move |event| Ok(sharing(event, &known)));
        let watched = touched(
            reflector(self.writer, events),
            self.reader.clone(),
            Arc::clone(&ctx),
            self.scope,
            handler,
        );
        let shutdown = ctx.shutdown().clone();
        let controller = self.controller;
        let Some(backlog) = ctx.metrics().backlog(controller) else {
            return;
        };
        let asked = Arc::clone(&backlog);
        let wanted = stream::select(watched, self.triggers);
        let queue = once_leading(wanted, ctx.leading().clone(), self.reader.clone())
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
            applier(run, policy, ctx, self.reader, Box::pin(queue), config).for_each(|result| {
                if let Err(error) = result {
                    // An object that was enqueued after its deletion; the garbage collector handles the rest.
                    if let LoopError::ObjectNotFound(object) = &error {
                        backlog.missing(object.namespace.as_deref(), &object.name);
                    }
                    tracing::debug!(error = %error, "an object to reconcile is missing from the store; skipped");
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

/// Ends at a shutdown before every store had its first list. Nothing was reconciled yet, and kube's loop would wait for
/// the list forever.
async fn unfilled_at_shutdown(ctx: Arc<impl Host>) {
    ctx.shutdown().cancelled().await;
    if ctx.synced() {
        std::future::pending::<()>().await;
    }
}

/// Drops all triggers until this process leads; the watch continues to fill its store. Then passes on all stored
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

/// Shares the store's data with a new version of the object.
fn sharing<K: Object>(event: Event<Guarded<K>>, known: &Store<Guarded<K>>) -> Event<Guarded<K>> {
    event.modify(|object| {
        if let Some(older) = known.get(&ObjectRef::from_obj(object))
            && let (Ok(object), Ok(older)) = (&mut object.0, &older.0)
        {
            object.share(older);
        }
    })
}

/// The objects that a watch changed. A list replaces the store at its end, so that its objects are reconciled only
/// then.
fn touched<C, K>(
    events: impl Stream<Item = watcher::Result<Event<Guarded<K>>>> + Send,
    reader: Store<Guarded<K>>,
    ctx: Arc<C>,
    scope: Scope,
    handler: Handler<C, K>,
) -> impl Stream<Item = ObjectRef<Guarded<K>>> + Send
where
    C: Host,
    K: Resource<DynamicType = ()> + Clone + Send + Sync + 'static,
    <K as Resource>::DynamicType: Eq + Hash + Clone,
{
    let mut filled = false;
    events.flat_map(move |event| {
        if let Ok(event) = &event {
            handler(&ctx, &scope, event);
        }
        let refs: Vec<_> = match event {
            Ok(Event::Apply(object)) => vec![ObjectRef::from_obj(&object)],
            Ok(Event::InitDone) => {
                if !std::mem::replace(&mut filled, true) {
                    ctx.store_filled();
                }
                stored(&reader)
            }
            Ok(Event::Init | Event::InitApply(_) | Event::Delete(_)) | Err(_) => Vec::new(),
        };
        stream::iter(refs)
    })
}
