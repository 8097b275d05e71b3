//! More calls than a service takes: one Workspace's trouble stays its own, a 429 pauses all calls of its
//! Workspace, and a service that comes back is not overrun.

use run_operator::api::Phase;
use serde_json::{Value, json};

use crate::support::{Service, World, eventually};
use test_cluster::Scratch;

/// Calls of one Workspace's Runs at the same time, at most (docs/limits.md).
const WIDEST: u64 = 32;
/// Runs that wait for a service that is away.
const CROWD: u32 = 200;

/// Proves: P-calls-bound
#[tokio::test]
async fn a_service_that_hangs_slows_no_run_and_no_check_at_another() {
    let scratch = Scratch::new("congestion").unwrap();
    let other = Service::start(&scratch, &[]).await;
    let url = other.base_url();
    let allowed: &'static str = format!("--allowed-base-url={url}").leak();
    let world = World::with_flags(&["--max-concurrent-reconciles=2", allowed]).await;
    let there = json!({"baseURL": url});
    world.create_workspace("hanging", there.clone()).await;
    world.workspace_ready("hanging", "True", "Verified").await;
    for operation in ["createRun", "getWorkspace"] {
        let hang = json!({"type": "hang", "forMs": 600_000});
        let fits = json!({"operation": operation});
        other.lasting_fault(fits, hang).await;
    }
    for n in 0..6 {
        world
            .create_workspace(&format!("hanging-{n}"), there.clone())
            .await;
    }
    for n in 0..8 {
        let spec = json!({"workspaceRef": {"name": "hanging"}});
        world.create_run(&format!("hanging-{n}"), spec).await;
    }
    let hangs = async |operation: &str| {
        let requests = other.requests(operation).await.into_iter();
        requests.filter(|r| r["millis"].is_null()).count()
    };
    eventually(
        "more calls hang than the loops have places",
        async || match (hangs("createRun").await, hangs("getWorkspace").await) {
            (8.., 6..) => Ok(()),
            so_far => Err(format!("{so_far:?}")),
        },
    )
    .await;
    // None was given up before: they hang at the same time.
    let given_up =
        r#"run_operator_service_requests_total{operation="getCurrentWorkspace",code="none"}"#;
    assert_eq!(world.operator().metric(given_up).await, 0.0);
    world.create_workspace("fine", json!({})).await;
    for n in 0..8 {
        let spec = json!({"workspaceRef": {"name": "fine"}});
        world.create_run(&format!("fine-{n}"), spec).await;
    }
    world.workspace_ready("fine", "True", "Verified").await;
    for n in 0..8 {
        world.phase(&format!("fine-{n}"), Phase::Succeeded).await;
    }
    assert!(hangs("createRun").await >= 8);
    assert_eq!(other.runs().await.len(), 0);
}

/// Proves: P-pause
#[tokio::test]
async fn a_429_pauses_every_call_of_its_workspace_for_its_retry_after() {
    let world = World::new().await;
    world.running("running").await;
    let seconds = 20;
    let retry_after = json!({"Retry-After": seconds.to_string()});
    let slow_down = json!({"type": "answer", "status": 429, "headers": retry_after});
    let create = json!({"operation": "createRun"});
    world.service.fault(create, slow_down).await;
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
    let mut all = all.as_array().unwrap().clone();
    all.retain(|r| r["operation"] != "getVersion" && r["operation"] != "getWorkspace");
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
    let away = json!({"type": "loseBefore"});
    world.service.lasting_fault(json!({}), away).await;
    for n in 0..CROWD {
        world.create_run(&format!("train-{n}"), json!({})).await;
    }
    world
        .workspace_ready("default", "False", "ServiceUnavailable")
        .await;
    until_all(&world, CROWD, "Pending").await;
    let newest = format!("train-{}", CROWD - 1);
    world.not_ready(&newest, "WorkspaceNotReady").await;
    world.service.delete("stats").await;
    world.service.delete("faults").await;
    // Slow, so that calls would pile up.
    let create = json!({"operation": "createRun"});
    let slow = json!({"type": "delay", "forMs": 1000});
    world.service.lasting_fault(create, slow).await;
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
async fn until_all(world: &World, count: u32, phase: &str) {
    let series = format!("run_operator_runs{{phase=\"{phase}\"}}");
    let mut there = 0.0;
    while there < f64::from(count) {
        there = eventually(&format!("more Runs than {there} are {phase}"), async || {
            let now = world.operator().metric(&series).await;
            (now > there).then_some(now).ok_or(now)
        })
        .await;
    }
}
