#![allow(clippy::unwrap_used, reason = "a test stops at what it did not expect")]

use crate::api::Contract;
use crate::controller::state::fixtures::{URL, client};

use super::*;

/// A Workspace that was checked at `at`, Ready, with the next check in five minutes.
fn checked(at: Timestamp) -> Probe {
    let mut checks = Probe::default();
    let last = ProbeRecord {
        uid: "u".to_owned(),
        generation: 1,
        ready: true,
        passed_over: false,
        next: later(at, Duration::from_mins(5)),
    };
    checks.done(last, at);
    checks
}

fn due_at(checks: &mut Probe, now: Timestamp) -> Option<Timestamp> {
    match checks.due("u", 1, now) {
        Verdict::Now => None,
        Verdict::NotBefore(at) => Some(at),
    }
}

/// Proves: P-version-again
#[test]
fn a_reconnect_draws_the_next_check_nearer_once_for_all_streams() {
    let start = Timestamp::UNIX_EPOCH;
    let mut checks = checked(start);
    let soon = later(start, Duration::from_secs(10));
    let after = later(start, RECONNECTS_APART);
    assert!(checks.reconnected(soon));
    assert_eq!(due_at(&mut checks, soon), Some(after));
    for _ in 0..1000 {
        assert!(!checks.reconnected(soon));
    }
    assert_eq!(due_at(&mut checks, after), None, "the check is due");
}

/// Proves: P-version-again
#[test]
fn a_reconnect_long_after_the_last_check_leads_to_one_at_once() {
    let start = Timestamp::UNIX_EPOCH;
    let mut checks = checked(start);
    let late = later(start, Duration::from_mins(2));
    assert!(checks.reconnected(late));
    assert_eq!(due_at(&mut checks, late), None);
    assert!(!checks.reconnected(late), "it is asked for already");
}

/// Proves: P-version-again
#[test]
fn a_reconnect_neither_delays_a_probe_nor_triggers_the_first() {
    let start = Timestamp::UNIX_EPOCH;
    assert!(!Probe::default().reconnected(start));
    let mut checks = checked(start);
    let before_the_next = later(start, Duration::from_secs(299));
    assert!(checks.reconnected(before_the_next));
    let past_the_next = later(start, Duration::from_secs(301));
    assert!(!checks.reconnected(past_the_next));
    assert_eq!(due_at(&mut checks, past_the_next), None);
}

/// Proves: P-rotation
#[test]
fn a_new_object_generation_or_secret_is_probed_at_once() {
    let start = Timestamp::UNIX_EPOCH;
    let mut checks = checked(start);
    let due = |checks: &mut Probe, uid: &str, generation: i64| {
        matches!(checks.due(uid, generation, start), Verdict::Now)
    };
    assert!(!due(&mut checks, "u", 1), "nothing changed");
    assert!(due(&mut checks, "another", 1) && due(&mut checks, "u", 2));
    checks.secret_changed();
    assert!(due(&mut checks, "u", 1));
    assert!(!due(&mut checks, "u", 1), "one change, one check");
}

/// Proves: P-one-probe
#[test]
fn a_suspicion_leads_to_one_check_a_second() {
    let start = Timestamp::UNIX_EPOCH;
    let mut checks = checked(start);
    assert!(checks.suspect() && !checks.suspect(), "it is raised once");
    let mut suspected = |now| checks.due("u", 1, now);
    let soonest = later(start, SUSPICIONS_APART);
    let just_before = later(start, SUSPICIONS_APART / 2);
    assert!(matches!(suspected(just_before), Verdict::NotBefore(at) if at == soonest));
    assert!(matches!(suspected(soonest), Verdict::Now));
}

#[test]
fn a_client_is_kept_for_one_base_url_and_one_ca() {
    let mut checks = Probe::default();
    let ca = b"one".to_vec();
    checks.keep_client(URL.to_owned(), Some(ca.clone()), client());
    let kept = |url: &str, ca: Option<&[u8]>| checks.client(url, ca).is_some();
    assert!(kept(URL, Some(&ca)));
    assert!(!kept("http://localhost:2/api/v1", Some(&ca)));
    assert!(!kept(URL, Some(b"another")) && !kept(URL, None));
}

/// Proves: P-last-token
#[test]
fn the_last_good_token_is_of_one_workspace_at_one_base_url() {
    let verified = |uid: &str, base_url: &str| Verified {
        uid: uid.to_owned(),
        base_url: base_url.to_owned(),
    };
    let contract = Contract::builtin().unwrap();
    let mut checks = Probe::default();
    let good = LastGood {
        verified: verified("w1", "https://a"),
        token: Token::parse(b"canary-of-the-checks", &contract).unwrap(),
        ca_pem: None,
    };
    checks.verified(good);
    // As long as the Secret is missing, no check finds the Workspace Ready.
    let unready = ProbeRecord {
        uid: "w1".to_owned(),
        generation: 1,
        ready: false,
        passed_over: false,
        next: Timestamp::UNIX_EPOCH,
    };
    checks.done(unready, Timestamp::UNIX_EPOCH);
    let kept = |verified| checks.last_good(&verified).is_some();
    assert!(kept(verified("w1", "https://a")));
    assert!(!kept(verified("w2", "https://a")), "created again");
    assert!(!kept(verified("w1", "https://b")), "another service");
}
