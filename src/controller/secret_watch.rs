//! How a change of a Secret is noticed: by a watch by name where RBAC allows it, and by a read every 30 s
//! where no watch is established. Both see metadata alone.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::core::v1::Secret;
use kube::{
    Api, Resource, ResourceExt,
    core::PartialObjectMeta,
    runtime::watcher::Event,
};
use tokio::time::{Instant, MissedTickBehavior, interval_at};

use crate::decide::backoff;

use super::{
    apiserver::{Source, WatchError, watch_once},
    context::Context,
    registry::Key,
    secret_table::{Coverage, Read, SecretName, Watched},
    secrets::TIMEOUT,
    watch::chain,
};

/// How often a Secret that no established watch covers is looked at.
const REREAD: Duration = Duration::from_secs(30);
/// Looks at the same time.
const REREADS_AT_ONCE: usize = 8;
/// Pause before a forbidden watch is tried again: somebody has to change RBAC first.
const AFTER_FORBIDDEN: Duration = Duration::from_mins(5);
/// The longest pause before a watch that failed otherwise is begun anew.
const AFTER_FAILURE: Duration = Duration::from_secs(30);

/// A Workspace names these Secrets: sees to it that their changes are noticed.
pub fn follow(ctx: &Arc<Context>, workspace: &Key, secrets: BTreeSet<SecretName>) {
    if ctx.secrets.name(workspace, secrets) {
        settle(ctx);
    }
}

/// Looks at the Secrets that no watch covers, until shutdown.
pub async fn run(ctx: Arc<Context>) {
    let mut round = interval_at(Instant::now() + REREAD, REREAD);
    round.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = round.tick() => {
                let uncovered = futures::stream::iter(ctx.secrets.uncovered());
                let reread = uncovered.for_each_concurrent(REREADS_AT_ONCE, |secret| reread(&ctx, secret));
                // An API server that hangs is not to hold up the end.
                tokio::select! {
                    () = reread => {}
                    () = ctx.shutdown.cancelled() => return,
                }
            }
            () = ctx.secrets.unnamed.notified() => settle(&ctx),
            () = ctx.shutdown.cancelled() => return,
        }
    }
}

fn settle(ctx: &Arc<Context>) {
    let cluster_wide = ctx.config.namespaces.is_empty();
    ctx.secrets.settle(cluster_wide, |watched| {
        tokio::spawn(watch(Arc::clone(ctx), watched.clone())).abort_handle()
    });
}

async fn reread(ctx: &Context, secret: SecretName) {
    let api: Api<Secret> = Api::namespaced(ctx.client.clone(), &secret.namespace);
    let looked = tokio::time::timeout(TIMEOUT, api.get_metadata_opt(&secret.name)).await;
    let now = match looked {
        Ok(Ok(found)) => Read::Version(found.and_then(|found| found.metadata.resource_version)),
        // The check says so to whoever reads the Workspace.
        Ok(Err(kube::Error::Api(status))) if status.code == 403 => Read::Unread,
        Ok(Err(error)) => {
            tracing::warn!(k8s.namespace.name = %secret.namespace, secret.name = %secret.name, error = %chain(&error), "failed to look at a Secret; looking again");
            return;
        }
        Err(_) => return,
    };
    seen(ctx, &secret, &now);
}

/// Has the Workspaces checked that know another version of the Secret.
fn seen(ctx: &Context, secret: &SecretName, now: &Read) {
    for workspace in ctx.secrets.outdated(secret, now) {
        ctx.checks.secret_changed(&workspace);
        ctx.wake_workspace(&workspace);
    }
}

/// Watches until it isn't wanted any more; begins anew, with a list, whenever it fails.
async fn watch(ctx: Arc<Context>, watched: Watched) {
    let mut failures = 0_u32;
    loop {
        let error = tokio::select! {
            error = until_it_fails(&ctx, &watched) => error,
            () = ctx.shutdown.cancelled() => return,
        };
        let forbidden = error.as_ref().is_some_and(forbids);
        let coverage = if forbidden {
            Coverage::Forbidden
        } else {
            Coverage::Failed
        };
        let Some(before) = ctx.secrets.set_coverage(&watched, coverage) else {
            return;
        };
        failures = if before == Coverage::Established {
            1
        } else {
            failures.saturating_add(1)
        };
        if let Some(error) = error {
            report(&watched, before, coverage, failures, &error);
        }
        let pause = if forbidden {
            settle(&ctx);
            AFTER_FORBIDDEN
        } else {
            let seed = backoff::seed(&watched.name, failures);
            backoff::delay(failures, None, seed).min(AFTER_FAILURE)
        };
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = ctx.shutdown.cancelled() => return,
        }
    }
}

async fn until_it_fails(ctx: &Arc<Context>, watched: &Watched) -> Option<WatchError> {
    let api: Api<PartialObjectMeta<Secret>> = watched.scope.api(ctx.client.clone());
    let source = Source::new(&api, ctx.config.watch_timeout)
        .fields(format!("metadata.name={}", watched.name));
    let mut events = std::pin::pin!(watch_once(source));
    let mut listed = HashSet::new();
    while let Some(event) = events.next().await {
        let (secret, gone) = match event {
            Ok(Event::Init) => {
                listed.clear();
                continue;
            }
            Ok(Event::InitDone) => {
                established(ctx, watched, &listed);
                continue;
            }
            Ok(Event::Apply(secret) | Event::InitApply(secret)) => (secret, false),
            Ok(Event::Delete(secret)) => (secret, true),
            Err(error) => return Some(error),
        };
        let name = SecretName {
            namespace: secret.namespace().unwrap_or_default(),
            name: watched.name.clone(),
        };
        let version = secret.meta().resource_version.clone().filter(|_| !gone);
        seen(ctx, &name, &Read::Version(version));
        listed.insert(name);
    }
    None
}

/// The list is complete: what it lacks is gone.
fn established(ctx: &Arc<Context>, watched: &Watched, listed: &HashSet<SecretName>) {
    for secret in ctx.secrets.named_within(watched) {
        if !listed.contains(&secret) {
            seen(ctx, &secret, &Read::Version(None));
        }
    }
    let before = ctx.secrets.set_coverage(watched, Coverage::Established);
    if before == Some(Coverage::Forbidden) {
        tracing::info!(secret.name = %watched.name, scope = ?watched.scope, "the watch of a Secret is allowed now");
        // Watches of single namespaces are not needed any more.
        settle(ctx);
    }
}

fn forbids(error: &WatchError) -> bool {
    error.code() == Some(403)
}

/// A forbidden watch is told of once, until something else comes of it.
fn report(
    watched: &Watched,
    before: Coverage,
    now: Coverage,
    failures: u32,
    error: &WatchError,
) {
    let Watched { scope, name } = watched;
    if now == Coverage::Forbidden {
        if before != Coverage::Forbidden {
            tracing::warn!(
                secret.name = %name, scope = ?scope, reread_seconds = REREAD.as_secs(),
                "RBAC forbids the watch of a Secret, so it is read again and again instead; allow the verbs list and watch on the resource secrets with this resourceName"
            );
        }
        return;
    }
    tracing::warn!(secret.name = %name, scope = ?scope, failures, error = %chain(error), "the watch of a Secret failed; beginning anew");
}
