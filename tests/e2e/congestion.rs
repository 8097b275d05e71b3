//! More calls than a service takes: one Workspace's trouble stays its own, a 429 pauses all calls of its
//! Workspace, and a service that comes back is not overrun.

use kube::api::{ListParams, Patch, PatchParams};
use serde_json::{Value, json};

use run_operator::api::{ConditionType as Type, Phase, Run};

use crate::support::{Service, Setup, TOKEN, World, condition_of, eventually};
use test_cluster::Scratch;

/// Calls of one Workspace's Runs at the same time, at most (docs/limits.md).
const WIDEST: u64 = 32;
/// Runs that wait for a service that is away.
const CROWD: usize = 200;

/// A world whose operator has few places in the loop of its Runs, and a second service that it may call.
async fn narrow() -> (World, Service, Scratch) {
    let mut world = World::with(Setup {
        operator: vec!["--max-concurrent-reconciles", "2"],
        ..Setup::default()
    })
    .await;
    let scratch = Scratch::new("congestion").unwrap();
    let other = Service::start(&scratch, &[]).await;
    world
        .restart_operator_with(&["--allowed-base-url", &other.base_url()])
        .await;
    (world, other, scratch)
}

fn unanswered(requests: &[Value]) -> usize {
    requests.iter().filter(|r| r["millis"].is_null()).count()
}

/// Proves: P-calls-apart
#[tokio::test]
async fn a_workspace_that_hangs_on_every_call_slows_no_other() {
    let (world, other, _scratch) = narrow().await;
    world
        .create_workspace("hanging", json!({"baseUrl": other.base_url()}))
        .await;
    world.workspace_ready("hanging", "True", "Verified").await;
    other
        .lasting_fault(json!({}), json!({"type": "hang", "forMs": 600_000}))
        .await;
    for n in 0..8 {
        let spec = json!({
            "workspaceRef": {"name": "hanging"}, "workload": {"image": "ghcr.io/acme/train:1.4"},
        });
        world.create_run(&format!("hanging-{n}"), spec).await;
    }
    eventually("more calls hang than the loop has places", async || {
        let creates = other.requests("createRun").await;
        if creates.len() == 8 {
            Ok(())
        } else {
            Err(creates.len())
        }
    })
    .await;
    for n in 0..8 {
        world.create_run(&format!("fine-{n}"), json!({})).await;
    }
    for n in 0..8 {
        world.phase(&format!("fine-{n}"), Phase::Succeeded).await;
    }
    let creates = other.requests("createRun").await;
    assert!(unanswered(&creates) >= 8, "{creates:?}");
    assert_eq!(other.runs().await.len(), 0);
}

/// Proves: P-calls-apart
#[tokio::test]
async fn workspaces_whose_checks_hang_hold_up_the_check_of_no_other() {
    let (world, other, _scratch) = narrow().await;
    other
        .lasting_fault(
            json!({"operation": "getWorkspace"}),
            json!({"type": "hang", "forMs": 600_000}),
        )
        .await;
    for n in 0..6 {
        let spec = json!({"baseUrl": other.base_url()});
        world.create_workspace(&format!("hanging-{n}"), spec).await;
    }
    eventually("each of them is checked", async || {
        let checks = other.requests("getWorkspace").await.len();
        if checks >= 6 { Ok(()) } else { Err(checks) }
    })
    .await;
    // None was given up before: they hang at the same time.
    let given_up =
        "run_operator_service_requests_total{operation=\"getCurrentWorkspace\",code=\"none\"}";
    assert_eq!(world.operator().metric(given_up).await, 0.0);
    world.create_workspace("fine", json!({})).await;
    world.workspace_ready("fine", "True", "Verified").await;
    let spec = json!({
        "workspaceRef": {"name": "fine"}, "workload": {"image": "ghcr.io/acme/train:1.4"},
    });
    world.create_run("train", spec).await;
    world.phase("train", Phase::Succeeded).await;
    assert!(unanswered(&other.requests("getWorkspace").await) >= 6);
}

/// Proves: P-pause
#[tokio::test]
async fn a_429_pauses_every_call_of_its_workspace_for_its_retry_after() {
    let world = World::new().await;
    world.running("running").await;
    let seconds = 20;
    let slow_down = json!({
        "type": "answer", "status": 429, "headers": {"Retry-After": seconds.to_string()},
    });
    world
        .service
        .fault(json!({"operation": "createRun"}), slow_down)
        .await;
    world.create_run("first", json!({})).await;
    world.not_ready("first", "RateLimited").await;
    let before = world.service.run_calls().await;
    for n in 0..30 {
        world.create_run(&format!("train-{n}"), json!({})).await;
    }
    world.not_ready("train-0", "RateLimited").await;
    // Its poll is due in the pause; its stream stays open.
    world.not_synced("running", "RateLimited").await;
    for n in 0..30 {
        world.phase(&format!("train-{n}"), Phase::Succeeded).await;
    }
    world.phase("first", Phase::Succeeded).await;
    world.mirrored("running").await;
    calls_kept_away(&world, seconds, before).await;
    assert_eq!(world.service.requests("createRun").await.len(), 33);
    let pauses = r#"run_operator_workspace_pauses_total{cause="too_many_requests"}"#;
    assert_eq!(world.operator().metric(pauses).await, 1.0);
    world.one_run_each().await;
}

/// The time at which the service got a request.
fn when(request: &Value) -> jiff::Timestamp {
    request["at"].as_str().unwrap().parse().unwrap()
}

/// Asserts by the service's own log that between the 429 and the end of its pause only the `before` calls for
/// Runs arrived that came until then.
async fn calls_kept_away(world: &World, seconds: i64, before: usize) {
    let all = world.service.get("requests").await;
    let for_runs = |request: &&Value| {
        let checks = ["getVersion", "getWorkspace"].map(Value::from);
        !checks.contains(&request["operation"])
    };
    let all: Vec<&Value> = all.as_array().unwrap().iter().filter(for_runs).collect();
    let refused = all.iter().find(|r| r["status"] == 429).unwrap();
    let end = when(refused) + jiff::SignedDuration::from_secs(seconds);
    let early = all.iter().filter(|request| when(request) < end).count();
    assert_eq!(early, before);
}

/// Proves: P-calls-bound, P-pause
#[tokio::test]
async fn a_recovering_service_gets_its_waiting_runs_one_by_one() {
    let world = World::new().await;
    world.workspace_ready("default", "True", "Verified").await;
    world
        .service
        .lasting_fault(json!({}), json!({"type": "loseBefore"}))
        .await;
    for n in 0..CROWD {
        world.create_run(&format!("train-{n}"), json!({})).await;
    }
    world
        .workspace_ready("default", "False", "ServiceUnavailable")
        .await;
    until_all(&world, CROWD, "Pending").await;
    world
        .condition(
            &format!("train-{}", CROWD - 1),
            Type::Ready,
            "False",
            "WorkspaceNotReady",
        )
        .await;
    world.service.delete("stats").await;
    world.service.delete("faults").await;
    // Slow, so that calls would pile up.
    world
        .service
        .lasting_fault(
            json!({"operation": "createRun"}),
            json!({"type": "delay", "forMs": 1000}),
        )
        .await;
    until_all(&world, CROWD, "Succeeded").await;
    let stats = world.service.get("stats").await;
    let most = stats["maxInFlight"].as_u64().unwrap();
    // In addition to the Runs' calls one check may be in flight.
    assert!(
        (WIDEST / 2..=WIDEST + 1).contains(&most),
        "{most} requests at the same time"
    );
    one_goes_first(&world).await;
    // Some were in flight when the service stopped, and a few more were tried before the check had failed.
    let creates = world.service.requests("createRun").await;
    let lost = creates.iter().filter(|create| create["cut"] == true);
    let lost = u64::try_from(lost.count()).unwrap();
    assert!(lost <= 2 * WIDEST, "{lost} creates without an answer");
    for series in ["run_operator_calls_in_flight", "run_operator_calls_waiting"] {
        assert_eq!(world.operator().metric(series).await, 0.0, "{series}");
    }
    world.one_run_each().await;
}

/// Asserts that there was only one create until it was answered.
async fn one_goes_first(world: &World) {
    let mut creates = world.service.requests("createRun").await;
    // Those from before the outage got no answer.
    creates.retain(|create| create["status"] == 201);
    let answered =
        |request: &Value| when(request).as_millisecond() + request["millis"].as_i64().unwrap();
    let first = creates.iter().map(answered).min().unwrap();
    let before = creates.iter().filter(|r| when(r).as_millisecond() < first);
    assert_eq!(before.count(), 1);
}

/// Waits until so many Runs are in a phase, as long as any gets there.
async fn until_all(world: &World, count: usize, phase: &str) {
    let series = format!("run_operator_runs{{phase=\"{phase}\"}}");
    let mut there = 0.0;
    let wanted = f64::from(u32::try_from(count).unwrap());
    while there < wanted {
        there = eventually(&format!("more Runs than {there} are {phase}"), async || {
            let now = world.operator().metric(&series).await;
            if now > there { Ok(now) } else { Err(now) }
        })
        .await;
    }
}

/// Proves: P-rate-limit
#[tokio::test]
async fn a_long_rate_limit_wait_is_reported_and_ends_when_raised() {
    let world = World::with(Setup {
        bare: true,
        ..Setup::default()
    })
    .await;
    world.token(TOKEN).await;
    let slow = json!({"rateLimit": {"requestsPerSecond": 1, "burst": 1}});
    world.create_workspace("default", slow).await;
    world.workspace_ready("default", "True", "Verified").await;
    for n in 0..30 {
        world.create_run(&format!("train-{n}"), json!({})).await;
    }
    eventually("a Run shows that it is queued", async || {
        let all = world.runs().list(&ListParams::default()).await;
        let waits = |run: &Run| {
            condition_of(run, Type::Ready).is_some_and(|ready| ready.reason == "RateLimited")
        };
        all.unwrap().items.into_iter().find(waits).ok_or("none")
    })
    .await;
    let faster = json!({"spec": {"rateLimit": {"requestsPerSecond": 500, "burst": 500}}});
    let params = PatchParams::default();
    let patch = Patch::Merge(faster);
    let patched = world.workspaces().patch("default", &params, &patch).await;
    patched.unwrap();
    until_all(&world, 30, "Succeeded").await;
    world.one_run_each().await;
}
