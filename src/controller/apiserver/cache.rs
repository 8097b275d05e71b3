//! The objects of one kind in one scope, as the watch has shown them.

use std::sync::{Arc, Mutex};

use kube::{
    Resource,
    runtime::{
        reflector::{Store, store, store::Writer},
        watcher::Event,
    },
};

use crate::util::lock;

use super::{Maybe, Object, scope::Scope, trigger::reference};

/// A store that the watch fills.
pub struct Cache<K>
where
    K: Resource<DynamicType = ()> + Clone + 'static,
{
    /// What it covers.
    pub scope: Scope,
    reader: Store<Maybe<K>>,
    writer: Mutex<Writer<Maybe<K>>>,
}

impl<K: Object> Cache<K> {
    /// An empty store of this scope.
    pub fn new(scope: &Scope) -> Self {
        let (reader, writer) = store();
        Self {
            scope: scope.clone(),
            reader,
            writer: Mutex::new(writer),
        }
    }

    /// Applies an event of the watch.
    pub fn apply(&self, event: &Event<Maybe<K>>) {
        lock(&self.writer).apply_watcher_event(event);
    }

    /// The object of this name; the namespace of a cluster-scoped one is empty.
    pub fn get(&self, namespace: &str, name: &str) -> Option<Arc<Maybe<K>>> {
        self.reader.get(&reference(namespace, name))
    }

    /// All of them.
    pub fn all(&self) -> Vec<Arc<Maybe<K>>> {
        self.reader.state()
    }
}
