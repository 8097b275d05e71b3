use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::core::Status;
use serde_json::json;

use run_operator::api::Phase;
use run_operator::api::conditions::{self, ConditionUpdate};
use run_operator::api::status::{EventRecord, LastError};

use super::*;
use crate::fixtures::{active, at, ended, new, pending, stalled};

fn refused(code: u16) -> Refused {
    Refused::Status(Box::new(Status::failure("no", "No").with_code(code)))
}

/// What is behind a Run: the Workspace `default`, as it was read.
fn behind(workspace: Result<WorkspaceStatus, Refused>) -> WorkspaceSeen {
    WorkspaceSeen {
        reference: WorkspaceRef::own_default(),
        workspace: workspace.map(|status| (WorkspaceSpec::default(), Some(status))),
        secret: None,
    }
}

fn workspace(reason: Reason) -> WorkspaceStatus {
    let mut status = WorkspaceStatus::default();
    let update = ConditionUpdate {
        kind: ConditionType::Ready,
        status: Some(reason == Reason::Verified),
        reason,
        message: format!("the message of {reason}."),
    };
    conditions::set(&mut status.conditions, update, 1, at(0));
    status
}

fn error(request_id: &str, attempts: i64) -> LastError {
    LastError {
        code: "unavailable".to_owned(),
        http_status: Some(503),
        request_id: Some(request_id.to_owned()),
        retryable: true,
        message: "out of order.".to_owned(),
        time: Time(at(60)),
        attempts,
        next_attempt_time: None,
    }
}

fn lines(run: &Run, behind: Option<&WorkspaceSeen>) -> (Vec<String>, Option<String>) {
    let explanation = explain(run, behind, None, at(3600));
    let lines = explanation.causes.iter().map(Cause::line).collect();
    (lines, explanation.remedy)
}

fn with_error(mut run: Run, error: LastError) -> Run {
    run.status.get_or_insert_default().last_error = Some(error);
    run
}

#[test]
fn the_workspace_is_looked_at_where_the_state_may_be_due_to_it() {
    assert!(is_due_to_workspace(&pending(Reason::WorkspaceNotReady)));
    assert!(is_due_to_workspace(&stalled(Reason::IdentityChanged)));
    assert!(!is_due_to_workspace(&stalled(Reason::Forbidden)));
    assert!(!is_due_to_workspace(&active()));
}

#[test]
fn what_stalls_a_workspace_comes_before_why_it_isnt_ready() {
    let said = |stalled: bool| {
        let mut workspace = workspace(Reason::Unauthorized);
        let update = ConditionUpdate {
            kind: ConditionType::Stalled,
            status: Some(stalled),
            reason: Reason::CAInvalid,
            message: "the certificate is bad.".to_owned(),
        };
        conditions::set(&mut workspace.conditions, update, 1, at(0));
        let run = pending(Reason::WorkspaceNotReady);
        lines(&run, Some(&behind(Ok(workspace)))).0[0].clone()
    };
    let expected = "Workspace default: CAInvalid: the certificate is bad.";
    assert_eq!(said(true), expected);
    let expected = "Workspace default: Unauthorized: the message of Unauthorized.";
    assert_eq!(said(false), expected);
}

#[test]
fn the_remedy_is_that_of_the_last_cause() {
    let run = pending(Reason::WorkspaceNotReady);
    let mut behind = behind(Ok(workspace(Reason::Unauthorized)));
    behind.secret = Some(SecretSeen {
        name: "run-operator-token".to_owned(),
        key: "token".to_owned(),
        changed: Some(Ok(Some(at(0)))),
    });
    let (lines, remedy) = lines(&run, Some(&behind));
    let expected = [
        "Workspace default: Unauthorized: the message of Unauthorized.",
        "Secret run-operator-token: key token, changed 1h ago",
    ];
    assert_eq!(lines, expected);
    assert_eq!(remedy, remedy::plain(Reason::Unauthorized));
}

#[test]
fn of_a_workspace_that_was_not_read_the_run_tells() {
    let run = pending(Reason::WorkspaceNotReady);
    let told = |code| lines(&run, Some(&behind(Err(refused(code)))));
    let (lines, remedy) = told(403);
    let expected =
        "Workspace default: you may not read it; the Run says: the message of WorkspaceNotReady.";
    assert_eq!(lines, [expected]);
    assert_eq!(remedy, remedy::plain(Reason::WorkspaceNotReady));
    let (lines, remedy) = told(404);
    assert_eq!(lines, ["Workspace default: it doesn't exist"]);
    assert_eq!(remedy, remedy::plain(Reason::WorkspaceNotFound));
}

#[test]
fn a_workspace_that_is_ready_by_now_is_not_to_blame() {
    let run = pending(Reason::WorkspaceNotReady);
    let (lines, _) = lines(&run, Some(&behind(Ok(workspace(Reason::Verified)))));
    assert_eq!(lines.len(), 1);
    let expected = "Workspace default: it is Ready; the Run says: ";
    assert!(lines[0].starts_with(expected), "{lines:?}");
}

#[test]
fn what_the_service_said_is_shown_with_its_code_and_request() {
    let said = LastError {
        code: "forbidden".to_owned(),
        http_status: Some(403),
        message: "no access.".to_owned(),
        ..error("req-1", 1)
    };
    let (lines, remedy) = lines(&with_error(stalled(Reason::Forbidden), said), None);
    let expected = [
        "the message of Forbidden.",
        "forbidden: no access, HTTP 403, request req-1",
    ];
    assert_eq!(lines, expected);
    assert_eq!(remedy, remedy::plain(Reason::Forbidden));
}

#[test]
fn a_run_that_has_succeeded_needs_nothing() {
    let run = ended(Phase::Succeeded, Reason::Succeeded);
    assert_eq!(lines(&run, None).1, None);
}

#[test]
fn the_bundle_that_is_invalid_is_looked_at_in_its_secret() {
    let status = workspace(Reason::CAInvalid);
    let named = |spec| {
        let spec: WorkspaceSpec = serde_json::from_value(spec).unwrap();
        let named = secret_to_read(&spec, Some(&status));
        named.map(|(name, key)| format!("{name}/{key}"))
    };
    assert_eq!(named(json!({})), None);
    let spec = json!({"caSecretRef": {"name": "bundle"}});
    assert_eq!(named(spec).as_deref(), Some("bundle/ca.crt"));
}

#[test]
fn a_retry_is_offered_where_it_comes_to_something() {
    let offered = |run: &Run| explain(run, None, None, at(3600)).retry;
    assert!(offered(&stalled(Reason::Forbidden)));
    assert!(!offered(&stalled(Reason::CreateRefused)));
    // It is not stalled: it resumes automatically.
    assert!(!offered(&pending(Reason::ApprovalConflict)));
}

#[test]
fn a_workspaces_message_names_its_request_once() {
    let said = |message: &str| {
        let mut workspace = workspace(Reason::Unauthorized);
        message.clone_into(&mut workspace.conditions[0].message);
        workspace.last_error = Some(error("req-1", 1));
        let run = pending(Reason::WorkspaceNotReady);
        lines(&run, Some(&behind(Ok(workspace)))).0[0].clone()
    };
    let expected = "Workspace default: Unauthorized: it was refused (request req-1)";
    assert_eq!(said("it was refused."), expected);
    assert_eq!(said("it was refused (request req-1)"), expected);
}

#[test]
fn attempts_are_counted_where_there_was_more_than_one() {
    let said = |attempts: i64| {
        let run = with_error(pending(Reason::Retrying), error("req-1", attempts));
        lines(&run, None).0[1].clone()
    };
    let once = "unavailable: out of order, HTTP 503, request req-1";
    assert_eq!(said(1), once);
    assert_eq!(said(3), once.replace("503", "503, 3 attempts"));
}

/// Proves: P-unmapped, K-why
#[test]
fn a_state_that_the_contract_file_does_not_map_is_to_be_added_there() {
    let (lines, remedy) = lines(&pending(Reason::StateNotMapped), None);
    assert_eq!(lines, ["the message of StateNotMapped."]);
    assert!(remedy.unwrap().starts_with("Add the state"));
}

/// Proves: F-404, K-why
#[test]
fn a_new_run_is_advised_only_once_it_is_certain_that_the_old_one_is_gone() {
    let (_, unconfirmed) = lines(&pending(Reason::RunNotFound), None);
    assert_eq!(unconfirmed.as_deref(), Some(UNCONFIRMED));
    let (_, confirmed) = lines(&ended(Phase::Failed, Reason::RunNotFound), None);
    assert_eq!(confirmed, remedy::plain(Reason::RunNotFound));
}

/// Proves: P-refused-writes, K-why
#[test]
fn what_refuses_the_status_is_to_be_mended_first() {
    let told = |run: &Run| {
        let event = Event {
            reason: Some("WriteRefused".to_owned()),
            message: Some("the policy says no".to_owned()),
            ..Event::default()
        };
        let explanation = explain(run, None, Some(event), at(3600));
        let last = explanation.causes.last().map(Cause::line).unwrap();
        assert_eq!(last, "WriteRefused: the policy says no");
        explanation.remedy
    };
    let mend = remedy::plain(Reason::WriteRefused);
    assert_eq!(told(&new()), mend);
    assert_eq!(told(&active()), mend);
}

#[test]
fn the_last_event_is_shown_of_a_run_that_has_failed() {
    let said = |phase: Phase, reason: Reason| {
        let mut run = ended(phase, reason);
        let status = run.status.get_or_insert_default();
        status.events.push(EventRecord {
            id: None,
            kind: "log".to_owned(),
            time: Time(at(60)),
            data: Some("out of memory".to_owned()),
        });
        let (lines, _) = lines(&run, None);
        lines.iter().any(|line| line.ends_with("log out of memory"))
    };
    assert!(said(Phase::Failed, Reason::Failed));
    assert!(!said(Phase::Succeeded, Reason::Succeeded));
}

/// Proves: K-why
#[test]
fn a_run_of_another_controller_is_left_to_it() {
    let mut run = new();
    let spec = r#"{"workload": {"image": "i"}, "managedBy": "example.com/queue"}"#;
    run.spec = Some(serde_json::from_str(spec).unwrap());
    let (lines, remedy) = lines(&run, None);
    assert!(lines[0].starts_with("Its spec.managedBy is example.com/queue: "));
    assert_eq!(remedy.as_deref(), Some(OF_ANOTHER));
    assert!(retry_is_pointless(&run).is_some());
}

/// Proves: K-why
#[test]
fn a_queued_run_has_the_remedies_of_a_queue() {
    let (lines, remedy) = lines(&pending(Reason::Queued), None);
    assert_eq!(lines, ["the message of Queued."]);
    assert!(remedy.unwrap().starts_with("Raise the limit"));
}
