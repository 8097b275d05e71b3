//! The reconcile of a Workspace: `/version` without a token, then `/workspaces/current` with it, then
//! Ready. One prober for however many Runs.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use kube::{Api, Resource, ResourceExt, runtime::controller::Action};

use crate::api::{
    Reason, Workspace, WorkspaceStatus, run::WorkspaceKind, status::ResolvedWorkspace,
};
use crate::decide::{
    Session, WorkspaceView,
    answer::Failure,
    backoff,
    situation::Why,
    workspace::{Assessment, Check, Obstacle, assess},
};
use crate::service::{BaseUrl, Client, ClientConfig, ConfigError, Credentials, Token, WorkspaceId};

use super::{
    checks::{Checked, Verdict},
    context::{Context, Guarded, now},
    metrics::ReconcileResult,
    registry::{Key, Live, Slot},
    scope::Scope,
    secrets, wake,
    watch::chain,
    writes::{self, WriteError},
};

/// How often a Ready Workspace is checked: a change of the service's version or of the token's workspace
/// is noticed within this time without a call that fails.
const RECHECK: Duration = Duration::from_mins(5);
/// The longest pause of the one prober of a Workspace that is not Ready: also the pace at which a Secret
/// is read again where RBAC forbids the watch.
const PROBE_MAX: Duration = Duration::from_secs(30);
/// Pause before a status that could not be written is tried again, on a newer view of the object.
const AFTER_CONFLICT: Duration = Duration::from_secs(1);

/// Reconciles one Workspace. Never fails: what goes wrong decides when to look again.
pub async fn reconcile(
    object: Arc<Guarded<Workspace>>,
    ctx: Arc<Context>,
) -> Result<Action, Infallible> {
    let workspace = match &object.0 {
        Ok(workspace) => workspace,
        Err(invalid) => {
            ctx.metrics.undecodable.inc();
            let meta = object.meta();
            tracing::error!(
                k8s.namespace.name = meta.namespace.as_deref(), workspace.name = meta.name.as_deref(),
                error = %invalid.error, "failed to decode a Workspace; it is left alone until it changes"
            );
            return Ok(Action::await_change());
        }
    };
    let key = key_of(workspace);
    watch_secrets(&ctx, workspace);
    let generation = workspace.metadata.generation.unwrap_or_default();
    let uid = workspace.uid().unwrap_or_default();
    let suspected = ctx.registry.suspected(&key);
    let verdict = ctx.checks.due(&key, &uid, generation, suspected, now());
    if let Verdict::NotBefore(at) = verdict {
        let wait = Duration::try_from(at.duration_since(now())).unwrap_or_default();
        return Ok(Action::requeue(wait));
    }
    ctx.registry.clear_suspicion(&key);
    let (check, live) = check(&ctx, workspace, &key).await;
    let attempts = ctx.checks.failures(&key).saturating_add(1);
    let contract = &ctx.config.contract;
    let assessment = assess(
        workspace.status.as_ref(),
        &check,
        generation,
        attempts,
        contract,
        now(),
    );
    let result = write_status(&ctx, workspace, &assessment.status).await;
    let pause = settle(&ctx, workspace, &key, check, live, &assessment);
    let pause = match result {
        ReconcileResult::conflict | ReconcileResult::error => pause.min(AFTER_CONFLICT),
        ReconcileResult::success | ReconcileResult::requeue_after | ReconcileResult::panic => pause,
    };
    let checked = Checked {
        uid,
        generation,
        ready: assessment.ready,
        next: crate::decide::memory::later(now(), pause),
    };
    ctx.checks.done(&key, checked, now());
    ctx.metrics.reconciled("workspace", result);
    Ok(Action::requeue(pause))
}

fn key_of(workspace: &Workspace) -> Key {
    Key {
        kind: WorkspaceKind::Workspace,
        namespace: workspace.namespace().unwrap_or_default(),
        name: workspace.name_any(),
    }
}

/// Under a cluster-wide watch one filtered watch serves all namespaces.
fn watch_secrets(ctx: &Arc<Context>, workspace: &Workspace) {
    let namespace = workspace.namespace().unwrap_or_default();
    let scope = if ctx.config.namespaces.is_empty() {
        Scope::All
    } else {
        Scope::Namespace(namespace)
    };
    secrets::watch(ctx, &scope, workspace.spec.token_secret().0);
    if let Some((ca, _)) = workspace.spec.ca_secret() {
        secrets::watch(ctx, &scope, ca);
    }
}

/// Makes the check as far as it gets. The client is there if nothing stopped it.
async fn check(
    ctx: &Context,
    workspace: &Workspace,
    key: &Key,
) -> (Check, Option<(Client, Credentials)>) {
    let mut check = Check::default();
    let (client, credentials) = match prepare(ctx, workspace, &mut check).await {
        Ok(prepared) => prepared,
        Err(why) => {
            check.obstacle = Some(Obstacle::Config(why));
            return (check, None);
        }
    };
    match client.version().await {
        Ok(reply) => {
            check.version = Some(reply.version);
            check.request_id = reply.request_id;
        }
        Err(error) => {
            log_failure(key, "getVersion", &error);
            check.obstacle = Some(Obstacle::Version(Failure::from(&error)));
            return (check, None);
        }
    }
    match client.current_workspace(&credentials).await {
        Ok(reply) => {
            check.identity = Some(reply.identity);
            check.record = Some(reply.record);
            check.request_id = reply.request_id.or(check.request_id);
            (check, Some((client, credentials)))
        }
        Err(error) => {
            log_failure(key, "getCurrentWorkspace", &error);
            check.obstacle = Some(Obstacle::Identity(Failure::from(&error)));
            (check, None)
        }
    }
}

fn log_failure(key: &Key, call: &'static str, error: &crate::service::CallError) {
    tracing::warn!(
        k8s.namespace.name = %key.namespace, workspace.name = %key.name, call,
        http.status = error.http_status(), request.id = error.request_id(), error = %chain(error),
        "a Workspace's check failed"
    );
}

/// Everything before the first call: base URL, Secrets, token.
async fn prepare(
    ctx: &Context,
    workspace: &Workspace,
    check: &mut Check,
) -> Result<(Client, Credentials), Why> {
    let spec = &workspace.spec;
    let namespace = workspace.namespace().unwrap_or_default();
    let url = spec
        .base_url
        .as_deref()
        .or(ctx.config.base_url.as_deref())
        .ok_or_else(|| {
            Why::new(
                Reason::BaseUrlNotAllowed,
                "No base URL: set spec.baseUrl, or start the operator with --base-url.",
            )
        })?;
    let base_url = BaseUrl::parse(url, &ctx.config.allow_list).map_err(|error| {
        Why::new(
            Reason::BaseUrlNotAllowed,
            format!("The base URL can't be used: {}. Correct it, or have the operator started with --allowed-base-url.", chain(&error)),
        )
    })?;
    check.base_url = Some(base_url.as_str().to_owned());
    let (secret, secret_key) = spec.token_secret();
    let bytes = secrets::read(ctx, &namespace, secret, secret_key).await?;
    let token = Token::parse(&bytes, &ctx.config.contract).map_err(|error| {
        let reason = match error {
            crate::service::TokenError::ProviderKey { .. } => Reason::TokenIsProviderKey,
            _ => Reason::TokenMalformed,
        };
        Why::new(reason, format!("The token in the Secret {secret}, key {secret_key}, is not used: {error}. Correct the Secret; it is picked up by itself."))
    })?;
    let workspace_id = spec.workspace_id.as_deref().map(WorkspaceId::parse).transpose().map_err(|error| {
        Why::new(Reason::WorkspaceMismatch, format!("spec.workspaceId can't be sent: {error}. Create the Workspace anew with a correct one."))
    })?;
    let ca_pem = match spec.ca_secret() {
        Some((name, key)) => Some(secrets::read(ctx, &namespace, name, key).await?),
        None => None,
    };
    let credentials = Credentials {
        token,
        workspace_id,
    };
    let client = client(ctx, workspace, base_url, ca_pem)?;
    Ok((client, credentials))
}

/// The Workspace's client. It is kept as long as base URL and CA are the same, so that connections are.
fn client(
    ctx: &Context,
    workspace: &Workspace,
    base_url: BaseUrl,
    ca_pem: Option<Vec<u8>>,
) -> Result<Client, Why> {
    let key = key_of(workspace);
    if let Some(client) = ctx
        .checks
        .client(&key, base_url.as_str(), ca_pem.as_deref())
    {
        return Ok(client);
    }
    let url = base_url.as_str().to_owned();
    let config = ClientConfig {
        base_url,
        ca_pem: ca_pem.clone(),
        contract: Arc::clone(&ctx.config.contract),
        user_agent: concat!("run-operator/", env!("CARGO_PKG_VERSION")).to_owned(),
        observer: Arc::clone(&ctx.metrics) as Arc<dyn crate::service::Observer>,
    };
    let client = Client::new(config).map_err(|error| {
        let todo = match error {
            ConfigError::ReadCa(_) | ConfigError::EmptyCa => {
                "Correct the Secret that spec.caSecretRef names."
            }
            ConfigError::BuildClient(_) => "Name a CA bundle in spec.caSecretRef.",
            ConfigError::UserAgent(_) | ConfigError::NoTlsProvider => {
                "This is a bug of the operator; please report it."
            }
        };
        Why::new(
            Reason::CaInvalid,
            format!("No client can be made: {}. {todo}", chain(&error)),
        )
    })?;
    ctx.checks.keep_client(&key, url, ca_pem, client.clone());
    Ok(client)
}

/// Tells the Runs what they may do. Returns when to check again.
fn settle(
    ctx: &Context,
    workspace: &Workspace,
    key: &Key,
    check: Check,
    live: Option<(Client, Credentials)>,
    assessment: &Assessment,
) -> Duration {
    let asked = check.obstacle.as_ref().and_then(Obstacle::retry_after);
    let slot = match (&assessment.usable, live) {
        (Ok(()), Some((client, credentials))) => {
            ready_slot(ctx, workspace, key, check, client, credentials, assessment)
        }
        (Err(why), _) => Slot {
            view: WorkspaceView::NotReady {
                reason: why.reason,
                message: assessment.message(),
            },
            live: None,
        },
        (Ok(()), None) => Slot {
            view: WorkspaceView::Unknown,
            live: None,
        },
    };
    if ctx.registry.set(key, slot) {
        wake::runs_of(ctx, key);
    }
    if assessment.ready {
        return RECHECK;
    }
    let attempt = ctx.checks.failures(key).saturating_add(1);
    let seed = backoff::seed(&workspace.uid().unwrap_or_default(), attempt);
    let own = backoff::delay(attempt, None, seed).min(PROBE_MAX);
    own.max(backoff::asked(asked))
}

/// The same token at the same place goes on with its session, unless a call with it was rejected.
fn ready_slot(
    ctx: &Context,
    workspace: &Workspace,
    key: &Key,
    check: Check,
    client: Client,
    credentials: Credentials,
    assessment: &Assessment,
) -> Slot {
    let resolved = ResolvedWorkspace {
        kind: key.kind,
        name: key.name.clone(),
        uid: workspace.uid().unwrap_or_default(),
        base_url: check.base_url.unwrap_or_default(),
        identity: check.identity.flatten(),
    };
    let suspended = workspace.spec.suspend.unwrap_or_default();
    let holds = if workspace.metadata.deletion_timestamp.is_some() {
        Some((
            Reason::WorkspaceDeleting,
            "The Workspace is being deleted and takes no new Runs.".to_owned(),
        ))
    } else if suspended {
        Some((
            Reason::WorkspaceSuspended,
            "The Workspace's spec.suspend holds new submissions.".to_owned(),
        ))
    } else {
        assessment.holds.clone()
    };
    let current = ctx.registry.slot(key).live;
    let same = current.filter(|live| {
        live.credentials.token == credentials.token
            && live.client.base_url().as_str() == resolved.base_url
    });
    let number = same
        .as_ref()
        .map_or_else(|| ctx.registry.next_session(), |live| live.number);
    let live = Arc::new(Live {
        client,
        credentials,
        number,
    });
    Slot {
        view: WorkspaceView::Ready(Session {
            number,
            resolved,
            holds,
        }),
        live: Some(live),
    }
}

async fn write_status(
    ctx: &Context,
    workspace: &Workspace,
    status: &WorkspaceStatus,
) -> ReconcileResult {
    if workspace.status.as_ref() == Some(status) {
        return ReconcileResult::requeue_after;
    }
    let namespace = workspace.namespace().unwrap_or_default();
    let api: Api<Workspace> = Api::namespaced(ctx.client.clone(), &namespace);
    match writes::write_status(&api, workspace, status).await {
        Ok(_) => ReconcileResult::requeue_after,
        Err(WriteError::Conflict | WriteError::Gone) => ReconcileResult::conflict,
        Err(error) => {
            tracing::warn!(k8s.namespace.name = %namespace, workspace.name = %workspace.name_any(), error = %chain(&error), "failed to write a Workspace's status");
            ReconcileResult::error
        }
    }
}
