//! Kubernetes Events of Workspaces.

use std::collections::HashSet;

use rstest::rstest;
use run_operator::{
    api::WorkspaceStatus,
    decide::{
        events::of_workspace,
        workspace::{Check, assess},
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
    let status = workspace(None, &check, 0);
    let waits = check
        .waits_for
        .as_ref()
        .is_some_and(|runs| !runs.is_empty());
    let event = of_workspace(None, &status, waits, at(0));
    let reasons: Vec<_> = event.iter().map(|event| event.reason.as_str()).collect();
    assert_eq!(reasons, expected);
    let again = of_workspace(Some(&status), &status, waits, at(299));
    assert_eq!(again, event, "by the same name, if it was lost");
    let old = of_workspace(Some(&status), &status, waits, at(300));
    assert_eq!(old, None);
}

/// Proves: P-events
#[test]
fn a_flapping_workspace_has_an_event_of_a_reason_in_a_minute() {
    let mut status = None;
    let mut names = HashSet::new();
    let down = Check {
        obstacle: Some(version_failed(lost())),
        ..Check::default()
    };
    for n in 0..600 {
        let check = if n % 2 == 0 { good() } else { down.clone() };
        let next = workspace(status.as_ref(), &check, n);
        let event = of_workspace(status.as_ref(), &next, false, at(n)).unwrap();
        names.insert((event.reason, event.occasion));
        status = Some(next);
    }
    assert_eq!(names.len(), 2 * 10);
}
