//! What `doctor` asks of RunSchedules. A cluster without their CRD runs Runs all the same.

use jiff::Timestamp;
use kube::api::ListParams;

use run_operator::api::names;
use run_operator::checks::{Check, Finding, NAMED, Verdict, first, pages};
use run_operator::clock::wall;

use crate::cluster::Cluster;
use crate::schedule::Schedule;

use super::Needed;

pub(super) const READY: Check = Check::new("schedules.ready", "the RunSchedules are Ready");

/// What an operator with `--schedules` does besides.
pub(super) const NEEDED: [Needed; 5] = [
    (names::GROUP, "runs", &["create"]),
    (names::GROUP, "runschedules", &["list", "watch"]),
    (names::GROUP, "runschedules/status", &["patch"]),
    // Of each tick's Run, with OwnerReferencesPermissionEnforcement.
    (names::GROUP, "runschedules/finalizers", &["update"]),
    (names::GROUP, "runtemplates", &["list", "watch"]),
];

pub(super) async fn ready(cluster: &Cluster) -> Finding {
    let namespace = &cluster.namespace;
    match pages(&cluster.schedules(), ListParams::default()).await {
        Ok(schedules) => of(&schedules, namespace, wall()),
        Err(refused) if refused.code() == Some(404) => {
            READY.not_tried("the cluster has no RunSchedules; their CRD comes with the others")
        }
        Err(refused) => READY.unread(&refused, &format!("list the RunSchedules of {namespace}")),
    }
}

fn of(schedules: &[Schedule], namespace: &str, now: Timestamp) -> Finding {
    let wrong = schedules.iter().filter_map(|schedule| {
        let reason = why_not_ready(schedule, now)?;
        Some(format!("{} ({reason})", schedule.name()))
    });
    let wrong: Vec<String> = wrong.collect();
    let all = schedules.len();
    if wrong.is_empty() {
        return READY.ok(format!("Of {all} in the namespace {namespace}."));
    }
    let (count, named) = (wrong.len(), first(NAMED, wrong));
    let saw = format!("{count} of {all} in the namespace {namespace} are not: {named}.");
    let todo = "`kubectl runop why schedule/NAME` says what to do.";
    READY.finding(Verdict::Warn, saw, Some(todo))
}

fn why_not_ready(schedule: &Schedule, now: Timestamp) -> Option<&str> {
    if schedule.is_unserved(now) {
        return Some("not seen by an operator");
    }
    let is_ready = schedule.ready().is_some_and(|ready| ready.status == "True");
    schedule.reason().filter(|_| !is_ready)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::fixtures::{at, schedule};

    fn found(object: &Value) -> Finding {
        let schedule: Schedule = serde_json::from_str(&object.to_string()).unwrap();
        of(&[schedule], "team", at(3600))
    }

    /// Proves: I-doctor
    #[test]
    fn a_schedule_that_is_not_ready_is_a_warning_with_its_reason() {
        assert_eq!(found(&schedule()).verdict, Verdict::Ok);
        let mut object = schedule();
        object["status"]["conditions"][0]["status"] = "False".into();
        object["status"]["conditions"][0]["reason"] = "NameTaken".into();
        let finding = found(&object);
        assert_eq!(finding.verdict, Verdict::Warn);
        let expected = "1 of 1 in the namespace team are not: nightly (NameTaken).";
        assert_eq!(finding.saw, expected);
    }

    /// Proves: I-doctor
    #[test]
    fn one_that_nobody_has_seen_is_a_warning_after_a_minute() {
        let mut object = schedule();
        object["status"] = json!({"observedGeneration": -1});
        let saw = found(&object).saw;
        assert!(saw.ends_with("nightly (not seen by an operator)."), "{saw}");
        object["metadata"]["creationTimestamp"] = at(3590).to_string().into();
        assert_eq!(found(&object).verdict, Verdict::Ok);
    }
}
