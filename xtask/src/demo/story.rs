//! The demo, step by step. Each step does something, prints it, and continues when a condition holds: never
//! because time has passed.

use crate::demo::board::Seen;
use crate::demo::failure::Failure;
use crate::demo::stage::Stage;
use crate::demo::terminal::{self, note, step};
use crate::service::ServiceRun;

const NIGHTLY: &str = "run/nightly";
const WORKSPACE: &str = "workspace/default";

/// Runs the demo from an empty cluster to the moment before the summary.
pub(crate) async fn tell(stage: &mut Stage) -> Result<(), Failure> {
    install(stage).await?;
    apply(stage).await?;
    kill(stage).await?;
    restart(stage).await?;
    delete(stage).await?;
    expire(stage).await?;
    rotate(stage).await
}

async fn install(stage: &mut Stage) -> Result<(), Failure> {
    step(2, "Install the resource definitions and start the operator");
    if !stage.own_control_plane() {
        stage
            .kubectl(&["create", "namespace", stage.namespace])
            .await?;
    }
    stage.install_crds().await?;
    let pid = stage.start_operator()?;
    note(&format!("The operator runs, pid {pid}."));
    Ok(())
}

async fn apply(stage: &Stage) -> Result<(), Failure> {
    step(
        3,
        "Apply the examples: a Workspace with its token, then four Runs",
    );
    note("A line for each change, seen by a watch, as `kubectl get runs -w` would.");
    terminal::columns();
    stage.apply_examples(&["secret", "workspace"]).await?;
    ready(stage, "True").await?;
    // The service will create this run, and the operator won't get to know it.
    stage
        .service
        .withhold_answer("ghcr.io/acme/nightly:3.1")
        .await?;
    let runs = [
        "run-succeeds",
        "run-fails",
        "run-deleted",
        "run-token-rotated",
    ];
    stage.apply_examples(&runs).await?;
    let submitted = |seen: &Seen, name: &str| !seen.row(name).state.is_empty();
    stage
        .board
        .until("three Runs are submitted", |seen| {
            ["run/train", "run/evaluate", "run/sweep"]
                .iter()
                .all(|name| submitted(seen, name))
        })
        .await?;
    stage
        .service
        .until("four runs are created", |runs| runs.len() == 4)
        .await?;
    Ok(())
}

async fn kill(stage: &mut Stage) -> Result<(), Failure> {
    step(4, "kill -9 the operator, at the worst moment");
    note("The service has created a run for nightly, and its answer is still on the way.");
    note("The operator dies without knowing the run's id.");
    if let Some(operator) = &stage.operator {
        terminal::command(&format!("kill -9 {}", operator.pid()));
    }
    stage.kill_operator();
    let seen = stage.board.now();
    let uid = |name: &str| seen.runs.get(name).cloned().unwrap_or_default();
    let (train, evaluate) = (uid("train"), uid("evaluate"));
    let ended = |runs: &[ServiceRun], uid: &str| {
        runs.iter()
            .any(|run| run.idempotency_key == uid && run.ended())
    };
    let runs = stage
        .service
        .until("train and evaluate have ended", |runs| {
            ended(runs, &train) && ended(runs, &evaluate)
        })
        .await?;
    note("The service continues; the cluster does not show it yet:");
    compare(&stage.board.now(), &runs);
    Ok(())
}

async fn restart(stage: &mut Stage) -> Result<(), Failure> {
    step(5, "Start it again");
    let pid = stage.start_operator()?;
    note(&format!(
        "Pid {pid}. It repeats nightly's POST with the same Idempotency-Key, and mirrors what it missed."
    ));
    stage
        .board
        .until("every Run is what its run is", |seen| {
            seen.row("run/train").phase == "Succeeded"
                && seen.row("run/evaluate").phase == "Failed"
                && seen.row("run/sweep").state == "running"
                && seen.row(NIGHTLY).state == "running"
        })
        .await?;
    if let Some(run) = at_the_service(stage, "nightly").await? {
        note(&format!(
            "The service got {} POSTs for nightly and has one run for it, {}.",
            run.posts, run.run_id
        ));
    }
    Ok(())
}

async fn delete(stage: &Stage) -> Result<(), Failure> {
    step(6, "Delete a Run whose run has not ended");
    note("The object stays until the service reports the end of its run.");
    stage
        .kubectl(&["delete", "runs.run-operator.dev", "sweep"])
        .await?;
    stage
        .board
        .until("sweep is gone", |seen| !seen.rows.contains_key("run/sweep"))
        .await?;
    if let Some(run) = at_the_service(stage, "sweep").await? {
        note(&format!("At the service its run is {}.", run.state));
    }
    Ok(())
}

async fn expire(stage: &Stage) -> Result<(), Failure> {
    step(7, "Let the access token expire while nightly runs");
    note("The service now answers 401. Then nightly's run ends, and the operator can't read it.");
    stage.expire_token().await?;
    if let Some(run) = at_the_service(stage, "nightly").await? {
        stage.service.advance(&run.run_id).await?;
    }
    ready(stage, "False").await?;
    stage
        .board
        .until("nightly is known to be stale", |seen| {
            seen.row(NIGHTLY).synced == "False"
        })
        .await?;
    let nightly = stage.board.now().row(NIGHTLY);
    note(&format!(
        "The Workspace shows the reason. nightly stays {}, marked as stale: no Run fails for a token.",
        nightly.phase
    ));
    Ok(())
}

async fn rotate(stage: &mut Stage) -> Result<(), Failure> {
    step(8, "Rotate the token in the Secret");
    let token = stage.service.new_token().await?;
    stage.rotate_token(token).await?;
    ready(stage, "True").await?;
    stage
        .board
        .until("nightly has succeeded", |seen| {
            seen.row(NIGHTLY).phase == "Succeeded"
        })
        .await?;
    note("Picked up without a restart.");
    Ok(())
}

/// Waits for the Workspace's Ready condition.
async fn ready(stage: &Stage, status: &str) -> Result<(), Failure> {
    stage
        .board
        .until(&format!("the Workspace has Ready={status}"), |seen| {
            seen.row(WORKSPACE).ready == status
        })
        .await
}

/// The run of the Run with this name.
async fn at_the_service(stage: &Stage, name: &str) -> Result<Option<ServiceRun>, Failure> {
    let seen = stage.board.now();
    let uid = seen.runs.get(name).map(String::as_str).unwrap_or_default();
    stage.service.run(uid).await
}

/// Both sides, side by side.
fn compare(seen: &Seen, runs: &[ServiceRun]) {
    note(&format!(
        "  {:<10}  {:<14}  {}",
        "RUN", "AT THE SERVICE", "IN THE CLUSTER"
    ));
    for (name, uid) in &seen.runs {
        let state = runs
            .iter()
            .find(|run| run.idempotency_key == *uid)
            .map_or("-", |run| run.state.as_str());
        let row = seen.row(&format!("run/{name}"));
        let cluster = if row.phase.is_empty() {
            "no status yet".to_owned()
        } else {
            format!("{}, {}", row.phase, row.state)
        };
        note(&format!("  {name:<10}  {state:<14}  {cluster}"));
    }
}
