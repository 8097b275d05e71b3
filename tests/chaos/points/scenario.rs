//! Stories of a Run and its run. Each step waits until the one before is seen, so that two lives of one
//! scenario pass the same points.

use clap::ValueEnum;
use kube::api::DeleteParams;
use serde_json::{Value, json};

use run_operator::api::{ConditionType, Reason, Run, RunStatus, Workspace, conditions};

use super::trial::{Told, Trial};
use crate::support::TOKEN;

/// A story with one end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(super) enum Scenario {
    /// Created, and succeeds.
    Succeeds,
    /// Created, and fails.
    Fails,
    /// `spec.cancel` while it is running.
    Cancelled,
    /// Deleted while it is running.
    Deleted,
    /// Deleted while it is unknown whether its create was carried out. It was.
    DeletedInDoubt,
    /// Its deadline passes.
    Deadline,
    /// Its TTL deletes it.
    Ttl,
    /// Deleted while it is running, with `deletionPolicy: Orphan`.
    Orphaned,
    /// Refused for good, and retried without success.
    Refused,
    /// Its Workspace gets another token while it is running.
    Rotated,
    /// Its Workspace is deleted while it is running.
    WorkspaceDeleted,
    /// Like one that succeeds, under an operator that has to be elected, and that releases its Lease.
    Elected,
    /// Another Run has the only slot of its Workspace, and ends.
    Queued,
}

/// The Run that has the slot, and its run.
const OTHER: &str = "other";

/// The token that a rotation brings.
const NEXT_TOKEN: &str = "canary-0b6a1e93-token";

impl Scenario {
    /// Plays it to its end, as far as it shows at the object.
    pub(super) async fn play(self, trial: &mut Trial) -> Told {
        match self {
            Self::Succeeds => running(trial, spec("succeeded")).await?,
            Self::Fails => {
                running(trial, spec("failed")).await?;
                trial.mark();
            }
            Self::Cancelled => {
                running(trial, spec("succeeded")).await?;
                trial.mark();
                trial.patch(json!({"spec": {"cancel": true}})).await;
                trial.at("cancelling").await?;
            }
            Self::Deleted => {
                running(trial, spec("succeeded")).await?;
                trial.mark();
                trial.delete().await;
                trial.at("cancelling").await?;
            }
            Self::DeletedInDoubt => deleted_in_doubt(trial).await?,
            Self::Deadline => {
                trial.create(with("activeDeadlineSeconds", json!(1))).await;
                trial.at("cancelling").await?;
            }
            Self::Ttl => {
                running(trial, with("ttlSecondsAfterFinished", json!(1))).await?;
                trial.mark();
            }
            Self::Orphaned => {
                running(trial, with("deletionPolicy", json!("Orphan"))).await?;
                trial.mark();
                trial.delete().await;
                return trial.gone().await;
            }
            Self::Refused => return refused(trial).await,
            Self::Rotated => rotated(trial).await?,
            Self::WorkspaceDeleted => return workspace_deleted(trial).await,
            Self::Elected => elected(trial).await?,
            Self::Queued => queued(trial).await?,
        }
        // The run ends, and the object shows it, or goes.
        trial.advance().await?;
        match self {
            Self::Deleted | Self::DeletedInDoubt | Self::Ttl => trial.gone().await,
            _ => trial.released().await,
        }
    }

    /// True if this scenario tries a point. Of an election, which lasts as long as the operator lives: its
    /// beginning, two renewals and its end. Of the Run's life nothing a second time.
    pub(super) fn tries(self, point: &str) -> bool {
        self != Self::Elected
            || ["create 1", "update 1", "update 2", "release 1"]
                .iter()
                .any(|lease| point.strip_prefix("kube.lease.") == Some(lease))
    }
}

fn spec(outcome: &str) -> Value {
    json!({"workload": {"image": "ghcr.io/acme/train:1.4", "simulate": {"outcome": outcome}}})
}

/// One that succeeds, with this field.
fn with(field: &str, value: Value) -> Value {
    let mut spec = spec("succeeded");
    spec[field] = value;
    spec
}

/// Creates the Run and sees it through to running.
async fn running(trial: &mut Trial, spec: Value) -> Told {
    trial.create(spec).await;
    followed(trial).await
}

/// Sees a Run that was just created, or waits for nothing any more, through to running.
async fn followed(trial: &Trial) -> Told {
    for state in ["queued", "provisioning"] {
        trial.at(state).await?;
        trial.advance().await?;
    }
    trial.at("running").await
}

async fn deleted_in_doubt(trial: &mut Trial) -> Told {
    trial.world.service.leaves_in_doubt().await;
    trial.create(spec("succeeded")).await;
    let unavailable = |status: &RunStatus| {
        let error = status.last_error.as_ref();
        error.is_some_and(|error| error.http_status == Some(503))
    };
    trial.status("in doubt", unavailable).await?;
    trial.delete().await;
    trial.world.service.delete("faults").await;
    trial.at("cancelling").await
}

async fn refused(trial: &mut Trial) -> Told {
    let refusal = json!({"type": "answer", "status": 422, "code": "validation_failed"});
    let creates = json!({"operation": "createRun"});
    trial.world.service.lasting_fault(creates, refusal).await;
    trial.create(spec("succeeded")).await;
    let is_refused = |status: &RunStatus| {
        let stalled = conditions::find(&status.conditions, ConditionType::Stalled);
        stalled.is_some_and(|stalled| stalled.reason == Reason::CreateRefused.as_str())
    };
    trial.status("refused", is_refused).await?;
    // A retry finds that the Run has ended. The service goes on to refuse these bytes: that is what "final" means.
    trial
        .patch(json!({"metadata": {"annotations": {"run-operator.dev/retry": "1"}}}))
        .await;
    trial.released().await
}

async fn rotated(trial: &mut Trial) -> Told {
    running(trial, spec("succeeded")).await?;
    trial.mark();
    let service = &trial.world.service;
    service.post("tokens", json!({"token": NEXT_TOKEN})).await;
    let checks = service.requests("getWorkspace").await;
    let old = checks.first().map(|check| check["token"].clone());
    trial.world.token(NEXT_TOKEN).await;
    trial
        .look("a check with the next token", async || {
            let checks = service.requests("getWorkspace").await;
            let other = |check: &Value| Some(&check["token"]) != old.as_ref();
            checks.iter().any(other).then_some(())
        })
        .await?;
    service.delete(&format!("tokens/{TOKEN}")).await;
    Ok(())
}

async fn elected(trial: &mut Trial) -> Told {
    running(trial, spec("succeeded")).await?;
    let renewed = "kube.lease.update 2".to_owned();
    let twice = async || trial.plan.points().contains(&renewed).then_some(());
    trial.look("renewals", twice).await
}

async fn queued(trial: &mut Trial) -> Told {
    let mut other = spec("succeeded");
    other["workload"]["simulate"]["runId"] = json!(OTHER);
    trial.world.create_run(OTHER, other).await;
    let submitted = |run: Option<&Run>| {
        let status = run.and_then(|run| run.status.as_ref());
        status.is_some_and(|status| status.run_id.is_some())
    };
    let runs = trial.world.runs();
    trial.until(runs, OTHER, "submitted", submitted).await?;
    trial.create(spec("succeeded")).await;
    let waits = |status: &RunStatus| {
        let ready = conditions::find(&status.conditions, ConditionType::Ready);
        ready.is_some_and(|ready| ready.reason == Reason::Queued.as_str())
    };
    trial.status("queued", waits).await?;
    trial.mark();
    trial.world.set_state(OTHER, "succeeded").await;
    followed(trial).await
}

async fn workspace_deleted(trial: &mut Trial) -> Told {
    running(trial, spec("succeeded")).await?;
    trial.mark();
    let api = trial.world.workspaces();
    let deleted = api.delete("default", &DeleteParams::default()).await;
    deleted.map_err(super::trial::text)?;
    let waits = |workspace: Option<&Workspace>| {
        let status = workspace.and_then(|workspace| workspace.status.as_ref());
        let conditions = status.map(|status| status.conditions.as_slice());
        let ready = conditions::find(conditions.unwrap_or_default(), ConditionType::Ready);
        ready.is_some_and(|ready| ready.reason == Reason::WorkspaceDeleting.as_str())
    };
    let what = "waiting for its Run";
    trial.until(api.clone(), "default", what, waits).await?;
    trial.advance().await?;
    trial.released().await?;
    let gone = |workspace: Option<&Workspace>| workspace.is_none();
    trial.until(api, "default", "gone", gone).await
}
