//! How a change of a Secret is noticed: by a watch by name where RBAC allows it, and by a read every 30 s
//! where no watch is established. Both see metadata only.
//!
//! # Guarantees
//! - At most 32 watches, and 20 reads a second: beyond 600 Secrets without a watch a round takes longer than 30 s.
//!   A 401 has a Secret read at once, whoever is next.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Resource, ResourceExt, core::PartialObjectMeta, runtime::watcher::Event};
use tokio::time::{Instant, MissedTickBehavior, interval_at};

use crate::decide::backoff;

use super::{
    apiserver::{Source, WatchError, watch_once},
    context::Context,
    secret_table::{Coverage, Read, SecretName, Watched},
    secrets::TIMEOUT,
    watch::chain,
};

/// How often a Secret that no established watch covers is read, in steps.
const ROUND: usize = 30;
/// The length of a step.
const STEP: Duration = Duration::from_secs(1);
/// Reads of one step, at most.
const READS_A_STEP: usize = 20;
/// Reads at the same time.
const REREADS_AT_ONCE: usize = 8;
/// Changes of what is named are gathered for this long.
const GATHER: Duration = Duration::from_millis(100);
/// Pause before a forbidden watch is tried again: somebody has to change RBAC first.
const AFTER_FORBIDDEN: Duration = Duration::from_mins(5);
/// The longest pause before a watch that failed otherwise is begun anew.
const AFTER_FAILURE: Duration = Duration::from_secs(30);

/// Keeps the watches and reads what none of them covers, until shutdown.
pub async fn run(ctx: Arc<Context>) {
    let reread = tokio::spawn(reread_in_turn(Arc::clone(&ctx)));
    loop {
        tokio::select! {
            () = ctx.secrets.changed.notified() => {
                settle(&ctx);
                tokio::time::sleep(GATHER).await;
            }
            () = ctx.shutdown.cancelled() => break,
        }
    }
    // An API server that hangs is not to hold up the end.
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

/// How many of so many Secrets are read in this step, and the thirtieths of a read that are left for the next.
fn due_reads(left: usize, secrets: usize) -> (usize, usize) {
    let due = left + secrets;
    let reads = due / ROUND;
    if reads > READS_A_STEP {
        (READS_A_STEP, 0)
    } else {
        (reads, due % ROUND)
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
        ctx.secrets.changed.notify_one();
    }
}

fn forbids(error: &WatchError) -> bool {
    error.code() == Some(403)
}

/// A forbidden watch is told of once, until something else comes of it.
fn report(watched: &Watched, before: Coverage, now: Coverage, failures: u32, error: &WatchError) {
    let Watched { scope, name } = watched;
    if now == Coverage::Forbidden {
        if before != Coverage::Forbidden {
            tracing::warn!(
                secret.name = %name, scope = ?scope, reread_seconds = ROUND,
                "RBAC forbids the watch of a Secret, so it is read again and again instead; allow the verbs list and watch on the resource secrets with this resourceName"
            );
        }
        return;
    }
    tracing::warn!(secret.name = %name, scope = ?scope, failures, error = %chain(error), "the watch of a Secret failed; beginning anew");
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The steps between the reads of one Secret, where so many are read in turn.
    fn steps_of_a_round(secrets: usize) -> usize {
        let (mut left, mut read, mut steps) = (0, 0, 0);
        while read < secrets {
            let (now, rest) = due_reads(left, secrets);
            (left, read, steps) = (rest, read + now, steps + 1);
        }
        steps
    }

    #[test]
    fn each_secret_is_read_every_half_minute_and_the_reads_are_bounded() {
        for secrets in [1, 7, 30, 600] {
            assert_eq!(steps_of_a_round(secrets), ROUND, "{secrets}");
        }
        assert_eq!(steps_of_a_round(2000), 100);
        assert_eq!(due_reads(0, 0), (0, 0));
    }
}
