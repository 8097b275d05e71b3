//! Objects that can't be decoded: counted, logged by name, and shown on the object where its status can be written.

use kube::{Api, Resource, ResourceExt};
use serde::{Serialize, de::DeserializeOwned};

use super::{
    apiserver::{self, Guarded, Object},
    context::Context,
    watch::chain,
    writes,
};

/// Counts and logs an object that can't be decoded, and shows it on the object. `told` is the status that says so, made
/// from the present one, which is read live: the watch's version has none that could be decoded.
pub(super) async fn show<K, S>(
    ctx: &Context,
    api: &Api<K>,
    object: &Guarded<K>,
    told: impl FnOnce(S, &str) -> S,
) where
    K: Object,
    S: Serialize + DeserializeOwned + Default + Clone + PartialEq,
{
    let Err(invalid) = &object.0 else {
        return;
    };
    ctx.metrics.undecodable.inc();
    let meta = object.meta();
    tracing::error!(
        k8s.kind = %K::kind(&()), k8s.namespace.name = meta.namespace.as_deref(), k8s.name = meta.name.as_deref(),
        error = %invalid.error, "failed to decode an object; it is left alone until it changes"
    );
    if !ctx.may_begin() || meta.deletion_timestamp.is_some() && meta.finalizers.is_none() {
        return;
    }
    if let Err(error) = write(api, object, &invalid.error, told).await {
        tracing::warn!(
            k8s.kind = %K::kind(&()), k8s.namespace.name = meta.namespace.as_deref(), k8s.name = meta.name.as_deref(),
            error = %chain(&error), "failed to show on an object that it can't be decoded"
        );
    }
}

async fn write<K, S>(
    api: &Api<K>,
    object: &Guarded<K>,
    what: &str,
    told: impl FnOnce(S, &str) -> S,
) -> Result<(), writes::WriteError>
where
    K: Object,
    S: Serialize + DeserializeOwned + Default + Clone + PartialEq,
{
    let name = object.name_any();
    let read = apiserver::read_status::<K, S>(api, &name);
    let Some((meta, stored)) = writes::bounded(read).await? else {
        return Ok(());
    };
    let status = told(stored.clone(), what);
    if meta.uid != object.meta().uid || status == stored {
        return Ok(());
    }
    match writes::write_status_of(api, &meta, &status).await {
        Ok(()) | Err(writes::WriteError::Conflict | writes::WriteError::Gone) => Ok(()),
        Err(error) => Err(error),
    }
}
