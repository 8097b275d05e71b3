#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::unchecked_time_subtraction,
    clippy::option_option,
    reason = "a test stops at what it did not expect; no instant here is near the beginning of time"
)]

use std::time::{Duration, Instant};

use jiff::{Timestamp, ToSpan};
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;

use super::{Election, Lost, Step, Timing, TimingError};

mod random;

const LEASE: Duration = Duration::from_secs(15);
const RENEW: Duration = Duration::from_secs(10);
const RETRY: Duration = Duration::from_secs(2);
const MS: Duration = Duration::from_millis(1);

fn timing() -> Timing {
    Timing::new(LEASE, RENEW, RETRY).unwrap()
}

fn clock() -> Timestamp {
    "2026-01-01T00:00:00Z".parse().unwrap()
}

#[derive(Default)]
struct Server {
    lease: Option<Lease>,
    version: u64,
}

impl Server {
    fn write(&mut self, lease: &Lease) -> Option<Lease> {
        let stored = self.lease.as_ref().map(version);
        if stored
            != lease
                .metadata
                .resource_version
                .as_ref()
                .map(|_| version(lease))
        {
            return None;
        }
        Some(self.put(lease.clone()))
    }

    fn put(&mut self, mut lease: Lease) -> Lease {
        self.version += 1;
        lease.metadata.resource_version = Some(self.version.to_string());
        self.lease = Some(lease.clone());
        lease
    }

    fn edit(&mut self, edit: impl FnOnce(&mut LeaseSpec)) {
        let mut lease = self.lease.clone().unwrap_or_default();
        edit(lease.spec.get_or_insert_default());
        self.put(lease);
    }

    fn record(&self) -> LeaseSpec {
        self.lease.as_ref().and_then(|l| l.spec.clone()).unwrap()
    }
}

fn version(lease: &Lease) -> String {
    lease.metadata.resource_version.clone().unwrap()
}

struct Process {
    election: Election,
    clock: Timestamp,
}

impl Process {
    fn new(identity: &str, now: Instant) -> Self {
        Self {
            election: Election::new("run-operator", identity, timing(), now),
            clock: clock(),
        }
    }

    /// Takes all steps due at this instant; returns the step that waits or ends.
    fn act(&mut self, server: &mut Server, now: Instant) -> Step {
        loop {
            match self.election.next(now, self.clock) {
                Step::Read => self.election.read(now, server.lease.clone()),
                Step::Write(lease) => match server.write(&lease) {
                    Some(stored) => self.election.written(now, stored),
                    None => self.election.failed(now),
                },
                step => return step,
            }
        }
    }

    fn run(&mut self, server: &mut Server, mut now: Instant, until: Instant) -> Step {
        loop {
            match self.act(server, now) {
                Step::Wait(at) if at <= until => now = at,
                step => return step,
            }
        }
    }

    fn takes_over(&mut self, server: &mut Server, now: Instant, end: Instant, of: &str) {
        self.run(server, now, end - MS);
        assert!(!self.leads(end - MS), "{of}");
        self.run(server, end - MS, end);
        assert!(self.leads(end), "{of}");
    }

    fn leads(&self, now: Instant) -> bool {
        self.election.leads_until().is_some_and(|until| now < until)
    }
}

/// Proves: P-leader
#[test]
fn the_first_creates_the_lease_and_leads() {
    let (mut server, now) = (Server::default(), Instant::now());
    let mut a = Process::new("a", now);
    assert_eq!(a.act(&mut server, now), Step::Wait(now + RETRY));
    assert_eq!(a.election.leads_until(), Some(now + RENEW));
    let record = server.record();
    let written = MicroTime(clock());
    assert_eq!(record.holder_identity.as_deref(), Some("a"));
    assert_eq!(record.lease_duration_seconds, Some(15));
    assert_eq!(record.lease_transitions, Some(0));
    assert_eq!(record.acquire_time, Some(written.clone()));
    assert_eq!(record.renew_time, Some(written));
}

/// Proves: P-leader
#[test]
fn a_renewal_changes_the_time_of_renewal_alone() {
    let (mut server, now) = (Server::default(), Instant::now());
    let mut a = Process::new("a", now);
    a.act(&mut server, now);
    let labels = [("team".to_owned(), "a".to_owned())].into();
    server.lease.as_mut().unwrap().metadata.labels = Some(labels);
    let before = server.record();
    a.clock += 2.seconds();
    a.run(&mut server, now, now + RETRY);
    let renewed = LeaseSpec {
        renew_time: Some(MicroTime(a.clock)),
        ..before
    };
    assert_eq!(server.record(), renewed);
    assert_eq!(a.election.leads_until(), Some(now + RETRY + RENEW));
}

/// Proves: P-leader
#[test]
fn a_standby_takes_over_an_unchanged_lease_exactly_at_expiry() {
    let (mut server, now) = (Server::default(), Instant::now());
    Process::new("a", now).act(&mut server, now);
    let mut b = Process::new("b", now);
    let seen = now + Duration::from_secs(3);
    b.takes_over(&mut server, seen, seen + LEASE, "it reads just then");
    let record = server.record();
    assert_eq!(record.holder_identity.as_deref(), Some("b"));
    assert_eq!(record.lease_transitions, Some(1));
}

/// Proves: P-leader
#[test]
fn a_label_is_no_sign_of_life() {
    let (mut server, now) = (Server::default(), Instant::now());
    Process::new("a", now).act(&mut server, now);
    let mut b = Process::new("b", now);
    b.act(&mut server, now);
    server.edit(|_| ());
    b.run(&mut server, now, now + LEASE);
    assert!(b.leads(now + LEASE));
}

/// A person may write any record; without a duration the own lease duration applies.
#[test]
fn a_record_without_a_duration_is_valid_for_the_lease_duration() {
    for seconds in [None, Some(0), Some(-1)] {
        let (mut server, now) = (Server::default(), Instant::now());
        server.edit(|record| {
            record.holder_identity = Some("a".to_owned());
            record.lease_duration_seconds = seconds;
            record.lease_transitions = Some(-7);
        });
        let mut b = Process::new("b", now);
        b.takes_over(&mut server, now, now + LEASE, &format!("{seconds:?}"));
        assert_eq!(server.record().lease_transitions, Some(1));
    }
}

/// Proves: P-leader
#[test]
fn a_record_is_valid_for_its_own_duration() {
    let (mut server, now) = (Server::default(), Instant::now());
    server.edit(|record| {
        record.holder_identity = Some("a".to_owned());
        record.lease_duration_seconds = Some(60);
    });
    let mut b = Process::new("b", now);
    let end = now + Duration::from_mins(1);
    b.takes_over(&mut server, now, end, "the record's own duration");
}

/// Proves: P-takeover
#[test]
fn the_renew_deadline_counts_from_when_the_renewal_was_sent() {
    let (mut server, sent) = (Server::default(), Instant::now());
    let mut a = Process::new("a", sent);
    let Step::Read = a.election.next(sent, clock()) else {
        panic!("it looks first");
    };
    a.election.read(sent, None);
    let Step::Write(lease) = a.election.next(sent, clock()) else {
        panic!("then it writes");
    };
    let answered = sent + Duration::from_secs(4);
    a.election.written(sent, server.write(&lease).unwrap());
    assert!(a.leads(sent + RENEW - MS));
    let mut now = answered;
    while let Step::Write(_) | Step::Read = a.election.next(now, clock()) {
        a.election.failed(now);
        match a.election.next(now, clock()) {
            Step::Wait(at) => now = at,
            step => panic!("{step:?}"),
        }
    }
    assert_eq!(now, sent + RENEW);
    let lost = Step::End(Err(Lost::NotRenewed(RENEW)));
    assert_eq!(a.election.next(now, clock()), lost);
}

/// Proves: P-takeover
#[test]
fn a_leader_gives_up_a_lease_with_another_holder_or_none() {
    for thief in ["b", ""] {
        let (mut server, now) = (Server::default(), Instant::now());
        let mut a = Process::new("a", now);
        a.act(&mut server, now);
        server.edit(|record| record.holder_identity = Some(thief.to_owned()));
        let lost = Lost::Taken(thief.to_owned());
        let end = a.run(&mut server, now, now + 2 * RETRY);
        assert_eq!(end, Step::End(Err(lost)));
    }
}

/// Proves: P-leader
#[test]
fn a_deleted_lease_is_created_again_by_its_leader() {
    let (mut server, now) = (Server::default(), Instant::now());
    let mut a = Process::new("a", now);
    a.act(&mut server, now);
    server.lease = None;
    a.run(&mut server, now, now + 2 * RETRY);
    assert_eq!(server.record().holder_identity.as_deref(), Some("a"));
    assert!(a.leads(now + RENEW));
}

/// The standby reads at any moment of its period; the leader ends right after a renewal.
/// Proves: P-takeover
#[test]
fn a_crashed_leader_is_replaced_within_its_lease_and_5_s() {
    for late in 0..20 {
        let (mut server, start) = (Server::default(), Instant::now());
        let mut a = Process::new("a", start);
        a.act(&mut server, start);
        let begun = start + late * RETRY / 20;
        let mut b = Process::new("b", begun);
        b.act(&mut server, begun);
        let crashed = start + Duration::from_mins(1);
        let mut now = start;
        while now < crashed {
            a.clock += 100.milliseconds();
            a.run(&mut server, now, now + MS * 100);
            b.run(&mut server, now, now + MS * 100);
            now += MS * 100;
        }
        assert!(!b.leads(now), "the leader renews");
        let end = now + LEASE + Duration::from_secs(5);
        b.run(&mut server, now, end);
        assert!(b.leads(end), "{late}");
    }
}

/// Proves: P-takeover
#[test]
fn a_released_lease_is_acquired_at_the_next_read() {
    let (mut server, now) = (Server::default(), Instant::now());
    let mut a = Process::new("a", now);
    let mut b = Process::new("b", now);
    a.act(&mut server, now);
    b.act(&mut server, now);
    a.election.resign(now);
    assert_eq!(a.act(&mut server, now), Step::End(Ok(())));
    let record = server.record();
    assert_eq!(record.holder_identity.as_deref(), Some(""));
    assert_eq!(record.lease_duration_seconds, Some(1));
    b.run(&mut server, now, now + RETRY);
    assert!(b.leads(now + RETRY));
    assert_eq!(server.record().lease_transitions, Some(1));
}

/// Proves: P-takeover
#[test]
fn a_standby_that_resigns_leaves_the_lease_alone() {
    let (mut server, now) = (Server::default(), Instant::now());
    Process::new("a", now).act(&mut server, now);
    let mut b = Process::new("b", now);
    b.act(&mut server, now);
    let before = server.version;
    b.election.resign(now);
    assert_eq!(b.act(&mut server, now), Step::End(Ok(())));
    assert_eq!(server.version, before);
}

/// The takeover was stored, and its answer was lost.
/// Proves: P-leader
#[test]
fn a_standby_that_finds_itself_the_holder_leads_after_a_renewal() {
    let (mut server, now) = (Server::default(), Instant::now());
    let mut a = Process::new("a", now);
    a.election.read(now, None);
    let Step::Write(lease) = a.election.next(now, clock()) else {
        panic!("it writes");
    };
    server.write(&lease);
    a.election.failed(now);
    assert!(!a.leads(now));
    a.run(&mut server, now, now + RETRY);
    assert!(a.leads(now + RETRY));
    assert_eq!(server.record().lease_transitions, Some(0));
}

/// Proves: P-leader
#[test]
fn durations_that_do_not_fit_together_are_refused() {
    let s = Duration::from_secs;
    let half = Duration::from_millis(1500);
    let seconds = TimingError::NotSeconds(half);
    assert_eq!(Timing::new(half, s(1), MS), Err(seconds));
    assert!(Timing::new(s(10), s(10), s(2)).is_err());
    assert!(Timing::new(s(15), s(10), s(9)).is_err());
    assert!(Timing::new(s(2), half, Duration::from_millis(500)).is_ok());
}
