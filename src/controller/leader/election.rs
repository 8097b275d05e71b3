//! The election as a state machine without I/O: derives the next step from the Lease, and the times at which this
//! process observed it.
//!
//! # Guarantees
//! - A record held by another process is taken over only after this process has seen it unchanged for the record's own
//!   duration. That is measured by this process's monotonic clock. The holder's `renewTime` is shown to people and
//!   never compared.
//! - A leader leads for the renew deadline, counted from the moment when it *sent* its last successful write. Another
//!   process saw that write later and waits longer, so that two terms never overlap.
//! - Every write names the version that it replaces. Of two concurrent takeovers one is refused.

use std::time::{Duration, Instant};

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;

use crate::decide::backoff;

/// Leaves room for a failed renewal and one retry before the deadline; client-go's factor.
const RETRY_ROOM: f64 = 1.2;

/// Validity of a Lease, and the intervals of its renewal.
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
    /// A Lease stores whole seconds.
    #[error("a lease duration must be whole seconds, at least 1s: {0:?}")]
    NotSeconds(Duration),
    /// A leader must have stopped before another process may begin.
    #[error("the lease duration ({lease:?}) must be longer than the renew deadline ({renew:?})")]
    LeaseTooShort {
        /// The lease duration.
        lease: Duration,
        /// The renew deadline.
        renew: Duration,
    },
    /// A failed renewal must be retried before the leader gives up.
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
    /// Arguments: validity of a record after it was last seen to change, length of a leader's term after its last
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

    /// Time limit of a call for the Lease; a hanging call leaves time for another.
    pub fn call(&self) -> Duration {
        self.renew / 2
    }
}

/// Next step of the election.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Wait until this instant.
    Wait(Instant),
    /// Read the Lease.
    Read,
    /// Write it: with a resourceVersion, replace that version; without, create it.
    Write(Box<Lease>),
    /// This process no longer leads, and must stop acting.
    GiveUp(Lost),
    /// The Lease is free for others; this process is no longer a candidate.
    Released,
}

/// Reason for which a leader lost the Lease.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Lost {
    /// By this process's own clock.
    #[error("it could not be renewed within {0:?}")]
    NotRenewed(Duration),
    /// Another process took it, or a person edited it.
    #[error("its holder is now {by:?}")]
    Taken {
        /// The holder; empty if there is none.
        by: String,
    },
    /// A bug: the election's task has ended.
    #[error("the election ended unexpectedly")]
    Ended,
}

/// State on which the next write builds.
#[derive(Debug)]
enum Known {
    /// The Lease must be read first.
    Nothing,
    /// The stored Lease; `None` if there is none.
    Stored(Option<Box<Lease>>),
}

/// A record, and the time since which this process has seen it unchanged.
#[derive(Debug)]
struct Observed {
    record: LeaseSpec,
    since: Instant,
}

/// One process's state in the election.
#[derive(Debug)]
pub struct Election {
    name: String,
    identity: String,
    timing: Timing,
    /// Sending time of the last successful write, if this process leads.
    renewed: Option<Instant>,
    resigns: bool,
    released: bool,
    known: Known,
    observed: Option<Observed>,
    /// Time of the next step.
    due: Instant,
    /// Whether a refused write was already followed by an immediate read; the next is not.
    hurried: bool,
}

impl Election {
    /// A candidate, which begins with a read. `identity` must be unique to this process.
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

    /// End of this process's term, unless it is renewed.
    pub fn leads_until(&self) -> Option<Instant> {
        self.renewed.map(|sent| sent + self.timing.renew)
    }

    /// Holder of the Lease, as last seen.
    pub fn holder(&self) -> Option<&str> {
        self.observed.as_ref().and_then(|o| holder(&o.record))
    }

    /// Releases the Lease, if this process holds it. The process must have stopped acting.
    pub fn resign(&mut self, now: Instant) {
        self.resigns = true;
        self.due = now;
    }

    /// The next step; `clock` is the time that the record shows to people.
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
            Known::Nothing => return Step::Read,
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
                self.due = until.min(now + self.retry_pause());
                Step::Wait(self.due)
            }
            _ => self.write(lease, clock),
        }
    }

    /// Records the Lease that was read.
    pub fn read(&mut self, now: Instant, found: Option<Lease>) {
        self.observe(now, found.as_ref());
        self.known = Known::Stored(found.map(Box::new));
    }

    /// Records a failed read.
    pub fn read_failed(&mut self, now: Instant) {
        self.due = now + self.retry_pause();
    }

    /// Records a successful write, its sending time and the stored Lease.
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

    /// Records a write that was refused or whose outcome is unknown. `conflict`: the Lease has changed since it was
    /// read.
    pub fn write_failed(&mut self, now: Instant, conflict: bool) {
        self.known = Known::Nothing;
        let at_once = conflict && !self.hurried;
        self.hurried = at_once;
        self.due = if at_once {
            now
        } else {
            now + self.retry_pause()
        };
    }

    fn observe(&mut self, now: Instant, lease: Option<&Lease>) {
        let Some(record) = lease.map(|lease| lease.spec.clone().unwrap_or_default()) else {
            self.observed = None;
            return;
        };
        // Only a changed record counts: labels and other metadata are no evidence about the holder.
        if self.observed.as_ref().is_none_or(|o| o.record != record) {
            self.observed = Some(Observed { record, since: now });
        }
    }

    /// End of the record's validity as last seen. Its own duration applies, since its holder uses it.
    fn valid_until(&self) -> Option<Instant> {
        let observed = self.observed.as_ref()?;
        let seconds = observed.record.lease_duration_seconds.unwrap_or_default();
        let valid = u64::try_from(seconds).ok().filter(|s| *s > 0);
        let valid = valid.map_or(self.timing.lease, Duration::from_secs);
        observed.since.checked_add(valid)
    }

    /// Pause of a waiting process. At most half the retry period, so that a released Lease is taken soon. It depends on
    /// the identity, so that several processes don't ask at the same time.
    fn retry_pause(&self) -> Duration {
        let spread = u32::try_from(backoff::seed(&self.identity, 0) % 200).unwrap_or_default();
        self.timing.retry * (1000 - spread) / 2000
    }

    /// The Lease to write, with all other fields unchanged: created, taken over, renewed or released.
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

/// Holder of a record; `None` for an empty name.
fn holder(record: &LeaseSpec) -> Option<&str> {
    record
        .holder_identity
        .as_deref()
        .filter(|name| !name.is_empty())
}
