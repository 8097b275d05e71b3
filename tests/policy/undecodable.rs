//! Objects that today's types can't hold: what their status says.

use run_operator::{
    api::{Phase, RunStatus, WorkspaceStatus},
    decide::conditions,
};

use crate::support::{at, condition};

#[test]
fn an_unreadable_run_is_stalled_unless_it_has_ended() {
    let shown = |phase| {
        let stored = RunStatus {
            phase,
            ..RunStatus::default()
        };
        conditions::undecodable_run(stored, "its spec", 3, at(0))
    };
    for phase in [None, Some(Phase::Active)] {
        let stalled = condition(&shown(phase), "Stalled").unwrap();
        assert_eq!(stalled, ("True".to_owned(), "RunInvalid".to_owned()));
    }
    assert!(shown(Some(Phase::Succeeded)).conditions.is_empty());
}

#[test]
fn an_unreadable_workspace_is_stalled_and_not_ready() {
    let shown = conditions::undecodable_workspace(WorkspaceStatus::default(), "its spec", 3, at(0));
    assert_eq!(shown.observed_generation, Some(3));
    let said: Vec<_> = shown
        .conditions
        .iter()
        .map(|c| (&*c.type_, &*c.status, &*c.reason))
        .collect();
    assert_eq!(
        said,
        [
            ("Ready", "False", "WorkspaceInvalid"),
            ("Stalled", "True", "WorkspaceInvalid")
        ]
    );
    assert!(shown.conditions[0].message.contains("its spec"));
}
