use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::json;

use super::*;
use crate::api::conditions::{self, ConditionUpdate};
use crate::api::status::{EventRecord, LastError};
use crate::api::{ConditionType, Phase, WorkspaceSpec, WorkspaceStatus};
use crate::decide::explain::fixtures::{Example, at, ended, pending, stalled};

fn workspace(reason: Reason) -> Look<WorkspaceLook> {
    Look::Found(look(reason))
}

fn look(reason: Reason) -> WorkspaceLook {
    let mut status = WorkspaceStatus::default();
    let update = ConditionUpdate {
        kind: ConditionType::Ready,
        status: Some(reason == Reason::Verified),
        reason,
        message: format!("the message of {reason}."),
    };
    conditions::set(&mut status.conditions, update, 1, at(0));
    WorkspaceLook {
        spec: WorkspaceSpec::default(),
        status: Some(status),
    }
}

fn spec() -> RunSpec {
    serde_json::from_value(json!({"workload": {"image": "i"}})).unwrap()
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
        next_attempt: None,
    }
}

fn lines(
    run: &Example,
    workspace: &Look<WorkspaceLook>,
    secret: &Look<SecretLook>,
) -> (Vec<String>, Option<String>) {
    let spec = spec();
    let run = Stored {
        spec: Some(&spec),
        ..run.stored()
    };
    let explanation = explain(run, workspace, secret, at(3600));
    let lines = explanation.causes.iter().map(Cause::line).collect();
    (lines, explanation.remedy)
}

#[test]
fn what_stalls_a_workspace_comes_before_why_it_isnt_ready() {
    let said = |stalled: bool| {
        let mut workspace = look(Reason::Unauthorized);
        let update = ConditionUpdate {
            kind: ConditionType::Stalled,
            status: Some(stalled),
            reason: Reason::CaInvalid,
            message: "the certificate is bad.".to_owned(),
        };
        let conditions = &mut workspace.status.get_or_insert_default().conditions;
        conditions::set(conditions, update, 1, at(0));
        let run = pending(Reason::WorkspaceNotReady);
        lines(&run, &Look::Found(workspace), &Look::NotAllowed).0
    };
    assert_eq!(
        said(true)[0],
        "Workspace default: CaInvalid: the certificate is bad."
    );
    assert_eq!(
        said(false)[0],
        "Workspace default: Unauthorized: the message of Unauthorized."
    );
}

#[test]
fn the_remedy_is_that_of_the_last_cause() {
    let secret = Look::Found(SecretLook {
        changed: Some(at(0)),
    });
    let run = pending(Reason::WorkspaceNotReady);
    let (lines, remedy) = lines(&run, &workspace(Reason::Unauthorized), &secret);
    let expected = [
        "Workspace default: Unauthorized: the message of Unauthorized.",
        "Secret run-operator-token: key token, changed 60m ago",
    ];
    assert_eq!(lines, expected);
    assert_eq!(remedy, remedy::plain(Reason::Unauthorized));
}

#[test]
fn a_workspace_that_may_not_be_read_is_known_by_the_run() {
    let mut run = pending(Reason::WorkspaceNotReady);
    for condition in &mut run.status_mut().conditions {
        condition.message = "Waiting for it to be Ready (CaInvalid): bad.".to_owned();
    }
    let (lines, remedy) = lines(&run, &Look::NotAllowed, &Look::NotNeeded);
    assert_eq!(
        lines,
        [
            "Workspace default: you may not read it; the Run says: Waiting for it to be Ready (CaInvalid): bad."
        ]
    );
    assert_eq!(remedy, remedy::plain(Reason::CaInvalid));
}

#[test]
fn a_workspace_that_is_ready_by_now_is_not_to_blame() {
    let run = pending(Reason::WorkspaceNotReady);
    let (lines, _) = lines(&run, &workspace(Reason::Verified), &Look::NotNeeded);
    assert_eq!(lines.len(), 1);
    // Ready is False in the fixture of any other reason: this one says that it is verified.
    assert!(
        lines[0].starts_with("Workspace default: it is Ready; the Run says: "),
        "{lines:?}"
    );
}

#[test]
fn what_the_service_said_is_shown_with_its_code_and_request() {
    let mut run = stalled(Reason::Forbidden);
    run.status_mut().last_error = Some(LastError {
        code: "forbidden".to_owned(),
        http_status: Some(403),
        retryable: false,
        message: "no access.".to_owned(),
        ..error("req-1", 1)
    });
    let (lines, remedy) = lines(&run, &Look::NotNeeded, &Look::NotNeeded);
    assert_eq!(
        lines,
        [
            "the message of Forbidden.",
            "forbidden: no access, HTTP 403, request req-1"
        ]
    );
    assert_eq!(remedy, remedy::plain(Reason::Forbidden));
}

#[test]
fn a_run_that_has_succeeded_needs_nothing() {
    let run = ended(Phase::Succeeded, Reason::Succeeded);
    let (_, remedy) = lines(&run, &Look::NotNeeded, &Look::NotNeeded);
    assert_eq!(remedy, None);
}

#[test]
fn the_bundle_that_is_invalid_is_looked_at_in_its_secret() {
    let mut looked_at = look(Reason::CaInvalid);
    assert_eq!(secret_to_read(&looked_at), None);
    looked_at.spec = serde_json::from_value(json!({"caSecretRef": {"name": "bundle"}})).unwrap();
    let secret = secret_to_read(&looked_at).unwrap();
    assert_eq!(
        (secret.name.as_str(), secret.key.as_str()),
        ("bundle", "ca.crt")
    );
}

#[test]
fn a_retry_is_offered_where_it_comes_to_something() {
    let offered =
        |run: &Example| explain(run.stored(), &Look::NotNeeded, &Look::NotNeeded, at(3600)).retry;
    assert!(offered(&stalled(Reason::Forbidden)));
    // Its remedy says that a retry does nothing.
    assert!(!offered(&stalled(Reason::CreateRefused)));
    // It is not stalled: it resumes automatically.
    assert!(!offered(&pending(Reason::ApprovalConflict)));
}

#[test]
fn a_workspaces_message_names_its_request_once() {
    let said = |message: &str| {
        let mut workspace = look(Reason::Unauthorized);
        let status = workspace.status.get_or_insert_default();
        status.conditions[0].message = message.to_owned();
        status.last_error = Some(error("req-1", 1));
        let run = pending(Reason::WorkspaceNotReady);
        lines(&run, &Look::Found(workspace), &Look::NotAllowed).0[0].clone()
    };
    let expected = "Workspace default: Unauthorized: it was refused (request req-1)";
    assert_eq!(said("it was refused."), expected);
    assert_eq!(said("it was refused (request req-1)"), expected);
}

#[test]
fn attempts_are_counted_where_there_was_more_than_one() {
    let said = |attempts: i64| {
        let mut run = pending(Reason::Retrying);
        run.status_mut().last_error = Some(error("req-1", attempts));
        lines(&run, &Look::NotNeeded, &Look::NotNeeded).0[1].clone()
    };
    let once = "unavailable: out of order, HTTP 503, request req-1";
    assert_eq!(said(1), once);
    assert_eq!(said(3), once.replace("503", "503, 3 attempts"));
}

#[test]
fn the_last_event_is_shown_of_a_run_that_has_failed() {
    let said = |phase: Phase, reason: Reason| {
        let mut run = ended(phase, reason);
        run.status_mut().events.push(EventRecord {
            id: None,
            kind: "log".to_owned(),
            time: Time(at(60)),
            data: Some("out of memory".to_owned()),
        });
        let (lines, _) = lines(&run, &Look::NotNeeded, &Look::NotNeeded);
        lines.iter().any(|line| line.ends_with("log out of memory"))
    };
    assert!(said(Phase::Failed, Reason::Failed));
    assert!(!said(Phase::Succeeded, Reason::Succeeded));
}
