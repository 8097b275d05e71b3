//! The end of the demo: what was promised, read from the service and the API server, and checked.

use std::collections::{BTreeMap, BTreeSet};

use kube::{Api, ResourceExt, api::ListParams};
use run_operator::api::{Run, names};
use serde_json::Value;
use test_support::openapi::Record;

use super::board::Seen;
use super::stage::{NAMESPACE, Stage};
use super::terminal::{self, heading, note};
use crate::common::Outcome;
use crate::service::ServiceRun;

/// The final state of both sides.
#[derive(Default)]
struct Facts {
    /// Every Run that was ever there: the key of its run by name.
    applied: BTreeMap<String, String>,
    /// The Runs that are there now, by name.
    objects: BTreeMap<String, Run>,
    /// Every run that the service ever created.
    runs: Vec<ServiceRun>,
    stats: Value,
    token_in_log: bool,
    requests: Record,
}

/// A promise, what was found, and whether it holds.
type Check = (&'static str, String, bool);

/// Prints the summary; whether every promise held.
pub(crate) async fn check(stage: &Stage) -> Outcome<bool> {
    let facts = gather(stage).await?;
    heading("Summary, read from the service and the API server");
    table(&facts);
    terminal::blank();
    let checks = facts.checks();
    for (promise, found, holds) in &checks {
        let word = if *holds { "ok" } else { "BROKEN" };
        note(&format!("{word:<6}  {promise:<56}  {found}"));
    }
    let broken = checks.iter().filter(|(.., holds)| !holds).count();
    let (all, elapsed) = (checks.len(), terminal::elapsed());
    terminal::blank();
    note(&match broken {
        0 => format!("All {all} promises held. {elapsed}."),
        1 => "1 promise is broken.".to_owned(),
        _ => format!("{broken} promises are broken."),
    });
    Ok(broken == 0)
}

async fn gather(stage: &Stage) -> Outcome<Facts> {
    // Streams end after their run has ended, and finalizers are removed right after the last status.
    let ended = |runs: &[ServiceRun]| runs.iter().all(ServiceRun::ended);
    let runs = stage.service_until("every run has ended", ended).await?;
    let ended = |seen: &Seen| {
        let mut phases = seen.rows.values().map(|row| row.phase.as_str());
        phases.all(|phase| matches!(phase, "" | "Succeeded" | "Failed" | "Cancelled"))
    };
    stage.board.until("every Run has ended", ended).await?;
    let api: Api<Run> = Api::namespaced(stage.client.clone(), NAMESPACE);
    let list = api.list(&ListParams::default()).await?;
    Ok(Facts {
        applied: stage.board.now().runs,
        objects: list.into_iter().map(|run| (run.name_any(), run)).collect(),
        runs,
        stats: stage.service.read("stats").await?,
        token_in_log: stage.token_in_log(),
        requests: stage.service.record(),
    })
}

/// A line for each Run that was ever there.
fn table(facts: &Facts) {
    let line = |[name, phase, state, posts, cancels, key]: [&str; 6]| {
        note(&format!(
            "{name:<17}  {phase:<10}  {state:<9}  {posts:>5}  {cancels:>7}  {key}"
        ));
    };
    let key = "IDEMPOTENCY KEY: THE UID, OR A TICK'S";
    line(["RUN", "PHASE", "SERVICE", "POSTS", "CANCELS", key]);
    for (name, key) in &facts.applied {
        let deleted = || "(deleted)".to_owned();
        let phase = facts.objects.get(name).map_or_else(deleted, phase);
        for run in facts.runs.iter().filter(|run| run.idempotency_key == *key) {
            let (posts, cancels) = (run.posts.to_string(), run.cancels.to_string());
            line([name, &phase, &run.state, &posts, &cancels, key]);
        }
    }
}

impl Facts {
    fn checks(&self) -> Vec<Check> {
        let none = |promise, count: u64| (promise, count.to_string(), count == 0);
        let (created, applied) = (self.runs.len(), self.applied.len());
        let keys = self.runs.iter().map(|run| run.idempotency_key.as_str());
        let keys: BTreeSet<&str> = keys.collect();
        let theirs: BTreeSet<&str> = self.applied.values().map(String::as_str).collect();
        let same = keys.intersection(&theirs).count();
        // Without two of them the demo has shown less than it claims.
        let posts = self.run_of("nightly").map_or(0, |run| run.posts);
        let (kept, deleted): (Vec<&String>, Vec<&String>) = self
            .applied
            .keys()
            .partition(|name| self.objects.contains_key(*name));
        let cancelled = deleted.iter().filter_map(|name| self.run_of(name));
        let cancelled = cancelled.filter(|run| run.state == "cancelled" && run.cancels > 0);
        let cancelled = cancelled.count();
        let cancels = kept.iter().filter_map(|name| self.run_of(name));
        let cancels: u64 = cancels.map(|run| run.cancels).sum();
        let mirrors = kept.iter().filter(|name| self.mirrors(name)).count();
        let live = self.runs.iter().filter(|run| !run.ended()).count() as u64;
        let keeps = |run: &&Run| run.finalizers().iter().any(|name| name == names::FINALIZER);
        let held = self.objects.values().filter(keeps).count() as u64;
        let on_version = self.stats["authorizationOnVersion"].as_u64();
        let token = match (self.token_in_log, on_version) {
            (false, Some(0)) => "none".to_owned(),
            (in_log, count) => {
                format!("log: {in_log}, GET /version: {}", count.unwrap_or_default())
            }
        };
        let (all, wrong) = (self.requests.requests, self.requests.violations.len());
        vec![
            (
                "runs created at the service = Runs",
                format!("{created} = {applied}"),
                created == applied && self.stats["runsCreated"] == created,
            ),
            (
                "idempotency keys = those of the Runs",
                format!("{same} of {}", keys.len().max(theirs.len())),
                keys == theirs && self.stats["idempotencyKeysSeen"] == keys.len(),
            ),
            (
                "POSTs of the create that kill -9 cut off, all one run",
                posts.to_string(),
                posts >= 2,
            ),
            (
                "runs cancelled = Runs deleted while they ran",
                format!("{cancelled} = {}", deleted.len()),
                cancelled == deleted.len() && !deleted.is_empty(),
            ),
            none("cancels of Runs that were not deleted", cancels),
            (
                "Runs that show the id and state of their run",
                format!("{mirrors} of {}", self.objects.len()),
                mirrors == self.objects.len(),
            ),
            none("runs still live at the service", live),
            none("finished Runs that keep the finalizer", held),
            (
                "tokens in the operator's log or sent to /version",
                token.clone(),
                token == "none",
            ),
            (
                "requests that differ from contract/openapi.yaml",
                format!("{wrong} of {all}"),
                wrong == 0 && all > 0,
            ),
        ]
    }

    /// Whether the Run shows the id and the state of its run.
    fn mirrors(&self, name: &str) -> bool {
        let object = self.objects.get(name);
        let status = object.and_then(|object| object.status.as_ref());
        let (Some(object), Some(status), Some(run)) = (object, status, self.run_of(name)) else {
            return false;
        };
        status.run_id.as_ref() == Some(&run.run_id)
            && status.state.as_ref() == Some(&run.state)
            && phase(object).eq_ignore_ascii_case(&run.state)
    }

    /// The run of the Run with this name.
    fn run_of(&self, name: &str) -> Option<&ServiceRun> {
        let key = self.applied.get(name)?;
        self.runs.iter().find(|run| run.idempotency_key == *key)
    }
}

fn phase(run: &Run) -> String {
    let phase = run.status.as_ref().and_then(|status| status.phase);
    phase.map(|phase| format!("{phase:?}")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Proves: L-contract
    #[test]
    fn a_request_unlike_the_document_breaks_a_promise() {
        let holds = |requests, violations: &[&str]| {
            let facts = Facts {
                requests: Record {
                    requests,
                    violations: violations.iter().map(|&line| line.to_owned()).collect(),
                    ..Record::default()
                },
                ..Facts::default()
            };
            let mut checks = facts.checks().into_iter();
            let found = checks.find(|(promise, ..)| promise.contains("contract/openapi.yaml"));
            found.is_some_and(|(.., holds)| holds)
        };
        assert!(holds(9, &[]));
        assert!(!holds(9, &["GET /runs/run-1?fields=state: not declared"]));
        assert!(!holds(0, &[]), "nothing was checked");
    }
}
