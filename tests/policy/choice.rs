//! Which Workspace a Run uses that names none, and that it stays with it.

use rstest::rstest;
use run_operator::{
    api::{Intent, WorkspaceKind, WorkspaceRef},
    decide::{Choice, WorkspaceView, choice::by_rule},
};

use crate::support::{Case, condition, intent_of, lost, not_ready, place, session, view};

fn own() -> Choice {
    Choice::One(WorkspaceRef::own_default())
}

fn shared() -> Choice {
    Choice::One(WorkspaceRef::shared("shared".into()))
}

/// Proves: P-default-workspace
#[rstest]
#[case::its_own(true, &[("shared", Some(true))], own())]
#[case::its_own_before_labels_are_known(true, &[("shared", None)], own())]
#[case::the_only_default(false, &[("shared", Some(true))], shared())]
#[case::the_only_one_that_allows_it(false, &[("a", Some(false)), ("shared", Some(true))], shared())]
#[case::several(false, &[("b", Some(true)), ("c", Some(false)), ("a", Some(true))],
    Choice::Several(vec!["a".into(), "b".into()]))]
#[case::none_that_allows_it(false, &[("a", Some(false))], Choice::None)]
#[case::none(false, &[], Choice::None)]
#[case::not_known_yet(false, &[("a", Some(true)), ("b", None)], Choice::Unknown)]
fn the_rule_gives(
    #[case] has_own: bool,
    #[case] defaults: &[(&str, Option<bool>)],
    #[case] expected: Choice,
) {
    assert_eq!(by_rule(has_own, Some(defaults.iter().copied())), expected);
}

/// Proves: P-default-workspace
#[test]
fn where_cluster_workspaces_are_not_served_only_its_own_counts() {
    assert_eq!(by_rule(false, None::<[(&str, Option<bool>); 0]>), own());
}

/// A session of the ClusterWorkspace.
fn at_shared() -> WorkspaceView {
    let mut session = session(1);
    session.resolved.kind = WorkspaceKind::ClusterWorkspace;
    session.resolved.name = "shared".into();
    session.resolved.identity = Some("ws-shared".into());
    WorkspaceView::Ready(session)
}

fn ruled(by_rule: Choice, view: WorkspaceView) -> Case {
    Case {
        by_rule,
        ..Case::new()
    }
    .view(view)
}

/// Whose intent names the ClusterWorkspace.
fn pinned() -> Case {
    let case = ruled(shared(), at_shared());
    let (intent, _, clean) = intent_of(&case);
    case.finalizer().intent_written(intent, clean)
}

#[test]
fn before_its_intent_a_run_follows_the_rule() {
    let mut case = ruled(shared(), not_ready()).settle();
    assert_eq!(case.choice(), shared());
    case.by_rule = own();
    let (intent, ..) = intent_of(&case.view(WorkspaceView::Ready(session(2))));
    assert_eq!(intent.workspace, place());
}

/// Proves: P-default-workspace, P-place
#[rstest]
#[case::announced(pinned(), "submit")]
#[case::announced_by_an_earlier_process(pinned().restarted(), "intent")]
#[case::in_doubt(pinned().posted(Err(lost())).at(60), "submit")]
#[case::in_doubt_and_restarted(pinned().posted(Err(lost())).restarted(), "intent")]
#[case::submitted(pinned().posted(Ok(view("running"))).settle().at(700), "refresh")]
#[case::submitted_restarted_and_deleted(
    pinned().posted(Ok(view("running"))).settle().restarted().deleting(), "cancel")]
fn from_its_intent_on_it_stays_with_its_workspace(#[case] mut case: Case, #[case] does: &str) {
    for later in [
        own(),
        Choice::None,
        Choice::Several(vec!["a".into(), "b".into()]),
    ] {
        case.by_rule = later;
        assert_eq!(case.choice(), shared());
        assert_eq!(case.does(), does);
    }
    // Where it isn't, nothing is sent.
    let elsewhere = case.view(WorkspaceView::Ready(session(2)));
    assert_eq!(elsewhere.does(), "nothing");
}

/// Proves: P-place, X-forged
#[test]
fn an_edited_intent_holds_a_run_and_moves_it_nowhere() {
    let edited = Intent {
        workspace: at_shared().place().unwrap().clone(),
        ..Case::new().an_intent("me", 1)
    };
    for case in [Case::new().mine(), Case::new().mine().posted(Err(lost()))] {
        let case = case.stands(&edited).at(60);
        assert_eq!(case.choice(), own(), "as its process wrote it");
        assert_eq!(case.does(), "nothing");
        assert_eq!(case.stalled().as_deref(), Some("WorkspaceChanged"));
        assert_eq!(case.view(at_shared()).does(), "nothing");
    }
}

/// Proves: P-tenancy, X-forged
#[test]
fn a_forged_intent_opens_no_workspace_to_a_namespace() {
    let forged = Intent {
        workspace: at_shared().place().unwrap().clone(),
        ..Case::new().an_intent("somebody", 1)
    };
    let case = Case::new().stands(&forged).finalizer();
    assert_eq!(case.choice(), shared());
    let case = case.view(at_shared()).allowed(Some(false));
    assert_eq!(case.does(), "nothing");
    assert_eq!(case.stalled().as_deref(), Some("NamespaceNotAllowed"));
}

#[test]
fn a_run_waits_quietly_until_it_is_known_what_there_is() {
    let case = ruled(Choice::Unknown, WorkspaceView::Unknown);
    assert_eq!(case.does(), "nothing");
    assert_eq!(case.settled().observed_generation, Some(-1));
}

/// Proves: P-default-workspace
#[test]
fn a_run_without_a_workspace_shows_what_to_create() {
    let several = Choice::Several(vec!["gpu".into(), "shared".into()]);
    for (choice, reason, words) in [
        (
            Choice::None,
            "WorkspaceNotFound",
            [
                "the Workspace default in namespace team",
                "run-operator.dev/is-default: \"true\"",
            ],
        ),
        (
            several,
            "WorkspaceAmbiguous",
            ["gpu, shared", "spec.workspaceRef"],
        ),
    ] {
        let case = ruled(choice, WorkspaceView::Missing);
        let status = case.settled();
        assert_eq!(condition(&status, "Ready").unwrap().1, reason);
        let ready = status.conditions.iter().find(|c| c.type_ == "Ready");
        let said = &ready.unwrap().message;
        for words in words {
            assert!(said.contains(words), "{words:?} is not in {said:?}");
        }
        assert_eq!(case.does(), "nothing");
    }
}
