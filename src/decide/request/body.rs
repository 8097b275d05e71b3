//! The create's body and key: a pure function of the immutable spec, byte for byte the same in every retry (rule 1).

use std::fmt::Write;

use serde_json::json;

use crate::api::RunSpec;
pub use crate::util::sha256;

use super::canonical;

/// The serializer that new intents name. An older one stays supported as long as an intent may name it.
pub const CURRENT_SERIALIZER: u32 = 1;

/// The body of `POST /runs`; `None` if this build has no such serializer.
pub fn body(spec: &RunSpec, serializer: u32) -> Option<Vec<u8>> {
    match serializer {
        1 => Some(compact_with_sorted_keys(spec)),
        _ => None,
    }
}

/// Serializer 1: compact JSON, object keys in byte order at every level, unset `provider` and `region` with their
/// defaults. The workload is never parsed into a tree: it may be deep and large.
fn compact_with_sorted_keys(spec: &RunSpec) -> Vec<u8> {
    let workload = spec.workload.as_str();
    let (provider, region) = (json!(spec.provider()), json!(spec.region()));
    let mut body = String::with_capacity(workload.len() + 512);
    // Writing to a String can't fail.
    let _ = write!(
        body,
        r#"{{"provider":{provider},"region":{region},"workload":"#
    );
    canonical::write(workload, &mut body);
    body.push('}');
    body.into_bytes()
}

/// The idempotency key (rule 1): the object's uid, or the user's key scoped by namespace. A uid contains no slash, so
/// the two never collide.
pub fn idempotency_key(spec: &RunSpec, namespace: &str, uid: &str) -> String {
    match &spec.idempotency_key {
        Some(key) => format!("{namespace}/{key}"),
        None => uid.to_owned(),
    }
}
