//! Reconciles what is requested of one kind of object: each in a task of its own, and one of an object at a time.
//!
//! kube's `scheduler` holds what is requested for later. Its `applier` is not used: it needs a `Store` in which a Run that
//! the watch lacks could not stay, and it takes what was requested during a reconcile before what has waited longer.

use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use futures::channel::mpsc::{UnboundedReceiver, UnboundedSender, unbounded};
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt};
use kube::runtime::scheduler::{ScheduleRequest, scheduler};
use tokio::sync::{Notify, Semaphore};
use tokio::time::Instant;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::controller::metrics::{CONFLICT, Metrics, PANIC, REQUEUE_AFTER, SUCCESS};
use crate::util::{error_chain, lock};

use super::{patch::WriteError, read::ListError, watch::Scope};

/// Namespace and name; the namespace of a cluster-scoped object is empty. A Run has its uid in place of its name.
pub(crate) type Name = (String, String);

/// A request for a reconcile, as the scheduler holds it: of two alike the earlier counts.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct Request {
    name: Arc<Name>,
    /// It waits for no place.
    at_once: bool,
}

const AFTER_PANIC: Duration = Duration::from_mins(1);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Action {
    again: Option<Duration>,
}

impl Action {
    pub const fn requeue(after: Duration) -> Self {
        Self { again: Some(after) }
    }

    pub const fn await_change() -> Self {
        Self { again: None }
    }

    pub const fn pause(self) -> Option<Duration> {
        self.again
    }
}

/// Error of a reconcile. Its variant is the label `reason` of `controller_runtime_reconcile_errors_total`.
#[derive(Debug, thiserror::Error)]
pub enum ReconcileError {
    #[error("the object can't be decoded: {0}")]
    Undecodable(String),
    #[error(transparent)]
    Write(#[from] WriteError),
    #[error("failed to list the Runs of a Workspace that is being deleted")]
    List(#[from] ListError),
    #[error("the API server did not answer a read")]
    NoAnswer,
    #[error("the process can open no more files")]
    NoFile,
    #[error("the reconcile panicked")]
    Panicked,
}

impl ReconcileError {
    /// The label's value, or `None` for a conflict: the object changed meanwhile, which is no failure.
    pub const fn reason(&self) -> Option<&'static str> {
        match self {
            Self::Undecodable(_) => Some("undecodable"),
            Self::Write(WriteError::Conflict | WriteError::Gone) => None,
            Self::Write(WriteError::Refused(_)) => Some("write_refused"),
            Self::Write(WriteError::Failed(_)) => Some("write_failed"),
            Self::Write(WriteError::Timeout) => Some("write_timeout"),
            Self::Write(WriteError::Serialize(_)) => Some("write_invalid"),
            Self::List(_) => Some("list_failed"),
            Self::NoAnswer => Some("no_answer"),
            Self::NoFile => Some("no_file"),
            Self::Panicked => Some(PANIC),
        }
    }

    pub fn again(self, again: Action) -> Failed {
        Failed { error: self, again }
    }
}

#[derive(Debug)]
pub struct Failed {
    pub error: ReconcileError,
    pub again: Action,
}

impl Failed {
    pub(crate) fn log(&self, kind: &str, namespace: Option<&str>, name: &str) {
        let requeue_after = self.again.pause().map(|pause| pause.as_secs_f64());
        let (reason, error) = (self.error.reason(), error_chain(&self.error));
        let message = match &self.error {
            ReconcileError::Undecodable(_) => {
                "failed to decode an object; it is not reconciled until it changes"
            }
            ReconcileError::Panicked => {
                "the reconcile panicked; the object is not reconciled until it changes or is requeued"
            }
            _ if reason.is_none() => "the object changed during its reconcile; requeueing",
            _ => "reconcile failed; requeueing",
        };
        // The level of an event must be constant.
        macro_rules! log {
            ($level:ident) => {
                tracing::$level!(
                    k8s.kind = kind,
                    k8s.namespace.name = namespace,
                    k8s.name = name,
                    requeue_after,
                    reason,
                    error,
                    "{message}"
                )
            };
        }
        match (&self.error, reason) {
            (ReconcileError::Undecodable(_) | ReconcileError::Panicked, _) => log!(error),
            (_, None) => log!(debug),
            _ => log!(warn),
        }
    }
}

pub type Reconciled = Result<Action, Failed>;

/// Carries out one object's steps. A panic in them, a bug of the operator, ends nothing else.
pub(crate) fn caught<T>(
    steps: impl Future<Output = T>,
) -> impl Future<Output = Result<T, ReconcileError>> {
    // Not `async`: that would hold the steps twice, as an argument and while they run.
    let ended = AssertUnwindSafe(steps).catch_unwind();
    ended.map(|ended| ended.map_err(|_| ReconcileError::Panicked))
}

fn label(result: &Reconciled) -> &'static str {
    match result {
        Ok(again) if again.pause().is_none() => SUCCESS,
        Ok(_) => REQUEUE_AFTER,
        Err(failed) => failed.error.reason().unwrap_or(CONFLICT),
    }
}

#[derive(Clone)]
pub(crate) struct Trigger {
    pub(crate) controller: &'static str,
    reconcilers: Arc<[Arc<Reconciler>]>,
}

impl Trigger {
    pub(crate) fn new(controller: &'static str, scopes: &[Scope], metrics: &Arc<Metrics>) -> Self {
        let each = |scope: &Scope| {
            Arc::new(Reconciler {
                controller,
                scope: scope.clone(),
                metrics: Arc::clone(metrics),
                requests: OnceLock::new(),
                taken: Mutex::default(),
            })
        };
        let reconcilers = scopes.iter().map(each).collect();
        Self {
            controller,
            reconcilers,
        }
    }

    pub(crate) fn reconcilers(&self) -> impl Iterator<Item = Arc<Reconciler>> {
        self.reconcilers.iter().cloned()
    }

    /// Requests a reconcile of an object; one without a namespace is cluster-scoped.
    pub(crate) fn enqueue(&self, namespace: &str, name: &str) {
        self.request(namespace, name, false, Instant::now());
    }

    pub(crate) fn enqueue_at(&self, namespace: &str, name: &str, at: Instant) {
        self.request(namespace, name, false, at);
    }

    /// Requests a reconcile of an object that has the permit for a call, which another could use: it waits for no place.
    pub(crate) fn wake(&self, namespace: &str, name: &str) {
        self.request(namespace, name, true, Instant::now());
    }

    fn request(&self, namespace: &str, name: &str, at_once: bool, at: Instant) {
        let mut all = self.reconcilers.iter();
        if let Some(reconciler) = all.find(|reconciler| reconciler.scope.covers(namespace)) {
            let name = Arc::new((namespace.to_owned(), name.to_owned()));
            reconciler.request(name, at_once, at);
        }
    }

    pub(crate) fn in_flight(&self) -> (usize, Duration) {
        let mut begun = Vec::new();
        for reconciler in self.reconcilers.iter() {
            begun.extend(lock(&reconciler.taken).values().filter_map(|t| t.begun));
        }
        let longest = begun.iter().min().map(Instant::elapsed);
        (begun.len(), longest.unwrap_or_default())
    }
}

pub(crate) struct Reconcile {
    pub(crate) kind: String,
    pub(crate) name: String,
    pub(crate) steps: BoxFuture<'static, Reconciled>,
}

pub(crate) struct Reconciler {
    controller: &'static str,
    pub(crate) scope: Scope,
    metrics: Arc<Metrics>,
    /// Missing until this process leads: what is requested before is dropped.
    requests: OnceLock<UnboundedSender<ScheduleRequest<Request>>>,
    /// Objects whose time has come, until their reconcile has ended.
    taken: Mutex<HashMap<Arc<Name>, Taken>>,
}

#[derive(Default)]
struct Taken {
    /// Start of the reconcile; before it, the object waits for a place.
    begun: Option<Instant>,
    /// It was requested since, or woken.
    again: bool,
    woken: bool,
    /// Ends the wait for a place.
    go: Arc<Notify>,
}

impl Reconciler {
    pub(crate) fn open(&self) -> UnboundedReceiver<ScheduleRequest<Request>> {
        let (requests, end) = unbounded();
        // It is opened once; a second time its requests would end at once.
        let _ = self.requests.set(requests);
        end
    }

    fn request(&self, name: Arc<Name>, at_once: bool, run_at: Instant) {
        if let Some(requests) = self.requests.get() {
            let message = Request { name, at_once };
            // After the end of the loop nobody receives it.
            let _ = requests.unbounded_send(ScheduleRequest { message, run_at });
        }
    }

    /// `most` objects at a time, and those that are woken. At shutdown what waits is dropped; reconciles in flight end.
    pub(crate) async fn serve(
        self: Arc<Self>,
        requests: UnboundedReceiver<ScheduleRequest<Request>>,
        most: usize,
        shutdown: &CancellationToken,
        find: impl Fn(&Name) -> Option<Reconcile> + Clone + Send + Sync + 'static,
    ) {
        let mut due = std::pin::pin!(scheduler(requests));
        let places = Arc::new(Semaphore::new(most));
        let tasks = TaskTracker::new();
        while let Some(Some(next)) = shutdown.run_until_cancelled(due.next()).await {
            let Request { name, at_once } = next;
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

    /// Returns what ends the object's wait for a place. One in its reconcile follows after that; one that waits, waits once.
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
        let pause = if taken.again {
            Some(Duration::ZERO)
        } else {
            pause
        };
        if let Some(at) = pause.and_then(|pause| Instant::now().checked_add(pause)) {
            self.request(name, taken.woken, at);
        }
    }

    async fn carry_out(&self, name: &Name, object: Reconcile, begun: Instant) -> Action {
        let result = caught(object.steps).await;
        let result: Reconciled =
            result.unwrap_or_else(|panic| Err(panic.again(Action::requeue(AFTER_PANIC))));
        let (label, took) = (label(&result), begun.elapsed());
        self.metrics.reconciled(self.controller, label, took);
        result.unwrap_or_else(|failed| {
            let namespace = (!name.0.is_empty()).then_some(name.0.as_str());
            failed.log(&object.kind, namespace, &object.name);
            failed.again
        })
    }
}

#[cfg(test)]
mod tests;
