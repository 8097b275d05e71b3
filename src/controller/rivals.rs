//! One live Run a key: who else of the namespace holds the same `spec.idempotencyKey`.

use std::collections::HashMap;
use std::sync::Mutex;

use kube::{ResourceExt, runtime::reflector::Store};

use crate::api::{Run, intent::IntentRecord, names};

use super::context::{Context, lock};

/// Who of this process's Runs has the right to a key: by namespace and key, the uid. The stores show an
/// intent only after it was written, and two reconciles at the same time would both find the key free.
#[derive(Default)]
pub struct Claims(Mutex<HashMap<(String, String), String>>);

impl Claims {
    /// Forgets a Run.
    pub fn forget(&self, uid: &str) {
        lock(&self.0).retain(|_, holder| holder != uid);
    }
}

/// Wakes the Runs that wait for the key that this one held.
pub(super) fn wake_waiting(ctx: &Context, run: &Run) {
    let Some(key) = &run.spec.idempotency_key else {
        return;
    };
    let namespace = run.namespace().unwrap_or_default();
    for other in ctx.run_stores().flat_map(Store::state) {
        if let Ok(other) = &other.0
            && other.spec.idempotency_key.as_ref() == Some(key)
            && other.namespace().as_ref() == Some(&namespace)
            && !other.ended()
        {
            ctx.runs.wake(&namespace, &other.name_any());
        }
    }
}

/// Takes the key for this Run before its intent is written. False: another live Run was quicker.
pub(super) fn claim(ctx: &Context, run: &Run) -> bool {
    let Some(key) = &run.spec.idempotency_key else {
        return true;
    };
    let place = (run.namespace().unwrap_or_default(), key.clone());
    let uid = run.uid().unwrap_or_default();
    let mut claims = lock(&ctx.claims.0);
    if claims
        .get(&place)
        .is_some_and(|holder| *holder != uid && live_name(ctx, holder).is_some())
    {
        return false;
    }
    claims.insert(place, uid);
    true
}

/// The name of the live Run that holds the key, if that is another one.
fn claimant(ctx: &Context, run: &Run, key: &str) -> Option<String> {
    let place = (run.namespace().unwrap_or_default(), key.to_owned());
    let holder = lock(&ctx.claims.0).get(&place).cloned()?;
    (Some(&holder) != run.uid().as_ref())
        .then(|| live_name(ctx, &holder))
        .flatten()
}

fn live_name(ctx: &Context, uid: &str) -> Option<String> {
    let found = ctx.run_stores().find_map(|store| {
        store.find(|other| {
            let Ok(other) = &other.0 else {
                return false;
            };
            other.metadata.uid.as_deref() == Some(uid) && !other.ended()
        })
    })?;
    Some(found.name_any())
}

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
            // First what nearly every other Run fails, and costs nothing to look at.
            other.spec.idempotency_key.as_ref() == Some(key)
                && other.namespace() == namespace
                && other.uid() != run.uid()
                && !other.ended()
                && before(other, run)
        })
    });
    match rival {
        Some(rival) => Some(rival.name_any()),
        None => claimant(ctx, run, key),
    }
}

/// Whether `other` goes before `run`. One with an intent of its own holds the key. A copy of another object
/// holds nothing: it waits for a person, and would block whoever waits for it for good; asked to submit, it
/// takes the key as it writes its own intent.
fn before(other: &Run, run: &Run) -> bool {
    let annotation = other.annotations().get(names::INTENT_ANNOTATION);
    let uid = other.uid().unwrap_or_default();
    match IntentRecord::read(annotation.map(String::as_str), &uid) {
        IntentRecord::Own(_) | IntentRecord::Unreadable => true,
        IntentRecord::Absent => submitted(other) || elder(other, run),
        IntentRecord::Foreign => false,
    }
}

/// Somebody stripped its intent; it is about to be put back.
fn submitted(run: &Run) -> bool {
    run.status.as_ref().is_some_and(|s| s.run_id.is_some())
}

fn elder(other: &Run, run: &Run) -> bool {
    let age = |run: &Run| (run.metadata.creation_timestamp.clone(), run.uid());
    age(other) < age(run)
}
