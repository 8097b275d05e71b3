//! Reads the Secrets that Workspaces name, one key at a time, and detects their changes: by a watch of the name, or by a
//! read every 30 s where RBAC forbids the watch or 32 are open. Both see only metadata.
//!
//! # Guarantees
//! - At most 32 watches, and 20 reads a second: beyond 600 Secrets without a watch a round takes longer than 30 s.
//!   After a 401 a Secret is read at once, out of turn.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures::{StreamExt, stream};
use k8s_openapi::api::core::v1::Secret;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Resource, ResourceExt, core::PartialObjectMeta};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, sleep_until};

use crate::api::{Reason, WorkspaceKey};
use crate::controller::{
    apiserver,
    context::Context,
    state::secrets::{Read, SecretName, Watched},
};
use crate::decide::{conditions::Why, delays};
use crate::util::error_chain;

use super::namespaces;

/// Time limit of a read.
const TIMEOUT: Duration = Duration::from_secs(15);
/// Time between two reads of a Secret that no watch shows.
const ROUND: Duration = Duration::from_secs(30);
/// Shortest time between the reads of two such Secrets.
const READS_APART: Duration = Duration::from_millis(50);
/// Such reads in flight at the same time.
const READS_AT_ONCE: usize = 8;
/// Period over which changes of the named Secrets are gathered.
const GATHER: Duration = Duration::from_millis(100);
/// Pause before a forbidden watch is retried: RBAC must be changed first.
const AFTER_FORBIDDEN: Duration = Duration::from_mins(5);
/// Longest pause before a watch that failed otherwise is restarted.
const AFTER_FAILURE: Duration = Duration::from_secs(30);

/// Reads one key of a Secret live for a Workspace, and records its version. The watch's event for that version then
/// causes no new check.
pub async fn read(
    ctx: &Context,
    workspace: &WorkspaceKey,
    secret: &SecretName,
    entry: &str,
) -> Result<Vec<u8>, Why> {
    let SecretName { namespace, name } = secret;
    let api: Api<Secret> = Api::namespaced(ctx.client.clone(), namespace);
    let note = |read| ctx.secrets.note(workspace, secret, read);
    // The semaphore is never closed.
    let _one = ctx.api_requests.acquire().await.ok();
    let reading = apiserver::read_entry(&api, name, entry);
    let found = match tokio::time::timeout(TIMEOUT, reading).await {
        Ok(Ok(Some(found))) => found,
        Ok(Ok(None)) => {
            note(Read::Version(None));
            return Err(not_found(ctx, secret, entry));
        }
        Ok(Err(kube::Error::Api(status))) if status.code == 403 => {
            note(Read::Unread);
            return Err(Why::new(
                Reason::SecretForbidden,
                format!(
                    "The operator may not read the Secret {name} in namespace {namespace}; allow this name in the operator's RBAC."
                ),
            ));
        }
        Ok(Err(error)) => {
            tracing::warn!(k8s.namespace.name = %namespace, secret.name = %name, error = %error_chain(&error), "failed to read a Secret");
            return Err(unread(name));
        }
        Err(_) => return Err(unread(name)),
    };
    note(Read::Version(found.version));
    found.value.ok_or_else(|| {
        Why::new(
            Reason::SecretKeyNotFound,
            format!(
                "The Secret {name} in namespace {namespace} has no key {entry}; add it, or name another in the Workspace."
            ),
        )
    })
}

fn not_found(ctx: &Context, secret: &SecretName, entry: &str) -> Why {
    let SecretName { namespace, name } = secret;
    let message = if namespaces::terminating(ctx, namespace) {
        format!(
            "The Secret {name} doesn't exist in namespace {namespace}, which is being deleted, so that it can't be created there."
        )
    } else {
        format!(
            "The Secret {name} doesn't exist in namespace {namespace}; create it with the key {entry}."
        )
    };
    Why::new(Reason::SecretNotFound, message)
}

fn unread(name: &str) -> Why {
    Why::new(
        Reason::Checking,
        format!(
            "The Secret {name} could not be read from the API server; the read is retried automatically."
        ),
    )
}

/// Keeps the watches to what is named, and reads the Secrets that none of them shows, until shutdown.
pub async fn follow(ctx: Arc<Context>) {
    let reads = tokio::spawn(read_unwatched(Arc::clone(&ctx)));
    let cluster_wide = ctx.config.namespaces.is_empty();
    loop {
        tokio::select! {
            () = ctx.secrets.changed.notified() => {
                ctx.secrets.update_watches(cluster_wide, |watched| {
                    tokio::spawn(watch(Arc::clone(&ctx), watched.clone())).abort_handle()
                });
                sleep(GATHER).await;
            }
            () = ctx.shutdown.cancelled() => break,
        }
    }
    // A hanging API server must not delay the shutdown.
    reads.abort();
}

async fn read_unwatched(ctx: Arc<Context>) {
    loop {
        let next_round = Instant::now() + ROUND;
        let mut pace = interval(READS_APART);
        pace.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let pace = stream::unfold(pace, |mut pace| async move {
            pace.tick().await;
            Some(((), pace))
        });
        stream::iter(ctx.secrets.unwatched())
            .zip(pace)
            .for_each_concurrent(READS_AT_ONCE, |(secret, ())| read_version(&ctx, secret))
            .await;
        sleep_until(next_round).await;
    }
}

async fn read_version(ctx: &Context, secret: SecretName) {
    let api: Api<Secret> = Api::namespaced(ctx.client.clone(), &secret.namespace);
    let reading = apiserver::read_metadata(&api, &secret.name);
    let now = match tokio::time::timeout(TIMEOUT, reading).await {
        Ok(Ok(found)) => Read::Version(found.and_then(|found| found.resource_version)),
        // The check shows this in the Workspace's status.
        Ok(Err(kube::Error::Api(status))) if status.code == 403 => Read::Unread,
        Ok(Err(error)) => {
            tracing::warn!(k8s.namespace.name = %secret.namespace, secret.name = %secret.name, error = %error_chain(&error), "failed to check a Secret's version; retrying in the next round");
            return;
        }
        Err(_) => return,
    };
    seen(ctx, &secret, &now);
}

/// Has the Workspaces checked that have read another version of the Secret.
fn seen(ctx: &Context, secret: &SecretName, now: &Read) {
    for workspace in ctx.secrets.outdated(secret, now) {
        ctx.workspaces
            .entry(&workspace)
            .checks(|checks| checks.due_at_once = true);
        ctx.enqueue_workspace(&workspace);
    }
}

/// Watches until it is aborted. After each failure it restarts, with a list.
async fn watch(ctx: Arc<Context>, watched: Watched) {
    let mut failures = 0_u32;
    let mut was_forbidden = false;
    loop {
        let mut listed = false;
        let error = tokio::select! {
            error = until_it_fails(&ctx, &watched, &mut listed) => error,
            () = ctx.shutdown.cancelled() => return,
        };
        ctx.secrets.set_listed(&watched, false);
        failures = if listed {
            1
        } else {
            failures.saturating_add(1)
        };
        let forbidden = error.as_ref().and_then(apiserver::http_status) == Some(403);
        let Watched { scope, name } = &watched;
        match &error {
            Some(_) if forbidden && was_forbidden => {}
            Some(_) if forbidden => tracing::warn!(
                secret.name = %name, scope = ?scope, reread_seconds = ROUND.as_secs(),
                "RBAC forbids the watch of a Secret, so it is read periodically; allow the verbs list and watch on the resource secrets with this resourceName"
            ),
            Some(error) => {
                tracing::warn!(secret.name = %name, scope = ?scope, failures, error = %error_chain(error), "the watch of a Secret failed; restarting it");
            }
            None => {}
        }
        was_forbidden = forbidden;
        let pause = if forbidden {
            AFTER_FORBIDDEN
        } else {
            let seed = delays::seed(name, failures);
            delays::backoff(failures, None, seed).min(AFTER_FAILURE)
        };
        tokio::select! {
            () = sleep(pause) => {}
            () = ctx.shutdown.cancelled() => return,
        }
    }
}

/// Watches. `complete` is set once it has listed: Secrets that the list lacks don't exist.
async fn until_it_fails(
    ctx: &Context,
    watched: &Watched,
    complete: &mut bool,
) -> Option<watcher::Error> {
    let api: Api<PartialObjectMeta<Secret>> = watched.scope.api(ctx.client.clone());
    let config = ctx.config.watcher();
    let config = config.fields(&format!("metadata.name={}", watched.name));
    let mut events = watcher(api, config).boxed();
    let mut listed = BTreeSet::new();
    while let Some(event) = events.next().await {
        let (secret, deleted) = match event {
            Ok(Event::Init) => {
                listed.clear();
                continue;
            }
            Ok(Event::InitDone) => {
                for missing in ctx.secrets.shown_by(watched).difference(&listed) {
                    seen(ctx, missing, &Read::Version(None));
                }
                ctx.secrets.set_listed(watched, true);
                *complete = true;
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
        let version = secret.meta().resource_version.clone().filter(|_| !deleted);
        seen(ctx, &name, &Read::Version(version));
        listed.insert(name);
    }
    None
}
