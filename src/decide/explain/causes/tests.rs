use serde_json::json;

use super::*;
use crate::api::conditions::{self, ConditionUpdate};
use crate::api::{ConditionType, Phase, WorkspaceSpec, WorkspaceStatus, status::LastError};
use crate::decide::explain::fixtures::{Example, at, ended, pending, stalled};

fn workspace(reason: Reason) -> Look<WorkspaceLook> {
    let mut status = WorkspaceStatus::default();
    let update = ConditionUpdate {
        kind: ConditionType::Ready,
        status: Some(reason == Reason::Verified),
        reason,
        message: format!("the message of {reason}."),
    };
    conditions::set(&mut status.conditions, update, 1, at(0));
    Look::Found(WorkspaceLook {
        spec: WorkspaceSpec::default(),
        status: Some(status),
    })
}

fn spec() -> RunSpec {
    serde_json::from_value(json!({"workload": {"image": "i"}})).unwrap()
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
        let Look::Found(mut workspace) = workspace(Reason::Unauthorized) else {
            return Vec::new();
        };
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
        request_id: Some("req-1".to_owned()),
        retryable: false,
        message: "no access.".to_owned(),
        time: k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(at(60)),
        attempts: 1,
        next_attempt: None,
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
