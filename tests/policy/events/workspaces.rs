//! Kubernetes Events of Workspaces.

use rstest::rstest;
use run_operator::{
    api::WorkspaceStatus,
    decide::{
        events::{correlator::Correlator, transitions::of_workspace},
        workspace::{
            check::{Check, Obstacle},
            probe::assess,
        },
    },
};

use crate::support::{CONTRACT, at, lost, place, problem};

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

// Proves: P-events
#[rstest]
#[case::ready(good(), &["Ready"])]
#[case::no_answer(Check { obstacle: Some(Obstacle::Version(lost())), ..Check::default() }, &["NotReady"])]
#[case::rejected(Check { identity: None, obstacle: Some(Obstacle::Identity(problem(401, "expired"))), ..good() }, &["CredentialsRejected"])]
#[case::not_allowed(Check { identity: None, obstacle: Some(Obstacle::Identity(problem(403, "no"))), ..good() }, &["CredentialsRejected"])]
#[case::version(Check { version: Some(Some("9.9.9".into())), ..good() }, &["VersionNotAccepted"])]
#[case::in_use(Check { waits_for: Some(vec!["train".into()]), ..good() }, &["WorkspaceInUse"])]
#[case::going(Check { waits_for: Some(vec![]), ..good() }, &[])]
fn the_events_of_a_workspace(#[case] check: Check, #[case] expected: &[&str]) {
    let mut voice = Correlator::default();
    let status = workspace(None, &check, 0);
    let waits = check
        .waits_for
        .as_ref()
        .is_some_and(|runs| !runs.is_empty());
    let told = |voice: &mut Correlator, before| {
        let notes = of_workspace(before, &status, waits, voice, at(0));
        let news = voice.tell(&notes, at(0)).news;
        news.iter().map(|n| n.reason.as_str()).collect::<Vec<_>>()
    };
    assert_eq!(told(&mut voice, None), expected);
    assert!(
        told(&mut voice, Some(&status)).is_empty(),
        "it is told once"
    );
    let notes = of_workspace(
        Some(&status),
        &status,
        waits,
        &Correlator::default(),
        at(300),
    );
    assert_eq!(notes, [], "nor after a restart");
}

// Proves: P-events-bounded
#[test]
fn a_flapping_workspace_stays_within_its_event_allowance() {
    let mut voice = Correlator::default();
    let mut status = None;
    let (mut sent, mut unsaid) = (0, 0);
    let down = Check {
        obstacle: Some(Obstacle::Version(lost())),
        ..Check::default()
    };
    for n in 0..1000 {
        let check = if n % 2 == 0 { good() } else { down.clone() };
        let next = workspace(status.as_ref(), &check, n);
        let notes = of_workspace(status.as_ref(), &next, false, &voice, at(n));
        let speech = voice.tell(&notes, at(n));
        sent += speech.news.len();
        unsaid += speech.unsaid;
        status = Some(next);
    }
    assert_eq!(
        (sent, unsaid),
        (25 + 3, 1000 - 28),
        "25, and one each five minutes"
    );
}
