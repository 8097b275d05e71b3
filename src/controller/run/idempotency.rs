//! One live Run per key: finds other Runs of the namespace with the same `spec.idempotencyKey`.

use std::sync::Arc;

use kube::ResourceExt;

use crate::api::Run;
use crate::controller::{
    context::Context,
    state::{claims::Place, index::RunIndex},
};

/// Claims the key for this Run before its intent is written. False if another live Run has claimed it.
pub(crate) fn claim(ctx: &Context, run: &Run) -> bool {
    let Some(place) = place(run) else {
        return true;
    };
    let uid = run.uid().unwrap_or_default();
    let live = |holder: &str| ctx.run_index.live_name(holder).is_some();
    ctx.claims.take(place, &uid, live)
}

/// Name of the Run with the older claim to this Run's key. Most Runs use their uid as the key, and need no lookup.
pub(crate) fn key_holder(ctx: &Context, run: &Run) -> Option<String> {
    let place = place(run)?;
    holder_of(&ctx.run_index, ctx.claims.holder(&place), run).map(|name| name.to_string())
}

/// The same, if the Run with the uid `claimed_by` has claimed the key.
fn holder_of(index: &RunIndex, claimed_by: Option<String>, run: &Run) -> Option<Arc<str>> {
    let claimed = claimed_by.is_some() && claimed_by == run.uid();
    let other = claimed_by.filter(|_| !claimed);
    let indexed = index.key_holder(run, claimed);
    indexed.or_else(|| other.and_then(|uid| index.live_name(&uid)))
}

fn place(run: &Run) -> Option<Place> {
    let key = run.spec.idempotency_key.clone()?;
    Some((run.namespace().unwrap_or_default(), key))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::controller::state::{
        fixtures::{intent, keyed, merged, run},
        index::tests::record,
    };

    /// The Run that each of the two waits for.
    fn waits(index: &RunIndex, holder: Option<&str>) -> [Option<Arc<str>>; 2] {
        ["elder", "younger"].map(|uid| {
            let run = run(uid, keyed(2026)).good().cloned().unwrap();
            holder_of(index, holder.map(str::to_owned), &run)
        })
    }

    /// Proves: P-key-index
    #[test]
    fn of_two_runs_created_in_one_second_exactly_one_waits() {
        let name = |name: &str| Some(Arc::from(name));
        // The smaller uid has priority.
        let without = |uid| record(uid, keyed(2026));
        let with = |uid| record(uid, merged(keyed(2026), intent(uid, 2026)));
        let index = RunIndex::default();
        index.put(without("younger"));
        // The younger one has claimed the key, and its write got no answer; then the elder appears.
        index.put(without("elder"));
        assert_eq!(waits(&index, Some("younger")), [name("younger"), None]);
        // The write succeeded, which the watch shows later.
        index.put(with("younger"));
        assert_eq!(waits(&index, Some("younger")), [name("younger"), None]);
        // Or nothing was written, and the claim is released.
        index.put(without("younger"));
        assert_eq!(waits(&index, None), [None, name("elder")]);
        // Another process's intent counts, whichever Run claims here.
        index.put(with("elder"));
        assert_eq!(waits(&index, Some("younger"))[1], name("elder"));
    }

    /// Proves: P-key-in-use
    #[test]
    fn a_run_of_another_namespace_has_a_key_of_its_own() {
        let elsewhere = json!({"metadata": {"namespace": "other"}});
        let here = run("elder", keyed(2025)).good().cloned().unwrap();
        let there = run("younger", merged(keyed(2026), elsewhere))
            .good()
            .cloned()
            .unwrap();
        let index = RunIndex::default();
        index.put(record("elder", keyed(2025)));
        assert_eq!(holder_of(&index, None, &there), None);
        assert_ne!(place(&here), place(&there));
    }
}
