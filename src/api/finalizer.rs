//! The operator's finalizer in an object's metadata.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::names;

pub fn present(meta: &ObjectMeta) -> bool {
    all(meta).any(|f| f == names::FINALIZER)
}

/// The finalizers of an object, with the operator's or without it.
pub fn with(meta: &ObjectMeta, on: bool) -> Vec<String> {
    let others = all(meta).filter(|f| *f != names::FINALIZER);
    let own = on.then_some(names::FINALIZER);
    others.chain(own).map(str::to_owned).collect()
}

fn all(meta: &ObjectMeta) -> impl Iterator<Item = &str> {
    meta.finalizers.iter().flatten().map(String::as_str)
}
