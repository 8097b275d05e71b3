//! The check of a Workspace, as far as it gets: base URL, Secrets and token, then `/version` without a
//! token, then `/workspaces/current` with it.

use std::sync::Arc;

use crate::api::{Reason, WorkspaceSpec};
use crate::decide::{
    answer::Failure,
    situation::Why,
    workspace::{Check, Obstacle},
};
use crate::service::{
    BaseUrl, CallError, Client, ClientConfig, ConfigError, Credentials, Observer, Token,
    TokenError, WorkspaceId,
};

use super::{context::Context, kinds::Kind, registry::Key, secrets, watch::chain};

/// Makes the check as far as it gets. The client is there if nothing stopped it.
pub(super) async fn check<K: Kind>(
    ctx: &Context,
    workspace: &K,
    key: &Key,
) -> (Check, Option<(Client, Credentials)>) {
    let mut check = Check {
        suspended: workspace.common().suspend.unwrap_or_default(),
        ..Check::default()
    };
    let secrets_in = K::secret_namespace(ctx, key);
    let prepared = prepare(ctx, workspace.common(), &secrets_in, key, &mut check).await;
    let (client, credentials) = match prepared {
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

fn log_failure(key: &Key, call: &'static str, error: &CallError) {
    tracing::warn!(
        k8s.namespace.name = %key.namespace, workspace.name = %key.name, call,
        http.status = error.http_status(), request.id = error.request_id(), error = %chain(error),
        "a Workspace's check failed"
    );
}

/// Everything before the first call: base URL, Secrets, token.
async fn prepare(
    ctx: &Context,
    spec: &WorkspaceSpec,
    namespace: &str,
    key: &Key,
    check: &mut Check,
) -> Result<(Client, Credentials), Why> {
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
    let bytes = secrets::read(ctx, namespace, secret, secret_key).await?;
    let token = Token::parse(&bytes, &ctx.config.contract).map_err(|error| {
        let reason = match error {
            TokenError::ProviderKey { .. } => Reason::TokenIsProviderKey,
            _ => Reason::TokenMalformed,
        };
        Why::new(reason, format!("The token in the Secret {secret}, key {secret_key}, is not used: {error}. Correct the Secret; it is picked up by itself."))
    })?;
    let workspace_id = spec.workspace_id.as_deref().map(WorkspaceId::parse).transpose().map_err(|error| {
        Why::new(Reason::WorkspaceMismatch, format!("spec.workspaceId can't be sent: {error}. Create the Workspace anew with a correct one."))
    })?;
    let ca_pem = match spec.ca_secret() {
        Some((name, entry)) => Some(secrets::read(ctx, namespace, name, entry).await?),
        None => None,
    };
    let credentials = Credentials {
        token,
        workspace_id,
    };
    let client = client(ctx, key, base_url, ca_pem)?;
    client.hide(&credentials.token);
    Ok((client, credentials))
}

/// The Workspace's client. It is kept as long as base URL and CA are the same, so that connections are.
fn client(
    ctx: &Context,
    key: &Key,
    base_url: BaseUrl,
    ca_pem: Option<Vec<u8>>,
) -> Result<Client, Why> {
    if let Some(client) = ctx.checks.client(key, base_url.as_str(), ca_pem.as_deref()) {
        return Ok(client);
    }
    let url = base_url.as_str().to_owned();
    let config = ClientConfig {
        base_url,
        ca_pem: ca_pem.clone(),
        contract: Arc::clone(&ctx.config.contract),
        user_agent: concat!("run-operator/", env!("CARGO_PKG_VERSION")).to_owned(),
        observer: Arc::clone(&ctx.metrics) as Arc<dyn Observer>,
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
    ctx.checks.keep_client(key, url, ca_pem, client.clone());
    Ok(client)
}
