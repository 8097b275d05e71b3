//! Check of a Workspace: base URL, Secrets and token, then `/version` without a token, then `/workspaces/current` with
//! it. It stops at the first failure. Its result is the Workspace's status, and the session that its Runs use.

use std::sync::Arc;
use std::time::Duration;

use crate::api::{ConditionType, Reason, WorkspaceStatus, conditions, status::ResolvedWorkspace};
use crate::clock::{now, wall};
use crate::controller::{
    apiserver::patch::{self, WriteError},
    enqueue,
    state::{
        secrets::SecretName,
        workspaces::{Checks, ClientSession, LastGood, WorkspaceState},
    },
};
use crate::decide::{
    EventDraft, Session, WorkspaceView,
    conditions::Why,
    delays, events,
    failure::{Call, FailedCall, Failure},
    workspace::{self, Assessment, Check, Obstacle, Standing, Verified, outlives},
};
use crate::service::{
    BaseUrl, BaseUrlError, Client, ClientConfig, ConfigError, Credentials, Observer, Operation,
    Token, TokenError, WorkspaceId,
};
use crate::util::error_chain;

use super::{
    kind::{Kind, Subject},
    secrets,
};

pub(crate) struct Prepared {
    pub client: Client,
    /// The token, and the workspace that it is meant for.
    pub credentials: Credentials,
    pub good: LastGood,
}

impl<K: Kind> Subject<'_, K> {
    pub(crate) async fn check(&self) -> (Check, Option<Prepared>) {
        let mut check = Check {
            suspended: self.workspace.common().suspend.unwrap_or_default(),
            ..Check::default()
        };
        match self.prepare_and_call(&mut check).await {
            Ok(prepared) => (check, Some(prepared)),
            Err(obstacle) => {
                check.obstacle = Some(obstacle);
                (check, None)
            }
        }
    }

    async fn prepare_and_call(&self, check: &mut Check) -> Result<Prepared, Obstacle> {
        let prepared = self.prepare(check).await.map_err(Obstacle::Config)?;
        let places = &self.ctx.workspaces.check_places;
        let (client, credentials) = (&prepared.client, &prepared.credentials);
        let origin = client.base_url().origin();
        let version = places.call(origin, client.version()).await;
        let version = version.map_err(|failure| self.failed(Call::Version, failure))?;
        check.version = Some(version.version);
        check.request_id = version.request_id;
        let current = client.current_workspace(credentials);
        let current = places.call(origin, current).await;
        let current = current.map_err(|failure| self.failed(Call::Workspace, failure))?;
        check.identity = Some(current.identity);
        check.record = Some(current.record);
        check.request_id = current.request_id.or(check.request_id.take());
        Ok(prepared)
    }

    fn failed(&self, call: Call, failure: Failure) -> Obstacle {
        let key = &self.entry.key;
        let operation = match call {
            Call::Version => Operation::Version,
            _ => Operation::CurrentWorkspace,
        };
        tracing::warn!(
            k8s.namespace.name = %key.namespace, workspace.name = %key.name, call = operation.as_str(),
            http.status = failure.http_status, request.id = failure.request_id, error = failure.message,
            "a Workspace's check failed"
        );
        Obstacle::Call(FailedCall::new(call, failure, &self.ctx.config.contract))
    }

    async fn prepare(&self, check: &mut Check) -> Result<Prepared, Why> {
        let (ctx, key, spec) = (self.ctx, &self.entry.key, self.workspace.common());
        let base_url = self.allowed_base_url()?;
        check.base_url = Some(base_url.as_str().to_owned());
        let verified = Verified {
            uid: self.uid(),
            base_url: base_url.as_str().to_owned(),
        };
        let last_good = self.entry.checks(|checks| checks.last_good(&verified));
        let named = |name: &str| SecretName {
            namespace: K::secret_namespace(ctx, key),
            name: name.to_owned(),
        };
        let (secret, entry) = spec.token_secret();
        check.secret = Some(format!(
            "Secret {secret} in namespace {}, key {entry}",
            named(secret).namespace
        ));
        let token = match secrets::read(ctx, key, &named(secret), entry).await {
            Ok(bytes) => self.parse_token(&bytes, secret, entry)?,
            Err(why) => {
                let last = last_good.as_ref().map(|good| good.token.clone());
                last_if_deleted(why, last, check)?
            }
        };
        let workspace_id = spec.workspace_id.as_deref().map(WorkspaceId::parse).transpose().map_err(|error| {
            Why::new(Reason::WorkspaceMismatch, format!("spec.workspaceID can't be sent: {error}. Re-create the Workspace with a correct one."))
        })?;
        let ca_pem = match spec.ca_secret() {
            Some((name, entry)) => {
                let pem = secrets::read(ctx, key, &named(name), entry).await;
                let last = last_good.and_then(|good| good.ca_pem);
                Some(pem.or_else(|why| last_if_deleted(why, last, check))?)
            }
            None => None,
        };
        let client = self.client(base_url, ca_pem.clone())?;
        client.hide(&token);
        Ok(Prepared {
            client,
            good: LastGood {
                verified,
                token: token.clone(),
                ca_pem,
            },
            credentials: Credentials {
                token,
                workspace_id,
            },
        })
    }

    fn allowed_base_url(&self) -> Result<BaseUrl, Why> {
        let not_allowed = |message| Why::new(Reason::BaseURLNotAllowed, message);
        let url = self.base_url().ok_or_else(|| {
            not_allowed("No base URL. Re-create the Workspace with spec.baseURL, or start the operator with --base-url.".to_owned())
        })?;
        BaseUrl::parse(url, &self.ctx.config.allow_list).map_err(|error| {
            let (what, todo) = (error_chain(&error), another_url(&error));
            not_allowed(format!("The base URL can't be used: {what}. {todo}"))
        })
    }

    fn parse_token(&self, bytes: &[u8], secret: &str, entry: &str) -> Result<Token, Why> {
        Token::parse(bytes, &self.ctx.config.contract).map_err(|error| {
            let reason = match error {
                TokenError::ProviderKey { .. } => Reason::TokenIsProviderKey,
                _ => Reason::TokenMalformed,
            };
            Why::new(reason, format!("The token in the Secret {secret}, key {entry}, is not used: {error}. Correct the Secret; it is picked up automatically."))
        })
    }

    /// The Workspace's client. It is kept, with its connections, while base URL and CA are the same.
    fn client(&self, base_url: BaseUrl, ca_pem: Option<Vec<u8>>) -> Result<Client, Why> {
        let (ctx, ca) = (self.ctx, ca_pem.clone());
        let make = |base_url| {
            let config = ClientConfig {
                base_url,
                ca_pem,
                h2c: ctx.config.h2c,
                proxy: ctx.config.service_proxy.clone(),
                contract: Arc::clone(&ctx.config.contract),
                user_agent: concat!("run-operator/", env!("CARGO_PKG_VERSION")).to_owned(),
                observer: Arc::clone(&ctx.metrics) as Arc<dyn Observer>,
            };
            Client::shared(config, &ctx.workspaces.http)
        };
        let client = |checks: &mut Checks| checks.client(base_url, ca.as_deref(), make);
        self.entry.checks(client).map_err(|error| {
            let todo = match error {
                ConfigError::ReadCa(_) | ConfigError::EmptyCa | ConfigError::BuildClient(_) => {
                    "Correct the Secret that spec.caSecretRef names."
                }
                ConfigError::NoSystemRoots => "Name a CA bundle in spec.caSecretRef.",
                ConfigError::NoTlsProvider => "This is a bug of the operator; please report it.",
            };
            let what = error_chain(&error);
            Why::new(
                Reason::CAInvalid,
                format!("No client can be made: {what}. {todo}"),
            )
        })
    }
}

/// Remedy for a wrong base URL, which can't be edited.
fn another_url(error: &BaseUrlError) -> &'static str {
    match error {
        BaseUrlError::NotAllowed { .. } => {
            "Re-create the Workspace with one that is, or start the operator with this one as --allowed-base-url."
        }
        BaseUrlError::InsecureHttp { .. } => {
            "Re-create the Workspace with it, or start the operator with --allow-insecure-http."
        }
        _ => "Re-create the Workspace with a correct one.",
    }
}

/// The last value of a Secret that can't be read, if policy allows it. The check records that.
fn last_if_deleted<T>(why: Why, last: Option<T>, check: &mut Check) -> Result<T, Why> {
    match last {
        Some(last) if outlives(&why) => {
            check.secret_deleted.get_or_insert(why);
            Ok(last)
        }
        _ => Err(why),
    }
}

impl<K: Kind> Subject<'_, K> {
    /// `attempt` is the number of failed checks in a row, if this one failed. Returns the pause before the next check.
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
        delays::next_check(assessment.ready, &self.uid(), attempt, asked)
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
            failure_ignored: self.entry.checks(|checks| checks.failure_ignored()),
        }
    }

    /// Session and streams continue and no status is written; new blocks on submissions apply. Returns the pause.
    pub(crate) fn ignore_first_failure(&self, check: &Check, assessment: &Assessment) -> Duration {
        self.entry.checks(|checks| checks.no_calls_since(now()));
        let mut state = Arc::unwrap_or_clone(self.entry.state());
        if let WorkspaceView::Ready(session) = &mut state.view {
            session.submissions_blocked = workspace::still_blocked(
                session.submissions_blocked.take(),
                assessment.submissions_blocked.clone(),
            );
            enqueue::set_state(self.ctx, self.entry, state);
        }
        let asked = check.obstacle.as_ref().and_then(Obstacle::retry_after);
        delays::check_again(&self.uid(), asked)
    }

    /// Open streams stay open as long as the failure may pass; the Runs repeat an outage in the words that it began with.
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
        let credentials = prepared.credentials;
        entry.checks(|checks| checks.verified(prepared.good));
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
            client: prepared.client,
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

    /// Only a changed status is written. `waits`: the Workspace is being deleted and waits for Runs.
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
