//! Leader election by a Lease, as in client-go: one operator acts, the others fill their caches and wait. [`election`]
//! decides; this module does the I/O.
//!
//! The election saves calls and writes. It is not needed for a Run to have at most one run: only the owner of an intent
//! POSTs, and every write names the version that it replaces (docs/design.md).

use std::sync::Arc;
use std::time::{Duration, Instant};

use k8s_openapi::api::coordination::v1::Lease;
use kube::{Api, api::PostParams};
use tokio::sync::watch;
use tokio::time::{sleep_until, timeout_at};
use tokio_util::sync::CancellationToken;

use crate::clock::wall;
use crate::util::error_chain;

use super::metrics::Metrics;

mod election;

#[cfg(test)]
mod tests;

use election::{Election, Step};
pub use election::{Lost, Timing, TimingError};

/// Pause before leadership is checked again. A term that has passed may be renewed, and nothing wakes a waiting task
/// then.
pub(super) const AGAIN: Duration = Duration::from_secs(1);

/// Whether this process leads.
#[derive(Clone, Copy, Debug)]
enum Term {
    /// There is no election.
    Unlimited,
    /// Another process leads, or none.
    Standby,
    /// This process leads, at least until then.
    Until(Instant),
}

/// Leadership of this process, for the rest of the program.
#[derive(Clone, Debug)]
pub struct Leading(watch::Receiver<Term>);

impl Leading {
    /// Leadership without an election: this process acts from its start.
    pub fn always() -> Self {
        Self(watch::channel(Term::Unlimited).1)
    }

    /// Whether this process may begin an effect. If a leader was stopped for a while and continues, this shows that its
    /// term has passed, even before it reads its Lease.
    pub fn holds(&self) -> bool {
        match *self.0.borrow() {
            Term::Unlimited => true,
            Term::Standby => false,
            Term::Until(end) => Instant::now() < end,
        }
    }

    /// Waits until this process leads; forever if the election ends before.
    pub async fn begun(mut self) {
        let led = self.0.wait_for(|term| !matches!(term, Term::Standby));
        if led.await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

/// Inputs of the election.
pub struct Candidate {
    /// A client that retries nothing: the election decides on each attempt.
    pub client: kube::Client,
    /// Namespace of the Lease.
    pub namespace: String,
    /// Name of the Lease.
    pub name: String,
    /// Unique name of this process.
    pub identity: String,
    /// Durations of the election.
    pub timing: Timing,
}

/// A candidate's election, with its calls to the API server.
pub struct Elector {
    api: Api<Lease>,
    election: Election,
    timing: Timing,
    term: watch::Sender<Term>,
    metrics: Arc<Metrics>,
    name: String,
    /// Failed attempts in a row.
    failures: u32,
    /// The last holder that was logged.
    logged_holder: Option<String>,
}

impl Elector {
    /// A candidate; no request is made before [`Elector::run`].
    pub fn new(candidate: Candidate, metrics: Arc<Metrics>) -> (Self, Leading) {
        let Candidate {
            client,
            namespace,
            name,
            identity,
            timing,
        } = candidate;
        metrics.set_leader(&name, false);
        let (term, seen) = watch::channel(Term::Standby);
        let elector = Self {
            api: Api::namespaced(client, &namespace),
            election: Election::new(&name, &identity, timing, Instant::now()),
            timing,
            term,
            metrics,
            name,
            failures: 0,
            logged_holder: None,
        };
        (elector, Leading(seen))
    }

    /// Reads, takes over and renews the Lease until it is lost, which is an error, or until `resign`. Then the Lease is
    /// released, so that the next leader doesn't wait for its expiry. Before `resign` the process must have stopped
    /// acting.
    pub async fn run(mut self, resign: CancellationToken) -> Result<(), Lost> {
        let mut resigned = false;
        loop {
            if !resigned && resign.is_cancelled() {
                resigned = true;
                self.election.resign(Instant::now());
            }
            match self.election.next(Instant::now(), wall()) {
                Step::Wait(until) => tokio::select! {
                    () = sleep_until(until.into()) => {}
                    () = resign.cancelled(), if !resigned => {}
                },
                Step::Read => self.read().await,
                Step::Write(lease) => self.write(&lease, resigned).await,
                Step::Released => {
                    self.metrics.set_leader(&self.name, false);
                    return Ok(());
                }
                Step::GiveUp(why) => {
                    self.term.send_replace(Term::Standby);
                    self.metrics.set_leader(&self.name, false);
                    return Err(why);
                }
            }
        }
    }

    async fn read(&mut self) {
        let call = self.api.get_opt(&self.name);
        match self.within(Instant::now(), call).await {
            Ok(found) => {
                self.failures = 0;
                self.election.read(Instant::now(), found);
                self.log_holder();
            }
            Err(error) => {
                self.report(&error, "failed to read the Lease; retrying");
                self.election.read_failed(Instant::now());
            }
        }
    }

    async fn write(&mut self, lease: &Lease, resigned: bool) {
        let params = PostParams::default();
        let sent = Instant::now();
        let written = if lease.metadata.resource_version.is_some() {
            let call = self.api.replace(&self.name, &params, lease);
            self.within(sent, call).await
        } else {
            self.within(sent, self.api.create(&params, lease)).await
        };
        match written {
            Ok(stored) => {
                self.failures = 0;
                self.election.written(sent, Instant::now(), stored);
                if !resigned {
                    self.lead();
                }
            }
            Err(error) => {
                let conflict = error.conflict();
                if !conflict {
                    self.report(&error, "failed to write the Lease; retrying");
                }
                self.election.write_failed(Instant::now(), conflict);
            }
        }
    }

    /// Starts or extends this process's term.
    fn lead(&mut self) {
        let Some(until) = self.election.leads_until() else {
            return;
        };
        let before = self.term.send_replace(Term::Until(until));
        if matches!(before, Term::Standby) {
            self.metrics.set_leader(&self.name, true);
            tracing::info!(lease.name = %self.name, "leading; reconciling begins");
        }
    }

    /// Limits a call so that it leaves time for another, and ends before this process's term.
    async fn within<T>(
        &self,
        sent: Instant,
        call: impl Future<Output = Result<T, kube::Error>>,
    ) -> Result<T, LeaseError> {
        let most = sent + self.timing.call();
        let end = self.election.leads_until().map_or(most, |u| u.min(most));
        match timeout_at(end.into(), call).await {
            Ok(answer) => answer.map_err(LeaseError::Failed),
            Err(_) => Err(LeaseError::NoAnswer(end.saturating_duration_since(sent))),
        }
    }

    /// Logs each holder once.
    fn log_holder(&mut self) {
        if self.election.leads_until().is_some() {
            return;
        }
        let holder = self.election.holder().map(str::to_owned);
        if let Some(name) = holder.as_deref().filter(|_| holder != self.logged_holder) {
            tracing::info!(lease.name = %self.name, lease.holder = %name, "standing by; waiting for the Lease");
        }
        self.logged_holder = holder;
    }

    /// Logs a failed attempt. A leader logs each, since it has few left; a standby logs the first in a row.
    fn report(&mut self, error: &LeaseError, what: &'static str) {
        self.failures = self.failures.saturating_add(1);
        if self.failures == 1 || self.election.leads_until().is_some() {
            tracing::warn!(
                lease.name = %self.name, failures = self.failures, error = %error_chain(error), "{what}"
            );
        }
    }
}

/// Error of a call for the Lease.
#[derive(Debug, thiserror::Error)]
enum LeaseError {
    #[error("the request to the API server failed")]
    Failed(#[source] kube::Error),
    #[error("no answer within {0:?}")]
    NoAnswer(Duration),
}

impl LeaseError {
    /// Whether the Lease has changed since it was read: updated, deleted or already created.
    fn conflict(&self) -> bool {
        matches!(self, Self::Failed(kube::Error::Api(status)) if matches!(status.code, 404 | 409))
    }
}
