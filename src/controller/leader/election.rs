//! Who leads, as a state machine without I/O: from what this process has seen of the Lease, and when, to what
//! it does next.
//!
//! # Guarantees
//! - A record that somebody else holds is taken over only when this process has seen it unchanged for as long
//!   as the record says it is valid. That is measured by the own monotonic clock: what the holder's clock said
//!   when it wrote (`renewTime`) is shown to people and never compared.
//! - A leader leads for the renew deadline, counted from the moment when it *sent* its last successful write.
//!   Whoever saw that write saw it later and waits longer, so that the two never overlap.
//! - Every write names the version that it replaces. Of two that take over at the same time one is refused.

use std::time::{Duration, Instant};

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;

use crate::decide::backoff;

/// A renewal may fail once and be tried again before the deadline; client-go's factor.
const RETRY_ROOM: f64 = 1.2;

/// How long a Lease is valid, and how often it is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    lease: Duration,
    seconds: i32,
    renew: Duration,
    retry: Duration,
}

/// Durations that don't fit together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TimingError {
    /// A Lease holds whole seconds.
    #[error("a lease duration must be whole seconds, at least 1s: {0:?}")]
    NotSeconds(Duration),
    /// A leader must have given up before somebody else may begin.
    #[error("the lease duration ({lease:?}) must be longer than the renew deadline ({renew:?})")]
    LeaseTooShort {
        /// The lease duration.
        lease: Duration,
        /// The renew deadline.
        renew: Duration,
    },
    /// A renewal that failed must be tried again before the leader gives up.
    #[error(
        "the renew deadline ({renew:?}) must be longer than 1.2 times the retry period ({retry:?})"
    )]
    DeadlineTooShort {
        /// The renew deadline.
        renew: Duration,
        /// The retry period.
        retry: Duration,
    },
}

impl Timing {
    /// How long a record is valid after it was last seen to change, how long a leader leads after its last
    /// renewal, and the pause between two attempts.
    pub fn new(lease: Duration, renew: Duration, retry: Duration) -> Result<Self, TimingError> {
        let seconds = i32::try_from(lease.as_secs()).ok().filter(|s| *s > 0);
        let Some(seconds) = seconds.filter(|_| lease.subsec_nanos() == 0) else {
            return Err(TimingError::NotSeconds(lease));
        };
        if lease <= renew {
            return Err(TimingError::LeaseTooShort { lease, renew });
        }
        if renew <= retry.mul_f64(RETRY_ROOM) {
            return Err(TimingError::DeadlineTooShort { renew, retry });
        }
        Ok(Self {
            lease,
            seconds,
            renew,
            retry,
        })
    }

    /// How long a call about the Lease may take: one that hangs leaves time for another.
    pub fn call(&self) -> Duration {
        self.renew / 2
    }
}

/// What is done next.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Nothing before this instant.
    Wait(Instant),
    /// Read the Lease.
    Look,
    /// Write it: with a resourceVersion, in place of that very version; without, as a new one.
    Write(Box<Lease>),
    /// This process leads no more, and does nothing any more.
    GiveUp(Lost),
    /// The Lease is somebody else's to take; this process doesn't want it any more.
    Released,
}

/// Why a leader leads no more.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Lost {
    /// By this process's own clock.
    #[error("it could not be renewed within {0:?}")]
    NotRenewed(Duration),
    /// Somebody else took it, or a person edited it.
    #[error("{by:?} holds it now")]
    Taken {
        /// The holder; empty if there is none.
        by: String,
    },
    /// A bug: nobody looks after the Lease any more.
    #[error("the election ended by itself")]
    Ended,
}

/// What the next write builds on.
#[derive(Debug)]
enum Known {
    /// It has to be read first.
    Nothing,
    /// As the API server has it, or nothing where there is none.
    Stored(Option<Box<Lease>>),
}

/// A record, and since when this process has seen it as it is.
#[derive(Debug)]
struct Observed {
    record: LeaseSpec,
    since: Instant,
}

/// One process's part in the election.
#[derive(Debug)]
pub struct Election {
    name: String,
    identity: String,
    timing: Timing,
    /// When the last successful write was sent, if this process leads.
    renewed: Option<Instant>,
    resigns: bool,
    released: bool,
    known: Known,
    observed: Option<Observed>,
    /// Nothing is done before.
    due: Instant,
    /// A refused write was followed by another look at once; the next is not.
    hurried: bool,
}

impl Election {
    /// A candidate, who begins with a look. `identity` must be this very process's.
    pub fn new(name: &str, identity: &str, timing: Timing, now: Instant) -> Self {
        Self {
            name: name.to_owned(),
            identity: identity.to_owned(),
            timing,
            renewed: None,
            resigns: false,
            released: false,
            known: Known::Nothing,
            observed: None,
            due: now,
            hurried: false,
        }
    }

    /// Until when this process leads, if nothing more is heard of the Lease.
    pub fn leads_until(&self) -> Option<Instant> {
        self.renewed.map(|sent| sent + self.timing.renew)
    }

    /// Who holds the Lease, as last seen.
    pub fn holder(&self) -> Option<&str> {
        self.observed.as_ref().and_then(|o| holder(&o.record))
    }

    /// Gives the Lease back, if this process holds it. To be called when it does nothing any more.
    pub fn resign(&mut self, now: Instant) {
        self.resigns = true;
        self.due = now;
    }

    /// What to do at this moment; `clock` is what the record shows to people.
    pub fn next(&mut self, now: Instant, clock: Timestamp) -> Step {
        let until = self.leads_until();
        if self.released || self.resigns && until.is_none_or(|until| now >= until) {
            return Step::Released;
        }
        if until.is_some_and(|until| now >= until) {
            return Step::GiveUp(Lost::NotRenewed(self.timing.renew));
        }
        if now < self.due {
            return Step::Wait(until.map_or(self.due, |until| until.min(self.due)));
        }
        let lease = match &self.known {
            Known::Nothing => return Step::Look,
            Known::Stored(None) if self.resigns => return Step::Released,
            Known::Stored(None) => return self.write(Lease::default(), clock),
            Known::Stored(Some(lease)) => lease.as_ref().clone(),
        };
        let record = lease.spec.clone().unwrap_or_default();
        let holder = holder(&record);
        if holder == Some(&self.identity) {
            return self.write(lease, clock);
        }
        if self.resigns {
            return Step::Released;
        }
        if self.renewed.is_some() {
            let by = holder.unwrap_or_default().to_owned();
            return Step::GiveUp(Lost::Taken { by });
        }
        match holder.and_then(|_| self.valid_until()) {
            Some(until) if now < until => {
                self.known = Known::Nothing;
                self.due = until.min(now + self.pace());
                Step::Wait(self.due)
            }
            _ => self.write(lease, clock),
        }
    }

    /// The Lease was read, and is this.
    pub fn looked(&mut self, now: Instant, found: Option<Lease>) {
        self.observe(now, found.as_ref());
        self.known = Known::Stored(found.map(Box::new));
    }

    /// The Lease could not be read.
    pub fn not_looked(&mut self, now: Instant) {
        self.due = now + self.pace();
    }

    /// A write that was sent then has succeeded, and the Lease is this.
    pub fn written(&mut self, sent: Instant, now: Instant, lease: Lease) {
        self.observe(now, Some(&lease));
        self.known = Known::Stored(Some(Box::new(lease)));
        self.hurried = false;
        if self.resigns {
            self.released = true;
            self.renewed = None;
            return;
        }
        self.renewed = Some(sent);
        self.due = sent + self.timing.retry;
    }

    /// A write was refused, or nobody knows what became of it. `conflict`: the Lease is another than was seen.
    pub fn not_written(&mut self, now: Instant, conflict: bool) {
        self.known = Known::Nothing;
        let at_once = conflict && !self.hurried;
        self.hurried = at_once;
        self.due = if at_once { now } else { now + self.pace() };
    }

    fn observe(&mut self, now: Instant, lease: Option<&Lease>) {
        let Some(record) = lease.map(|lease| lease.spec.clone().unwrap_or_default()) else {
            self.observed = None;
            return;
        };
        // Labels and the like say nothing of the holder: the record has to change.
        if self.observed.as_ref().is_none_or(|o| o.record != record) {
            self.observed = Some(Observed { record, since: now });
        }
    }

    /// Until when the record as seen keeps others out. Its own duration counts, since its holder goes by it.
    fn valid_until(&self) -> Option<Instant> {
        let observed = self.observed.as_ref()?;
        let seconds = observed.record.lease_duration_seconds.unwrap_or_default();
        let valid = u64::try_from(seconds).ok().filter(|s| *s > 0);
        let valid = valid.map_or(self.timing.lease, Duration::from_secs);
        observed.since.checked_add(valid)
    }

    /// The pause of a process that waits: half the retry period at most, so that a Lease that was given back is
    /// taken soon, and its own, so that several don't ask in step.
    fn pace(&self) -> Duration {
        let spread = u32::try_from(backoff::seed(&self.identity, 0) % 200).unwrap_or_default();
        self.timing.retry * (1000 - spread) / 2000
    }

    /// The Lease as it is to be, all else in it left alone: created, taken over, renewed or given back.
    fn write(&self, mut lease: Lease, clock: Timestamp) -> Step {
        let now = Some(MicroTime(clock));
        let before = lease.spec.take().unwrap_or_default();
        let exists = lease.metadata.resource_version.is_some();
        let transitions = before.lease_transitions.unwrap_or_default().max(0);
        let record = if self.resigns {
            LeaseSpec {
                holder_identity: Some(String::new()),
                lease_duration_seconds: Some(1),
                acquire_time: now.clone(),
                renew_time: now,
                ..before
            }
        } else if holder(&before) == Some(&self.identity) {
            LeaseSpec {
                lease_duration_seconds: Some(self.timing.seconds),
                renew_time: now,
                ..before
            }
        } else {
            LeaseSpec {
                holder_identity: Some(self.identity.clone()),
                lease_duration_seconds: Some(self.timing.seconds),
                acquire_time: now.clone(),
                renew_time: now,
                lease_transitions: Some(transitions.saturating_add(i32::from(exists))),
                ..before
            }
        };
        lease.metadata.name = Some(self.name.clone());
        lease.spec = Some(record);
        Step::Write(Box::new(lease))
    }
}

/// Who holds a record; an empty name is nobody.
fn holder(record: &LeaseSpec) -> Option<&str> {
    record
        .holder_identity
        .as_deref()
        .filter(|name| !name.is_empty())
}
