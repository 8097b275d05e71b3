//! The objects of one kind in one scope that may need something: what the watch has shown, without those for which
//! nothing is left to do.

use std::sync::{Arc, Mutex};

use kube::Resource;
use kube::runtime::{
    reflector::{ObjectRef, Store, store, store::Writer},
    watcher::Event,
};

use crate::util::lock;

use super::{Maybe, Object, ObjectVersion, trigger::reference};

/// A cache that the watch fills, and from which an object can be taken out.
pub(crate) struct Cache<K>
where
    K: Resource<DynamicType = ()> + Clone + 'static,
{
    reader: Store<Maybe<K>>,
    writer: Mutex<Writer<Maybe<K>>>,
}

impl<K: Object> Cache<K> {
    /// An empty cache.
    pub(crate) fn new() -> Self {
        let (reader, writer) = store();
        Self {
            reader,
            writer: Mutex::new(writer),
        }
    }

    /// Its objects, for reading.
    pub(crate) fn reader(&self) -> &Store<Maybe<K>> {
        &self.reader
    }

    /// The object of this name, if it is here.
    pub(crate) fn get(&self, object: &ObjectRef<Maybe<K>>) -> Option<Arc<Maybe<K>>> {
        self.reader.get(object)
    }

    /// Applies an event of the watch.
    pub(crate) fn apply(&self, event: &Event<Maybe<K>>) {
        lock(&self.writer).apply_watcher_event(event);
    }

    /// Removes a version of an object. Returns false if another version of it is here.
    pub(crate) fn evict(&self, object: &ObjectVersion) -> bool {
        let mut writer = lock(&self.writer);
        let Some(here) = self.reader.get(&reference(&object.namespace, &object.name)) else {
            return true;
        };
        let same = ObjectVersion::of(here.meta()) == *object;
        if same {
            writer.apply_watcher_event(&Event::Delete(here.as_ref().clone()));
        }
        same
    }
}
