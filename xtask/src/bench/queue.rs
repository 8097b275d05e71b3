//! Many Runs that wait for a slot of their Workspace: what each of them costs, and how soon a slot that becomes free is
//! used.

use std::collections::HashSet;
use std::time::Duration;

use serde_json::json;
use tokio::time::{interval, sleep};

use super::load::{self, HOURS};
use super::observer::Observer;
use super::operator::Operator;
use super::stage::Stage;
use super::table::{Column, Figures, millis_each, spread};
use crate::common::{Error, Outcome, run, until};
use crate::service::{ServiceRun, runs};

const NAMESPACE: &str = "queue";
/// The prefix of the Runs that have the slots first, and of their runs.
const FIRST: &str = "first";
/// Milliseconds from one end to the next: ten a second.
const APART: u64 = 100;
/// Time for all Runs to wait, and then for all to end.
const PATIENCE: Duration = Duration::from_mins(40);
/// Interval of asking how many Runs wait: each scrape counts all of them.
const LOOK: Duration = Duration::from_secs(1);

/// Lets many Runs wait, and then the runs end one after the other.
pub(super) async fn measure(quick: bool) -> Outcome<Figures> {
    let (slots, count, ends) = if quick {
        (20, 1000, 500)
    } else {
        (100, 10_000, 3000)
    };
    let stage = Stage::set(NAMESPACE).await?;
    limit(&stage, slots).await?;
    let (operator, _) = stage.operator(&[]).await?;
    stage.workspace_ready(NAMESPACE).await?;
    let observer = Observer::start(stage.client.clone(), NAMESPACE);
    create(&stage, FIRST, slots).await?;
    observer.shown("running", slots, PATIENCE).await?;
    let waiting = wait(&stage, &operator, count).await?;
    eprintln!("all wait: measured");
    let admitted = end(&stage, &operator, &observer, slots, ends).await?;
    let title = "What each Run costs until it waits, and each that is submitted; times in ms";
    Ok(Figures::new("queue")
        .row("Runs that wait", count)
        .row("Slots", slots)
        .row("Runs that end, ten a second", ends)
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

/// Creates Runs whose runs have their names, and last until the bench ends them.
async fn create(stage: &Stage, prefix: &str, count: usize) -> Outcome<()> {
    let clients = stage.clients().await?;
    load::each(&clients, prefix, count, async |client, name| {
        let mut run = load::manifest(&name, HOURS);
        run["spec"]["workload"]["simulate"]["runId"] = json!(name);
        load::apply(&client, NAMESPACE, &run).await.map(drop)
    })
    .await
}

/// Creates the Runs that wait.
async fn wait(stage: &Stage, operator: &Operator, count: usize) -> Outcome<Column> {
    stage.at_rest().await?;
    let (before, requests) = (operator.usage()?, stage.requests().await?);
    create(stage, "run", count).await?;
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

/// Ends so many runs, one after the other and the longest running first, and waits until their Runs show it.
async fn end(
    stage: &Stage,
    operator: &Operator,
    observer: &Observer,
    slots: usize,
    ends: usize,
) -> Outcome<Column> {
    let (before, requests) = (operator.usage()?, stage.requests().await?);
    let mut ticks = interval(Duration::from_millis(APART));
    let mut ended = HashSet::new();
    while ended.len() < ends {
        ticks.tick().await;
        let next = observer.lives(|lives| {
            let running = lives.values().filter(|life| !ended.contains(&life.name));
            let running =
                running.filter_map(|life| Some((life.states.get("running")?, &life.name)));
            running.min().map(|(_, name)| name.clone())
        });
        if let Some(name) = next {
            let ended_as = json!({"state": "succeeded"});
            let path = format!("runs/{name}/state");
            stage.service.steer(&path, ended_as).await?;
            ended.insert(name);
        }
    }
    observer.released(ends, PATIENCE).await?;
    let cpu = millis_each((operator.usage()? - before).cpu, ends);
    let requests = stage.requests().await?.since(&requests);
    let used = used_after(&runs(&stage.service).await?, slots)?;
    Ok(Column::new("that is submitted")
        .cell("Operator's time on a core", cpu)
        .rows(spread("From an end to the next POST", used))
        .rows(requests.for_each(ends)))
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
