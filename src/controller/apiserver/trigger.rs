//! Enqueues objects: requests for reconciles that don't come from the object's own watch.

use std::collections::HashMap;
use std::sync::Arc;

use kube::runtime::reflector::{Lookup, ObjectRef};
use tokio::time::Instant;

use super::{
    scope::Scope,
    workqueue::{InFlight, WorkQueue},
};

/// Adds objects to the queue of the loop that serves their namespace.
#[derive(Clone)]
pub(crate) struct Trigger {
    queues: Arc<Queues>,
}

struct Queues {
    /// The queue of all namespaces that have none of their own.
    all: Option<Arc<WorkQueue>>,
    namespaces: HashMap<String, Arc<WorkQueue>>,
}

impl Trigger {
    /// A trigger for these scopes, and the queue of each.
    pub(crate) fn new(scopes: &[Scope]) -> (Self, Vec<Arc<WorkQueue>>) {
        let mut queues = Queues {
            all: None,
            namespaces: HashMap::new(),
        };
        let of_scope = |scope: &Scope| {
            let queue = Arc::<WorkQueue>::default();
            match scope {
                Scope::All => queues.all = Some(Arc::clone(&queue)),
                Scope::Namespace(name) => {
                    queues.namespaces.insert(name.clone(), Arc::clone(&queue));
                }
            }
            queue
        };
        let each = scopes.iter().map(of_scope).collect();
        let queues = Arc::new(queues);
        (Self { queues }, each)
    }

    /// Requests a reconcile of an object; one without a namespace is cluster-scoped.
    pub(crate) fn enqueue(&self, namespace: &str, name: &str) {
        self.enqueue_since(namespace, name, Instant::now());
    }

    /// The same, of an object that waits since then: before those that came later.
    pub(crate) fn enqueue_since(&self, namespace: &str, name: &str, since: Instant) {
        let own = self.queues.namespaces.get(namespace);
        if let Some(queue) = own.or(self.queues.all.as_ref()) {
            queue.add((namespace.to_owned(), name.to_owned()), since);
        }
    }

    /// The reconciles in flight.
    pub(crate) fn in_flight(&self) -> InFlight {
        let now = Instant::now();
        let queues = self.queues.namespaces.values().chain(&self.queues.all);
        let each = queues.map(|queue| queue.in_flight(now));
        each.fold(InFlight::default(), InFlight::and)
    }
}

/// Reference to an object; one without a namespace is cluster-scoped.
pub(crate) fn reference<K: Lookup<DynamicType = ()>>(namespace: &str, name: &str) -> ObjectRef<K> {
    let object = ObjectRef::new(name);
    if namespace.is_empty() {
        object
    } else {
        object.within(namespace)
    }
}
