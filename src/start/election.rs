//! Leader election from flags.

use std::sync::Arc;

use kube::Api;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use run_operator::controller::leader::{Elector, Leading, Lost, Timing};
use run_operator::controller::metrics::Metrics;

use super::clients::separate_client;
use super::config;
use super::error::StartError;
use crate::cli::LeaderElectionArgs;

/// Longest name of a Lease, which is a DNS subdomain.
const NAME_MAX: usize = 253;

/// Settings of the election, as flags give them.
pub(crate) struct Wanted {
    namespace: Option<String>,
    name: String,
    timing: Timing,
}

/// Settings of the election, if it is enabled. They are checked in either case.
pub(crate) fn wanted(args: &LeaderElectionArgs) -> Result<Option<Wanted>, StartError> {
    let timing = Timing::new(args.lease_duration, args.renew_deadline, args.retry_period)
        .map_err(StartError::LeaseTiming)?;
    let namespace = args.namespace.as_deref();
    let namespace = namespace
        .map(|name| config::namespace(name, "--leader-elect-namespace"))
        .transpose()?;
    let name = args.name.clone();
    if !is_lease_name(&name) {
        return Err(StartError::LeaseName { name });
    }
    Ok(args.enabled.then_some(Wanted {
        namespace,
        name,
        timing,
    }))
}

fn is_lease_name(name: &str) -> bool {
    let legal = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '.');
    let edge = |c: char| matches!(c, '-' | '.');
    !name.is_empty()
        && name.len() <= NAME_MAX
        && name.chars().all(legal)
        && !name.starts_with(edge)
        && !name.ends_with(edge)
}

/// The election in this process.
pub(crate) struct Election {
    /// None without an election.
    running: Option<JoinHandle<Result<(), Lost>>>,
    resign: CancellationToken,
}

/// Joins the election. Without one this process leads at once.
pub(crate) async fn begin(
    wanted: Option<Wanted>,
    identity: &str,
    metrics: &Arc<Metrics>,
) -> Result<(Election, Leading), StartError> {
    let resign = CancellationToken::new();
    let Some(wanted) = wanted else {
        let running = None;
        return Ok((Election { running, resign }, Leading::always()));
    };
    let client = separate_client(metrics).await?;
    let namespace = wanted.namespace.as_deref();
    let namespace = namespace.unwrap_or_else(|| client.default_namespace());
    let leases = Api::namespaced(client.clone(), namespace);
    let Wanted { name, timing, .. } = &wanted;
    let (elector, leading) = Elector::new(leases, name, identity, *timing, Arc::clone(metrics));
    let running = Some(tokio::spawn(elector.run(resign.clone())));
    Ok((Election { running, resign }, leading))
}

impl Election {
    /// Waits until this process has lost the Lease; forever without an election.
    pub(crate) async fn lost(&mut self) -> Lost {
        if let Some(running) = &mut self.running {
            match running.await {
                Ok(Err(lost)) => return lost,
                // It was not asked to resign, so it ended in error; a panic is reported too.
                Ok(Ok(())) | Err(_) => return Lost::Ended,
            }
        }
        std::future::pending().await
    }

    /// Releases the Lease. The process must have stopped acting.
    pub(crate) async fn resign(self) {
        self.resign.cancel();
        if let Some(running) = self.running
            && let Ok(Err(lost)) = running.await
        {
            tracing::debug!(error = %lost, "the lease was already lost; nothing to release");
        }
    }
}
