//! Reads the Secrets that Workspaces name, one key at a time, and detects their changes: by a watch of the name, or by a
//! read every 30 s where RBAC forbids the watch or 32 are open. Both see only metadata. At most 20 reads a second: beyond
//! 600 Secrets without a watch a round takes longer. After a 401 a Secret is read at once, out of turn.

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

use super::kind;

const TIMEOUT: Duration = Duration::from_secs(15);
/// Time between two reads of a Secret that no watch shows.
const ROUND: Duration = Duration::from_secs(30);
/// Shortest time between the reads of two such Secrets.
const READS_APART: Duration = Duration::from_millis(50);
const READS_AT_ONCE: usize = 8;
/// Period over which changes of the named Secrets are gathered.
const GATHER: Duration = Duration::from_millis(100);
/// Pause before a forbidden watch is retried: RBAC must be changed first.
const AFTER_FORBIDDEN: Duration = Duration::from_mins(5);
/// Longest pause before a watch that failed otherwise is restarted.
const AFTER_FAILURE: Duration = Duration::from_secs(30);

/// Records the version that it reads, so that the watch's event for that version causes no new check.
pub async fn read(
    ctx: &Context,
    workspace: &WorkspaceKey,
    secret: &SecretName,
    entry: &str,
) -> Result<Vec<u8>, Why> {
    let SecretName { namespace, name } = secret;
    let api: Api<Secret> = Api::namespaced(ctx.client.clone(), namespace);
    let note = |read| ctx.secrets.note(workspace, secret, read);
    let why = |reason, message| Err(Why::new(reason, message));
    // The semaphore is never closed.
    let _one = ctx.workspaces.api_requests.acquire().await.ok();
    let reading = apiserver::read_entry(&api, name, entry);
    let unanswered = match tokio::time::timeout(TIMEOUT, reading).await {
        Ok(Ok(Some(found))) => {
            note(Read::Version(found.version));
            let message = || {
                format!(
                    "The Secret {name} in namespace {namespace} has no key {entry}; add it, or name another in the Workspace."
                )
            };
            let value = found.value;
            return value.map_or_else(|| why(Reason::SecretKeyNotFound, message()), Ok);
        }
        Ok(Ok(None)) => {
            note(Read::Version(None));
            let todo = if kind::terminating(ctx, namespace) {
                ", which is being deleted, so that it can't be created there.".to_owned()
            } else {
                format!("; create it with the key {entry}.")
            };
            let what = format!("The Secret {name} doesn't exist in namespace {namespace}");
            return why(Reason::SecretNotFound, what + &todo);
        }
        Ok(Err(kube::Error::Api(status))) if status.code == 403 => {
            note(Read::Unread);
            let message = format!(
                "The operator may not read the Secret {name} in namespace {namespace}; allow this name in the operator's RBAC."
            );
            return why(Reason::SecretForbidden, message);
        }
        Ok(Err(error)) => error_chain(&error),
        Err(_) => "no answer in time".to_owned(),
    };
    tracing::warn!(k8s.namespace.name = %namespace, secret.name = %name, error = unanswered, "failed to read a Secret");
    let message = format!(
        "The Secret {name} could not be read from the API server; the read is retried automatically."
    );
    why(Reason::Checking, message)
}

pub async fn watch_named(ctx: Arc<Context>) {
    let cluster_wide = ctx.config.namespaces.is_empty();
    loop {
        ctx.secrets.changed.notified().await;
        ctx.secrets.update_watches(cluster_wide, |watched| {
            let watch = watch(Arc::clone(&ctx), watched.clone());
            let shutdown = ctx.shutdown.clone();
            tokio::spawn(shutdown.run_until_cancelled_owned(watch)).abort_handle()
        });
        sleep(GATHER).await;
    }
}

pub async fn read_unwatched(ctx: Arc<Context>) {
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
    check_if_outdated(ctx, &secret, &now);
}

fn check_if_outdated(ctx: &Context, secret: &SecretName, now: &Read) {
    for workspace in ctx.secrets.outdated(secret, now) {
        ctx.workspaces
            .entry(&workspace)
            .checks(|checks| checks.due_at_once = true);
        ctx.enqueue_workspace(&workspace);
    }
}

/// Watches until it is aborted. After each failure it restarts, with a list.
async fn watch(ctx: Arc<Context>, watched: Watched) {
    let Watched { scope, name } = &watched;
    let (mut failures, mut was_forbidden) = (0_u32, false);
    loop {
        let mut listed = false;
        let error = watch_until_error(&ctx, &watched, &mut listed).await;
        ctx.secrets.set_listed(&watched, false);
        if listed {
            failures = 0;
        }
        failures = failures.saturating_add(1);
        let forbidden = apiserver::http_status(&error) == Some(403);
        if !forbidden {
            tracing::warn!(secret.name = %name, scope = ?scope, failures, error = %error_chain(&error), "the watch of a Secret failed; restarting it");
        } else if !was_forbidden {
            tracing::warn!(
                secret.name = %name, scope = ?scope, reread_seconds = ROUND.as_secs(),
                "RBAC forbids the watch of a Secret, so it is read periodically; allow the verbs list and watch on the resource secrets with this resourceName"
            );
        }
        was_forbidden = forbidden;
        let pause = if forbidden {
            AFTER_FORBIDDEN
        } else {
            let seed = delays::seed(name, failures);
            delays::backoff(failures, None, seed).min(AFTER_FAILURE)
        };
        sleep(pause).await;
    }
}

/// Watches. `complete` is set once it has listed: Secrets that the list lacks don't exist.
async fn watch_until_error(
    ctx: &Context,
    watched: &Watched,
    complete: &mut bool,
) -> watcher::Error {
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
                    check_if_outdated(ctx, missing, &Read::Version(None));
                }
                ctx.secrets.set_listed(watched, true);
                *complete = true;
                continue;
            }
            Ok(Event::Apply(secret) | Event::InitApply(secret)) => (secret, false),
            Ok(Event::Delete(secret)) => (secret, true),
            Err(error) => return error,
        };
        let name = SecretName {
            namespace: secret.namespace().unwrap_or_default(),
            name: watched.name.clone(),
        };
        let version = secret.meta().resource_version.clone().filter(|_| !deleted);
        check_if_outdated(ctx, &name, &Read::Version(version));
        listed.insert(name);
    }
    // kube's watcher has no end.
    std::future::pending().await
}
