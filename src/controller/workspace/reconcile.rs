//! The reconcile of a Workspace of either kind. One check serves all its Runs.

use std::sync::Arc;
use std::time::Duration;

use kube::Api;

use crate::api::{self, ConditionType, Reason, Run, WorkspaceStatus, conditions::find};
use crate::clock::{now, until, wall};
use crate::controller::{
    apiserver::{
        self, BadObject, Maybe, Scope,
        patch::{self, WriteError},
        reconciler::{Action, ReconcileError, Reconciled},
    },
    context::Context,
    enqueue, leader,
    refused::Refused,
    state::{
        run_store::{Known, Whose},
        secrets::SecretName,
        workspaces::{Checks, LastCheck, WorkspaceEntry, WorkspaceState},
    },
    undecodable,
};
use crate::decide::{
    self, WorkspaceView,
    conditions::Why,
    delays::{self, AFTER_REFUSAL, later},
    workspace::{self, LISTED_RUNS, Obstacle, assess},
};
use crate::service::BaseUrl;

use super::kind::{Kind, Subject, key_of};

/// Shortest pause after a write that met a conflict or got no answer. It grows: each attempt costs the service two calls.
const AFTER_CONFLICT: Duration = Duration::from_secs(1);
/// Pause before a Secret is read again after the API server didn't answer, while the Workspace is Ready.
const AFTER_SILENCE: Duration = Duration::from_secs(5);
/// Longest pause before the next attempt to release a Workspace that is being deleted.
const BEING_DELETED: Duration = Duration::from_secs(30);

/// Time limit of one page of a list; a list of everything may have thousands of pages.
const A_PAGE: Duration = Duration::from_mins(1);
/// Names of Runs to find: one more than a message names, so that it can show that there are others.
const NAMED: usize = LISTED_RUNS + 1;

pub async fn reconcile<K: Kind>(object: Arc<Maybe<K>>, ctx: Arc<Context>) -> Reconciled {
    // A process that doesn't lead changes nothing.
    if !ctx.leading.holds() {
        return Ok(Action::requeue(leader::AGAIN));
    }
    let entry = ctx.workspaces.entry(&key_of::<K>(object.as_ref()));
    // An object that can't be decoded is not reconciled until it changes; its status and its Runs show that.
    let workspace = match object.as_ref() {
        Maybe::Good(workspace) => workspace,
        Maybe::Bad(bad) => return show_undecodable::<K>(&ctx, bad, &entry).await,
    };
    let subject = Subject {
        ctx: &ctx,
        workspace: workspace.as_ref(),
        entry: &entry,
    };
    subject.reconcile().await
}

async fn show_undecodable<K: Kind>(
    ctx: &Context,
    bad: &BadObject,
    entry: &WorkspaceEntry,
) -> Reconciled {
    let view = WorkspaceView::NotReady {
        reason: Reason::WorkspaceInvalid,
        message:
            "its fields can't be read; correct them, or apply the CRDs of this operator's version."
                .to_owned(),
        since: entry.checks(|checks| checks.no_calls_since(now())),
    };
    enqueue::set_state(ctx, entry, WorkspaceState::closed(view));
    let api = K::api(ctx.client.clone(), &entry.key.namespace);
    undecodable::show(ctx, &api, bad, decide::conditions::undecodable_workspace).await
}

impl<K: Kind> Subject<'_, K> {
    async fn reconcile(&self) -> Reconciled {
        self.watch_secrets();
        if !self.deleting() {
            self.entry.submissions.reopen();
        }
        let (uid, generation, held) = (self.uid(), self.generation(), self.held());
        let due_later = |checks: &mut Checks| checks.due_later(&uid, generation, held, now());
        if let Some(at) = self.entry.checks(due_later) {
            return self.release(until(at), None).await;
        }
        let (written, unheld) = match self.add_finalizer().await {
            Ok(written) => (written, None),
            Err(error @ (WriteError::Conflict | WriteError::Gone)) => {
                let again = Action::requeue(self.write_retry());
                return Err(ReconcileError::Write(error).again(again));
            }
            Err(error) => (None, Some(error)),
        };
        let workspace = written.as_deref().unwrap_or(self.workspace);
        Subject { workspace, ..*self }
            .check_and_release(unheld)
            .await
    }

    /// Without the finalizer the Workspace could be deleted while its Runs need it: it takes no new ones.
    async fn check_and_release(&self, unheld: Option<WriteError>) -> Reconciled {
        let why = unheld.as_ref().map(|error| {
            let sentence = self.tell_refused("metadata", error, None);
            workspace::unheld(sentence.as_deref())
        });
        let (pause, error) = self.check_and_apply(why).await;
        let error = error.or(unheld.map(ReconcileError::Write));
        self.release(pause, error).await
    }

    /// Releases a Workspace that is being deleted, if it can be.
    async fn release(&self, pause: Duration, error: Option<ReconcileError>) -> Reconciled {
        let ended = |again: Action| error.map_or(Ok(again), |error| Err(error.again(again)));
        if !self.ctx.has_workspace(&self.entry.key) {
            // It was deleted during the check, whose result was just stored.
            enqueue::missing_workspaces(self.ctx);
            return ended(Action::await_change());
        }
        if !self.deleting() || !api::finalizer::present(self.workspace.meta()) {
            return ended(Action::requeue(pause));
        }
        match self.release_if_unused().await {
            Ok(true) => ended(Action::await_change()),
            Ok(false) => ended(Action::requeue(pause.min(BEING_DELETED))),
            Err(error @ ReconcileError::Write(WriteError::Conflict)) => {
                Err(error.again(Action::requeue(self.write_retry())))
            }
            // Each attempt lists the Runs.
            Err(ReconcileError::Write(error)) => {
                self.tell_refused("metadata", &error, None);
                Err(ReconcileError::Write(error).again(Action::requeue(BEING_DELETED)))
            }
            Err(error) => Err(error.again(Action::requeue(BEING_DELETED))),
        }
    }

    fn watch_secrets(&self) {
        let (ctx, key, spec) = (self.ctx, &self.entry.key, self.workspace.common());
        let ca = spec.ca_secret().map(|(name, _)| name);
        let names = ca.into_iter().chain([spec.token_secret().0]);
        let secrets = names.map(|name| SecretName {
            namespace: K::secret_namespace(ctx, key),
            name: name.to_owned(),
        });
        ctx.secrets.name(key, secrets.collect());
    }

    /// It has its finalizer, or needs none.
    fn held(&self) -> bool {
        self.deleting() || api::finalizer::present(self.workspace.meta())
    }

    async fn add_finalizer(&self) -> Result<Option<Arc<K>>, WriteError> {
        if self.held() {
            return Ok(None);
        }
        let _one = self.ctx.workspaces.api_requests.acquire().await.ok();
        let written = patch::write_finalizer(&self.api(), self.workspace, true).await;
        written.map(Some)
    }

    /// Tells that a write is refused, if it is. Returns the API server's sentence.
    fn tell_refused(
        &self,
        writes: &'static str,
        error: &WriteError,
        status: Option<&WorkspaceStatus>,
    ) -> Option<String> {
        let session = self.entry.state().session.clone();
        let refused = Refused {
            writes,
            error,
            times: self
                .entry
                .checks(|checks| checks.failed_writes.saturating_add(1)),
            condition: status.and_then(|s| find(&s.conditions, ConditionType::Ready)),
            client: session.as_ref().map(|session| &session.client),
        };
        refused.tell(self.ctx, self.workspace)
    }

    fn write_retry(&self) -> Duration {
        let times = self.entry.checks(|checks| {
            checks.failed_writes = checks.failed_writes.saturating_add(1);
            checks.failed_writes
        });
        let seed = delays::seed(&self.uid(), times);
        delays::backoff(times, None, seed).clamp(AFTER_CONFLICT, AFTER_REFUSAL)
    }

    /// Checks the Workspace and applies the result. `unheld`: why it has no finalizer. Returns the pause before the next
    /// check.
    async fn check_and_apply(&self, unheld: Option<Why>) -> (Duration, Option<ReconcileError>) {
        let (ctx, entry, generation) = (self.ctx, self.entry, self.generation());
        entry.checks(Checks::begin);
        // A check may wait for others. Boxed: the future that can be cancelled holds it twice.
        let check = Box::pin(self.check());
        let checked = ctx.shutdown.run_until_cancelled(check).await;
        let Some((mut check, prepared)) = checked else {
            return (AFTER_SILENCE, None);
        };
        if check.obstacle.as_ref().is_some_and(Obstacle::no_file) {
            // A lack of files in this process; the Workspace keeps its state.
            ctx.metrics.no_file.inc();
            entry.checks(|checks| checks.due_at_once = true);
            return (AFTER_SILENCE, Some(ReconcileError::NoFile));
        }
        let standing = self.standing();
        let state = entry.state();
        // After a start or a 401 no call can be made although the stored status is good: the status shows that.
        let shown = state.session.is_some() || matches!(state.view, WorkspaceView::NotReady { .. });
        if check.inconclusive() && shown {
            // The API server didn't answer; the Workspace's state is unchanged.
            entry.checks(|checks| checks.due_at_once = true);
            return (AFTER_SILENCE, Some(ReconcileError::NoAnswer));
        }
        check.waits_for = self.deleting().then(|| self.needed_by());
        let held = unheld.is_none();
        check.unheld = unheld;
        let attempts = entry.checks(|checks| checks.failures).saturating_add(1);
        let (stored, contract) = (self.workspace.stored(), &ctx.config.contract);
        let assessment = assess(stored, &check, generation, attempts, contract, wall());
        let waits = matches!(&check.waits_for, Some(runs) if !runs.is_empty());
        let failure_ignored = workspace::ignores_failure(&check, standing);
        let (pause, error) = if failure_ignored {
            (self.ignore_first_failure(&check, &assessment), None)
        } else {
            // The session first, then the status: a reader of the status can rely on it.
            let pause = self.apply(check, prepared, &assessment, attempts);
            match self.write_status(&assessment.status, waits).await {
                Ok(()) => (pause, None),
                Err(error) => {
                    self.tell_refused("status", &error, Some(&assessment.status));
                    (pause, Some(ReconcileError::Write(error)))
                }
            }
        };
        let pause = if held && error.is_none() {
            entry.checks(|checks| checks.failed_writes = 0);
            pause
        } else {
            pause.min(self.write_retry())
        };
        let at = now();
        let checked = LastCheck {
            uid: self.uid(),
            generation,
            held,
            ready: assessment.ready,
            failure_ignored,
            at,
            next: later(at, pause),
        };
        if entry.checks(|checks| checks.done(checked)) {
            // The namespaceSelector is the Runs' business.
            ctx.wakes.ask(Whose::Workspace(entry.key.clone()));
        }
        (pause, error)
    }
}

/// A Workspace outlives the Runs that need it: no Run can begin between the last look and the removal of its finalizer.
impl<K: Kind> Subject<'_, K> {
    /// Sorted, and for a `ClusterWorkspace` with their namespaces; also deleted Runs that still need it.
    pub(crate) fn needed_by(&self) -> Vec<String> {
        let base_url = self.pinned_base_url();
        let (runs, key) = (&self.ctx.runs, &self.entry.key);
        runs.still_needing(key, base_url.as_deref(), NAMED)
    }

    /// Looks in the stores, then in a live list, since a store may be behind. False: it is tried again when a Run has ended.
    pub(crate) async fn release_if_unused(&self) -> Result<bool, ReconcileError> {
        let no_submission = self.entry.close_submissions();
        if !no_submission || !self.needed_by().is_empty() {
            return Ok(false);
        }
        // The semaphore is never closed.
        let _one = self.ctx.workspaces.removals.acquire().await.ok();
        if self.needed_live().await? {
            return Ok(false);
        }
        match patch::write_finalizer(&self.api(), self.workspace, false).await {
            Ok(_) | Err(WriteError::Gone) => Ok(true),
            // After a conflict, most likely its status was written a moment ago.
            Err(error) => Err(error.into()),
        }
    }

    /// Allowed or not, in the form to which Runs are pinned. `None` if neither the Workspace nor the operator names one.
    fn pinned_base_url(&self) -> Option<String> {
        let url = self.base_url()?;
        Some(BaseUrl::normalised(url).unwrap_or_else(|| url.to_owned()))
    }

    async fn needed_live(&self) -> Result<bool, apiserver::ListError> {
        let (key, base_url) = (&self.entry.key, self.pinned_base_url());
        let scopes = if key.namespace.is_empty() {
            Scope::of(&self.ctx.config.namespaces)
        } else {
            vec![Scope::Namespace(key.namespace.clone())]
        };
        let mut needed = false;
        for scope in scopes {
            let api: Api<Run> = scope.api(self.ctx.client.clone());
            let list = apiserver::list(&api, None, A_PAGE, |run| {
                needed = Known::from(run).needs(key, base_url.as_deref());
                needed
            });
            list.await?;
            if needed {
                break;
            }
        }
        Ok(needed)
    }
}
