//! Many Runs that wait for a slot of their Workspace: what each of them costs, and how soon a slot that becomes free is
//! used.

use std::time::Duration;

use serde_json::json;
use tokio::time::{interval, sleep};

use super::load::{self, HOURS, Pace};
use super::observer::Observer;
use super::operator::Operator;
use super::stage::Stage;
use super::table::{Column, Figures, millis_each, spread};
use crate::common::{Error, Outcome, run, until};
use crate::service::{ServiceRun, runs};

const NAMESPACE: &str = "queue";
/// The prefix of the Runs that have the slots first, and of their runs.
const FIRST: &str = "first";
/// Runs that end in a second.
const ENDS: usize = 10;
/// Milliseconds from one end to the next.
const APART: u64 = 1000 / ENDS as u64;
/// The milliseconds that a run is queued at the service.
const QUEUED: u64 = 200;
/// Time for all Runs to wait, and then for all to end.
const PATIENCE: Duration = Duration::from_mins(40);
/// Interval of asking how many Runs wait: each scrape counts all of them.
const LOOK: Duration = Duration::from_secs(1);

/// Lets many Runs wait, and then the runs end one after the other.
pub(super) async fn measure(quick: bool) -> Outcome<Figures> {
    let (slots, count) = if quick { (20, 1000) } else { (100, 10_000) };
    let stage = Stage::set(NAMESPACE).await?;
    limit(&stage, slots).await?;
    let (operator, _) = stage.operator(&[]).await?;
    stage.workspace_ready(NAMESPACE).await?;
    let observer = Observer::start(stage.client.clone(), NAMESPACE);
    take_all(&stage, slots).await?;
    observer.shown("running", slots, PATIENCE).await?;
    let waiting = wait(&stage, &operator, slots, count).await?;
    eprintln!("all wait: measured");
    let admitted = end(&stage, &operator, &observer, slots, count).await?;
    let title = "What each Run costs until it waits, and from then on to its end; times in ms";
    Ok(Figures::new("queue")
        .row("Runs that wait", count)
        .row("Slots", slots)
        .row("Runs that end in a second", ENDS)
        .columns(title, &[waiting, admitted]))
}

/// Sets `maxActiveRuns`.
async fn limit(stage: &Stage, slots: usize) -> Outcome<()> {
    let limit = json!({"spec": {"maxActiveRuns": slots}}).to_string();
    let mut patch = stage.control_plane.kubectl();
    patch.args(["patch", "workspaces.run-operator.dev/default"]);
    patch.args(["--namespace", NAMESPACE, "--type=merge", "-p", &limit]);
    run(patch, "").await.map(drop)
}

/// Creates Runs that take every slot, and keep it until the bench ends them.
async fn take_all(stage: &Stage, slots: usize) -> Outcome<()> {
    let clients = stage.clients().await?;
    load::each(&clients, FIRST, slots, async |client, name| {
        let mut run = load::manifest(&name, HOURS);
        run["spec"]["workload"]["simulate"]["runId"] = json!(name);
        load::apply(&client, NAMESPACE, &run).await.map(drop)
    })
    .await
}

/// Creates the Runs that wait. Each will run for as long as it takes until all others that have a slot have ended once.
async fn wait(stage: &Stage, operator: &Operator, slots: usize, count: usize) -> Outcome<Column> {
    let pace = Pace(QUEUED, APART * slots as u64 - QUEUED);
    let clients = stage.clients().await?;
    stage.at_rest().await?;
    let (before, requests) = (operator.usage()?, stage.requests().await?);
    load::create_all(&clients, NAMESPACE, "run", count, pace).await?;
    let log = || operator.log();
    until("every Run waits", PATIENCE, log, async || {
        sleep(LOOK).await;
        let queued = operator.sum("run_operator_workspace_queued_runs").await?;
        Ok(queued >= count as u64)
    })
    .await?;
    // The last ones show it.
    stage.at_rest().await?;
    let after = operator.usage()?;
    let requests = stage.requests().await?.since(&requests);
    let more = after.resident.saturating_sub(before.resident);
    let cpu = millis_each((after - before).cpu, count);
    Ok(Column::new("until it waits")
        .cell("Operator's time on a core", cpu)
        .cell("Bytes of memory for each", more / count as u64)
        .rows(requests.for_each(count)))
}

/// Ends the first runs at the pace at which the others end by themselves, and waits for the end of all.
async fn end(
    stage: &Stage,
    operator: &Operator,
    observer: &Observer,
    slots: usize,
    count: usize,
) -> Outcome<Column> {
    let (before, requests) = (operator.usage()?, stage.requests().await?);
    let mut ticks = interval(Duration::from_millis(APART));
    for number in 0..slots {
        ticks.tick().await;
        let path = format!("runs/{}/state", load::name(FIRST, number));
        let ended = json!({"state": "succeeded"});
        stage.service.steer(&path, ended).await?;
    }
    observer.released(slots + count, PATIENCE).await?;
    let cpu = millis_each((operator.usage()? - before).cpu, count);
    let requests = stage.requests().await?.since(&requests);
    let used = used_after(&runs(&stage.service).await?, slots)?;
    Ok(Column::new("to its end")
        .cell("Operator's time on a core", cpu)
        .rows(spread("From an end to the next POST", used))
        .rows(requests.for_each(count)))
}

/// The times from each end until its slot was used again, as the service saw both.
fn used_after(runs: &[ServiceRun], slots: usize) -> Outcome<Vec<Duration>> {
    let mut created: Vec<_> = runs.iter().map(|run| run.created_at).collect();
    let ended = runs.iter().filter(|run| run.ended());
    let mut ended: Vec<_> = ended
        .filter_map(|run| Some(run.entered.last()?.at))
        .collect();
    created.sort_unstable();
    ended.sort_unstable();
    // The first ones had their slots from the beginning.
    let pairs = created.iter().skip(slots).zip(&ended);
    let times = pairs.map(|(created, ended)| {
        let time = Duration::try_from(created.duration_since(*ended));
        time.map_err(|_| Error::from("more runs than slots were active"))
    });
    times.collect()
}
