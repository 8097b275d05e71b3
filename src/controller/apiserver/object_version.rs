//! One version of an object, by its identifiers alone.

use std::sync::Arc;

use kube::core::ObjectMeta;

/// One version of an object: enough to find it, and to delete it and no other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectVersion {
    /// Its uid.
    pub uid: Arc<str>,
    /// Its namespace.
    pub namespace: Arc<str>,
    /// Its name.
    pub name: Arc<str>,
    /// Its resourceVersion.
    pub version: Arc<str>,
}

impl ObjectVersion {
    /// The version with these metadata.
    pub fn of(meta: &ObjectMeta) -> Self {
        let text = |text: &Option<String>| Arc::from(text.as_deref().unwrap_or_default());
        Self {
            uid: text(&meta.uid),
            namespace: text(&meta.namespace),
            name: text(&meta.name),
            version: text(&meta.resource_version),
        }
    }
}
