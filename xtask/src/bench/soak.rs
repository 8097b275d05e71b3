//! A soak at size: Runs in waves, each deleted by its TTL or by its user, under a leader and a standby. The API server
//! restarts in it without its history, so that everything is listed again, and a leader is killed in it.

use std::time::{Duration, Instant};

use kube::Api;
use kube::api::{DeleteParams, ListParams};
use run_operator::api::Run;
use serde_json::Value;
use test_support::streams_a_list;
use tokio::time::sleep;

use super::audit::{self, Entry};
use super::error::BenchError;
use super::etcd::Etcd;
use super::figures::Figures;
use super::load::{self, Pace};
use super::operator::Operator;
use super::stage::Stage;
use super::usage::{Usage, mib};
use super::wait::until;

const NAMESPACE: &str = "soak";
/// Time for one wave to be gone.
const PATIENCE: Duration = Duration::from_mins(20);
/// Interval of counting in the audit log.
const COUNT: Duration = Duration::from_secs(5);
/// Arguments of the two operators. The leader is to survive the API server's restart.
const PATIENT: [&str; 7] = [
    "--leader-elect",
    "--leader-elect-namespace",
    "default",
    "--leader-elect-lease-duration",
    "90s",
    "--leader-elect-renew-deadline",
    "80s",
];
/// Time from a Run's end until its TTL deletes it, in seconds.
const TTL: u64 = 10;
/// One Run of so many runs for hours, and is deleted while it does.
const LONG: usize = 10;
/// The bytes of the leader's memory that a past Run may have added, from the second third of the waves to the last; of
/// few Runs, what the allocator keeps counts for more.
const BYTES_A_RUN: u64 = 128;
const BYTES_A_RUN_QUICK: u64 = 2048;
const SHORT: Pace = Pace {
    queued: Duration::from_millis(200),
    running: Duration::from_millis(500),
};
const HOURS: Pace = Pace {
    queued: Duration::from_millis(200),
    running: Duration::from_hours(2),
};

/// Who leads, and who waits.
struct Pair {
    leader: Operator,
    standby: Operator,
}

impl Pair {
    fn logs(&self) -> String {
        format!("{}\n{}", self.leader.log(), self.standby.log())
    }
}

/// Lets so many Runs go by, and compares what the service has with what was created.
pub(super) async fn measure(quick: bool) -> Result<Figures, BenchError> {
    let (waves, runs) = if quick { (6, 500) } else { (20, 5000) };
    let mut stage = Stage::set().await?;
    stage.namespace(NAMESPACE).await?;
    let (leader, _) = stage.another_operator(&PATIENT).await?;
    stage.workspace_ready(NAMESPACE).await?;
    let (standby, _) = stage.another_operator(&PATIENT).await?;
    let mut pair = Pair { leader, standby };
    let (began, mut rows, mut memory) = (Instant::now(), Vec::new(), Vec::new());
    let mut made = 0;
    for wave in 1..=waves {
        create(&stage, wave, runs).await?;
        let what = if wave == waves / 2 {
            relist(&stage, &pair).await?;
            "everything is listed again"
        } else if wave == waves / 2 + 1 {
            pair = takeover(&mut stage, pair).await?;
            "the leader is killed"
        } else {
            ""
        };
        all_made(&stage, &pair, wave * runs).await?;
        end(&stage, wave, runs).await?;
        gone(&stage, &pair).await?;
        made = one_run_each(&stage, wave * runs).await?;
        let used = pair.leader.usage()?;
        eprintln!("wave {wave}: {}", mib(used.resident));
        memory.push(used.resident);
        rows.push(row(wave, wave * runs, used, what));
    }
    let bytes = bytes_a_run(&memory, runs);
    if bytes
        > if quick {
            BYTES_A_RUN_QUICK
        } else {
            BYTES_A_RUN
        }
    {
        let what =
            format!("the leader's memory, to which each Run added {bytes} bytes: {memory:?}");
        return Err(BenchError::Unexpected(what));
    }
    let figures = Figures::new("size")
        .row("Runs", waves * runs)
        .row("Deleted by their TTL", waves * (runs - runs / LONG))
        .row("Deleted while they ran", waves * (runs / LONG))
        .row(
            "Runs that the service has made, all of which have ended",
            made,
        )
        .row("Minutes", began.elapsed().as_secs() / 60)
        .row("Bytes that each Run added to the leader's memory", bytes)
        .table("The leader after each wave", &COLUMNS, rows);
    Ok(figures)
}

/// The head of the table.
const COLUMNS: [&str; 6] = [
    "wave",
    "Runs until then",
    "memory",
    "at its peak",
    "open files",
    "in the middle of the wave",
];

fn row(wave: usize, runs: usize, used: Usage, what: &str) -> Vec<String> {
    vec![
        wave.to_string(),
        runs.to_string(),
        mib(used.resident),
        mib(used.peak),
        used.files.to_string(),
        what.to_owned(),
    ]
}

/// The prefix of the Runs that end by themselves, and of those that don't.
fn prefixes(wave: usize) -> [String; 2] {
    [format!("short-{wave}"), format!("long-{wave}")]
}

async fn create(stage: &Stage, wave: usize, runs: usize) -> Result<(), BenchError> {
    let clients = stage.clients().await?;
    let [short, long] = prefixes(wave);
    load::each(&clients, &long, runs / LONG, async |client, name| {
        load::create_with_ttl(&client, NAMESPACE, &name, HOURS, TTL).await
    })
    .await?;
    load::each(
        &clients,
        &short,
        runs - runs / LONG,
        async |client, name| load::create_with_ttl(&client, NAMESPACE, &name, SHORT, TTL).await,
    )
    .await
}

/// Waits until the service has a run for each Run until now: what is deleted before it is submitted never has one.
async fn all_made(stage: &Stage, pair: &Pair, created: usize) -> Result<(), BenchError> {
    until(
        "each Run is submitted",
        PATIENCE,
        || pair.logs(),
        async || {
            sleep(Duration::from_secs(1)).await;
            let made = stage.service.stats().await?["runsCreated"].as_u64();
            let made = made.and_then(|made| usize::try_from(made).ok());
            Ok(made.is_some_and(|made| made >= created).then_some(()))
        },
    )
    .await
}

/// Deletes the Runs that don't end by themselves.
async fn end(stage: &Stage, wave: usize, runs: usize) -> Result<(), BenchError> {
    let [_, long] = prefixes(wave);
    let clients = stage.clients().await?;
    load::each(&clients, &long, runs / LONG, async |client, name| {
        let api: Api<Run> = Api::namespaced(client, NAMESPACE);
        let deleted = api.delete(&name, &DeleteParams::default()).await;
        deleted
            .map_err(BenchError::kubernetes("delete a Run"))
            .map(drop)
    })
    .await
}

/// Restarts the API server over an etcd that has forgotten what was before: no watch can be continued, and both
/// operators list again.
async fn relist(stage: &Stage, pair: &Pair) -> Result<(), BenchError> {
    let before = lists(stage)?;
    stage.control_plane.stop_apiserver()?;
    Etcd::new(stage.etcd_url()?).compact().await?;
    stage.control_plane.start_apiserver().await?;
    let what = "both operators list the Runs again";
    until(
        what,
        PATIENCE,
        || pair.logs(),
        async || {
            sleep(COUNT).await;
            Ok((lists(stage)? >= before + 2).then_some(()))
        },
    )
    .await
}

/// Lists of the Runs by the operators, as a watch begins with one.
fn lists(stage: &Stage) -> Result<usize, BenchError> {
    let entries = audit::of_operator(&stage.audit_log()?)?;
    let lists = |entry: &&Entry| {
        entry.stage == "ResponseStarted"
            && entry.object_ref.resource == "runs"
            && streams_a_list(&entry.request_uri)
    };
    Ok(entries.iter().filter(lists).count())
}

/// Kills the leader. The standby becomes one, and another process waits for it.
async fn takeover(stage: &mut Stage, pair: Pair) -> Result<Pair, BenchError> {
    pair.leader.kill();
    let (standby, _) = stage.another_operator(&PATIENT).await?;
    Ok(Pair {
        leader: pair.standby,
        standby,
    })
}

/// Waits until no Run is left in the cluster.
async fn gone(stage: &Stage, pair: &Pair) -> Result<(), BenchError> {
    let api: Api<Run> = Api::namespaced(stage.client.clone(), NAMESPACE);
    let one = ListParams::default().limit(1);
    until(
        "every Run is gone",
        PATIENCE,
        || pair.logs(),
        async || {
            // The API server's answers to lists are for all of its callers.
            sleep(Duration::from_secs(1)).await;
            let listed = api.list_metadata(&one).await;
            let listed = listed.map_err(BenchError::kubernetes("list the Runs"))?;
            Ok(listed.items.is_empty().then_some(()))
        },
    )
    .await
}

/// The service has made one run for each Run that was created, and none of them lives. Returns their number.
async fn one_run_each(stage: &Stage, created: usize) -> Result<u64, BenchError> {
    let stats = stage.service.stats().await?;
    let ends = ["succeeded", "failed", "cancelled"];
    let by_state = stats["runsByState"].as_object().into_iter().flatten();
    let live = by_state
        .filter(|(state, count)| !ends.contains(&state.as_str()) && count.as_u64() != Some(0));
    let all = |count: &Value| {
        count
            .as_u64()
            .filter(|count| usize::try_from(*count) == Ok(created))
    };
    let (made, keys) = (&stats["runsCreated"], &stats["idempotencyKeysSeen"]);
    if let (0, Some(made), Some(_)) = (live.count(), all(made), all(keys)) {
        return Ok(made);
    }
    let what = format!("the service after {created} Runs: {stats}");
    Err(BenchError::Unexpected(what))
}

/// Growth of the largest memory in the last third of the waves over that in the second, in bytes for each Run of a
/// third.
fn bytes_a_run(memory: &[u64], runs: usize) -> u64 {
    let third = memory.len() / 3;
    let most = |part: &[u64]| part.iter().max().copied().unwrap_or_default();
    let (_, rest) = memory.split_at(memory.len() - 2 * third);
    let (second, last) = rest.split_at(third);
    most(last).saturating_sub(most(second)) / (third * runs).max(1) as u64
}
