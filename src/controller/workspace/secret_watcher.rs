//! Detects changes of Secrets: by a watch by name where RBAC allows it, otherwise by a read every 30 s. Both read only
//! metadata.
//!
//! # Guarantees
//! - At most 32 watches, and 20 reads a second: beyond 600 Secrets without a watch a round takes longer than 30 s.
//!   After a 401 a Secret is read at once, out of turn.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Resource, ResourceExt, core::PartialObjectMeta, runtime::watcher::Event};
use tokio::time::{Instant, MissedTickBehavior, interval_at};

use crate::controller::{
    apiserver::{self, Source, WatchError, watch_once},
    context::Context,
    state::{
        secrets::{Coverage, Read, SecretName, Watched},
    },
};
use crate::decide::backoff;
use crate::util::error_chain;

use super::secret::TIMEOUT;

/// Steps between two reads of a Secret that no established watch covers.
const ROUND: usize = 30;
/// Length of a step.
const STEP: Duration = Duration::from_secs(1);
/// Reads in one step, at most.
const READS_A_STEP: usize = 20;
/// Reads in flight at the same time.
const REREADS_AT_ONCE: usize = 8;
/// Period over which changes of the named Secrets are gathered.
const GATHER: Duration = Duration::from_millis(100);
/// Pause before a forbidden watch is retried: RBAC must be changed first.
const AFTER_FORBIDDEN: Duration = Duration::from_mins(5);
/// Longest pause before a watch that failed otherwise is restarted.
const AFTER_FAILURE: Duration = Duration::from_secs(30);

/// Maintains the watches, and reads the Secrets that none of them covers, until shutdown.
pub async fn run(ctx: Arc<Context>) {
    let reread = tokio::spawn(reread_in_turn(Arc::clone(&ctx)));
    loop {
        tokio::select! {
            () = ctx.secrets.changed.notified() => {
                update_watches(&ctx);
                tokio::time::sleep(GATHER).await;
            }
            () = ctx.shutdown.cancelled() => break,
        }
    }
    // A hanging API server must not delay the shutdown.
    reread.abort();
}

async fn reread_in_turn(ctx: Arc<Context>) {
    let mut steps = interval_at(Instant::now() + STEP, STEP);
    steps.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut last = None;
    let mut left = 0;
    loop {
        steps.tick().await;
        let due;
        (due, left) = due_reads(left, ctx.secrets.uncovered());
        let next = ctx.secrets.next_uncovered(last.as_ref(), due);
        last = next.last().cloned().or(last);
        let reads = futures::stream::iter(next);
        reads
            .for_each_concurrent(REREADS_AT_ONCE, |secret| reread(&ctx, secret))
            .await;
    }
}

/// Number of Secrets read in this step, and the thirtieths of a read carried over to the next.
fn due_reads(left: usize, secrets: usize) -> (usize, usize) {
    let due = left + secrets;
    let reads = due / ROUND;
    if reads > READS_A_STEP {
        (READS_A_STEP, 0)
    } else {
        (reads, due % ROUND)
    }
}

fn update_watches(ctx: &Arc<Context>) {
    let cluster_wide = ctx.config.namespaces.is_empty();
    ctx.secrets.update_watches(cluster_wide, |watched| {
        tokio::spawn(watch(Arc::clone(ctx), watched.clone())).abort_handle()
    });
}

async fn reread(ctx: &Context, secret: SecretName) {
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

/// Watches while the watch is wanted. After each failure it restarts, with a list.
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
            ctx.secrets.changed.notify_one();
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
    let source = Source::new(api, ctx.config.watch_timeout)
        .fields(format!("metadata.name={}", watched.name));
    let mut events = std::pin::pin!(watch_once(source));
    let mut listed = HashSet::new();
    while let Some(event) = events.next().await {
        let (secret, deleted) = match event {
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
        let version = secret.meta().resource_version.clone().filter(|_| !deleted);
        seen(ctx, &name, &Read::Version(version));
        listed.insert(name);
    }
    None
}

/// Handles a complete list: Secrets that it lacks don't exist.
fn established(ctx: &Arc<Context>, watched: &Watched, listed: &HashSet<SecretName>) {
    for secret in ctx.secrets.named_within(watched) {
        if !listed.contains(&secret) {
            seen(ctx, &secret, &Read::Version(None));
        }
    }
    let before = ctx.secrets.set_coverage(watched, Coverage::Established);
    if before == Some(Coverage::Forbidden) {
        tracing::info!(secret.name = %watched.name, scope = ?watched.scope, "the watch of a Secret is allowed now; it replaces the reads");
        // Watches of single namespaces are no longer needed.
        ctx.secrets.changed.notify_one();
    }
}

fn forbids(error: &WatchError) -> bool {
    error.code() == Some(403)
}

/// Logs a failed watch. A forbidden one is logged once, until its state changes.
fn report(watched: &Watched, before: Coverage, now: Coverage, failures: u32, error: &WatchError) {
    let Watched { scope, name } = watched;
    if now == Coverage::Forbidden {
        if before != Coverage::Forbidden {
            tracing::warn!(
                secret.name = %name, scope = ?scope, reread_seconds = ROUND,
                "RBAC forbids the watch of a Secret, so it is read periodically; allow the verbs list and watch on the resource secrets with this resourceName"
            );
        }
        return;
    }
    tracing::warn!(secret.name = %name, scope = ?scope, failures, error = %error_chain(error), "the watch of a Secret failed; restarting it");
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Number of steps between two reads of one Secret, if `secrets` are read in turn.
    fn steps_of_a_round(secrets: usize) -> usize {
        let (mut left, mut read, mut steps) = (0, 0, 0);
        while read < secrets {
            let (now, rest) = due_reads(left, secrets);
            (left, read, steps) = (rest, read + now, steps + 1);
        }
        steps
    }

    /// Proves: P-many-workspaces, P-rotation
    #[test]
    fn each_secret_is_read_every_30_seconds_within_a_bound() {
        for secrets in [1, 7, 30, 600] {
            assert_eq!(steps_of_a_round(secrets), 30, "{secrets}");
        }
        assert_eq!(steps_of_a_round(2000), 100);
        assert_eq!(due_reads(0, 0), (0, 0));
    }
}
