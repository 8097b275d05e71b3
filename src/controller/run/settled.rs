//! Runs for which nothing is left to do before their TTL: their objects are stripped, and they are not tracked.

use std::sync::Arc;
use std::time::Duration;

use futures::{StreamExt, stream};
use kube::Api;
use kube::core::{PartialObjectMeta, PartialObjectMetaExt};
use tokio::time::{MissedTickBehavior, interval};

use crate::api::{Phase, Run};
use crate::clock::{now, wall};
use crate::controller::{
    apiserver::{
        Maybe, ObjectVersion,
        patch::{self, WriteError},
    },
    context::Context,
    refused::Refused,
    state::{
        run_store::{EndedRun, Known},
        runs::RunEntry,
    },
};
use crate::decide::{Choice, Inputs, Memory, Stream, WorkspaceView, run::settled};
use crate::util::error_chain;

/// Interval at which TTLs are compared with the wall clock, which may step.
const LOOK_EVERY: Duration = Duration::from_secs(5);
const DELETIONS: usize = 16;

pub(crate) fn known(ctx: &Context, object: Maybe<Run>) -> Known {
    let settled = object.good().and_then(|run| settled_run(ctx, run));
    settled.map_or_else(|| object.into(), |ended| Known::Ended(Arc::new(ended)))
}

pub(crate) fn at_rest(ctx: &Context, entry: &RunEntry, run: &Run) -> bool {
    // The watch has shown this version already; else it still has to, or that the object is deleted.
    let settled = settled_run(ctx, run).is_some_and(|ended| ctx.runs.strip(ended));
    if settled {
        ctx.tracked_runs.forget(&entry.uid);
    }
    settled
}

pub(crate) async fn delete_expired(ctx: Arc<Context>) {
    let mut ticks = interval(LOOK_EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        if !ctx.may_begin() {
            continue;
        }
        let expired = ctx.runs.take_expired(wall()).into_iter();
        stream::iter(expired.map(|version| delete(&ctx, version)))
            .buffer_unordered(DELETIONS)
            .collect::<()>()
            .await;
    }
}

/// Deletes one version of an object. A newer version is looked at again.
async fn delete(ctx: &Context, object: ObjectVersion) {
    if !ctx.may_begin() {
        return;
    }
    tracing::info!(
        k8s.namespace.name = %object.namespace, run.name = %object.name, run.uid = %object.uid,
        "deleting a Run after its TTL"
    );
    let api = Api::<Run>::namespaced(ctx.client.clone(), &object.namespace);
    match patch::delete(&api, &object).await {
        Ok(()) | Err(WriteError::Gone | WriteError::Conflict) => {}
        Err(error) => {
            let run: PartialObjectMeta<Run> = object.metadata().into_response_partial();
            let refused = Refused {
                writes: "delete",
                error: &error,
                times: 1,
                condition: None,
                client: None,
            };
            refused.tell(ctx, &run);
            tracing::warn!(
                k8s.namespace.name = %object.namespace, run.name = %object.name, run.uid = %object.uid,
                error = %error_chain(&error), "failed to delete a Run after its TTL; retrying"
            );
        }
    }
}

fn settled_run(ctx: &Context, run: &Run) -> Option<EndedRun> {
    // Few of the watched versions have ended, and of the others nothing else is asked.
    if !run.ended() {
        return None;
    }
    let ask = |memory: &Memory| {
        settled(&Inputs {
            run,
            choice: &Choice::Unknown,
            workspace: &WorkspaceView::Unknown,
            rules: None,
            namespace_allowed: None,
            memory,
            key_holder: None,
            needs_slot: None,
            deleted_without_release: false,
            stream: Stream::Closed,
            call_delay: None,
            contract: &ctx.config.contract,
            settings: &ctx.config.settings,
            now: now(),
            wall: wall(),
        })
    };
    let uid = run.metadata.uid.as_deref().unwrap_or_default();
    let settled = match ctx.tracked_runs.get(uid) {
        Some(entry) => entry.with(|state| ask(&state.run.memory)),
        None => ask(&Memory::of(run)),
    };
    let phase = run.status.as_ref().and_then(|status| status.phase);
    Some(EndedRun {
        object: ObjectVersion::of(&run.metadata),
        phase: phase.unwrap_or(Phase::Pending),
        expires: settled?.expires,
    })
}

#[cfg(test)]
mod tests {
    use kube::core::ObjectMeta;

    use super::*;
    use crate::controller::apiserver::{answer, loopback};
    use crate::decide::EventDraft;

    /// Proves: P-refused-writes
    #[tokio::test]
    async fn a_refused_deletion_is_told_by_an_event() {
        let no = r#"{"kind": "Status", "status": "Failure", "message": "no", "code": 403}"#;
        let ctx = Context::idle(loopback(vec![answer("403", no)]));
        let mut run: PartialObjectMeta<Run> = ObjectMeta::default().into_response_partial();
        run.metadata.uid = Some("u".to_owned());
        run.metadata.name = Some("train".to_owned());
        run.metadata.namespace = Some("team".to_owned());
        delete(&ctx, ObjectVersion::of(&run.metadata)).await;
        let event = EventDraft::write_refused("delete", "no", None, now());
        assert!(!ctx.recorder.publish(&run, &event), "it is published");
    }
}
