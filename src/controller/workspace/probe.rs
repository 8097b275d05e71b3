//! Check of a Workspace: base URL, Secrets and token, then `/version` without a token, then `/workspaces/current` with
//! it. It stops at the first failure.

use std::sync::Arc;

use kube::ResourceExt;

use crate::api::{Reason, WorkspaceKey};
use crate::controller::{
    context::Context,
    state::{
        secrets::SecretName,
        workspaces::{LastGood, WorkspaceEntry},
    },
};
use crate::decide::{
    conditions::Why,
    failure::{Call, FailedCall, Failure},
    workspace::{Check, Obstacle, Verified, outlives},
};
use crate::service::{
    BaseUrl, BaseUrlError, Client, ClientConfig, ConfigError, Credentials, Observer, Operation,
    Token, TokenError, WorkspaceId,
};
use crate::util::error_chain;

use super::{kind::Kind, secrets};

/// Inputs of a check's calls.
pub(crate) struct Prepared {
    /// The client.
    pub client: Client,
    /// The token, and the workspace that it is meant for.
    pub credentials: Credentials,
    /// The values to keep if the check succeeds.
    pub good: LastGood,
}

/// Runs the check up to its first failure. `Prepared` is returned if nothing failed.
pub(crate) async fn check<K: Kind>(
    ctx: &Context,
    workspace: &K,
    entry: &WorkspaceEntry,
) -> (Check, Option<Prepared>) {
    let mut check = Check {
        suspended: workspace.common().suspend.unwrap_or_default(),
        ..Check::default()
    };
    let prepared = match prepare(ctx, workspace, entry, &mut check).await {
        Ok(prepared) => prepared,
        Err(why) => {
            check.obstacle = Some(Obstacle::Config(why));
            return (check, None);
        }
    };
    let key = &entry.key;
    let (client, places) = (&prepared.client, &ctx.workspaces.check_places);
    let origin = client.base_url().origin();
    match places.call(origin, client.version()).await {
        Ok(reply) => {
            check.version = Some(reply.version);
            check.request_id = reply.request_id;
        }
        Err(failure) => {
            check.obstacle = Some(failed(ctx, key, Call::Version, failure));
            return (check, None);
        }
    }
    let identity = client.current_workspace(&prepared.credentials);
    match places.call(origin, identity).await {
        Ok(reply) => {
            check.identity = Some(reply.identity);
            check.record = Some(reply.record);
            check.request_id = reply.request_id.or(check.request_id);
            (check, Some(prepared))
        }
        Err(failure) => {
            check.obstacle = Some(failed(ctx, key, Call::Workspace, failure));
            (check, None)
        }
    }
}

fn failed(ctx: &Context, key: &WorkspaceKey, call: Call, failure: Failure) -> Obstacle {
    let operation = match call {
        Call::Version => Operation::Version,
        _ => Operation::CurrentWorkspace,
    };
    tracing::warn!(
        k8s.namespace.name = %key.namespace, workspace.name = %key.name, call = operation.as_str(),
        http.status = failure.http_status, request.id = failure.request_id, error = failure.message,
        "a Workspace's check failed"
    );
    Obstacle::Call(FailedCall::new(call, failure, &ctx.config.contract))
}

/// Steps before the first call: base URL, Secrets, token.
async fn prepare<K: Kind>(
    ctx: &Context,
    workspace: &K,
    workspace_entry: &WorkspaceEntry,
    check: &mut Check,
) -> Result<Prepared, Why> {
    let key = &workspace_entry.key;
    let spec = workspace.common();
    let url = spec
        .base_url
        .as_deref()
        .or(ctx.config.base_url.as_deref())
        .ok_or_else(|| {
            Why::new(
                Reason::BaseUrlNotAllowed,
                "No base URL. Re-create the Workspace with spec.baseUrl, or start the operator with --base-url.",
            )
        })?;
    let base_url = BaseUrl::parse(url, &ctx.config.allow_list).map_err(|error| {
        Why::new(
            Reason::BaseUrlNotAllowed,
            format!(
                "The base URL can't be used: {}. {}",
                error_chain(&error),
                another_url(&error)
            ),
        )
    })?;
    check.base_url = Some(base_url.as_str().to_owned());
    let verified = Verified {
        uid: workspace.uid().unwrap_or_default(),
        base_url: base_url.as_str().to_owned(),
    };
    let last_good = workspace_entry.checks(|checks| checks.last_good(&verified));
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
        Ok(bytes) => parse_token(ctx, &bytes, secret, entry)?,
        Err(why) => {
            let last = last_good.as_ref().map(|good| good.token.clone());
            instead(why, last, check)?
        }
    };
    let workspace_id = spec.workspace_id.as_deref().map(WorkspaceId::parse).transpose().map_err(|error| {
        Why::new(Reason::WorkspaceMismatch, format!("spec.workspaceId can't be sent: {error}. Re-create the Workspace with a correct one."))
    })?;
    let ca_pem = match spec.ca_secret() {
        Some((name, entry)) => match secrets::read(ctx, key, &named(name), entry).await {
            Ok(pem) => Some(pem),
            Err(why) => Some(instead(why, last_good.and_then(|good| good.ca_pem), check)?),
        },
        None => None,
    };
    let good = LastGood {
        verified,
        token: token.clone(),
        ca_pem: ca_pem.clone(),
    };
    let credentials = Credentials {
        token,
        workspace_id,
    };
    let client = client(ctx, workspace_entry, base_url, ca_pem)?;
    client.hide(&credentials.token);
    Ok(Prepared {
        client,
        credentials,
        good,
    })
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

fn parse_token(ctx: &Context, bytes: &[u8], secret: &str, entry: &str) -> Result<Token, Why> {
    Token::parse(bytes, &ctx.config.contract).map_err(|error| {
        let reason = match error {
            TokenError::ProviderKey { .. } => Reason::TokenIsProviderKey,
            _ => Reason::TokenMalformed,
        };
        Why::new(reason, format!("The token in the Secret {secret}, key {entry}, is not used: {error}. Correct the Secret; it is picked up automatically."))
    })
}

/// The Secret's last value in its place, if policy allows it. The check records that.
fn instead<T>(why: Why, last: Option<T>, check: &mut Check) -> Result<T, Why> {
    match last {
        Some(last) if outlives(&why) => {
            check.secret_deleted.get_or_insert(why);
            Ok(last)
        }
        _ => Err(why),
    }
}

/// The Workspace's client. It is kept, with its connections, while base URL and CA are the same.
fn client(
    ctx: &Context,
    entry: &WorkspaceEntry,
    base_url: BaseUrl,
    ca_pem: Option<Vec<u8>>,
) -> Result<Client, Why> {
    if let Some(client) = entry.checks(|checks| checks.client(base_url.as_str(), ca_pem.as_deref()))
    {
        return Ok(client);
    }
    let url = base_url.as_str().to_owned();
    let config = ClientConfig {
        base_url,
        ca_pem: ca_pem.clone(),
        h2c: ctx.config.h2c,
        contract: Arc::clone(&ctx.config.contract),
        user_agent: concat!("run-operator/", env!("CARGO_PKG_VERSION")).to_owned(),
        observer: Arc::clone(&ctx.metrics) as Arc<dyn Observer>,
    };
    let client = Client::shared(config, &ctx.http).map_err(|error| {
        let todo = match error {
            ConfigError::ReadCa(_) | ConfigError::EmptyCa | ConfigError::BuildClient(_) => {
                "Correct the Secret that spec.caSecretRef names."
            }
            ConfigError::NoSystemRoots => "Name a CA bundle in spec.caSecretRef.",
            ConfigError::UserAgent(_) | ConfigError::NoTlsProvider => {
                "This is a bug of the operator; please report it."
            }
        };
        Why::new(
            Reason::CaInvalid,
            format!("No client can be made: {}. {todo}", error_chain(&error)),
        )
    })?;
    entry.checks(|checks| checks.keep_client(url, ca_pem, client.clone()));
    Ok(client)
}
