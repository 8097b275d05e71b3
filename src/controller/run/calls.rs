//! Calls to the service, each in a task of its own: a hanging service delays no other object. A call that must wait has a
//! place in the queue of its Workspace's limiter; when that grants the permit, the Run is reconciled, and decides again.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::{FutureExt, future::BoxFuture};
use kube::ResourceExt;
use tokio::time::Instant;

use crate::api::WorkspaceKey;
use crate::controller::{
    apiserver::reconciler::Action,
    context::Context,
    state::{
        call_limiter::{CallPermit, Wake},
        runs::{LONG_WAIT, RunEntry},
        workspaces::{ClientSession, WorkspaceState},
    },
};
use crate::decide::{
    Effect,
    failure::{Call, Capacity, FailedCall, Failure, FailureKind, RunView},
};
use crate::service::{IdempotencyKey, RunId};

/// Pause after a call that panicked. A Run that is present is left alone until it changes.
const AFTER_PANIC: Duration = Duration::from_secs(5);
/// Time from a decision to the begin of its call, at most.
const MOMENT: Duration = Duration::from_secs(1);

pub(crate) struct Task {
    pub(crate) ctx: Arc<Context>,
    pub(crate) entry: Arc<RunEntry>,
    pub(crate) key: WorkspaceKey,
    pub(crate) workspace: Arc<WorkspaceState>,
    pub(crate) call: Call,
    pub(crate) effect: Effect,
}

impl Task {
    /// With this permit, or one that the limiter gives now. Else the Run waits, and is reconciled when that must be shown.
    pub(crate) fn begin(
        self,
        permit: Option<CallPermit>,
    ) -> Result<BoxFuture<'static, ()>, Action> {
        let Some(session) = self.workspace.session.clone() else {
            return Err(Action::await_change());
        };
        let Self { ctx, entry, .. } = &self;
        let limiter = &session.limiter;
        let granted = permit.filter(|permit| permit.is_of(limiter));
        let waits = entry.with(|state| {
            let place = state.place.as_ref().filter(|place| place.is_in(limiter));
            place.map(|place| place.since)
        });
        let permit = match (granted, waits) {
            (Some(permit), _) => permit,
            // It keeps its place. The decision may have been just before a wait becomes long.
            (None, Some(since)) => {
                let shown_in = (LONG_WAIT + MOMENT).checked_sub(since.elapsed());
                return Err(shown_in.map_or(Action::await_change(), Action::requeue));
            }
            (None, None) => match limiter.ask_or_wake(&entry.namespace, wake(ctx, entry)) {
                Ok(permit) => permit,
                Err(place) => {
                    let before = entry.with(|state| state.place.replace(place));
                    drop(before);
                    // The pause may have begun since the decision.
                    let paused = limiter.long_pause().is_some();
                    return Err(Action::requeue(if paused {
                        Duration::ZERO
                    } else {
                        LONG_WAIT
                    }));
                }
            },
        };
        entry.stop_waiting();
        let with = entry.report_context(&ctx.config.contract, session.number);
        entry.with(|state| state.run.sent(self.call, with));
        Ok(self.run(session, permit).boxed())
    }

    async fn run(self, session: Arc<ClientSession>, permit: CallPermit) {
        let made = AssertUnwindSafe(self.make(&session, permit)).catch_unwind();
        let panicked = made.await.is_err();
        let Self { ctx, entry, .. } = self;
        let mut at = Instant::now();
        if panicked {
            at += AFTER_PANIC;
            ctx.metrics.panicked("run");
            entry.with(|state| {
                let latest = state.run.latest();
                state.panicked_at_version = latest.and_then(|run| run.resource_version());
                state.run.given_up();
            });
            tracing::error!(
                k8s.namespace.name = %entry.namespace, run.name = %entry.name, run.uid = %entry.uid,
                "a call panicked; the Run is not reconciled until it changes"
            );
        }
        let runs = &ctx.triggers.runs;
        runs.enqueue_at(&entry.namespace, &entry.uid, at);
    }

    /// Records the outcome in memory and with the limiter. Has the Workspace checked if the answer requires it.
    async fn make(&self, session: &ClientSession, mut permit: CallPermit) {
        let Self { ctx, entry, .. } = self;
        permit.begin();
        let answer = self.send(session).await;
        let contract = &ctx.config.contract;
        let failed = answer.clone().err();
        let failed = failed.map(|failure| FailedCall::new(self.call, failure, contract));
        let with = entry.report_context(contract, session.number);
        entry.with(|state| state.run.answered(self.call, answer, with));
        // Afterwards: policy uses the memory to decide on the capacity freed here.
        permit.ended(Capacity::after(failed.as_ref()));
        if let Some(failed) = failed {
            self.log_failure(&failed.failure);
            ctx.suspect(&self.key, session.number, &failed);
        }
    }

    async fn send(&self, session: &ClientSession) -> Result<RunView, Failure> {
        let (client, credentials) = (&session.client, &session.credentials);
        match &self.effect {
            Effect::Submit { key, body } => {
                let key = IdempotencyKey::parse(key).map_err(|error| not_sent(&error))?;
                let body = Bytes::copy_from_slice(body);
                client.create_run(credentials, &key, body).await
            }
            Effect::Refresh { run_id } => client.get_run(credentials, &parsed(run_id)?).await,
            Effect::Cancel { run_id } => client.cancel_run(credentials, &parsed(run_id)?).await,
            Effect::WriteIntent { .. } | Effect::Release { .. } | Effect::Delete => {
                Err(Failure::new(FailureKind::NotSent, "no call".to_owned()))
            }
        }
    }

    fn log_failure(&self, failure: &Failure) {
        tracing::warn!(
            k8s.namespace.name = %self.entry.namespace,
            run.name = %self.entry.name,
            run.uid = %self.entry.uid,
            call = self.effect.name(),
            http.status = failure.http_status,
            code = failure.code.as_deref(),
            request.id = failure.request_id.as_deref(),
            error = %failure.message,
            "a call to the service failed"
        );
    }
}

fn wake(ctx: &Context, entry: &RunEntry) -> Wake {
    let trigger = ctx.triggers.runs.clone();
    let (namespace, uid) = (entry.namespace.clone(), entry.uid.clone());
    Box::new(move || trigger.wake(&namespace, &uid))
}

fn parsed(run_id: &str) -> Result<RunId, Failure> {
    RunId::parse(run_id).map_err(|error| not_sent(&error))
}

fn not_sent(error: &dyn std::error::Error) -> Failure {
    Failure::new(FailureKind::NotSent, error.to_string())
}
