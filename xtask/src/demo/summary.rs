//! The end of the demo: what was promised, read from the service and the API server, and checked.

use std::collections::{BTreeMap, BTreeSet};

use kube::{Api, ResourceExt, api::ListParams};
use run_operator::api::{Run, names};
use serde_json::Value;

use crate::demo::failure::Failure;
use crate::demo::stage::Stage;
use crate::demo::terminal::{self, heading, note};
use crate::service::ServiceRun;
use test_support::openapi::Record;

/// The final state of both sides.
struct Facts {
    /// Every Run that was ever there: uid by name.
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
struct Check {
    promise: &'static str,
    found: String,
    holds: bool,
}

/// Prints the summary; whether every promise held.
pub(crate) async fn check(stage: &Stage) -> Result<bool, Failure> {
    let facts = read(stage).await?;
    heading("Summary, read from the service and the API server");
    table(&facts);
    terminal::blank();
    let checks = facts.checks();
    for check in &checks {
        let word = if check.holds { "ok" } else { "BROKEN" };
        note(&format!(
            "{word:<6}  {:<56}  {}",
            check.promise, check.found
        ));
    }
    let broken = checks.iter().filter(|check| !check.holds).count();
    terminal::blank();
    note(&match broken {
        0 => format!(
            "All {} promises held. {}.",
            checks.len(),
            terminal::elapsed()
        ),
        1 => "1 promise is broken.".to_owned(),
        _ => format!("{broken} promises are broken."),
    });
    Ok(broken == 0)
}

async fn read(stage: &Stage) -> Result<Facts, Failure> {
    // Streams end after their run has ended, and finalizers are removed right after the last status.
    stage
        .service
        .until("every run has ended", |runs| {
            runs.iter().all(ServiceRun::ended)
        })
        .await?;
    stage
        .board
        .until("every Run has ended", |seen| {
            let mut runs = seen.rows.values().filter(|row| !row.phase.is_empty());
            runs.all(|row| matches!(row.phase.as_str(), "Succeeded" | "Failed" | "Cancelled"))
        })
        .await?;
    let api: Api<Run> = Api::namespaced(stage.client.clone(), stage.namespace);
    let list = api.list(&ListParams::default()).await;
    let list = list.map_err(Failure::Kubernetes)?;
    Ok(Facts {
        applied: stage.board.now().runs,
        objects: list.into_iter().map(|run| (run.name_any(), run)).collect(),
        runs: stage.service.runs().await?,
        stats: stage.service.stats().await?,
        token_in_log: stage.token_in_log(),
        requests: stage.service.record(),
    })
}

/// A line for each Run that was ever there.
fn table(facts: &Facts) {
    note(&format!(
        "{:<9}  {:<10}  {:<9}  {:>5}  {:>7}  {}",
        "RUN", "PHASE", "SERVICE", "POSTS", "CANCELS", "IDEMPOTENCY KEY = UID"
    ));
    for (name, uid) in &facts.applied {
        let phase = facts.objects.get(name).map_or_else(
            || "(deleted)".to_owned(),
            |run| phase(run).unwrap_or_default(),
        );
        for run in facts.runs.iter().filter(|run| run.idempotency_key == *uid) {
            note(&format!(
                "{name:<9}  {phase:<10}  {:<9}  {:>5}  {:>7}  {uid}",
                run.state, run.posts, run.cancels
            ));
        }
    }
}

impl Facts {
    fn checks(&self) -> Vec<Check> {
        vec![
            self.one_run_each(),
            self.keys_are_uids(),
            self.crash_was_in_a_create(),
            self.deleted_are_cancelled(),
            self.others_are_not_cancelled(),
            self.mirror_is_true(),
            self.nothing_is_live(),
            self.objects_are_released(),
            self.token_is_kept(),
            self.requests_are_known(),
        ]
    }

    fn one_run_each(&self) -> Check {
        let (created, applied) = (self.runs.len(), self.applied.len());
        Check {
            promise: "runs created at the service = Runs applied",
            found: format!("{created} = {applied}"),
            holds: created == applied && self.stats["runsCreated"] == created,
        }
    }

    fn keys_are_uids(&self) -> Check {
        let keys: BTreeSet<&str> = self
            .runs
            .iter()
            .map(|run| run.idempotency_key.as_str())
            .collect();
        let uids: BTreeSet<&str> = self.applied.values().map(String::as_str).collect();
        Check {
            promise: "idempotency keys = uids of the Runs",
            found: format!(
                "{} of {}",
                keys.intersection(&uids).count(),
                keys.len().max(uids.len())
            ),
            holds: keys == uids && self.stats["idempotencyKeysSeen"] == keys.len(),
        }
    }

    /// Without this the demo has shown less than it claims.
    fn crash_was_in_a_create(&self) -> Check {
        let posts = self.run_of("nightly").map_or(0, |run| run.posts);
        Check {
            promise: "POSTs of the create that kill -9 cut off, all one run",
            found: posts.to_string(),
            holds: posts >= 2,
        }
    }

    fn deleted_are_cancelled(&self) -> Check {
        let deleted: Vec<&String> = self
            .applied
            .keys()
            .filter(|name| !self.objects.contains_key(*name))
            .collect();
        let cancelled = deleted.iter().filter(|name| {
            self.run_of(name)
                .is_some_and(|run| run.state == "cancelled" && run.cancels > 0)
        });
        let cancelled = cancelled.count();
        Check {
            promise: "runs cancelled = Runs deleted while they ran",
            found: format!("{cancelled} = {}", deleted.len()),
            holds: cancelled == deleted.len() && !deleted.is_empty(),
        }
    }

    fn others_are_not_cancelled(&self) -> Check {
        let kept = self.objects.keys().filter_map(|name| self.run_of(name));
        let cancels: u64 = kept.map(|run| run.cancels).sum();
        Check {
            promise: "cancels of Runs that were not deleted",
            found: cancels.to_string(),
            holds: cancels == 0,
        }
    }

    fn mirror_is_true(&self) -> Check {
        let true_ones = self.objects.iter().filter(|(name, object)| {
            let (Some(status), Some(run)) = (&object.status, self.run_of(name)) else {
                return false;
            };
            status.run_id.as_ref() == Some(&run.run_id)
                && status.state.as_ref() == Some(&run.state)
                && phase(object).is_some_and(|phase| phase.eq_ignore_ascii_case(&run.state))
        });
        let true_ones = true_ones.count();
        Check {
            promise: "Runs that show the id and state of their run",
            found: format!("{true_ones} of {}", self.objects.len()),
            holds: true_ones == self.objects.len(),
        }
    }

    fn nothing_is_live(&self) -> Check {
        let live = self.runs.iter().filter(|run| !run.ended()).count();
        Check {
            promise: "runs still live at the service",
            found: live.to_string(),
            holds: live == 0,
        }
    }

    fn objects_are_released(&self) -> Check {
        let held = self.objects.values().filter(|run| {
            run.finalizers()
                .iter()
                .any(|finalizer| finalizer == names::FINALIZER)
        });
        let held = held.count();
        Check {
            promise: "finished Runs that keep the finalizer",
            found: held.to_string(),
            holds: held == 0,
        }
    }

    fn token_is_kept(&self) -> Check {
        let on_version = self.stats["authorizationOnVersion"].as_u64();
        let found = match (self.token_in_log, on_version) {
            (false, Some(0)) => "none".to_owned(),
            (in_log, count) => {
                format!("log: {in_log}, GET /version: {}", count.unwrap_or_default())
            }
        };
        Check {
            promise: "tokens in the operator's log or sent to /version",
            holds: found == "none",
            found,
        }
    }

    fn requests_are_known(&self) -> Check {
        let (all, wrong) = (self.requests.requests, self.requests.violations.len());
        Check {
            promise: "requests that differ from contract/openapi.yaml",
            found: format!("{wrong} of {all}"),
            holds: wrong == 0 && all > 0,
        }
    }

    /// The run of the Run with this name.
    fn run_of(&self, name: &str) -> Option<&ServiceRun> {
        let uid = self.applied.get(name)?;
        self.runs.iter().find(|run| run.idempotency_key == *uid)
    }
}

fn phase(run: &Run) -> Option<String> {
    Some(format!("{:?}", run.status.as_ref()?.phase?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Proves: L-document
    #[test]
    fn a_request_unlike_the_document_breaks_a_promise() {
        let holds = |requests, violations: &[&str]| {
            let facts = Facts {
                applied: BTreeMap::new(),
                objects: BTreeMap::new(),
                runs: Vec::new(),
                stats: Value::Null,
                token_in_log: false,
                requests: Record {
                    requests,
                    violations: violations.iter().map(|&line| line.to_owned()).collect(),
                    ..Record::default()
                },
            };
            let mut checks = facts.checks().into_iter();
            let check = checks.find(|check| check.promise.contains("contract/openapi.yaml"));
            check.is_some_and(|check| check.holds)
        };
        assert!(holds(9, &[]));
        assert!(!holds(9, &["GET /runs/run-1?fields=state: not declared"]));
        assert!(!holds(0, &[]), "nothing was checked");
    }
}
