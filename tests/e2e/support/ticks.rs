//! Schedules whose ticks come when the test moves the operator's clock: one an hour, the first half an hour from now,
//! so that none comes by itself.

use jiff::{SignedDuration, Timestamp, tz::TimeZone};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::{Api, ResourceExt, api::ListParams};
use serde_json::{Value, json};

use run_operator::api::{ConditionType, Run, RunSchedule, RunScheduleStatus, conditions};

use super::{Setup, WallClock, World, eventually};

const HALF_AN_HOUR: i64 = 30 * 60;
const HOUR: i64 = 3600;

/// The ticks of every schedule of a world.
pub(crate) struct Ticks {
    clock: WallClock,
    first: Timestamp,
}

#[allow(
    clippy::disallowed_methods,
    reason = "the operator's clock is set from the true one"
)]
fn true_time() -> Timestamp {
    Timestamp::now()
}

impl Ticks {
    /// A world with schedules. `setup`: the rest of it. Without an operator.
    pub(crate) async fn unattended(setup: Setup) -> (World, Self) {
        let operator = setup.operator.into_iter().chain(["--schedules"]);
        let mut world = World::unattended(Setup {
            operator: operator.collect(),
            ..setup
        })
        .await;
        let clock = WallClock::new(world.folder());
        world.recipe.variables = clock.variables();
        let minute = true_time().as_second().div_euclid(60) * 60;
        let first = Timestamp::from_second(minute + HALF_AN_HOUR).unwrap();
        (world, Self { clock, first })
    }

    /// The same with its operator.
    pub(crate) async fn world(setup: Setup) -> (World, Self) {
        let (mut world, ticks) = Self::unattended(setup).await;
        world.start_operator().await;
        (world, ticks)
    }

    /// The time of one of them, from 0.
    pub(crate) fn at(&self, nth: u32) -> Timestamp {
        let hours = SignedDuration::from_secs(HOUR * i64::from(nth));
        self.first.checked_add(hours).unwrap()
    }

    /// Moves the operator's clock to a tick: it has just passed.
    pub(crate) fn come(&self, nth: u32) {
        let ahead = self.at(nth).duration_since(true_time());
        self.clock.is_wrong_by(ahead.as_secs() + 1);
    }

    /// The name of a tick's Run.
    pub(crate) fn run(&self, schedule: &str, nth: u32) -> String {
        let minute = self.at(nth).to_zoned(TimeZone::UTC);
        format!("{schedule}-{}", minute.strftime("%Y%m%d%H%M"))
    }

    /// The spec of a schedule whose runs the service treats so. `more`: further fields.
    pub(crate) fn spec(&self, simulate: &Value, more: &Value) -> Value {
        let workload = json!({"image": "ghcr.io/acme/train:1.4", "simulate": simulate});
        let mut spec = self.bare_spec(more);
        spec["template"] = json!({"spec": {"workload": workload}});
        spec
    }

    /// Without a template.
    pub(crate) fn bare_spec(&self, more: &Value) -> Value {
        let minute = self.first.to_zoned(TimeZone::UTC).minute();
        let mut spec = json!({"schedules": [format!("{minute} * * * *")]});
        for (field, value) in more.as_object().unwrap() {
            spec[field] = value.clone();
        }
        spec
    }

    /// Waits until a tick was dealt with, and nothing of it is left to do.
    pub(crate) async fn dealt_with(&self, world: &World, schedule: &str, nth: u32) {
        let at = Some(Time(self.at(nth)));
        let what = format!("has dealt with its tick {nth}");
        world
            .schedule_until(schedule, &what, |status| {
                status.last_schedule_time == at && status.pending_tick.is_none()
            })
            .await;
    }
}

impl World {
    pub(crate) fn schedules(&self) -> Api<RunSchedule> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// Creates or changes a RunSchedule, and waits until it is Ready.
    pub(crate) async fn scheduled(&self, name: &str, spec: Value) {
        self.apply(&self.namespace, "RunSchedule", name, spec).await;
        self.schedule_ready(name, "True", "Scheduled").await;
    }

    /// Waits until its Ready condition has this status and reason, for the present spec.
    pub(crate) async fn schedule_ready(
        &self,
        name: &str,
        status: &str,
        reason: &str,
    ) -> RunScheduleStatus {
        let generation = self
            .schedules()
            .get(name)
            .await
            .unwrap()
            .metadata
            .generation;
        let what = format!("has Ready={status} ({reason})");
        self.schedule_until(name, &what, |shown| {
            let ready = conditions::find(&shown.conditions, ConditionType::Ready);
            let fits = ready.is_some_and(|c| c.status == status && c.reason == reason);
            fits && shown.observed_generation == generation
        })
        .await
    }

    /// Waits until `wanted` is true of a RunSchedule's status.
    pub(crate) async fn schedule_until(
        &self,
        name: &str,
        what: &str,
        wanted: impl Fn(&RunScheduleStatus) -> bool,
    ) -> RunScheduleStatus {
        eventually(&format!("the RunSchedule {name} {what}"), async || {
            let schedule = self.schedules().get(name).await;
            let schedule = schedule.map_err(|error| error.to_string())?;
            let status = schedule.status.unwrap_or_default();
            if wanted(&status) {
                Ok(status)
            } else {
                Err(serde_json::to_string_pretty(&status).unwrap())
            }
        })
        .await
    }

    /// The names of all Runs, in order.
    pub(crate) async fn run_names(&self) -> Vec<String> {
        let runs = self.runs().list(&ListParams::default()).await.unwrap();
        let mut names: Vec<_> = runs.items.iter().map(Run::name_any).collect();
        names.sort();
        names
    }

    /// The service has no two runs of one key, and each Run object shows one of them, and none that another shows.
    /// Returns the keys.
    pub(crate) async fn one_run_for_each_key(&self) -> Vec<String> {
        // Before the runs: what an object shows was made before.
        let objects = self.runs().list(&ListParams::default()).await.unwrap();
        let runs = self.service.runs().await;
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let mut keys: Vec<_> = runs
            .iter()
            .map(|run| text(&run["idempotencyKey"]))
            .collect();
        keys.sort();
        let all = keys.len();
        keys.dedup();
        assert_eq!(keys.len(), all, "two runs for one key: {runs:?}");
        let mut shown = Vec::new();
        for status in objects.items.into_iter().filter_map(|run| run.status) {
            let Some(id) = status.run_id else { continue };
            let run = runs.iter().find(|run| run["runId"] == *id);
            let run = run.unwrap_or_else(|| panic!("no run {id} at the service"));
            assert_eq!(status.idempotency_key, Some(text(&run["idempotencyKey"])));
            shown.push(id);
        }
        let all = shown.len();
        shown.sort();
        shown.dedup();
        assert_eq!(shown.len(), all, "two objects show one run");
        keys
    }
}
