//! `schedule`: lists RunSchedules, holds and resumes them, and creates a Run outside their times.

use anstyle::Style;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta};
use kube::api::ListParams;
use kube::{Api, Resource};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use serde_json::json;
use serde_json::value::RawValue;

use run_operator::api::conditions::find;
use run_operator::api::{ConditionType, Reason, RunSchedule, RunScheduleStatus, names};
use run_operator::checks::{bounded, pages};
use run_operator::clock::wall;
use run_operator::decide::schedule::{self as policy, manifest};

use crate::args::{ScheduleCommand, ScheduleListArgs, ScheduleNameArgs};
use crate::change::{self, Step};
use crate::cluster::Cluster;
use crate::error::{End, ToolError};
use crate::explain::{Severity, between};
use crate::print::{self, List, out};
use crate::submit;

/// An operator that serves schedules has seen a new one by then.
const SEEN_WITHIN: SignedDuration = SignedDuration::from_mins(1);

/// A RunSchedule as the API server sent it. One that this version can't read is listed, too.
#[derive(Clone, Debug, Resource)]
#[resource(inherit = "run_operator::api::RunSchedule")]
pub(crate) struct Schedule {
    pub(crate) metadata: ObjectMeta,
    /// All of it, or why it can't be read.
    pub(crate) object: Result<RunSchedule, String>,
    text: Box<str>,
}

impl<'de> Deserialize<'de> for Schedule {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Named {
            metadata: ObjectMeta,
        }
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        let Named { metadata } = serde_json::from_str(raw.get()).map_err(D::Error::custom)?;
        let object = serde_json::from_str(raw.get());
        Ok(Self {
            metadata,
            object: object.map_err(|error: serde_json::Error| error.to_string()),
            text: raw.into(),
        })
    }
}

impl Schedule {
    pub(crate) fn name(&self) -> &str {
        self.metadata.name.as_deref().unwrap_or_default()
    }

    /// The status; none before the operator's first write.
    pub(crate) fn status(&self) -> Option<&RunScheduleStatus> {
        let status = self.object.as_ref().ok()?.status.as_ref();
        status.filter(|status| status.observed_generation.is_some_and(|seen| seen >= 0))
    }

    pub(crate) fn ready(&self) -> Option<&Condition> {
        find(&self.status()?.conditions, ConditionType::Ready)
    }

    /// The reason that is shown: that of the Ready condition.
    pub(crate) fn reason(&self) -> Option<&str> {
        match &self.object {
            Ok(_) => Some(self.ready()?.reason.as_str()),
            Err(_) => Some(Reason::ScheduleInvalid.as_str()),
        }
    }

    /// Whether no operator has seen it, and one that serves schedules would have.
    pub(crate) fn is_unserved(&self, now: Timestamp) -> bool {
        let created = self.metadata.creation_timestamp.as_ref();
        let age = created.map(|created| now.duration_since(created.0));
        let is_late = age.is_some_and(|age| age > SEEN_WITHIN);
        is_late && self.object.is_ok() && self.status().is_none()
    }

    /// Whether it is held; none if it can't be read.
    fn suspended(&self) -> Option<bool> {
        Some(self.object.as_ref().ok()?.spec.suspended())
    }

    /// One that is not Ready waits for a person.
    fn style(&self) -> Style {
        let fails = self.ready().is_some_and(|ready| ready.status == "False");
        print::style(if fails || self.object.is_err() {
            Severity::NeedsPerson
        } else {
            Severity::AtWork
        })
    }

    fn reference(&self) -> String {
        format!("runschedule.{}/{}", names::GROUP, self.name())
    }
}

pub(crate) async fn run(cluster: &Cluster, command: &ScheduleCommand) -> Result<End, ToolError> {
    match command {
        ScheduleCommand::List(args) => list(cluster, args).await,
        ScheduleCommand::Suspend(args) => change(cluster, args, suspend).await,
        ScheduleCommand::Resume(args) => change(cluster, args, resume).await,
        ScheduleCommand::Trigger(args) => trigger(cluster, args).await,
    }
}

async fn list(cluster: &Cluster, args: &ScheduleListArgs) -> Result<End, ToolError> {
    let api: Api<Schedule> = if args.all_namespaces {
        Api::all(cluster.client.clone())
    } else {
        cluster.schedules()
    };
    let listed = pages(&api, ListParams::default()).await;
    // By namespace and name, as the API server lists.
    let schedules = listed.map_err(|refused| ToolError::of_kind(refused, "runschedules"))?;
    let objects: Vec<_> = schedules
        .iter()
        .map(|s| (s.reference(), &*s.text))
        .collect();
    let list = List {
        cluster,
        all_namespaces: args.all_namespaces,
        format: args.output,
    };
    if list.without_table(&objects)? {
        return Ok(End::Succeeded);
    }
    let now = wall();
    let rows = schedules.iter().map(|schedule| {
        let cells = row(schedule, now).into_iter();
        let cells = cells.chain(further(schedule, now)).collect();
        let namespace = schedule.metadata.namespace.as_deref();
        (schedule.style(), namespace.unwrap_or_default(), cells)
    });
    out(&list.table(&HEADS, &WIDE, rows))?;
    Ok(End::Succeeded)
}

const HEADS: [&str; 8] = [
    "NAME",
    "SCHEDULES",
    "TIME ZONE",
    "SUSPEND",
    "ACTIVE",
    "LAST",
    "NEXT",
    "REASON",
];
const WIDE: [&str; 2] = ["TEMPLATE", "LAST SUCCESS"];

fn row(schedule: &Schedule, now: Timestamp) -> [String; 8] {
    let spec = schedule.object.as_ref().ok().map(|object| &object.spec);
    let status = schedule.status();
    let text = |text: Option<&str>| text.unwrap_or_default().to_owned();
    let last = status.and_then(|status| status.last_schedule_time.as_ref());
    let next = status.and_then(|status| status.next_schedule_time.as_ref());
    [
        schedule.name().to_owned(),
        spec.map_or_else(String::new, |spec| spec.schedules.join(", ")),
        text(spec.map(|spec| spec.time_zone.as_deref().unwrap_or("UTC"))),
        spec.map_or_else(String::new, |spec| spec.suspended().to_string()),
        status.map_or_else(String::new, |status| status.active.len().to_string()),
        last.map_or_else(String::new, |last| between(last.0, now)),
        next.map_or_else(String::new, |next| next.0.to_string()),
        text(schedule.reason()),
    ]
}

/// What only the wide form shows.
fn further(schedule: &Schedule, now: Timestamp) -> [String; 2] {
    let object = schedule.object.as_ref().ok();
    let template = object.and_then(|object| object.spec.template_ref.as_ref());
    let success = schedule
        .status()
        .and_then(|s| s.last_successful_time.as_ref());
    [
        template.map_or_else(String::new, |template| template.name.clone()),
        success.map_or_else(String::new, |success| between(success.0, now)),
    ]
}

async fn change(
    cluster: &Cluster,
    args: &ScheduleNameArgs,
    change: fn(&Schedule) -> Step,
) -> Result<End, ToolError> {
    let (schedule, became) = change::one(&cluster.schedules(), &args.name, change).await?;
    print::one(&schedule.reference(), &schedule.text, args.output, &became)?;
    Ok(End::Succeeded)
}

fn suspend(schedule: &Schedule) -> Step {
    if schedule.suspended() == Some(true) {
        Step::Unchanged("it is suspended")
    } else {
        Step::Write(json!({"spec": {"suspend": true}}), "suspended")
    }
}

fn resume(schedule: &Schedule) -> Step {
    if schedule.suspended() == Some(false) {
        Step::Unchanged("it is not suspended")
    } else {
        Step::Write(json!({"spec": {"suspend": null}}), "resumed")
    }
}

/// The name is chosen here, as by `submit`: if the answer is lost, the message has the name to look for.
async fn trigger(cluster: &Cluster, args: &ScheduleNameArgs) -> Result<End, ToolError> {
    let wrong = |why: &str| ToolError::usage(format!("{}: {why}", args.name));
    let schedule = cluster.schedule(&args.name).await?.object;
    let schedule = schedule.map_err(|why| wrong(&format!("it can't be read: {why}")))?;
    if schedule.metadata.deletion_timestamp.is_some() {
        return Err(wrong("it is being deleted, and its Runs with it"));
    }
    let template = match &schedule.spec.template_ref {
        Some(template) => bounded(cluster.templates().get_opt(&template.name)).await?,
        None => None,
    };
    let source = policy::source(&schedule, template.as_ref()).map_err(|why| wrong(&why.message))?;
    let unmade = |error: serde_json::Error| wrong(&format!("no Run can be made: {error}"));
    let mut manifest = manifest::beside(&schedule, &source).map_err(unmade)?;
    let prefix = manifest.metadata.generate_name.take().unwrap_or_default();
    let name = format!("{prefix}{}", submit::random());
    manifest.metadata.name = Some(name.clone());
    let object = serde_json::to_string(&manifest).map_err(unmade)?;
    match submit::create(cluster, object, false).await {
        Ok(run) => print::object(&run, args.output, "created").map(|()| End::Succeeded),
        Err(refused) => Err(submit::not_created(cluster, &name, false, refused)),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::fixtures::{at, schedule};

    fn row_of(object: &Value) -> [String; 8] {
        let schedule: Schedule = serde_json::from_str(&object.to_string()).unwrap();
        row(&schedule, at(3600))
    }

    /// Proves: K-why
    #[test]
    fn a_row_has_what_the_status_shows() {
        let mut object = schedule();
        object["spec"]["schedules"] = json!(["17 2 * * *", "@daily"]);
        object["spec"]["timeZone"] = "Europe/Berlin".into();
        let expected = [
            "nightly",
            "17 2 * * *, @daily",
            "Europe/Berlin",
            "false",
            "1",
            "1h",
            "2023-11-15T01:17:00Z",
            "Scheduled",
        ];
        assert_eq!(row_of(&object), expected);
    }

    /// Proves: K-why
    #[test]
    fn before_its_first_status_a_row_has_the_spec_alone() {
        let mut object = schedule();
        object["status"] = json!({"observedGeneration": -1});
        let expected = ["nightly", "17 2 * * *", "UTC", "false", "", "", "", ""];
        assert_eq!(row_of(&object), expected);
    }

    /// Proves: K-output
    #[test]
    fn the_wide_form_shows_the_template_and_the_last_success() {
        let mut object = schedule();
        object["spec"]["templateRef"] = json!({"name": "train"});
        object["status"]["lastSuccessfulTime"] = at(0).to_string().into();
        let schedule: Schedule = serde_json::from_str(&object.to_string()).unwrap();
        assert_eq!(further(&schedule, at(60)), ["train", "1m"]);
    }

    /// Proves: K-change
    #[test]
    fn a_schedule_that_is_held_already_or_goes_on_is_not_written() {
        let mut object = schedule();
        for held in [true, false] {
            object["spec"]["suspend"] = held.into();
            let schedule: Schedule = serde_json::from_str(&object.to_string()).unwrap();
            let unchanged = |step| matches!(step, Step::Unchanged(_));
            assert_eq!(unchanged(suspend(&schedule)), held);
            assert_eq!(unchanged(resume(&schedule)), !held);
        }
    }

    /// Proves: K-why
    #[test]
    fn one_that_can_not_be_read_is_listed_too() {
        let mut object = schedule();
        object["spec"]["schedules"] = json!(7);
        let expected = ["nightly", "", "", "", "", "", "", "ScheduleInvalid"];
        assert_eq!(row_of(&object), expected);
    }
}
