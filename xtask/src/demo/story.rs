//! The demo, step by step. Each step does something, prints it, and continues when a condition holds: never
//! because time has passed.

use serde_json::json;

use super::board::Seen;
use super::stage::Stage;
use super::terminal::{self, heading, note};
use crate::common::Outcome;
use crate::service::ServiceRun;

const NIGHTLY: &str = "run/nightly";

/// Runs the demo from an empty cluster to the moment before the summary.
pub(crate) async fn tell(stage: &mut Stage) -> Outcome<()> {
    install(stage).await?;
    apply(stage).await?;
    kill(stage).await?;
    restart(stage).await?;
    delete(stage).await?;
    expire(stage).await?;
    rotate(stage).await?;
    tick(stage).await
}

async fn install(stage: &mut Stage) -> Outcome<()> {
    heading("2. Install the resource definitions and start the operator");
    stage.install_crds().await?;
    let pid = stage.start_operator()?;
    note(&format!("The operator runs, pid {pid}."));
    Ok(())
}

async fn apply(stage: &Stage) -> Outcome<()> {
    heading("3. Apply the examples: a Workspace with its token, then four Runs");
    note("A line for each change, seen by a watch, as `kubectl get runs -w` would.");
    let columns = ["PHASE", "STATE", "SYNCED", "READY", "REASON"];
    terminal::row("TIME", "OBJECT", columns);
    stage.apply_examples(&["secret", "workspace"]).await?;
    ready(stage, "True").await?;
    // The service will create this run, and the operator won't get to know it.
    let withheld = json!({
        "match": {"operation": "createRun", "image": "ghcr.io/acme/nightly:3.1"},
        "action": {"type": "hang", "execute": true},
    });
    stage.service.steer("faults", withheld).await?;
    let runs = [
        "run-succeeds",
        "run-fails",
        "run-deleted",
        "run-token-rotated",
    ];
    stage.apply_examples(&runs).await?;
    let three = ["run/train", "run/evaluate", "run/sweep"];
    let submitted = |seen: &Seen| three.iter().all(|run| !seen.row(run).state.is_empty());
    stage
        .board
        .until("three Runs are submitted", submitted)
        .await?;
    let four = |runs: &[ServiceRun]| runs.len() == 4;
    stage.service_until("four runs are created", four).await?;
    Ok(())
}

async fn kill(stage: &mut Stage) -> Outcome<()> {
    heading("4. kill -9 the operator, at the worst moment");
    note("The service has created a run for nightly, and its answer is still on the way.");
    note("The operator dies without knowing the run's id.");
    if let Some(mut operator) = stage.operator.take() {
        terminal::command(&format!("kill -9 {}", operator.pid()));
        operator.kill9();
    }
    let seen = stage.board.now();
    let both = ["train", "evaluate"].map(|name| seen.runs.get(name).cloned().unwrap_or_default());
    let ended = |runs: &[ServiceRun]| {
        let ended = |key: &String| {
            runs.iter()
                .any(|run| run.ended() && run.idempotency_key == *key)
        };
        both.iter().all(ended)
    };
    let what = "train and evaluate have ended";
    let runs = stage.service_until(what, ended).await?;
    note("The service continues; the cluster does not show it yet:");
    compare(&stage.board.now(), &runs);
    Ok(())
}

async fn restart(stage: &mut Stage) -> Outcome<()> {
    heading("5. Start it again");
    let pid = stage.start_operator()?;
    note(&format!(
        "Pid {pid}. It repeats nightly's POST with the same Idempotency-Key, and mirrors what it missed."
    ));
    let mirrored = |seen: &Seen| {
        seen.row("run/train").phase == "Succeeded"
            && seen.row("run/evaluate").phase == "Failed"
            && seen.row("run/sweep").state == "running"
            && seen.row(NIGHTLY).state == "running"
    };
    stage
        .board
        .until("every Run is what its run is", mirrored)
        .await?;
    let ServiceRun { posts, run_id, .. } = stage.at_the_service("nightly").await?;
    note(&format!(
        "The service got {posts} POSTs for nightly and has one run for it, {run_id}."
    ));
    Ok(())
}

async fn delete(stage: &Stage) -> Outcome<()> {
    heading("6. Delete a Run whose run has not ended");
    note("The object stays until the service reports the end of its run.");
    let delete = ["delete", "runs.run-operator.dev", "sweep"];
    stage.kubectl(&delete).await?;
    let gone = |seen: &Seen| !seen.rows.contains_key("run/sweep");
    stage.board.until("sweep is gone", gone).await?;
    let run = stage.at_the_service("sweep").await?;
    note(&format!("At the service its run is {}.", run.state));
    Ok(())
}

async fn expire(stage: &Stage) -> Outcome<()> {
    heading("7. Let the access token expire while nightly runs");
    note("The service now answers 401. Then nightly's run ends, and the operator can't read it.");
    stage.expire_token().await?;
    let run = stage.at_the_service("nightly").await?;
    let advance = format!("runs/{}/advance", run.run_id);
    stage.service.steer(&advance, json!({})).await?;
    ready(stage, "False").await?;
    let known = |seen: &Seen| seen.row(NIGHTLY).synced == "False";
    stage
        .board
        .until("nightly is known to be stale", known)
        .await?;
    let phase = stage.board.now().row(NIGHTLY).phase;
    note(&format!(
        "The Workspace shows the reason. nightly stays {phase}, marked as stale: no Run fails for a token."
    ));
    Ok(())
}

async fn rotate(stage: &mut Stage) -> Outcome<()> {
    heading("8. Rotate the token in the Secret");
    let made = stage.service.steer("tokens", json!({})).await?;
    let token = made["token"].as_str().ok_or("the service made no token")?;
    stage.rotate_token(token.to_owned()).await?;
    ready(stage, "True").await?;
    let succeeded = |seen: &Seen| seen.row(NIGHTLY).phase == "Succeeded";
    stage
        .board
        .until("nightly has succeeded", succeeded)
        .await?;
    note("Picked up without a restart.");
    Ok(())
}

async fn tick(stage: &mut Stage) -> Outcome<()> {
    heading("9. A schedule of every minute, and kill -9 at the tick");
    note("The next tick is at the next full minute.");
    stage.apply_examples(&["runschedule-every-minute"]).await?;
    let name = |seen: &Seen| {
        let mut runs = seen.runs.keys();
        runs.find(|name| name.starts_with("tick-")).cloned()
    };
    let created = |seen: &Seen| name(seen).is_some();
    stage.board.until("the tick has its Run", created).await?;
    if let Some(mut operator) = stage.operator.take() {
        terminal::command(&format!("kill -9 {}", operator.pid()));
        operator.kill9();
    }
    let suspend = r#"{"spec":{"suspend":true}}"#;
    let suspend = [
        "patch",
        "runschedules.run-operator.dev",
        "tick",
        "--type=merge",
        "-p",
        suspend,
    ];
    stage.kubectl(&suspend).await?;
    let pid = stage.start_operator()?;
    note(&format!(
        "Pid {pid} goes on with the tick's Run; a second one would have the same name and key."
    ));
    let name = name(&stage.board.now()).unwrap_or_default();
    let run = format!("run/{name}");
    let succeeded = |seen: &Seen| seen.row(&run).phase == "Succeeded";
    stage
        .board
        .until("the tick's Run has succeeded", succeeded)
        .await?;
    let run = stage.at_the_service(&name).await?;
    note(&format!(
        "For the tick the service has one run, {}.",
        run.run_id
    ));
    Ok(())
}

/// Waits for the Workspace's Ready condition.
async fn ready(stage: &Stage, status: &str) -> Outcome<()> {
    let what = format!("the Workspace has Ready={status}");
    let ready = |seen: &Seen| seen.row("workspace/default").ready == status;
    stage.board.until(&what, ready).await
}

/// Both sides, side by side.
fn compare(seen: &Seen, runs: &[ServiceRun]) {
    let line = |name: &str, service: &str, cluster: &str| {
        note(&format!("  {name:<10}  {service:<14}  {cluster}"));
    };
    line("RUN", "AT THE SERVICE", "IN THE CLUSTER");
    for (name, key) in &seen.runs {
        let run = runs.iter().find(|run| run.idempotency_key == *key);
        let row = seen.row(&format!("run/{name}"));
        let cluster = match row.phase.as_str() {
            "" => "no status yet".to_owned(),
            phase => format!("{phase}, {}", row.state),
        };
        line(name, run.map_or("-", |run| &run.state), &cluster);
    }
}
