//! Leader election by a Lease, as client-go does it: of several operators one acts, the others keep their
//! caches warm and wait. What is decided is [`election`]'s; here it is carried out.
//!
//! The election saves calls and writes. That a Run has at most one run doesn't rest on it: only the owner of
//! an intent POSTs, and every write names the version that it replaces (docs/design.md).

use std::sync::Arc;
use std::time::{Duration, Instant};

use k8s_openapi::api::coordination::v1::Lease;
use kube::{Api, api::PostParams};
use tokio::sync::watch;
use tokio::time::{sleep_until, timeout_at};
use tokio_util::sync::CancellationToken;

use crate::clock::wall;

use super::{metrics::Metrics, watch::chain};

mod election;
#[cfg(test)]
mod tests;

use election::{Election, Step};
pub use election::{Lost, Timing, TimingError};

/// Whether this process leads.
#[derive(Clone, Copy, Debug)]
enum Term {
    /// There is no election.
    Unlimited,
    /// Somebody else does, or nobody.
    Standby,
    /// It does, until then at least.
    Until(Instant),
}

/// What the rest of the program sees of the election.
#[derive(Clone, Debug)]
pub struct Leading(watch::Receiver<Term>);

impl Leading {
    /// Without an election this process acts from its start.
    pub fn always() -> Self {
        Self(watch::channel(Term::Unlimited).1)
    }

    /// Whether this process may begin something now. A leader that was stopped for a while, and goes on
    /// before it has looked at its Lease, sees it here: its term has passed.
    pub fn holds(&self) -> bool {
        match *self.0.borrow() {
            Term::Unlimited => true,
            Term::Standby => false,
            Term::Until(end) => Instant::now() < end,
        }
    }

    /// Waits until this process leads; for ever, if the program ends before.
    pub async fn begun(mut self) {
        let led = self.0.wait_for(|term| !matches!(term, Term::Standby));
        if led.await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

/// What to be elected takes.
pub struct Candidate {
    /// A client that repeats nothing: each attempt is decided anew.
    pub client: kube::Client,
    /// Where the Lease is.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// This very process.
    pub identity: String,
    /// How long, how often.
    pub timing: Timing,
}

/// Takes part in the election.
pub struct Elector {
    api: Api<Lease>,
    election: Election,
    timing: Timing,
    term: watch::Sender<Term>,
    metrics: Arc<Metrics>,
    name: String,
    /// Attempts in a row that failed.
    failures: u32,
    /// The holder that the log has told of.
    told: Option<String>,
}

impl Elector {
    /// Stands for election; nothing is asked before [`Elector::run`].
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
            told: None,
        };
        (elector, Leading(seen))
    }

    /// Looks, takes over and renews until the lease is lost, which is an error, or until `resign`; then the
    /// Lease is given back, so that the next leader need not wait for its end. What resigns must have done
    /// its last.
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
                Step::Look => self.look().await,
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

    async fn look(&mut self) {
        let call = self.api.get_opt(&self.name);
        match self.within(Instant::now(), call).await {
            Ok(found) => {
                self.failures = 0;
                self.election.looked(Instant::now(), found);
                self.tell_holder();
            }
            Err(error) => {
                self.report(&error, "failed to read the Lease; trying again");
                self.election.not_looked(Instant::now());
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
                    self.report(&error, "failed to write the Lease; trying again");
                }
                self.election.not_written(Instant::now(), conflict);
            }
        }
    }

    /// This process leads, or goes on leading.
    fn lead(&mut self) {
        let Some(until) = self.election.leads_until() else {
            return;
        };
        let before = self.term.send_replace(Term::Until(until));
        if matches!(before, Term::Standby) {
            self.metrics.set_leader(&self.name, true);
            tracing::info!(lease.name = %self.name, "leading");
        }
    }

    /// A call ends in time for another, and before this process's term does.
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

    /// Each holder once.
    fn tell_holder(&mut self) {
        if self.election.leads_until().is_some() {
            return;
        }
        let holder = self.election.holder().map(str::to_owned);
        if let Some(name) = holder.as_deref().filter(|_| holder != self.told) {
            tracing::info!(lease.name = %self.name, lease.holder = %name, "standing by");
        }
        self.told = holder;
    }

    /// A leader has few attempts left, so each is told; a standby's first of a row.
    fn report(&mut self, error: &LeaseError, what: &'static str) {
        self.failures = self.failures.saturating_add(1);
        if self.failures == 1 || self.election.leads_until().is_some() {
            tracing::warn!(
                lease.name = %self.name, failures = self.failures, error = %chain(error), "{what}"
            );
        }
    }
}

/// Why a call about the Lease failed.
#[derive(Debug, thiserror::Error)]
enum LeaseError {
    #[error("the API server did not do it")]
    Failed(#[source] kube::Error),
    #[error("no answer within {0:?}")]
    NoAnswer(Duration),
}

impl LeaseError {
    /// Whether the Lease is another than was seen: changed, gone, or there already.
    fn conflict(&self) -> bool {
        matches!(self, Self::Failed(kube::Error::Api(status)) if matches!(status.code, 404 | 409))
    }
}
