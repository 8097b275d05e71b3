//! From flags to a part in the leader election.

use std::sync::Arc;

use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use run_operator::controller::leader::{Candidate, Elector, Leading, Lost, Timing};
use run_operator::controller::metrics::Metrics;

use crate::cli::LeaderElectionArgs;
use crate::start::{self, StartError};

/// A Lease's name is a DNS subdomain.
const NAME_MAX: usize = 253;

/// What the flags ask for.
pub(crate) struct Wanted {
    namespace: Option<String>,
    name: String,
    timing: Timing,
}

/// What the flags ask for, checked whether or not there is to be an election.
pub(crate) fn wanted(args: &LeaderElectionArgs) -> Result<Option<Wanted>, StartError> {
    let timing = Timing::new(args.lease_duration, args.renew_deadline, args.retry_period)
        .map_err(StartError::LeaseTiming)?;
    let namespace = args.namespace.as_deref();
    let namespace = namespace
        .map(|name| start::namespace(name, "--leader-elect-namespace"))
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

/// The election as the start of the program sees it.
pub(crate) struct Election {
    /// None without an election.
    running: Option<JoinHandle<Result<(), Lost>>>,
    resign: CancellationToken,
}

/// Takes part in the election from now on; without one this process acts at once.
pub(crate) async fn begin(
    wanted: Option<Wanted>,
    identity: &str,
    metrics: &Arc<Metrics>,
) -> Result<(Election, Leading), StartError> {
    let resign = CancellationToken::new();
    let Some(Wanted {
        namespace,
        name,
        timing,
    }) = wanted
    else {
        let running = None;
        return Ok((Election { running, resign }, Leading::always()));
    };
    let client = start::lease_client(metrics).await?;
    let candidate = Candidate {
        namespace: namespace.unwrap_or_else(|| client.default_namespace().to_owned()),
        client,
        name,
        identity: identity.to_owned(),
        timing,
    };
    let (elector, leading) = Elector::new(candidate, Arc::clone(metrics));
    let running = Some(tokio::spawn(elector.run(resign.clone())));
    Ok((Election { running, resign }, leading))
}

impl Election {
    /// Waits until this process has led and leads no more; for ever without an election.
    pub(crate) async fn lost(&mut self) -> Lost {
        if let Some(running) = &mut self.running {
            match running.await {
                Ok(Err(lost)) => return lost,
                // Nobody has asked it to resign: it can't have, and a panic must not go unnoticed.
                Ok(Ok(())) | Err(_) => return Lost::Ended,
            }
        }
        std::future::pending().await
    }

    /// Gives the Lease back: this process does nothing any more.
    pub(crate) async fn resign(self) {
        self.resign.cancel();
        if let Some(running) = self.running
            && let Ok(Err(lost)) = running.await
        {
            tracing::debug!(error = %lost, "there was no lease to give back");
        }
    }
}
