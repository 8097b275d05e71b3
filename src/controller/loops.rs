//! The loop over one kind of object in one scope: the watch feeds a store, and what is touched or woken is
//! reconciled.

use std::convert::Infallible;
use std::fmt::Debug;
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use super::{
    apiserver::{self, Object, Source},
    context::{Context, Guarded},
    leader::Leading,
    metrics::{Backlog, ReconcileResult},
    scope::Scope,
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

/// When an object is looked at again. kube's own type doesn't tell what it says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Action {
    again: Option<Duration>,
}

impl Action {
    /// After this time, or when something changes before.
    pub const fn requeue(after: Duration) -> Self {
        Self { again: Some(after) }
    }

    /// When something changes.
    pub const fn await_change() -> Self {
        Self { again: None }
    }
}

/// Takes in each event of a watch, once the store has it.
type Handler<K> = fn(&Context, &Scope, &Event<Guarded<K>>);

/// One scope's store and wake-ups.
pub(super) struct Loop<K>
where
    K: Resource<DynamicType = ()> + Clone + 'static,
{
    /// Its name in the metrics.
    controller: &'static str,
    scope: Scope,
    writer: Writer<Guarded<K>>,
    /// What the watch fills.
    pub(super) reader: Store<Guarded<K>>,
    wakes: UnboundedReceiver<ObjectRef<Guarded<K>>>,
}

impl<K> Loop<K>
where
    K: Object + Debug,
{
    /// An empty store, and what wakes its objects.
    pub(super) fn new(
        controller: &'static str,
        scope: Scope,
        wakes: UnboundedReceiver<ObjectRef<Guarded<K>>>,
    ) -> Self {
        let (reader, writer) = store();
        Self {
            controller,
            scope,
            writer,
            reader,
            wakes,
        }
    }

    /// Feeds the store and reconciles what the watch or somebody else asks for.
    pub(super) async fn serve<R, F>(
        self,
        api: Api<K>,
        ctx: Arc<Context>,
        concurrency: u16,
        reconcile: R,
        handler: Handler<K>,
    ) where
        R: Fn(Arc<Guarded<K>>, Arc<Context>) -> F + Send + 'static,
        F: Future<Output = (Action, ReconcileResult)> + Send + 'static,
    {
        let source = Source::new(&api, ctx.config.watch_timeout);
        let known = self.reader.clone();
        let events = apiserver::watch(source).map(move |event| Ok(sharing(event, &known)));
        let watched = touched(
            reflector(self.writer, events),
            self.reader.clone(),
            Arc::clone(&ctx),
            self.scope,
            handler,
        );
        let shutdown = ctx.shutdown.clone();
        let controller = self.controller;
        let Some(backlog) = ctx.metrics.backlog(controller) else {
            return;
        };
        let asked = Arc::clone(&backlog);
        let wanted = stream::select(watched, self.wakes);
        let queue = once_leading(wanted, ctx.leading.clone(), self.reader.clone())
            .inspect(move |object| asked.ask(object.namespace.as_deref(), &object.name))
            .map(Ok::<_, Infallible>)
            .take_until(async move { shutdown.cancelled().await });
        let policy = |_: Arc<Guarded<K>>, never: &Infallible, _: Arc<Context>| match *never {};
        let config = LoopConfig::default().concurrency(concurrency);
        let counted = Arc::clone(&backlog);
        let run = move |object: Arc<Guarded<K>>, ctx: Arc<Context>| {
            let one = ObjectRef::from_obj(object.as_ref());
            counted.begin(one.namespace.as_deref(), &one.name);
            let reconciled = reconcile(object, Arc::clone(&ctx));
            let backlog = Arc::clone(&counted);
            let told = reconciled.map(move |(action, result)| {
                let took = backlog.end(one.namespace.as_deref(), &one.name, action.again);
                ctx.metrics.reconciled(controller, result, took);
                Ok(applied(action))
            });
            told.boxed()
        };
        let unfilled = unfilled_at_shutdown(Arc::clone(&ctx));
        let served =
            applier(run, policy, ctx, self.reader, Box::pin(queue), config).for_each(|result| {
                missing(&backlog, &result);
                async move {
                    if let Err(error) = result {
                        // An object that was woken after it went; the reaper sees to what is left of it.
                        tracing::debug!(error = %error, "skipped an object");
                    }
                }
            });
        tokio::select! {
            () = served => {}
            () = unfilled => {}
        }
    }
}

fn applied(action: Action) -> Applied {
    action
        .again
        .map_or_else(Applied::await_change, Applied::requeue)
}

/// An object that was asked for and went before its turn waits no longer.
fn missing<A>(backlog: &Backlog, result: &Result<A, LoopError<Infallible, Infallible>>) {
    if let Err(LoopError::ObjectNotFound(object)) = result {
        backlog.missing(object.namespace.as_deref(), &object.name);
    }
}

/// Ends at a shutdown before every store was filled: nothing was reconciled yet, and kube's loop would
/// wait for the list for ever.
async fn unfilled_at_shutdown(ctx: Arc<Context>) {
    ctx.shutdown.cancelled().await;
    if ctx.synced() {
        std::future::pending::<()>().await;
    }
}

/// Lets nothing through until this process leads, while the watch goes on filling its store: then everything
/// that is stored, and whatever comes.
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

/// A new version of an object with what the store's version holds already.
fn sharing<K: Object>(event: Event<Guarded<K>>, known: &Store<Guarded<K>>) -> Event<Guarded<K>> {
    event.modify(|object| {
        if let Some(older) = known.get(&ObjectRef::from_obj(object))
            && let (Ok(object), Ok(older)) = (&mut object.0, &older.0)
        {
            object.share(older);
        }
    })
}

/// The objects that a watch touches. After a list the store is swapped at its end, so that what it
/// brought is looked at only then.
fn touched<K>(
    events: impl Stream<Item = watcher::Result<Event<Guarded<K>>>> + Send,
    reader: Store<Guarded<K>>,
    ctx: Arc<Context>,
    scope: Scope,
    handler: Handler<K>,
) -> impl Stream<Item = ObjectRef<Guarded<K>>> + Send
where
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
