//! Kubernetes Events of Workspaces.

use rstest::rstest;
use run_operator::{
    api::WorkspaceStatus,
    decide::{
        events::{correlator::Correlator, transitions::of_workspace},
        workspace::{check::Check, probe::assess},
    },
};

use crate::support::{CONTRACT, at, identity_failed, lost, place, problem, version_failed};

fn workspace(before: Option<&WorkspaceStatus>, check: &Check, second: i64) -> WorkspaceStatus {
    assess(before, check, 1, 1, &CONTRACT, at(second)).status
}

fn good() -> Check {
    Check {
        base_url: Some(place().base_url),
        version: Some(Some("1.4.0".into())),
        identity: Some(place().identity),
        ..Check::default()
    }
}

/// Proves: P-events
#[rstest]
#[case::ready(good(), &["Ready"])]
#[case::no_answer(Check { obstacle: Some(version_failed(lost())), ..Check::default() }, &["NotReady"])]
#[case::rejected(Check { identity: None, obstacle: Some(identity_failed(problem(401, "expired"))), ..good() }, &["CredentialsRejected"])]
#[case::not_allowed(Check { identity: None, obstacle: Some(identity_failed(problem(403, "no"))), ..good() }, &["CredentialsRejected"])]
#[case::version(Check { version: Some(Some("9.9.9".into())), ..good() }, &["VersionNotAccepted"])]
#[case::in_use(Check { waits_for: Some(vec!["train".into()]), ..good() }, &["WorkspaceInUse"])]
#[case::going(Check { waits_for: Some(vec![]), ..good() }, &[])]
fn the_events_of_a_workspace(#[case] check: Check, #[case] expected: &[&str]) {
    let mut correlator = Correlator::default();
    let status = workspace(None, &check, 0);
    let waits = check
        .waits_for
        .as_ref()
        .is_some_and(|runs| !runs.is_empty());
    let told = |correlator: &mut Correlator, before| {
        let events = of_workspace(before, &status, waits, correlator, at(0));
        let published = correlator.correlate(&events, at(0)).events;
        published
            .iter()
            .map(|n| n.reason.as_str())
            .collect::<Vec<_>>()
    };
    assert_eq!(told(&mut correlator, None), expected);
    assert!(
        told(&mut correlator, Some(&status)).is_empty(),
        "it is published once"
    );
    let events = of_workspace(
        Some(&status),
        &status,
        waits,
        &Correlator::default(),
        at(300),
    );
    assert_eq!(events, [], "nor after a restart");
}

/// Proves: P-events-bounded
#[test]
fn a_flapping_workspace_stays_within_its_event_allowance() {
    let mut correlator = Correlator::default();
    let mut status = None;
    let (mut sent, mut dropped) = (0, 0);
    let down = Check {
        obstacle: Some(version_failed(lost())),
        ..Check::default()
    };
    for n in 0..1000 {
        let check = if n % 2 == 0 { good() } else { down.clone() };
        let next = workspace(status.as_ref(), &check, n);
        let events = of_workspace(status.as_ref(), &next, false, &correlator, at(n));
        let batch = correlator.correlate(&events, at(n));
        sent += batch.events.len();
        dropped += batch.dropped;
        status = Some(next);
    }
    assert_eq!(
        (sent, dropped),
        (25 + 3, 1000 - 28),
        "25, and one each five minutes"
    );
}
