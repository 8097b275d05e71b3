//! The `RunSchedule` resource: Runs that are created at the times of a calendar.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::conditions::whole_seconds;
use super::template::TemplateBody;
use super::{limits, schema};

/// When Runs are created, and from what.
// The methods below return what is in force, also for an object without the schema's defaults.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[kube(
    group = "run-operator.dev",
    version = "v1alpha1",
    kind = "RunSchedule",
    plural = "runschedules",
    namespaced,
    status = "RunScheduleStatus",
    derive = "PartialEq",
    shortname = "rsch",
    category = "run-operator",
    doc = "Runs that are created at the times of a calendar. One time, a tick, is one run. Deleting the \
           object deletes its Runs, and so cancels those that have not ended.",
    validation = schema::short_enough_for_ticks(),
    printcolumn = r#"{"name": "Schedule", "type": "string",
        "jsonPath": ".spec.schedules",
        "description": "The times, in cron's notation."}"#,
    printcolumn = r#"{"name": "Time Zone", "type": "string",
        "jsonPath": ".spec.timeZone",
        "description": "The time zone of the schedule; UTC if there is none."}"#,
    printcolumn = r#"{"name": "Suspend", "type": "boolean",
        "jsonPath": ".spec.suspend",
        "description": "Whether no Run is created."}"#,
    printcolumn = r#"{"name": "Ready", "type": "string",
        "jsonPath": ".status.conditions[?(@.type==\"Ready\")].status",
        "description": "Whether the schedule and its template are valid."}"#,
    printcolumn = r#"{"name": "Reason", "type": "string",
        "jsonPath": ".status.conditions[?(@.type==\"Ready\")].reason",
        "description": "Reason of the Ready condition."}"#,
    printcolumn = r#"{"name": "Last Schedule", "type": "date",
        "jsonPath": ".status.lastScheduleTime",
        "description": "Time since the last tick."}"#,
    printcolumn = r#"{"name": "Next Schedule", "type": "string", "priority": 1,
        "jsonPath": ".status.nextScheduleTime",
        "description": "Time of the next tick."}"#,
    printcolumn = r#"{"name": "Last Success", "type": "date", "priority": 1,
        "jsonPath": ".status.lastSuccessfulTime",
        "description": "Time since the last Run that succeeded ended."}"#,
    printcolumn = r#"{"name": "Age", "type": "date",
        "jsonPath": ".metadata.creationTimestamp",
        "description": "Time since the object was created."}"#
)]
#[schemars(extend("x-kubernetes-validations" = [
    schema::one_template(),
    schema::parameters_of_a_template()
]))]
#[serde(rename_all = "camelCase")]
pub struct RunScheduleSpec {
    /// The times, 1 to 8 expressions of five fields: minute, hour, day of the month, month, day of the
    /// week, with names, lists, ranges and steps; or `@hourly`, `@daily`, `@weekly`, `@monthly`, `@yearly`.
    /// A time that several of them name is one tick.
    #[schemars(schema_with = "schema::schedules")]
    pub schedules: Vec<String>,
    /// The IANA time zone of the schedules, such as `Europe/Berlin`. Unset: UTC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = limits::MAX_TIME_ZONE))]
    pub time_zone: Option<String>,
    /// Creates no Run while it is true. What has passed meanwhile is not made up for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suspend: Option<bool>,
    /// What happens at a tick while a Run of an earlier one has not ended. `Forbid`, the default: the tick
    /// is skipped; where `startingDeadlineSeconds` is set, it waits as long for the end, and is then missed.
    /// `Allow`: both are active. `Replace`: the earlier Run is cancelled, and the new one created when it
    /// has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "ConcurrencyPolicy", extend("default" = ConcurrencyPolicy::default()))]
    pub concurrency_policy: Option<ConcurrencyPolicy>,
    /// Seconds after a tick until which its Run may be created, at least 1. Unset: 300 with `catchUp: Skip`, no
    /// limit with `Latest`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = limits::MAX_SECONDS))]
    pub starting_deadline_seconds: Option<i64>,
    /// How late the Run of a tick may be created where `startingDeadlineSeconds` is unset. `Skip`, the default: 300
    /// seconds. `Latest`: without a limit. Of the ticks that passed in an outage only the latest has a Run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "CatchUp", extend("default" = CatchUp::default()))]
    pub catch_up: Option<CatchUp>,
    /// Another attempt at a tick whose Run has failed. Unset: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_policy: Option<RetryPolicy>,
    /// Runs that have succeeded and stay, 0 to 1000. Default: 3.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = limits::MAX_HISTORY), extend("default" = DEFAULT_HISTORY))]
    pub successful_runs_history_limit: Option<i32>,
    /// Runs that have ended in another way and stay, 0 to 1000. Default: 3.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = limits::MAX_HISTORY), extend("default" = DEFAULT_HISTORY))]
    pub failed_runs_history_limit: Option<i32>,
    /// The Runs' labels, annotations and spec. Either this or `templateRef`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::run_template")]
    pub template: Option<TemplateBody>,
    /// The `RunTemplate` of the same namespace that the Runs are made from. Either this or `template`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub template_ref: Option<TemplateRef>,
    /// Values of the `RunTemplate`'s parameters, by name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::parameter_values")]
    pub parameters: Option<BTreeMap<String, String>>,
}

const DEFAULT_HISTORY: i32 = 3;
/// Default of `startingDeadlineSeconds` with `catchUp: Skip`: a takeover and the API server's restart are shorter.
const DEFAULT_DEADLINE: i64 = 300;

/// What happens at a tick while an earlier Run has not ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub enum ConcurrencyPolicy {
    /// Both are active.
    Allow,
    /// The tick is skipped, or waits for `startingDeadlineSeconds`, if that is set, and is then missed.
    #[default]
    Forbid,
    /// The earlier Run is cancelled, and the new one created when it has ended.
    Replace,
}

/// How late the Run of a tick may be created where `startingDeadlineSeconds` is unset.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub enum CatchUp {
    /// 300 seconds.
    #[default]
    Skip,
    /// Without a limit.
    Latest,
}

/// Further attempts at a tick, each a Run of its own. Only a Run that ended as `Failed` with the reason
/// `Failed` is followed by one: not one that was cancelled, refused or too late, or of unknown outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RetryPolicy {
    /// Further attempts at a tick, 0 to 5.
    #[schemars(range(min = 0, max = 5))]
    pub limit: i32,
    /// Seconds from the end of an attempt to the next, 1 to 86400. Default: 60.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 86400), extend("default" = 60))]
    pub backoff_seconds: Option<i32>,
}

/// A `RunTemplate` of the same namespace.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub struct TemplateRef {
    /// Its name.
    #[schemars(length(min = 1, max = limits::MAX_NAME), regex(pattern = schema::DNS_SUBDOMAIN))]
    pub name: String,
}

/// Observed state of the schedule.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("default" = {"observedGeneration": -1}))]
pub struct RunScheduleStatus {
    /// The generation of the spec that this status is based on; -1 before the first reconcile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = -1))]
    pub observed_generation: Option<i64>,
    /// Its Runs that have not ended, the first 64.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = limits::MAX_ACTIVE), extend("x-kubernetes-list-type" = "atomic"))]
    pub active: Vec<ActiveRun>,
    /// The latest tick that was dealt with: its Run was created, or it was skipped or missed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_schedule_time: Option<Time>,
    /// The latest attempt at it that was dealt with; absent: the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "i32", range(min = 2, max = 6))]
    pub last_attempt: Option<u8>,
    /// Time at which the last Run that succeeded was seen to have ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_successful_time: Option<Time>,
    /// The next tick; absent while suspended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_schedule_time: Option<Time>,
    /// The tick whose Run is being created.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pending_tick: Option<PendingTick>,
    /// The schedule that is in force; absent while suspended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub in_force: Option<InForce>,
    /// The generation of the `RunTemplate` whose Run was last accepted by the API server's checks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub template_generation: Option<i64>,
    /// The conditions: Ready (the schedule and its template are valid), Suspended (`suspend` holds it),
    /// Stalled (a person has to act).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
}

/// A Run that has not ended.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize, JsonSchema)]
pub struct ActiveRun {
    /// Its name.
    #[schemars(length(max = limits::MAX_NAME))]
    pub name: String,
    /// Its uid.
    #[schemars(length(max = limits::MAX_UID))]
    pub uid: String,
}

/// A tick, and which attempt at it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tick {
    pub at: Timestamp,
    /// From 1.
    pub attempt: u8,
}

/// A tick whose Run is being created: written before the creation, removed after it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub struct PendingTick {
    /// Time of the tick.
    pub time: Time,
    /// The attempt at it, from 1.
    #[schemars(with = "i32", range(min = 1, max = 6))]
    pub attempt: u8,
}

/// A schedule, and since when it counts.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct InForce {
    /// The expressions.
    #[schemars(schema_with = "schema::schedules")]
    pub schedules: Vec<String>,
    /// The time zone; absent: UTC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = limits::MAX_TIME_ZONE))]
    pub time_zone: Option<String>,
    /// Ticks after this time count: that of the object's creation, else that at which the operator saw the change
    /// or the end of a suspension.
    pub since: Time,
}

impl Tick {
    /// The next attempt at it.
    #[must_use]
    pub fn again(self) -> Self {
        let attempt = self.attempt.saturating_add(1);
        Self { attempt, ..self }
    }
}

impl From<Tick> for PendingTick {
    fn from(tick: Tick) -> Self {
        Self {
            time: whole_seconds(tick.at),
            attempt: tick.attempt,
        }
    }
}

impl From<&PendingTick> for Tick {
    fn from(pending: &PendingTick) -> Self {
        Self {
            at: pending.time.0,
            attempt: pending.attempt.max(1),
        }
    }
}

impl RunScheduleStatus {
    /// The latest tick and attempt that was dealt with.
    pub fn last_tick(&self) -> Option<Tick> {
        Some(Tick {
            at: self.last_schedule_time.as_ref()?.0,
            attempt: self.last_attempt.unwrap_or(1),
        })
    }
}

impl RunScheduleSpec {
    pub fn suspended(&self) -> bool {
        self.suspend.unwrap_or_default()
    }

    pub fn concurrency_policy(&self) -> ConcurrencyPolicy {
        self.concurrency_policy.unwrap_or_default()
    }

    /// Seconds after a tick until which its Run may be created; `None`: always.
    pub fn starting_deadline(&self) -> Option<i64> {
        let own = self.starting_deadline_seconds;
        own.or(match self.catch_up.unwrap_or_default() {
            CatchUp::Skip => Some(DEFAULT_DEADLINE),
            CatchUp::Latest => None,
        })
    }

    /// Further attempts at a tick, and the seconds before each.
    pub fn retries(&self) -> (u8, i64) {
        self.retry_policy.map_or((0, 0), |policy| {
            let limit = u8::try_from(policy.limit).unwrap_or_default();
            (limit, policy.backoff_seconds.unwrap_or(60).into())
        })
    }

    /// How many Runs stay that have succeeded, and that have ended in another way.
    pub fn history(&self) -> [usize; 2] {
        [
            self.successful_runs_history_limit,
            self.failed_runs_history_limit,
        ]
        .map(|limit| usize::try_from(limit.unwrap_or(DEFAULT_HISTORY)).unwrap_or_default())
    }
}
