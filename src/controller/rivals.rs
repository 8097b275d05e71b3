//! One live Run a key: who else of the namespace holds the same `spec.idempotencyKey`.

use kube::ResourceExt;

use crate::api::{Run, names};

use super::context::Context;

/// The name of the Run that has the older claim to this Run's key, if there is one. Nearly every Run's
/// key is its uid, and then nobody is asked.
pub(super) fn of(ctx: &Context, run: &Run) -> Option<String> {
    let key = run.spec.idempotency_key.as_ref()?;
    let namespace = run.namespace();
    let rival = ctx.run_stores().find_map(|store| {
        store.find(|other| {
            let Ok(other) = &other.0 else {
                return false;
            };
            other.namespace() == namespace
                && other.uid() != run.uid()
                && other.spec.idempotency_key.as_ref() == Some(key)
                && live(other)
                && (claimed(other) || elder(other, run))
        })
    })?;
    Some(rival.name_any())
}

/// Not ended yet: an ended Run leaves its key to the next.
fn live(run: &Run) -> bool {
    !run.status
        .as_ref()
        .and_then(|s| s.phase)
        .is_some_and(crate::api::Phase::terminal)
}

fn claimed(run: &Run) -> bool {
    run.annotations().contains_key(names::INTENT_ANNOTATION)
}

fn elder(other: &Run, run: &Run) -> bool {
    let age = |run: &Run| (run.metadata.creation_timestamp.clone(), run.uid());
    age(other) < age(run)
}
