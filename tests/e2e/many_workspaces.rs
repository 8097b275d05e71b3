//! Many Workspaces, each with a Secret of its own, at several services: watches, calls and connections are bounded,
//! and a service that hangs holds up no other's.

use std::collections::BTreeMap;
use std::time::Duration;

use kube::ResourceExt;
use kube::api::ListParams;
use serde_json::{Value, json};

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
    let of_secrets = |line: &&str| {
        line.starts_with("apiserver_longrunning_requests{")
            && line.contains("resource=\"secrets\"")
            && line.contains("verb=\"WATCH\"")
    };
    let values = text.lines().filter(of_secrets);
    values
        .map(|line| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap())
        .sum()
}

/// Waits until all Workspaces of the services from this one on are Ready.
async fn all_ready_from(world: &World, first: usize) {
    let more = Duration::from_secs(30);
    let wanted = (first..SERVICES)
        .map(|service| (service, EACH))
        .collect::<BTreeMap<_, _>>();
    eventually_after(more, "the Workspaces are Ready", async || {
        let mut ready = BTreeMap::new();
        for workspace in world
            .workspaces()
            .list(&ListParams::default())
            .await
            .unwrap()
        {
            let number: usize = workspace.name_any()[2..].parse().unwrap();
            let status = workspace.status.unwrap_or_default();
            if conditions::is_true(&status.conditions, Type::Ready) && number % SERVICES >= first {
                *ready.entry(number % SERVICES).or_default() += 1;
            }
        }
        if ready == wanted {
            Ok(())
        } else {
            Err(format!("{ready:?}"))
        }
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
        let spec = json!({"baseUrl": url, "tokenSecretRef": {"name": secret}});
        world.create_workspace(&name, spec).await;
    }
    let before = open_watches(&world).await;
    let hang = json!({"type": "hang", "forMs": 60_000});
    for service in &services[..HANG] {
        let version = json!({"operation": "getVersion"});
        service.lasting_fault(version, hang.clone()).await;
    }
    let urls: Vec<String> = services.iter().map(Service::base_url).collect();
    let allowed: Vec<&str> = urls
        .iter()
        .flat_map(|url| ["--allowed-base-url", url])
        .collect();
    world.restart_operator_with(&allowed).await;
    // All others, while those hang.
    all_ready_from(&world, HANG).await;
    let watches = open_watches(&world).await - before;
    assert!((1.0..=WATCHES).contains(&watches), "{watches} watches");
    for service in &services[..HANG] {
        // Those that ask at the same time share a call.
        let asked = service.requests("getVersion").await.len();
        assert!(asked * 2 <= EACH, "{asked} calls");
        service.delete("faults").await;
    }
    all_ready_from(&world, 0).await;
    let watches = open_watches(&world).await - before;
    assert!((1.0..=WATCHES).contains(&watches), "{watches} watches");

    // A change of a Secret that no watch covers is noticed all the same.
    let last = WORKSPACES - 1;
    let service = &services[last % SERVICES];
    let token = json!({"token": "canary-of-many-7c1e"});
    let made: Value = service.post("tokens", token.clone()).await;
    world.secret(&format!("token-{last:04}"), token).await;
    let round = Duration::from_mins(2);
    eventually_after(round, "the new token is in use", async || {
        let checks = service.requests("getWorkspace").await;
        let new = checks.iter().any(|c| c["token"] == made["fingerprint"]);
        if new { Ok(()) } else { Err("no check with it") }
    })
    .await;
}
