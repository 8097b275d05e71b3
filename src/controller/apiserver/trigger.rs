//! Enqueues objects: requests for reconciles that don't come from the object's own watch.

use std::collections::HashMap;
use std::sync::Arc;

use futures::channel::mpsc::{UnboundedReceiver, UnboundedSender, unbounded};
use kube::runtime::reflector::{Lookup, ObjectRef};

use super::scope::Scope;

/// Sends triggers to the loop that serves an object's namespace. The loop's scheduler merges triggers of an object that
/// already waits.
pub struct Trigger<K: Lookup<DynamicType = ()> + 'static> {
    senders: Arc<HashMap<Scope, UnboundedSender<ObjectRef<K>>>>,
}

impl<K: Lookup<DynamicType = ()> + 'static> Clone for Trigger<K> {
    fn clone(&self) -> Self {
        Self {
            senders: Arc::clone(&self.senders),
        }
    }
}

impl<K: Lookup<DynamicType = ()> + 'static> Trigger<K> {
    /// A trigger for these scopes, and the receiver of each.
    pub fn new(scopes: &[Scope]) -> (Self, Vec<UnboundedReceiver<ObjectRef<K>>>) {
        let (senders, receivers): (HashMap<_, _>, Vec<_>) = scopes
            .iter()
            .map(|scope| {
                let (sender, receiver) = unbounded();
                ((scope.clone(), sender), receiver)
            })
            .unzip();
        let senders = Arc::new(senders);
        (Self { senders }, receivers)
    }

    /// Requests a reconcile of an object.
    pub fn enqueue(&self, namespace: &str, name: &str) {
        let one = Scope::Namespace(namespace.to_owned());
        if let Some(sender) = self
            .senders
            .get(&one)
            .or_else(|| self.senders.get(&Scope::All))
        {
            // The loop has ended only at shutdown, when no trigger is needed.
            let _ = sender.unbounded_send(reference(namespace, name));
        }
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
