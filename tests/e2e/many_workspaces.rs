//! Many Workspaces, each with a Secret of its own, at several services: watches, calls and connections are bounded,
//! and a service that hangs holds up no other's.

use std::time::Duration;

use kube::api::ListParams;
use serde_json::json;

use run_operator::api::{ConditionType as Type, conditions};

use crate::support::{Plane, Service, Setup, TOKEN, World, eventually_after};
use test_cluster::Scratch;

const WORKSPACES: usize = 300;
const SERVICES: usize = 10;
/// Workspaces of one service.
const EACH: usize = WORKSPACES / SERVICES;
/// Number of them that hang, the first ones.
const HANG: usize = 3;
/// Watches of Secrets at the same time.
const WATCHES: f64 = 32.0;

/// The watches of Secrets that the API server serves now.
async fn open_watches(world: &World) -> f64 {
    let text = world.control_plane.metrics().await.unwrap();
    let of_secrets = text.lines().filter(|line| {
        line.starts_with("apiserver_longrunning_requests{")
            && line.contains("resource=\"secrets\"")
            && line.contains("verb=\"WATCH\"")
    });
    of_secrets
        .map(|line| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap())
        .sum()
}

/// Waits until so many Workspaces are Ready.
async fn ready(world: &World, count: usize) {
    let more = Duration::from_secs(30);
    eventually_after(more, &format!("{count} Workspaces are Ready"), async || {
        let all = world.workspaces().list(&ListParams::default()).await;
        let statuses = all.unwrap().into_iter().filter_map(|one| one.status);
        let ready = statuses.filter(|s| conditions::is_true(&s.conditions, Type::Ready));
        let ready = ready.count();
        if ready == count { Ok(()) } else { Err(ready) }
    })
    .await;
}

/// Proves: P-many-workspaces
#[tokio::test]
async fn many_workspaces_share_watches_and_a_hung_service_stops_none() {
    let mut world = World::unattended(Setup {
        plane: Plane::Alone,
        bare: true,
        operator: vec!["--log-filter", "info"],
        ..Setup::default()
    })
    .await;
    let scratch = [(); SERVICES].map(|()| Scratch::new("many").unwrap());
    let starting = scratch.iter().map(|scratch| Service::start(scratch, &[]));
    let services = futures::future::join_all(starting).await;
    for number in 0..WORKSPACES {
        let (name, secret) = (format!("w-{number}"), format!("token-{number:04}"));
        world.secret(&secret, json!({"token": TOKEN})).await;
        let url = services[number % SERVICES].base_url();
        let spec = json!({"baseURL": url, "tokenSecretRef": {"name": secret}});
        world.create_workspace(&name, spec).await;
    }
    let before = open_watches(&world).await;
    for service in &services[..HANG] {
        let version = json!({"operation": "getVersion"});
        let hang = json!({"type": "hang", "forMs": 60_000});
        service.lasting_fault(version, hang).await;
    }
    for service in &services {
        let allowed = format!("--allowed-base-url={}", service.base_url());
        world.recipe.args.push(allowed);
    }
    world.start_operator().await;
    // All others, while those hang.
    ready(&world, WORKSPACES - HANG * EACH).await;
    let watches = open_watches(&world).await - before;
    assert!((1.0..=WATCHES).contains(&watches), "{watches} watches");
    for service in &services[..HANG] {
        service.delete("faults").await;
    }
    ready(&world, WORKSPACES).await;
    let watches = open_watches(&world).await - before;
    assert!((1.0..=WATCHES).contains(&watches), "{watches} watches");

    // A change of a Secret that no watch covers is noticed all the same.
    let last = WORKSPACES - 1;
    let service = &services[last % SERVICES];
    let token = json!({"token": "canary-of-many-7c1e"});
    let made = service.post("tokens", token.clone()).await;
    world.secret(&format!("token-{last:04}"), token).await;
    let round = Duration::from_mins(2);
    eventually_after(round, "the new token is in use", async || {
        let checks = service.requests("getWorkspace").await;
        let new = checks.iter().any(|c| c["token"] == made["fingerprint"]);
        if new { Ok(()) } else { Err("no check with it") }
    })
    .await;
}
