//! `why` of a RunSchedule, and what a Run says of the schedule and the template that it is from.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use serde::Serialize;
use serde_json::json;

use run_operator::api::schedule::{ConcurrencyPolicy, PendingTick, Tick};
use run_operator::api::{
    ConditionType, Reason, RunSchedule, RunScheduleStatus, conditions::is_true, names,
};
use run_operator::checks::{NAMED, first};
use run_operator::clock::wall;
use run_operator::decide::schedule::{OwnedRun, owner};

use crate::args::ReportFormat;
use crate::cluster::Cluster;
use crate::error::{End, ToolError};
use crate::explain::between;
use crate::print;
use crate::remedy;
use crate::schedule::Schedule;

const UNSERVED: &str = "Have RunSchedules served: the operator may run without --schedules (the chart's value \
    schedules.enabled), or may not serve this namespace; kubectl runop doctor finds out more.";

/// Why a schedule creates Runs, or none.
#[derive(Debug, Serialize)]
struct Explanation {
    /// Whether it is Ready, and the reason.
    summary: String,
    /// What it does next, and what it did.
    facts: Vec<String>,
    /// What to do; none if nothing is to be done.
    #[serde(skip_serializing_if = "Option::is_none")]
    remedy: Option<String>,
}

pub(super) async fn run(
    cluster: &Cluster,
    name: &str,
    output: ReportFormat,
) -> Result<End, ToolError> {
    let schedule = cluster.schedule(name).await?;
    let explanation = explain(&schedule, wall());
    let mut document = json!(explanation);
    document["name"] = schedule.name().into();
    document["namespace"] = json!(schedule.metadata.namespace);
    document["uid"] = json!(schedule.metadata.uid);
    print::report(output, || text(&explanation), &document)?;
    Ok(End::Succeeded)
}

fn text(explanation: &Explanation) -> String {
    let mut lines = vec![explanation.summary.clone()];
    lines.extend(explanation.facts.iter().map(|fact| format!("  {fact}")));
    lines.push(match &explanation.remedy {
        Some(remedy) => format!("To mend it: {remedy}"),
        None => "Nothing needs to be done.".to_owned(),
    });
    print::lines(&lines)
}

/// The lines that say what the Run is from: of which schedule and tick, of which template.
pub(super) fn origins(meta: &ObjectMeta) -> Vec<String> {
    let by = owner(meta).map(|schedule| {
        let tick = OwnedRun::of(meta, None).and_then(|run| run.tick);
        let tick = tick.map_or_else(|| "triggered by a person".to_owned(), shown);
        format!("By RunSchedule {}, {tick}.", schedule.name)
    });
    let annotations = meta.annotations.as_ref();
    let template = annotations.and_then(|all| all.get(names::TEMPLATE_ANNOTATION));
    let from = template.map(|origin| match origin.rsplit_once('@') {
        Some((name, generation)) => format!("From RunTemplate {name}, generation {generation}."),
        None => format!("From RunTemplate {origin}."),
    });
    by.into_iter().chain(from).collect()
}

fn shown(tick: Tick) -> String {
    match tick.attempt {
        1 => format!("tick {}", tick.at),
        attempt => format!("tick {}, attempt {attempt}", tick.at),
    }
}

fn explain(schedule: &Schedule, now: Timestamp) -> Explanation {
    let name = schedule.name();
    let object = match &schedule.object {
        Ok(object) => object,
        Err(why) => {
            return Explanation {
                summary: format!("{name}: {}", Reason::ScheduleInvalid),
                facts: vec![format!("This version can't read it: {why}")],
                remedy: remedy::plain(Reason::ScheduleInvalid),
            };
        }
    };
    let Some(status) = schedule.status() else {
        return unseen(schedule, object, now);
    };
    let mut summary = format!("{name}: not Ready");
    let mut facts = Vec::new();
    let mut remedy = None;
    if let Some(ready) = schedule.ready() {
        let is_ready = ready.status == "True";
        let state = if is_ready { "Ready" } else { "not Ready" };
        summary = format!("{name}: {state}, {}", ready.reason);
        if !is_ready {
            facts.push(ready.message.clone());
        }
        remedy = Reason::named(&ready.reason).and_then(remedy::plain);
    }
    if status.observed_generation < schedule.metadata.generation {
        summary.push_str(", before the latest change");
    }
    facts.extend(of_spec(object, status));
    facts.extend(of_status(object, status, now));
    Explanation {
        summary,
        facts,
        remedy,
    }
}

fn unseen(schedule: &Schedule, object: &RunSchedule, now: Timestamp) -> Explanation {
    let created = schedule.metadata.creation_timestamp.as_ref();
    let waits = created.map_or_else(String::new, |at| format!(" for {}", between(at.0, now)));
    Explanation {
        summary: format!("{}: not seen by an operator yet{waits}", schedule.name()),
        facts: of_spec(object, &RunScheduleStatus::default()),
        remedy: schedule.is_unserved(now).then(|| UNSERVED.to_owned()),
    }
}

fn of_spec(object: &RunSchedule, status: &RunScheduleStatus) -> Vec<String> {
    let spec = &object.spec;
    let zone = spec.time_zone.as_deref().unwrap_or("UTC");
    let times = format!("Times: {} ({zone}).", spec.schedules.join(", "));
    let template = spec.template_ref.as_ref().map(|template| {
        let generation = status.template_generation;
        let generation = generation.map(|n| format!(", generation {n}"));
        let generation = generation.unwrap_or_default();
        format!("From RunTemplate {}{generation}.", template.name)
    });
    [times].into_iter().chain(template).collect()
}

fn of_status(object: &RunSchedule, status: &RunScheduleStatus, now: Timestamp) -> Vec<String> {
    let ago = |time: &Option<Time>| {
        let time = time.as_ref();
        time.map_or_else(
            || "none".to_owned(),
            |at| format!("{} ago", between(at.0, now)),
        )
    };
    let next = status.next_schedule_time.as_ref();
    let next = next.map_or_else(
        || "none".to_owned(),
        |at| format!("{}, in {}", at.0, between(now, at.0)),
    );
    let mut facts = vec![format!("Next tick: {next}.")];
    facts.extend(
        status
            .pending_tick
            .as_ref()
            .map(|pending| pends(object, status, pending)),
    );
    let active = first(NAMED, status.active.iter().map(|run| &run.name));
    facts.push(match status.active.as_slice() {
        [] => "Active Runs: none.".to_owned(),
        _ => format!("Active Runs: {active}."),
    });
    facts.push(format!("Last tick: {}.", ago(&status.last_schedule_time)));
    facts.push(format!(
        "Last success: {}.",
        ago(&status.last_successful_time)
    ));
    facts
}

/// What the tick waits for whose Run is not known to exist.
fn pends(object: &RunSchedule, status: &RunScheduleStatus, pending: &PendingTick) -> String {
    let alone = object.spec.concurrency_policy() != ConcurrencyPolicy::Allow;
    let waits = if is_true(&status.conditions, ConditionType::Stalled) {
        "its Run can't be created, as said above"
    } else if alone && !status.active.is_empty() {
        "it waits until the active Runs have ended (spec.concurrencyPolicy)"
    } else {
        "its Run is being created"
    };
    format!("Pending: {}: {waits}.", shown(Tick::from(pending)))
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
    use serde_json::Value;

    use super::*;
    use crate::fixtures::{at, schedule};

    fn explained(object: &Value, seconds: i64) -> Explanation {
        let schedule: Schedule = serde_json::from_str(&object.to_string()).unwrap();
        explain(&schedule, at(seconds))
    }

    /// Proves: K-why
    #[test]
    fn a_schedule_that_goes_its_way_says_what_comes_and_what_was() {
        let mut object = schedule();
        object["status"]["pendingTick"] = json!({"time": at(0).to_string(), "attempt": 2});
        let explanation = explained(&object, 3600);
        assert_eq!(explanation.summary, "nightly: Ready, Scheduled");
        let expected = [
            "Times: 17 2 * * * (UTC).",
            "Next tick: 2023-11-15T01:17:00Z, in 2h3m.",
            "Pending: tick 2023-11-14T22:13:20Z, attempt 2: it waits until the active Runs have ended (spec.concurrencyPolicy).",
            "Active Runs: nightly-202311142213.",
            "Last tick: 1h ago.",
            "Last success: none.",
        ];
        assert_eq!(explanation.facts, expected);
        assert_eq!(explanation.remedy, None);
        assert!(text(&explanation).ends_with("Nothing needs to be done.\n"));
    }

    /// Proves: K-why
    #[test]
    fn what_is_wrong_with_a_schedule_comes_with_its_remedy() {
        let mut object = schedule();
        let ready = &mut object["status"]["conditions"][0];
        ready["status"] = "False".into();
        ready["reason"] = "TemplateNotFound".into();
        ready["message"] = "there is no RunTemplate t.".into();
        object["metadata"]["generation"] = 2.into();
        let mut stalled = object["status"]["conditions"][0].clone();
        stalled["type"] = "Stalled".into();
        stalled["status"] = "True".into();
        let conditions = object["status"]["conditions"].as_array_mut().unwrap();
        conditions.push(stalled);
        object["status"]["pendingTick"] = json!({"time": at(0).to_string(), "attempt": 1});
        let explanation = explained(&object, 3600);
        let pending =
            "Pending: tick 2023-11-14T22:13:20Z: its Run can't be created, as said above.";
        assert!(explanation.facts.iter().any(|fact| fact == pending));
        let expected = "nightly: not Ready, TemplateNotFound, before the latest change";
        assert_eq!(explanation.summary, expected);
        assert_eq!(explanation.facts[0], "there is no RunTemplate t.");
        assert_eq!(explanation.remedy, remedy::plain(Reason::TemplateNotFound));
    }

    /// Proves: K-why
    #[test]
    fn a_schedule_that_nobody_serves_says_so_after_a_minute() {
        let mut object = schedule();
        object["metadata"]["creationTimestamp"] = at(0).to_string().into();
        object["status"] = json!({"observedGeneration": -1});
        assert_eq!(explained(&object, 60).remedy, None);
        let late = explained(&object, 61);
        assert_eq!(
            late.summary,
            "nightly: not seen by an operator yet for 1m1s"
        );
        assert!(late.remedy.unwrap().contains("schedules.enabled"));
    }

    fn owned(name: &str) -> ObjectMeta {
        ObjectMeta {
            name: Some(name.to_owned()),
            owner_references: Some(vec![OwnerReference {
                api_version: "run-operator.dev/v1alpha1".to_owned(),
                kind: "RunSchedule".to_owned(),
                name: "nightly".to_owned(),
                controller: Some(true),
                ..OwnerReference::default()
            }]),
            ..ObjectMeta::default()
        }
    }

    /// Proves: K-why
    #[test]
    fn a_run_names_the_schedule_and_the_template_that_it_is_from() {
        let by = |name: &str| origins(&owned(name)).concat();
        let tick = "By RunSchedule nightly, tick 2026-11-30T02:17:00Z";
        assert_eq!(by("nightly-202611300217"), format!("{tick}."));
        assert_eq!(by("nightly-202611300217.a2"), format!("{tick}, attempt 2."));
        let triggered = "By RunSchedule nightly, triggered by a person.";
        assert_eq!(by("nightly-x7k2p"), triggered);
        let mut meta = owned("nightly-x7k2p");
        let template = (names::TEMPLATE_ANNOTATION.to_owned(), "train@3".to_owned());
        meta.annotations = Some([template].into());
        let expected = [triggered, "From RunTemplate train, generation 3."];
        assert_eq!(origins(&meta), expected);
        assert!(origins(&ObjectMeta::default()).is_empty());
    }
}
