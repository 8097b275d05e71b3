//! Many schedules of one minute: how late their Runs are, and how the creations are spread.

use std::collections::BTreeMap;
use std::time::Duration;

use http::Request;
use jiff::{Timestamp, tz::TimeZone};
use kube::{Api, api::ListParams};
use run_operator::api::{ConditionType, RunSchedule, conditions::is_true};
use run_operator::clock::wall;
use serde_json::{Value, json};
use tokio::time::sleep;

use super::load::{self, Pace};
use super::observer::Observer;
use super::stage::Stage;
use super::table::{Column, Figures, millis_each, seconds, spread};
use crate::common::{Outcome, until};
use crate::service::runs;

const NAMESPACE: &str = "schedules";
const PACE: Pace = Pace(1000, 1000);
/// Time for the minute to come, and for every run to end.
const PATIENCE: Duration = Duration::from_mins(15);
/// Interval of asking how many are Ready: each reads all of them.
const LOOK: Duration = Duration::from_secs(1);

/// Lets one minute come for all of them.
pub(super) async fn measure(quick: bool) -> Outcome<Figures> {
    // The seconds in which all have to be Ready.
    let (count, ahead) = if quick { (200, 90) } else { (1000, 180) };
    let stage = Stage::set(NAMESPACE).await?;
    let (operator, _) = stage.operator(&["--schedules"]).await?;
    stage.workspace_ready(NAMESPACE).await?;
    let observer = Observer::start(stage.client.clone(), NAMESPACE);
    let tick = minute_after(ahead)?;
    create(&stage, tick, count).await?;
    ready(&stage, count).await?;
    stage.at_rest().await?;
    if wall() >= tick {
        return Err("the minute came before all schedules were Ready".into());
    }
    let (before, requests) = (operator.usage()?, stage.requests().await?);
    observer.released(count, PATIENCE).await?;
    let cpu = millis_each((operator.usage()? - before).cpu, count);
    let requests = stage.requests().await?.since(&requests);
    let late = |at: Timestamp| Duration::try_from(at.duration_since(tick)).unwrap_or_default();
    let created: Vec<_> = observer.lives(|lives| {
        let first = lives.values().filter_map(|life| life.first);
        first.map(late).collect()
    });
    let submitted = runs(&stage.service).await?;
    let submitted = submitted.iter().map(|run| late(run.created_at));
    let first = created.iter().min().copied().unwrap_or_default();
    let last = created.iter().max().copied().unwrap_or_default();
    let busiest = busiest(&created);
    let column = Column::new("of one minute")
        .rows(spread("From the tick to its Run", created))
        .cell(
            "From the first Run to the last, in s",
            seconds(last.saturating_sub(first)),
        )
        .cell("Runs in the busiest second", busiest)
        .rows(spread("From the tick to the POST", submitted.collect()))
        .cell("Operator's time on a core for a tick and its Run", cpu)
        .rows(requests.for_each(count));
    Ok(Figures::new("schedules")
        .row("Schedules of the same minute", count)
        .columns("Times in ms, and what each schedule costs", &[column]))
}

/// The first full minute that is so many seconds ahead.
fn minute_after(seconds: i64) -> Outcome<Timestamp> {
    let second = wall().as_second() + seconds;
    let minutes = second.div_euclid(60) + 1;
    Timestamp::from_second(minutes * 60).map_err(|error| error.to_string().into())
}

/// Creates schedules with this one tick in the year.
async fn create(stage: &Stage, tick: Timestamp, count: usize) -> Outcome<()> {
    let clients = stage.clients().await?;
    let path = format!("/apis/run-operator.dev/v1alpha1/namespaces/{NAMESPACE}/runschedules");
    load::each(&clients, "schedule", count, async |client, name| {
        let request = Request::post(&path).header("content-type", "application/json");
        let schedule = manifest(&name, tick).to_string();
        load::written(&client, request, schedule).await.map(drop)
    })
    .await
}

fn manifest(name: &str, tick: Timestamp) -> Value {
    let time = tick.to_zoned(TimeZone::UTC);
    let time = time.strftime("%-M %-H %-d %-m *").to_string();
    let run = load::manifest(name, PACE);
    json!({
        "apiVersion": "run-operator.dev/v1alpha1", "kind": "RunSchedule",
        "metadata": {"name": name},
        "spec": {"schedules": [time], "template": {"spec": run["spec"]}},
    })
}

/// Waits until so many are Ready.
async fn ready(stage: &Stage, count: usize) -> Outcome<()> {
    let api: Api<RunSchedule> = Api::namespaced(stage.client.clone(), NAMESPACE);
    let is_ready = |schedule: &&RunSchedule| {
        let status = schedule.status.as_ref();
        status.is_some_and(|status| is_true(&status.conditions, ConditionType::Ready))
    };
    let what = "every schedule is Ready";
    until(what, PATIENCE, String::new, async || {
        sleep(LOOK).await;
        let all = api.list(&ListParams::default()).await?;
        Ok(all.items.iter().filter(is_ready).count() >= count)
    })
    .await
}

/// The most in any second after the tick.
fn busiest(late: &[Duration]) -> usize {
    let mut seconds: BTreeMap<u64, usize> = BTreeMap::new();
    for late in late {
        *seconds.entry(late.as_secs()).or_default() += 1;
    }
    seconds.into_values().max().unwrap_or_default()
}
