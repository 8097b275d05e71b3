//! RunSchedules: what the API server and the service see of their ticks, by a clock of the operator that the test
//! moves. Which tick has a Run is tried in `tests/policy/schedules`, and many of them under kills in
//! `tests/chaos/schedules.rs`.

use futures::future::join_all;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::{DeleteParams, ListParams, PostParams};
use kube::{Resource, ResourceExt};
use serde_json::{Value, json};

use run_operator::api::{
    ConditionType, Phase, RunSchedule, RunScheduleStatus,
    conditions::{find, is_true},
    names,
    schedule::RunScheduleSpec,
};

use crate::support::{Plane, Setup, Ticks, World, eventually, gone, phase_of};

const CREATED: &str = r#"run_operator_schedule_ticks_total{result="created"}"#;
const LATENESS: &str = "run_operator_schedule_lateness_seconds_count{}";

fn quick() -> Value {
    json!({"runTimeMs": 1})
}

fn never() -> Value {
    json!({"outcome": "never"})
}

/// A world with one schedule, nightly, and an operator.
async fn nightly(simulate: Value, more: &Value) -> (World, Ticks) {
    let (world, ticks) = Ticks::world(Setup::default()).await;
    world
        .scheduled("nightly", ticks.spec(&simulate, more))
        .await;
    (world, ticks)
}

async fn cancels(world: &World) -> Value {
    world.service.get("stats").await["cancels"].clone()
}

/// Proves: P-schedule
#[tokio::test]
async fn a_tick_makes_one_run_and_the_status_shows_it() {
    let (world, ticks) = nightly(quick(), &json!({})).await;
    let status = world.schedules().get("nightly").await.unwrap().status;
    let status = status.unwrap();
    assert_eq!(status.next_schedule_time, Some(Time(ticks.at(0))));
    assert_eq!(
        (status.last_schedule_time, status.pending_tick),
        (None, None)
    );
    ticks.come(0);
    let name = ticks.run("nightly", 0);
    let run = world.phase(&name, Phase::Succeeded).await;
    assert_eq!(
        run.annotations()[names::SCHEDULED_ANNOTATION],
        ticks.at(0).to_string()
    );
    let status = world
        .schedule_until("nightly", "shows the success", |status| {
            status.last_successful_time.is_some() && status.active.is_empty()
        })
        .await;
    assert_eq!(status.last_schedule_time, Some(Time(ticks.at(0))));
    assert_eq!(status.next_schedule_time, Some(Time(ticks.at(1))));
    assert_eq!(status.pending_tick, None);
    world.event("nightly", "RunCreated").await;
    world.metric_is(CREATED, 1.0).await;
    assert_eq!(world.one_run_for_each_key().await.len(), 1);
}

/// Proves: P-schedule
#[tokio::test]
async fn a_schedule_of_every_minute_makes_a_run() {
    let (world, ticks) = Ticks::world(Setup::default()).await;
    let every = json!({"schedules": ["* * * * *"], "concurrencyPolicy": "Allow"});
    world.scheduled("often", ticks.spec(&quick(), &every)).await;
    ticks.come(0);
    world.phase(&ticks.run("often", 0), Phase::Succeeded).await;
    world.one_run_for_each_key().await;
}

/// When the operator is killed.
#[derive(Clone, Copy, Debug)]
enum Killed {
    AtOnce,
    WithTheTickNoted,
    WithTheObject,
    WithTheRun,
    WithTheTickDealtWith,
}

impl Killed {
    async fn reached(self, world: &World, ticks: &Ticks, nth: u32) {
        match self {
            Self::AtOnce => {}
            Self::WithTheTickNoted => {
                let at = Some(Time(ticks.at(nth)));
                let noted = world.schedule_until("nightly", "notes its tick", |status| {
                    status.pending_tick.is_some() || status.last_schedule_time >= at
                });
                noted.await;
            }
            Self::WithTheObject => {
                let name = ticks.run("nightly", nth);
                eventually("the Run exists", async || {
                    let found = world.runs().get_opt(&name).await;
                    found.ok().flatten().ok_or("not yet")
                })
                .await;
            }
            Self::WithTheRun => {
                let before = usize::try_from(nth).unwrap();
                eventually("the run is made", async || {
                    let made = world.service.runs().await.len();
                    if made > before { Ok(()) } else { Err(made) }
                })
                .await;
            }
            Self::WithTheTickDealtWith => ticks.dealt_with(world, "nightly", nth).await,
        }
    }
}

/// Proves: P-schedule
#[tokio::test]
async fn an_operator_killed_at_a_tick_makes_one_run_of_it() {
    let stay = json!({"successfulRunsHistoryLimit": 10, "startingDeadlineSeconds": 600});
    let (mut world, ticks) = nightly(quick(), &stay).await;
    let points = [
        Killed::AtOnce,
        Killed::WithTheTickNoted,
        Killed::WithTheObject,
        Killed::WithTheRun,
        Killed::WithTheTickDealtWith,
    ];
    let mut expected = Vec::new();
    for (nth, point) in (0..).zip(points) {
        ticks.come(nth);
        point.reached(&world, &ticks, nth).await;
        world.kill_operator();
        world.start_operator().await;
        let name = ticks.run("nightly", nth);
        world.phase(&name, Phase::Succeeded).await;
        ticks.dealt_with(&world, "nightly", nth).await;
        expected.push(name);
    }
    assert_eq!(world.run_names().await, expected);
    assert_eq!(world.one_run_for_each_key().await.len(), points.len());
    assert_eq!(cancels(&world).await, 0);
}

/// A `RunTemplate` whose deadline is a parameter of this type.
async fn train(world: &World, kind: &str) {
    let workload = json!({"image": "ghcr.io/acme/train:1.4", "simulate": quick()});
    let spec = json!({"workload": workload, "activeDeadlineSeconds": "$(params.s)"});
    let parameters = json!([{"name": "s", "type": kind}]);
    let template = json!({"parameters": parameters, "template": {"spec": spec}});
    world
        .apply(&world.namespace, "RunTemplate", "train", template)
        .await;
}

/// Proves: P-template
#[tokio::test]
async fn a_template_that_the_api_server_refuses_stalls_the_schedule_until_it_is_mended() {
    let (world, ticks) = Ticks::world(Setup::default()).await;
    train(&world, "string").await;
    let uses = json!({"templateRef": {"name": "train"}, "parameters": {"s": "86400"}});
    let namespace = &world.namespace;
    let spec = ticks.bare_spec(&uses);
    world.apply(namespace, "RunSchedule", "nightly", spec).await;
    let refused = world
        .schedule_ready("nightly", "False", "TemplateRefused")
        .await;
    let stalled = find(&refused.conditions, ConditionType::Stalled).unwrap();
    assert!(
        stalled.message.contains("activeDeadlineSeconds"),
        "{}",
        stalled.message
    );
    world.event("nightly", "Stalled").await;
    train(&world, "integer").await;
    let mended = world.schedule_ready("nightly", "True", "Scheduled").await;
    assert_eq!(mended.template_generation, Some(2));
    assert!(!is_true(&mended.conditions, ConditionType::Stalled));
    world.event("nightly", "Recovered").await;
    ticks.come(0);
    let run = world
        .phase(&ticks.run("nightly", 0), Phase::Succeeded)
        .await;
    assert_eq!(run.spec.active_deadline_seconds, Some(86400));
    assert_eq!(run.annotations()[names::TEMPLATE_ANNOTATION], "train@2");
}

/// Proves: P-schedule
#[tokio::test]
async fn a_deleted_schedule_cancels_its_runs() {
    let (world, ticks) = Ticks::world(Setup {
        plane: Plane::Managed,
        ..Setup::default()
    })
    .await;
    let ways = [
        ("background", DeleteParams::background()),
        ("foreground", DeleteParams::foreground()),
    ];
    for (name, _) in &ways {
        world
            .scheduled(name, ticks.spec(&never(), &json!({})))
            .await;
    }
    ticks.come(0);
    for (name, _) in &ways {
        world.state(&ticks.run(name, 0), "running").await;
    }
    for (name, params) in &ways {
        world.schedules().delete(name, params).await.unwrap();
        world.gone(&ticks.run(name, 0)).await;
        gone(&world.schedules(), name).await;
    }
    let runs = world.service.runs().await;
    let states: Vec<_> = runs.iter().map(|run| &run["state"]).collect();
    assert_eq!(states, ["cancelled", "cancelled"]);
}

/// Proves: P-schedule-policy
#[tokio::test]
async fn replace_cancels_the_earlier_run_before_the_next_is_made() {
    let replace = json!({"concurrencyPolicy": "Replace"});
    let (world, ticks) = nightly(never(), &replace).await;
    ticks.come(0);
    world.state(&ticks.run("nightly", 0), "running").await;
    ticks.come(1);
    world
        .phase(&ticks.run("nightly", 0), Phase::Cancelled)
        .await;
    world.state(&ticks.run("nightly", 1), "running").await;
    world.event("nightly", "RunReplaced").await;
    let runs = world.service.runs().await;
    assert_eq!(crate::support::active_at_creates(&runs), [1, 1]);
}

/// Proves: P-schedule-policy
#[tokio::test]
async fn runs_beyond_the_history_are_deleted_and_none_is_cancelled() {
    let one = json!({"successfulRunsHistoryLimit": 1, "startingDeadlineSeconds": 600});
    let (world, ticks) = nightly(quick(), &one).await;
    for nth in 0..3 {
        ticks.come(nth);
        world
            .phase(&ticks.run("nightly", nth), Phase::Succeeded)
            .await;
        ticks.dealt_with(&world, "nightly", nth).await;
    }
    for nth in 0..2 {
        world.gone(&ticks.run("nightly", nth)).await;
    }
    assert_eq!(world.run_names().await, [ticks.run("nightly", 2)]);
    assert_eq!(world.one_run_for_each_key().await.len(), 3);
    assert_eq!(cancels(&world).await, 0);
}

/// Proves: P-schedule-policy
#[tokio::test]
async fn a_run_that_failed_is_followed_by_another_attempt() {
    let policy = json!({"retryPolicy": {"limit": 1, "backoffSeconds": 1}});
    let failing = json!({"outcome": "failed", "runTimeMs": 1});
    let (world, ticks) = nightly(failing, &policy).await;
    ticks.come(0);
    let first = ticks.run("nightly", 0);
    let second = format!("{first}.a2");
    world.phase(&first, Phase::Failed).await;
    eventually("the second attempt has failed", async || {
        let run = world.runs().get_opt(&second).await;
        let run = run.map_err(|error| error.to_string())?;
        match run.as_ref().and_then(phase_of) {
            Some(Phase::Failed) => Ok(()),
            phase => Err(format!("{phase:?}")),
        }
    })
    .await;
    ticks.dealt_with(&world, "nightly", 0).await;
    assert_eq!(world.run_names().await, [first, second]);
    assert_eq!(world.one_run_for_each_key().await.len(), 2);
    world.metric_is(CREATED, 2.0).await;
    world.metric_is(LATENESS, 1.0).await;
}

/// As where a webhook has given it to that: it was to be created, and counts as active.
/// Proves: P-schedule-policy
#[tokio::test]
async fn a_run_of_another_controller_counts_until_it_is_deleted() {
    let (world, ticks) = nightly(quick(), &json!({})).await;
    let schedule = world.schedules().get("nightly").await.unwrap();
    let name = ticks.run("nightly", 0);
    let theirs = json!({"managedBy": "example.com/queue"});
    world.create_run(&name, theirs).await;
    let owners = json!({"ownerReferences": [schedule.controller_owner_ref(&())]});
    world.patch_run(&name, json!({"metadata": owners})).await;
    ticks.come(0);
    ticks.dealt_with(&world, "nightly", 0).await;
    let active = |status: &RunScheduleStatus| !status.active.is_empty();
    world
        .schedule_until("nightly", "has an active Run", active)
        .await;
    world.delete_run(&name).await;
    world
        .schedule_until("nightly", "has none", |status| !active(status))
        .await;
    assert_eq!(world.service.requests("createRun").await.len(), 0);
}

/// Creates so many schedules, and waits until all are Ready. Returns their names.
async fn many(world: &World, count: usize, spec: Value) -> Vec<String> {
    let spec: RunScheduleSpec = serde_json::from_value(spec).unwrap();
    let names: Vec<_> = (0..count).map(|number| format!("s{number:03}")).collect();
    let creates = names.iter().map(|name| {
        let (api, schedule) = (world.schedules(), RunSchedule::new(name, spec.clone()));
        async move { api.create(&PostParams::default(), &schedule).await.unwrap() }
    });
    join_all(creates).await;
    all_show(world, count, "are Ready", |status| {
        is_true(&status.conditions, ConditionType::Ready)
    })
    .await;
    names
}

/// Waits until `wanted` is true of so many schedules.
async fn all_show(
    world: &World,
    count: usize,
    what: &str,
    wanted: impl Fn(&RunScheduleStatus) -> bool,
) {
    eventually(&format!("{count} schedules {what}"), async || {
        let all = world.schedules().list(&ListParams::default()).await;
        let statuses = all.unwrap().items.into_iter().filter_map(|s| s.status);
        let fit = statuses.filter(|status| wanted(status)).count();
        if fit == count { Ok(()) } else { Err(fit) }
    })
    .await;
}

/// Proves: P-schedule
#[tokio::test]
async fn a_hundred_schedules_of_one_minute_have_one_run_each() {
    const MANY: usize = 100;
    let (world, ticks) = Ticks::world(Setup::default()).await;
    let names = many(&world, MANY, ticks.spec(&quick(), &json!({}))).await;
    ticks.come(0);
    eventually("all have succeeded", async || {
        let all = world.runs().list(&ListParams::default()).await.unwrap();
        let phases = all.items.iter().filter_map(phase_of);
        let ended = phases.filter(|phase| *phase == Phase::Succeeded).count();
        if ended == MANY { Ok(()) } else { Err(ended) }
    })
    .await;
    let expected: Vec<_> = names.iter().map(|name| ticks.run(name, 0)).collect();
    assert_eq!(world.run_names().await, expected);
    assert_eq!(world.one_run_for_each_key().await.len(), MANY);
    world.metric_is(CREATED, 100.0).await;
}

/// There is no Workspace: what becomes of the Runs is seen with fewer.
/// Proves: P-schedule, P-schedule-policy
#[tokio::test]
async fn after_an_outage_of_hours_many_schedules_have_the_run_of_the_latest_tick_alone() {
    const MANY: usize = 400;
    let (mut world, ticks) = Ticks::world(Setup {
        bare: true,
        ..Setup::default()
    })
    .await;
    let latest = json!({"catchUp": "Latest"});
    let names = many(&world, MANY, ticks.spec(&quick(), &latest)).await;
    world.kill_operator();
    ticks.come(3);
    world.start_operator().await;
    world.metric_is(CREATED, 400.0).await;
    let at = Some(Time(ticks.at(3)));
    all_show(&world, MANY, "have dealt with the tick", |status| {
        status.last_schedule_time == at && status.pending_tick.is_none()
    })
    .await;
    let expected: Vec<_> = names.iter().map(|name| ticks.run(name, 3)).collect();
    assert_eq!(world.run_names().await, expected);
    world.metric_is(CREATED, 400.0).await;
}
