//! Reconciles what is requested of one kind of object: each in a task of its own, and one of an object at a time.
//!
//! kube's `scheduler` holds what is requested for later. Its `applier` is not used: it needs a `Store` in which a Run that
//! the watch lacks could not stay, and it takes what was requested during a reconcile before what has waited longer.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use futures::StreamExt;
use futures::channel::mpsc::{UnboundedReceiver, UnboundedSender, unbounded};
use futures::future::BoxFuture;
use kube::runtime::scheduler::{ScheduleRequest, scheduler};
use tokio::sync::{Notify, Semaphore};
use tokio::time::Instant;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::controller::metrics::Metrics;
use crate::util::lock;

use super::{
    reconciled::{Action, Reconciled, again, caught, counted},
    scope::Scope,
};

/// Namespace and name; the namespace of a cluster-scoped object is empty. A Run has its uid in place of its name.
pub(crate) type Name = (String, String);
type Request = ScheduleRequest<Arc<Name>>;

/// Pause after a reconcile that panicked.
const AFTER_PANIC: Duration = Duration::from_mins(1);

/// Requests reconciles of objects of one kind.
#[derive(Clone)]
pub(crate) struct Trigger {
    reconcilers: Arc<[Arc<Reconciler>]>,
}

impl Trigger {
    /// A reconciler for each scope.
    pub(crate) fn new(controller: &'static str, scopes: &[Scope], metrics: &Arc<Metrics>) -> Self {
        let each = |scope: &Scope| Arc::new(Reconciler::new(controller, scope.clone(), metrics));
        Self {
            reconcilers: scopes.iter().map(each).collect(),
        }
    }

    /// The reconciler of each scope.
    pub(crate) fn reconcilers(&self) -> impl Iterator<Item = Arc<Reconciler>> {
        self.reconcilers.iter().cloned()
    }

    /// Requests a reconcile of an object; one without a namespace is cluster-scoped.
    pub(crate) fn enqueue(&self, namespace: &str, name: &str) {
        self.enqueue_at(namespace, name, Instant::now());
    }

    /// The same, not before this time.
    pub(crate) fn enqueue_at(&self, namespace: &str, name: &str, at: Instant) {
        if let Some((reconciler, name)) = self.find(namespace, name) {
            reconciler.request(name, at);
        }
    }

    /// Requests a reconcile of an object that has the permit for a call, which another could use: it waits for no place.
    pub(crate) fn wake(&self, namespace: &str, name: &str) {
        if let Some((reconciler, name)) = self.find(namespace, name) {
            reconciler.wake(name);
        }
    }

    fn find(&self, namespace: &str, name: &str) -> Option<(&Reconciler, Arc<Name>)> {
        let mut all = self.reconcilers.iter();
        let reconciler = all.find(|reconciler| reconciler.scope.covers(namespace))?;
        Some((
            reconciler,
            Arc::new((namespace.to_owned(), name.to_owned())),
        ))
    }

    /// Number of reconciles in flight, and the duration of the longest of them so far.
    pub(crate) fn in_flight(&self) -> (usize, Duration) {
        let mut begun = Vec::new();
        for reconciler in self.reconcilers.iter() {
            begun.extend(lock(&reconciler.taken).values().filter_map(|t| t.begun));
        }
        let longest = begun.iter().min().map(Instant::elapsed);
        (begun.len(), longest.unwrap_or_default())
    }
}

/// One reconcile of an object.
pub(crate) struct Reconcile {
    /// The object's kind and name, for the log.
    pub(crate) kind: String,
    pub(crate) name: String,
    pub(crate) steps: BoxFuture<'static, Reconciled>,
}

/// Reconciles the objects of one kind in one scope.
pub(crate) struct Reconciler {
    /// The controller's name in the metrics.
    controller: &'static str,
    pub(crate) scope: Scope,
    metrics: Arc<Metrics>,
    /// Missing until this process leads: what is requested before is dropped.
    requests: OnceLock<Requests<UnboundedSender<Request>, UnboundedSender<Arc<Name>>>>,
    /// Objects whose time has come, until their reconcile has ended.
    taken: Mutex<HashMap<Arc<Name>, Taken>>,
}

/// The two ways to request a reconcile, or their ends where it is received.
pub(crate) struct Requests<D, W> {
    /// At a time, and in turn.
    due: D,
    /// At once.
    woken: W,
}

#[derive(Default)]
struct Taken {
    /// Start of the reconcile; before it, the object waits for a place.
    begun: Option<Instant>,
    /// It was requested since.
    again: bool,
    /// It was woken since.
    woken: bool,
    /// Ends the wait for a place.
    go: Arc<Notify>,
}

impl Reconciler {
    fn new(controller: &'static str, scope: Scope, metrics: &Arc<Metrics>) -> Self {
        Self {
            controller,
            scope,
            metrics: Arc::clone(metrics),
            requests: OnceLock::new(),
            taken: Mutex::default(),
        }
    }

    /// Accepts requests from now on.
    pub(crate) fn open(
        &self,
    ) -> Requests<UnboundedReceiver<Request>, UnboundedReceiver<Arc<Name>>> {
        let ((due, due_end), (woken, woken_end)) = (unbounded(), unbounded());
        // It is opened once; a second time its requests would end at once.
        let _ = self.requests.set(Requests { due, woken });
        Requests {
            due: due_end,
            woken: woken_end,
        }
    }

    /// Of two requests for an object the earlier counts.
    fn request(&self, message: Arc<Name>, run_at: Instant) {
        if let Some(requests) = self.requests.get() {
            // After the end of the loop nobody receives it.
            let _ = requests
                .due
                .unbounded_send(ScheduleRequest { message, run_at });
        }
    }

    fn wake(&self, name: Arc<Name>) {
        if let Some(requests) = self.requests.get() {
            let _ = requests.woken.unbounded_send(name);
        }
    }

    /// Reconciles what is requested, at most `most` objects at the same time and those that are woken; the others wait for a
    /// place, first come, first served. `find` knows the objects. At shutdown what waits is dropped, and reconciles in
    /// flight end.
    pub(crate) async fn serve(
        self: Arc<Self>,
        requests: Requests<UnboundedReceiver<Request>, UnboundedReceiver<Arc<Name>>>,
        most: usize,
        shutdown: &CancellationToken,
        find: impl Fn(&Name) -> Option<Reconcile> + Clone + Send + Sync + 'static,
    ) {
        let mut due = std::pin::pin!(scheduler(requests.due));
        let mut woken = requests.woken;
        let places = Arc::new(Semaphore::new(most));
        let tasks = TaskTracker::new();
        loop {
            let (next, at_once) = tokio::select! {
                next = woken.next() => (next, true),
                next = due.next() => (next, false),
                () = shutdown.cancelled() => break,
            };
            let Some(name) = next else { break };
            let Some(go) = self.take(&name, at_once) else {
                continue;
            };
            let (reconciler, places, find) = (Arc::clone(&self), Arc::clone(&places), find.clone());
            tasks.spawn(async move {
                let place = tokio::select! {
                    place = places.acquire() => place.map(Some),
                    () = go.notified() => Ok(None),
                };
                // The places are closed at shutdown.
                if let Ok(_place) = place {
                    reconciler.reconcile(name, find).await;
                }
            });
        }
        places.close();
        tasks.close();
        tasks.wait().await;
    }

    /// Takes an object whose time has come, and returns what ends its wait for a place. One that is reconciled already
    /// follows after that, and one that waits waits once.
    fn take(&self, name: &Arc<Name>, at_once: bool) -> Option<Arc<Notify>> {
        let mut all = lock(&self.taken);
        let new = !all.contains_key(name);
        let taken = all.entry(Arc::clone(name)).or_default();
        if taken.begun.is_some() {
            taken.again = true;
            taken.woken |= at_once;
        } else if at_once {
            taken.go.notify_one();
        }
        new.then(|| Arc::clone(&taken.go))
    }

    async fn reconcile(&self, name: Arc<Name>, find: impl Fn(&Name) -> Option<Reconcile> + Sync) {
        let begun = Instant::now();
        if let Some(taken) = lock(&self.taken).get_mut(&name) {
            taken.begun = Some(begun);
        }
        let steps = async {
            match find(&name) {
                Some(object) => self.carry_out(&name, object, begun).await.pause(),
                // It is gone, and nothing is left to do for it.
                None => None,
            }
        };
        // A panic beside the object's own steps must not keep it from being taken again.
        let pause = caught(steps).await.unwrap_or(Some(AFTER_PANIC));
        let taken = lock(&self.taken).remove(&name).unwrap_or_default();
        if taken.woken {
            return self.wake(name);
        }
        let pause = if taken.again {
            Some(Duration::ZERO)
        } else {
            pause
        };
        if let Some(at) = pause.and_then(|pause| Instant::now().checked_add(pause)) {
            self.request(name, at);
        }
    }

    /// Carries out a reconcile, and counts and logs its result.
    async fn carry_out(&self, name: &Name, object: Reconcile, begun: Instant) -> Action {
        let result = caught(object.steps).await;
        let result: Reconciled =
            result.unwrap_or_else(|panic| Err(panic.again(Action::requeue(AFTER_PANIC))));
        let (took, counted) = (begun.elapsed(), counted(&result));
        self.metrics.reconciled(self.controller, counted, took);
        if let Err(failed) = &result {
            let namespace = (!name.0.is_empty()).then_some(name.0.as_str());
            failed.log(&object.kind, namespace, &object.name);
        }
        again(&result)
    }
}

#[cfg(test)]
mod tests;
