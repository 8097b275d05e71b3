//! An object as the API server has shown it, decoded or not.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;

/// An object of the API server. Its clones share it. If it doesn't fit the schema: its metadata, and the error.
#[derive(Clone)]
pub struct Guarded<K>(pub Result<Arc<K>, Arc<Invalid>>);

/// An object that can't be decoded.
#[derive(Clone, Debug)]
pub struct Invalid {
    /// Which part, and where. Never its content, which is the user's.
    pub error: String,
    /// Its metadata, which can be decoded.
    pub metadata: ObjectMeta,
}

/// Its content is the user's, and in no log.
impl<K: Resource<DynamicType = ()>> fmt::Debug for Guarded<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let meta = match &self.0 {
            Ok(object) => object.meta(),
            Err(invalid) => &invalid.metadata,
        };
        let name = meta.name.as_deref().unwrap_or_default();
        write!(f, "{} {name}", K::kind(&()))
    }
}

impl<K> Guarded<K> {
    /// The object, if it can be decoded.
    pub fn decoded(&self) -> Option<&K> {
        self.0.as_deref().ok()
    }
}

impl<K: Resource + Clone> Resource for Guarded<K> {
    type DynamicType = K::DynamicType;
    type Scope = K::Scope;

    fn kind(dt: &K::DynamicType) -> Cow<'_, str> {
        K::kind(dt)
    }

    fn group(dt: &K::DynamicType) -> Cow<'_, str> {
        K::group(dt)
    }

    fn version(dt: &K::DynamicType) -> Cow<'_, str> {
        K::version(dt)
    }

    fn plural(dt: &K::DynamicType) -> Cow<'_, str> {
        K::plural(dt)
    }

    fn metadata_api() -> bool {
        K::metadata_api()
    }

    fn meta(&self) -> &ObjectMeta {
        match &self.0 {
            Ok(object) => object.meta(),
            Err(invalid) => &invalid.metadata,
        }
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        match &mut self.0 {
            Ok(object) => Arc::make_mut(object).meta_mut(),
            Err(invalid) => &mut Arc::make_mut(invalid).metadata,
        }
    }
}
