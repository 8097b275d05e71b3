//! Leader election by a Lease, as in client-go; at most one run for a Run doesn't need it (docs/design.md). A record is
//! taken over once this process's monotonic clock has seen it unchanged for its own duration; `renewTime` is not compared.
//! A term counts from when its last successful write was *sent*; others saw it later, so two terms never overlap. Every
//! write names the version that it replaces: of two concurrent takeovers one is refused.

use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::{Api, api::PostParams};
use tokio::sync::watch;
use tokio::time::{sleep_until, timeout_at};
use tokio_util::sync::CancellationToken;

use crate::clock::wall;
use crate::decide::delays;
use crate::util::error_chain;

use super::metrics::Metrics;

#[cfg(test)]
mod tests;

/// Pause before leadership is checked again: nothing tells that a passed term was renewed.
pub(super) const AGAIN: Duration = Duration::from_secs(1);
const FOREVER: Duration = Duration::from_hours(24 * 365 * 30);
/// Leaves room for a failed renewal and one retry before the deadline; client-go's factor.
const RETRY_ROOM: f64 = 1.2;

/// Leadership of this process: the end of its term, which renewals put off. `None`: another process leads, or none.
#[derive(Clone, Debug)]
pub struct Leading(watch::Receiver<Option<Instant>>);

impl Leading {
    pub fn always() -> Self {
        Self(watch::channel(Some(Instant::now() + FOREVER)).1)
    }

    /// Whether this process may begin an effect. A leader that was stopped for a while sees here that its term has passed.
    pub fn holds(&self) -> bool {
        self.0.borrow().is_some_and(|end| Instant::now() < end)
    }

    /// Waits until this process leads; forever if the election ends before.
    pub async fn begun(mut self) {
        if self.0.wait_for(Option::is_some).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    lease: i32,
    renew: Duration,
    retry: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TimingError {
    /// A Lease stores whole seconds.
    #[error("a lease duration must be whole seconds, at least 1s: {0:?}")]
    NotSeconds(Duration),
    /// A leader must have stopped before another process may begin.
    #[error("the lease duration ({0:?}) must be longer than the renew deadline ({1:?})")]
    LeaseTooShort(Duration, Duration),
    #[error("the renew deadline ({0:?}) must be longer than 1.2 times the retry period ({1:?})")]
    DeadlineTooShort(Duration, Duration),
}

impl Timing {
    /// Validity of a record after its last change, term of a leader after its last renewal, pause between two attempts.
    pub fn new(lease: Duration, renew: Duration, retry: Duration) -> Result<Self, TimingError> {
        let seconds = i32::try_from(lease.as_secs()).unwrap_or_default();
        if seconds == 0 || lease.subsec_nanos() > 0 {
            return Err(TimingError::NotSeconds(lease));
        }
        if lease <= renew {
            return Err(TimingError::LeaseTooShort(lease, renew));
        }
        if renew <= retry.mul_f64(RETRY_ROOM) {
            return Err(TimingError::DeadlineTooShort(renew, retry));
        }
        Ok(Self {
            lease: seconds,
            renew,
            retry,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Lost {
    #[error("it could not be renewed within {0:?}")]
    NotRenewed(Duration),
    /// The holder's name; empty if there is no holder.
    #[error("its holder is now {0:?}")]
    Taken(String),
}

pub struct Elector {
    api: Api<Lease>,
    election: Election,
    term: watch::Sender<Option<Instant>>,
    metrics: Arc<Metrics>,
    failures: u32,
}

impl Elector {
    /// A candidate for the Lease `name`. The client of `api` repeats nothing. `identity` must be unique to this process.
    pub fn new(
        api: Api<Lease>,
        name: &str,
        identity: &str,
        timing: Timing,
        metrics: Arc<Metrics>,
    ) -> (Self, Leading) {
        metrics.set_leader(name, false);
        let (term, seen) = watch::channel(None);
        let elector = Self {
            api,
            election: Election::new(name, identity, timing, Instant::now()),
            term,
            metrics,
            failures: 0,
        };
        (elector, Leading(seen))
    }

    /// Ends with the loss of the Lease, or after `resign`, which releases it: the process must have stopped acting before.
    pub async fn run(mut self, resign: CancellationToken) -> Result<(), Lost> {
        let end = loop {
            let resigned = resign.is_cancelled();
            if resigned {
                self.election.resign(Instant::now());
            }
            match self.election.next(Instant::now(), wall()) {
                Step::Wait(until) => tokio::select! {
                    () = sleep_until(until.into()) => {}
                    () = resign.cancelled(), if !resigned => {}
                },
                Step::Read => self.read().await,
                Step::Write(lease) => self.write(&lease).await,
                Step::End(end) => break end,
            }
        };
        self.term.send_replace(None);
        self.metrics.set_leader(&self.election.name, false);
        end
    }

    async fn read(&mut self) {
        let (api, name) = (self.api.clone(), self.election.name.clone());
        let before = self.election.holder().map(str::to_owned);
        if let Some(found) = self.answer(Instant::now(), api.get_opt(&name)).await {
            self.election.read(Instant::now(), found);
        }
        if let Some(holder) = self.election.holder()
            && before.as_deref() != Some(holder)
            && self.election.leads_until().is_none()
        {
            tracing::info!(lease.name = %name, lease.holder = holder, "standing by; waiting for the Lease");
        }
    }

    async fn write(&mut self, lease: &Lease) {
        let (api, name) = (self.api.clone(), self.election.name.clone());
        let (params, sent) = (PostParams::default(), Instant::now());
        let written = if lease.metadata.resource_version.is_some() {
            self.answer(sent, api.replace(&name, &params, lease)).await
        } else {
            self.answer(sent, api.create(&params, lease)).await
        };
        let Some(stored) = written else { return };
        self.election.written(sent, stored);
        if let Some(until) = self.election.leads_until()
            && self.term.send_replace(Some(until)).is_none()
        {
            self.metrics.set_leader(&name, true);
            tracing::info!(lease.name = %name, "leading; reconciling begins");
        }
    }

    /// The answer to a call for the Lease. The call leaves time for another, and ends before this process's term.
    async fn answer<T>(
        &mut self,
        sent: Instant,
        call: impl Future<Output = kube::Result<T>>,
    ) -> Option<T> {
        let until = self.election.leads_until();
        let most = sent + self.election.timing.renew / 2;
        let end = until.map_or(most, |until| until.min(most));
        let answer = timeout_at(end.into(), call).await;
        if !matches!(answer, Ok(Ok(_))) {
            self.election.failed(Instant::now());
        }
        let error = match answer {
            Ok(Ok(answer)) => {
                self.failures = 0;
                return Some(answer);
            }
            // Updated, deleted or already created since it was read: the next read shows it.
            Ok(Err(kube::Error::Api(status))) if matches!(status.code, 404 | 409) => return None,
            Ok(Err(error)) => error_chain(&error),
            Err(_) => format!("no answer within {:?}", end.saturating_duration_since(sent)),
        };
        self.failures = self.failures.saturating_add(1);
        // A leader has few attempts left; of a standby's the first in a row is enough.
        if self.failures == 1 || until.is_some() {
            let (name, failures) = (&self.election.name, self.failures);
            tracing::warn!(lease.name = %name, failures, error, "failed to read or write the Lease; retrying");
        }
        None
    }
}

#[derive(Clone, Debug, PartialEq)]
enum Step {
    Wait(Instant),
    Read,
    /// Write it: with a resourceVersion, replace that version; without, create it.
    Write(Box<Lease>),
    End(Result<(), Lost>),
}

/// One process's state in the election, without I/O or clock.
#[derive(Debug)]
struct Election {
    name: String,
    identity: String,
    timing: Timing,
    /// Sending time of the last successful write, if this process leads.
    renewed: Option<Instant>,
    resigns: bool,
    /// The Lease as read or written last, on which the next write builds; without a version if there is none.
    found: Option<Lease>,
    /// The record as read last, and the time since which this process has read it unchanged.
    record: Option<(LeaseSpec, Instant)>,
    due: Instant,
}

impl Election {
    fn new(name: &str, identity: &str, timing: Timing, now: Instant) -> Self {
        Self {
            name: name.to_owned(),
            identity: identity.to_owned(),
            timing,
            renewed: None,
            resigns: false,
            found: None,
            record: None,
            due: now,
        }
    }

    fn leads_until(&self) -> Option<Instant> {
        self.renewed.map(|sent| sent + self.timing.renew)
    }

    fn holder(&self) -> Option<&str> {
        self.record.as_ref().and_then(|(record, _)| holder(record))
    }

    fn resign(&mut self, now: Instant) {
        if !self.resigns {
            self.resigns = true;
            self.due = now;
        }
    }

    /// The next step; `clock` is the time that the record shows to people.
    fn next(&mut self, now: Instant, clock: Timestamp) -> Step {
        let until = self.leads_until();
        match until {
            Some(until) if now < until => {}
            _ if self.resigns => return Step::End(Ok(())),
            Some(_) => return Step::End(Err(Lost::NotRenewed(self.timing.renew))),
            None => {}
        }
        if now < self.due {
            return Step::Wait(until.map_or(self.due, |until| until.min(self.due)));
        }
        let Some(lease) = self.found.clone() else {
            return Step::Read;
        };
        let exists = lease.metadata.resource_version.is_some();
        let record = lease.spec.clone().unwrap_or_default();
        let holder = holder(&record);
        if holder != Some(&self.identity) {
            if self.resigns {
                return Step::End(Ok(()));
            }
            if until.is_some() && exists {
                let by = holder.unwrap_or_default().to_owned();
                return Step::End(Err(Lost::Taken(by)));
            }
            if let Some(expires) = holder.and_then(|_| self.expires())
                && now < expires
            {
                self.found = None;
                self.due = expires.min(now + self.pause());
                return Step::Wait(self.due);
            }
        }
        Step::Write(Box::new(self.to_write(lease, record, clock)))
    }

    fn read(&mut self, now: Instant, found: Option<Lease>) {
        let record = found.as_ref().map(|l| l.spec.clone().unwrap_or_default());
        // Only a changed record counts: labels and other metadata are no evidence about the holder.
        if self.record.as_ref().map(|(record, _)| record) != record.as_ref() {
            self.record = record.map(|record| (record, now));
        }
        self.found = Some(found.unwrap_or_default());
    }

    fn written(&mut self, sent: Instant, stored: Lease) {
        self.found = Some(stored);
        self.renewed = (!self.resigns).then_some(sent);
        self.due = sent + self.timing.retry;
    }

    /// The outcome may be unknown: the Lease is read again after a pause.
    fn failed(&mut self, now: Instant) {
        self.found = None;
        self.due = now + self.pause();
    }

    /// End of the record's validity as last seen. Its own duration applies, since its holder uses it.
    fn expires(&self) -> Option<Instant> {
        let (record, since) = self.record.as_ref()?;
        let own = record.lease_duration_seconds.filter(|seconds| *seconds > 0);
        let seconds = own.unwrap_or(self.timing.lease).unsigned_abs();
        since.checked_add(Duration::from_secs(seconds.into()))
    }

    /// At most half the retry period, so that a released Lease is taken soon; spread by the identity.
    fn pause(&self) -> Duration {
        let spread = u32::try_from(delays::seed(&self.identity, 0) % 200).unwrap_or_default();
        self.timing.retry * (1000 - spread) / 2000
    }

    fn to_write(&self, mut lease: Lease, before: LeaseSpec, clock: Timestamp) -> Lease {
        let exists = lease.metadata.resource_version.is_some();
        let mut record = LeaseSpec {
            lease_duration_seconds: Some(self.timing.lease),
            renew_time: Some(MicroTime(clock)),
            ..before
        };
        if self.resigns {
            record.holder_identity = Some(String::new());
            record.lease_duration_seconds = Some(1);
            record.acquire_time = Some(MicroTime(clock));
        } else if holder(&record) != Some(&self.identity) {
            let transitions = record.lease_transitions.unwrap_or_default().max(0);
            record.holder_identity = Some(self.identity.clone());
            record.acquire_time = Some(MicroTime(clock));
            record.lease_transitions = Some(transitions.saturating_add(i32::from(exists)));
        }
        lease.metadata.name = Some(self.name.clone());
        lease.spec = Some(record);
        lease
    }
}

fn holder(record: &LeaseSpec) -> Option<&str> {
    let holder = record.holder_identity.as_deref();
    holder.filter(|name| !name.is_empty())
}
