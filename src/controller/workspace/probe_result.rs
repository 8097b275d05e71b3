//! Result of a Workspace's check: its status, and the session that its Runs use.

use std::sync::Arc;
use std::time::Duration;

use crate::api::{ConditionType, Reason, WorkspaceStatus, conditions, status::ResolvedWorkspace};
use crate::clock::{now, wall};
use crate::controller::{
    apiserver::patch::{self, WriteError},
    enqueue,
    state::workspaces::{ClientSession, WorkspaceState},
};
use crate::decide::{
    EventDraft, Session, WorkspaceView,
    conditions::Why,
    events,
    workspace::{
        check::{Check, Obstacle},
        probe::Assessment,
        recheck::{self, Standing},
    },
};

use super::{
    kind::{Kind, Subject},
    probe::Prepared,
};

impl<K: Kind> Subject<'_, K> {
    /// Sets the Workspace's state and enqueues its Runs. `attempt` is the number of failed checks in a row, if this one
    /// failed. Returns the pause before the next check.
    pub(crate) fn apply(
        &self,
        check: Check,
        prepared: Option<Prepared>,
        assessment: &Assessment,
        attempt: u32,
    ) -> Duration {
        let asked = check.obstacle.as_ref().and_then(Obstacle::retry_after);
        let state = match (&assessment.usable, prepared) {
            (Ok(()), Some(prepared)) => self.ready_state(check, prepared, assessment),
            (Err(why), _) => self.not_ready_state(&check, why, assessment),
            (Ok(()), None) => WorkspaceState::closed(WorkspaceView::Unknown),
        };
        enqueue::set_state(self.ctx, self.entry, state);
        recheck::pause(assessment.ready, &self.uid(), attempt, asked)
    }

    /// The standing before a check. An earlier process's verification counts until this one has checked.
    pub(crate) fn standing(&self) -> Standing {
        let (state, stored) = (self.entry.state(), self.workspace.stored());
        let verified = match (&state.view, &state.place) {
            (WorkspaceView::NotReady { .. }, _) => false,
            (_, Some(place)) => place.uid == self.uid(),
            (_, None) => stored.is_some_and(|status| {
                conditions::is_true(&status.conditions, ConditionType::Ready)
            }),
        };
        Standing {
            verified,
            passed_over: self.entry.checks(|checks| checks.passed_over()),
        }
    }

    /// Passes over a failed check: session and streams continue, and no status is written. New blocks on submissions
    /// apply from now on. Returns the pause before the next check.
    pub(crate) fn ignore_first_failure(&self, check: &Check, assessment: &Assessment) -> Duration {
        self.entry.checks(|checks| checks.no_calls_since(now()));
        let mut state = Arc::unwrap_or_clone(self.entry.state());
        if let WorkspaceView::Ready(session) = &mut state.view {
            session.submissions_blocked = recheck::still_blocked(
                session.submissions_blocked.take(),
                assessment.submissions_blocked.clone(),
            );
            enqueue::set_state(self.ctx, self.entry, state);
        }
        let asked = check.obstacle.as_ref().and_then(Obstacle::retry_after);
        recheck::soon(&self.uid(), asked)
    }

    /// Open streams stay open as long as the failure may pass; the Runs repeat an outage in the words that
    /// it began with.
    fn not_ready_state(&self, check: &Check, why: &Why, assessment: &Assessment) -> WorkspaceState {
        let current = Arc::unwrap_or_clone(self.entry.state());
        let since = self.entry.checks(|checks| checks.no_calls_since(now()));
        let uid = self.uid();
        let may_pass = check.obstacle.as_ref().is_some_and(Obstacle::may_pass);
        let place = current.place.filter(|place| may_pass && place.uid == uid);
        let outage = |view: &WorkspaceView| matches!(view, WorkspaceView::NotReady { reason, .. } if *reason == Reason::ServiceUnavailable);
        let view = if why.reason == Reason::ServiceUnavailable && outage(&current.view) {
            current.view
        } else {
            WorkspaceView::NotReady {
                reason: why.reason,
                message: assessment.message(),
                since,
            }
        };
        WorkspaceState::paused(view, place)
    }

    /// The same token at the same place continues with its session, unless a call with it was rejected. A token
    /// that suddenly acts for another workspace of the service begins another session.
    fn ready_state(
        &self,
        check: Check,
        prepared: Prepared,
        assessment: &Assessment,
    ) -> WorkspaceState {
        let (ctx, entry) = (self.ctx, self.entry);
        let Prepared {
            client,
            credentials,
            good,
        } = prepared;
        entry.checks(|checks| checks.verified(good));
        let resolved = ResolvedWorkspace {
            kind: entry.key.kind,
            name: entry.key.name.clone(),
            uid: self.uid(),
            base_url: check.base_url.unwrap_or_default(),
            identity: check.identity.flatten(),
        };
        let current = Arc::unwrap_or_clone(entry.state());
        let limiter = entry.limiter(&ctx.metrics);
        limiter.set_rate(self.workspace.common().rate_limit);
        if matches!(current.view, WorkspaceView::NotReady { .. }) {
            limiter.one_first();
        }
        let same_token = |session: &ClientSession| session.credentials.token == credentials.token;
        if current.session.as_ref().is_some_and(|old| !same_token(old)) {
            ctx.metrics.token_changes.inc();
        }
        let same = current.session.filter(|session| same_token(session));
        let same = same.filter(|_| current.view.serves(&resolved));
        let number = same.map_or_else(|| ctx.workspaces.next_session(), |session| session.number);
        let session = Arc::new(ClientSession {
            client,
            credentials,
            number,
            limiter,
        });
        let verified = Session {
            number,
            resolved,
            submissions_blocked: assessment.submissions_blocked.clone(),
        };
        WorkspaceState::ready(verified, session)
    }

    /// Writes the status if it differs from the stored one, and publishes Events for the changes. `waits`: the Workspace
    /// is being deleted and waits for Runs.
    pub(crate) async fn write_status(
        &self,
        status: &WorkspaceStatus,
        waits: bool,
    ) -> Result<(), WriteError> {
        if self.workspace.stored() != Some(status) {
            let _one = self.ctx.workspaces.api_requests.acquire().await.ok();
            patch::write_status(&self.api(), self.workspace, status).await?;
        }
        let event = events::of_workspace(self.workspace.stored(), status, waits, wall());
        let new = |draft: &EventDraft| self.ctx.recorder.publish(self.workspace, draft);
        if let Some(draft) = event.filter(new) {
            let key = &self.entry.key;
            tracing::info!(
                k8s.namespace.name = %key.namespace, workspace.name = %key.name,
                event.reason = draft.reason.as_str(), note = draft.message, "publishing Event"
            );
        }
        Ok(())
    }
}
