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
pub(crate) fn of(ctx: &Context, run: &Run) -> Option<String> {
    let place = place(run)?;
    rival(&ctx.run_index, ctx.claims.holder(&place), run).map(|name| name.to_string())
}

/// The same, if the Run with the uid `holder` has claimed the key.
fn rival(index: &RunIndex, holder: Option<String>, run: &Run) -> Option<Arc<str>> {
    let claimed = holder.is_some() && holder == run.uid();
    let other = holder.filter(|_| !claimed);
    let seen = index.rival(run, claimed);
    seen.or_else(|| other.and_then(|holder| index.live_name(&holder)))
}

fn place(run: &Run) -> Option<Place> {
    let key = run.spec.idempotency_key.clone()?;
    Some((run.namespace().unwrap_or_default(), key))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::api::names;
    use crate::controller::{
        apiserver::{Guarded, decode},
        state::index::Record,
    };

    /// The annotation with an intent of this Run.
    fn intent(uid: &str) -> Value {
        let workspace =
            json!({"kind": "Workspace", "name": "w", "uid": "w", "baseUrl": "https://a"});
        let intent = json!({
            "uid": uid, "workspace": workspace, "key": "k", "sha256": "", "serializer": 1,
            "time": "2026-01-01T00:00:00Z", "owner": "p", "epoch": 1,
        });
        json!({names::INTENT_ANNOTATION: intent.to_string()})
    }

    /// A Run with the key `k` and its name as its uid. All are created in the same second, so that the smaller uid has
    /// priority.
    fn run(uid: &str, annotations: &Value) -> Guarded<Run> {
        let run = json!({
            "metadata": {
                "name": uid, "namespace": "team", "uid": uid, "annotations": annotations,
                "creationTimestamp": "2026-01-01T00:00:00Z",
            },
            "spec": {"idempotencyKey": "k", "workload": {}},
        });
        decode(&serde_json::value::to_raw_value(&run).unwrap()).unwrap()
    }

    /// The Run that each of the two waits for.
    fn waits(index: &RunIndex, holder: Option<&str>) -> [Option<Arc<str>>; 2] {
        let none = json!({});
        ["elder", "younger"].map(|uid| {
            let run = run(uid, &none).0.unwrap();
            rival(index, holder.map(str::to_owned), &run)
        })
    }

    #[test]
    fn of_two_runs_created_in_one_second_exactly_one_waits() {
        let name = |name: &str| Some(Arc::from(name));
        let none = json!({});
        let index = RunIndex::default();
        index.apply(Record::of(&run("younger", &none)));
        // The younger one has claimed the key, and its write got no answer; then the elder appears.
        index.apply(Record::of(&run("elder", &none)));
        assert_eq!(waits(&index, Some("younger")), [name("younger"), None]);
        // The write succeeded, which the watch shows later.
        index.apply(Record::of(&run("younger", &intent("younger"))));
        assert_eq!(waits(&index, Some("younger")), [name("younger"), None]);
        // Or nothing was written, and the claim is released.
        index.apply(Record::of(&run("younger", &none)));
        assert_eq!(waits(&index, None), [None, name("elder")]);
        // Another process's intent counts, whichever Run claims here.
        index.apply(Record::of(&run("elder", &intent("elder"))));
        assert_eq!(waits(&index, Some("younger"))[1], name("elder"));
    }
}
