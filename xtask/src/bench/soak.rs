//! A soak at size: Runs in waves, each deleted by its TTL or by its user, under a leader and a standby. The API server
//! restarts in it without its history, so that everything is listed again, and a leader is killed in it.

use std::time::{Duration, Instant};

use kube::Api;
use kube::api::{DeleteParams, ListParams};
use run_operator::api::Run;
use serde_json::json;
use test_support::streams_a_list;
use tokio::time::sleep;

use super::audit::Entry;
use super::load::{self, HOURS, Pace};
use super::operator::Operator;
use super::stage::Stage;
use super::table::{Figures, mib};
use crate::common::{Outcome, until};

const NAMESPACE: &str = "soak";
/// Time for one wave to be gone.
const PATIENCE: Duration = Duration::from_mins(20);
/// Interval of asking. The API server's answers to lists are for all of its callers.
const LOOK: Duration = Duration::from_secs(1);
/// Interval of counting in the audit log.
const COUNT: Duration = Duration::from_secs(5);
/// Arguments of the two operators. The leader is to survive the API server's restart.
const PATIENT: [&str; 4] = [
    "--leader-elect",
    "--leader-elect-namespace=default",
    "--leader-elect-lease-duration=90s",
    "--leader-elect-renew-deadline=80s",
];
/// Time from a Run's end until its TTL deletes it, in seconds.
const TTL: u64 = 10;
/// One Run of so many runs for hours, and is deleted while it does.
const LONG: usize = 10;
const SHORT: Pace = Pace(200, 500);

/// The head of the table.
const COLUMNS: [&str; 6] = [
    "wave",
    "Runs until then",
    "memory",
    "at its peak",
    "open files",
    "in the middle of the wave",
];

/// Everything that runs.
struct Soak {
    stage: Stage,
    /// The leader, and the standby behind it.
    operators: Vec<Operator>,
}

/// Lets so many Runs go by, and compares what the service has with what was created.
pub(super) async fn measure(quick: bool) -> Outcome<Figures> {
    // The bytes of the leader's memory that a past Run may have added, from the second third of the waves to the last;
    // of few Runs, what the allocator keeps counts for more.
    let (waves, runs, most) = if quick {
        (6, 500, 2048)
    } else {
        (20, 5000, 128)
    };
    let stage = Stage::set(NAMESPACE).await?;
    let (leader, _) = stage.operator(&PATIENT).await?;
    stage.workspace_ready(NAMESPACE).await?;
    let (standby, _) = stage.operator(&PATIENT).await?;
    let operators = vec![leader, standby];
    let mut soak = Soak { stage, operators };
    let (began, mut rows, mut memory) = (Instant::now(), Vec::new(), Vec::new());
    for wave in 1..=waves {
        soak.create(wave, runs).await?;
        let what = if wave == waves / 2 {
            soak.relist().await?;
            "everything is listed again"
        } else if wave == waves / 2 + 1 {
            soak.takeover().await?;
            "the leader is killed"
        } else {
            ""
        };
        let until_now = wave * runs;
        soak.all_made(until_now).await?;
        soak.end(wave, runs).await?;
        soak.gone().await?;
        soak.one_run_each(until_now).await?;
        let used = soak.operators[0].usage()?;
        eprintln!("wave {wave}: {}", mib(used.resident));
        memory.push(used.resident);
        let (wave, until_now) = (wave.to_string(), until_now.to_string());
        let (resident, peak) = (mib(used.resident), mib(used.peak));
        let (files, what) = (used.files.to_string(), what.to_owned());
        rows.push(vec![wave, until_now, resident, peak, files, what]);
    }
    let bytes = bytes_a_run(&memory, runs);
    if bytes > most {
        let what = format!("each Run added {bytes} bytes to the leader's memory: {memory:?}");
        return Err(what.into());
    }
    let made = "Runs that the service has made, all of which have ended";
    Ok(Figures::new("size")
        .row("Runs", waves * runs)
        .row("Deleted by their TTL", waves * (runs - runs / LONG))
        .row("Deleted while they ran", waves * (runs / LONG))
        .row(made, waves * runs)
        .row("Minutes", began.elapsed().as_secs() / 60)
        .row("Bytes that each Run added to the leader's memory", bytes)
        .table("The leader after each wave", &COLUMNS, &rows))
}

impl Soak {
    async fn until(&self, what: &str, ask: impl AsyncFn() -> Outcome<bool>) -> Outcome<()> {
        let logs = || {
            let logs: Vec<String> = self.operators.iter().map(Operator::log).collect();
            logs.join("\n")
        };
        until(what, PATIENCE, logs, ask).await
    }

    /// The Runs that end by themselves, and those that don't.
    async fn create(&self, wave: usize, runs: usize) -> Outcome<()> {
        let clients = self.stage.clients().await?;
        let of = async |prefix: &str, count, pace| {
            load::each(&clients, prefix, count, async |client, name| {
                let mut run = load::manifest(&name, pace);
                run["spec"]["ttlSecondsAfterFinished"] = json!(TTL);
                load::apply(&client, NAMESPACE, &run).await.map(drop)
            })
            .await
        };
        of(&long(wave), runs / LONG, HOURS).await?;
        of(&format!("short-{wave}"), runs - runs / LONG, SHORT).await
    }

    /// Waits until the service has a run for each Run until now: what is deleted before it is submitted never has one.
    async fn all_made(&self, created: usize) -> Outcome<()> {
        self.until("each Run is submitted", async || {
            sleep(LOOK).await;
            let made = self.stage.service.read("stats").await?["runsCreated"].as_u64();
            Ok(made.is_some_and(|made| made >= created as u64))
        })
        .await
    }

    /// Deletes the Runs that don't end by themselves.
    async fn end(&self, wave: usize, runs: usize) -> Outcome<()> {
        let clients = self.stage.clients().await?;
        load::each(&clients, &long(wave), runs / LONG, async |client, name| {
            let api: Api<Run> = Api::namespaced(client, NAMESPACE);
            api.delete(&name, &DeleteParams::default()).await?;
            Ok(())
        })
        .await
    }

    /// Restarts the API server over an etcd that has forgotten what was before: no watch can be continued, and both
    /// operators list again.
    async fn relist(&self) -> Outcome<()> {
        let before = self.lists()?;
        let control_plane = &self.stage.control_plane;
        control_plane.stop_apiserver()?;
        self.stage.etcd()?.compact().await?;
        control_plane.start_apiserver().await?;
        self.until("both operators list the Runs again", async || {
            sleep(COUNT).await;
            Ok(self.lists()? >= before + 2)
        })
        .await
    }

    /// Lists of the Runs by the operators, as a watch begins with one.
    fn lists(&self) -> Outcome<usize> {
        let lists = |entry: &&Entry| {
            entry.stage == "ResponseStarted"
                && entry.object_ref.resource == "runs"
                && streams_a_list(&entry.request_uri)
        };
        Ok(self.stage.audited()?.iter().filter(lists).count())
    }

    /// Kills the leader. The standby becomes one, and another process waits for it.
    async fn takeover(&mut self) -> Outcome<()> {
        drop(self.operators.remove(0));
        let (another, _) = self.stage.operator(&PATIENT).await?;
        self.operators.push(another);
        Ok(())
    }

    /// Waits until no Run is left in the cluster.
    async fn gone(&self) -> Outcome<()> {
        let api: Api<Run> = Api::namespaced(self.stage.client.clone(), NAMESPACE);
        let one = ListParams::default().limit(1);
        self.until("every Run is gone", async || {
            sleep(LOOK).await;
            Ok(api.list_metadata(&one).await?.items.is_empty())
        })
        .await
    }

    /// The service has made one run for each Run that was created, and none of them lives.
    async fn one_run_each(&self, created: usize) -> Outcome<()> {
        let stats = self.stage.service.read("stats").await?;
        let by_state = stats["runsByState"].as_object().into_iter().flatten();
        let mut live = by_state.filter(|(state, count)| {
            !["succeeded", "failed", "cancelled"].contains(&state.as_str()) && **count != 0
        });
        if live.next().is_none()
            && stats["runsCreated"] == created
            && stats["idempotencyKeysSeen"] == created
        {
            return Ok(());
        }
        Err(format!("the service after {created} Runs: {stats}").into())
    }
}

/// The prefix of the Runs that don't end by themselves.
fn long(wave: usize) -> String {
    format!("long-{wave}")
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
