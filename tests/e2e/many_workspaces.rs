//! Many Workspaces, each with a Secret of its own, at several services: watches, calls and connections are bounded,
//! and a service that hangs holds up no other's.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use kube::api::ListParams;
use serde_json::{Value, json};

use run_operator::api::{ConditionType as Type, conditions};

use crate::support::{Service, Setup, TOKEN, World, eventually_after, own_control_plane};
use test_cluster::Scratch;

/// Workspaces, and services that they are at. By hand more: `RUN_OPERATOR_TEST_WORKSPACES=2000/50`.
const SIZE: (usize, usize) = (300, 10);
/// Number of them that hang, the first ones.
const HANG: usize = 3;
/// Watches of Secrets at the same time.
const WATCHES: f64 = 32.0;

fn size() -> (usize, usize) {
    let Ok(given) = std::env::var("RUN_OPERATOR_TEST_WORKSPACES") else {
        return SIZE;
    };
    let (workspaces, services) = given.split_once('/').unwrap();
    (workspaces.parse().unwrap(), services.parse().unwrap())
}

/// Resident memory in KiB, and open files, of the operator.
fn costs(world: &World) -> (u64, usize) {
    let process = format!("/proc/{}", world.operator().pid());
    let status = std::fs::read_to_string(format!("{process}/status")).unwrap();
    let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = resident.unwrap().trim().trim_end_matches(" kB");
    let files = std::fs::read_dir(format!("{process}/fd")).unwrap().count();
    (kib.parse().unwrap(), files)
}

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

/// The number of Ready Workspaces of each service.
async fn ready(world: &World, services: usize) -> BTreeMap<usize, usize> {
    let all = world.workspaces().list(&ListParams::default()).await;
    let mut ready = BTreeMap::new();
    for workspace in all.unwrap().items {
        let number: usize = workspace.metadata.name.unwrap()[2..].parse().unwrap();
        let status = workspace.status.unwrap_or_default();
        if conditions::is_true(&status.conditions, Type::Ready) {
            *ready.entry(number % services).or_default() += 1;
        }
    }
    ready
}

async fn create(world: &World, workspaces: usize, services: &[Service]) {
    for number in 0..workspaces {
        let (name, secret) = (format!("w-{number}"), format!("token-{number:04}"));
        world.secret(&secret, json!({"token": TOKEN})).await;
        let spec = json!({
            "baseUrl": services[number % services.len()].base_url(),
            "tokenSecretRef": {"name": secret},
        });
        world.create_workspace(&name, spec).await;
    }
}

async fn all_ready_at(world: &World, size: (usize, usize), wanted: impl Iterator<Item = usize>) {
    let (workspaces, services) = size;
    let wanted: BTreeMap<usize, usize> = wanted.map(|n| (n, workspaces / services)).collect();
    let more = Duration::from_secs(u64::try_from(workspaces / 10).unwrap());
    let began = Instant::now();
    eventually_after(
        more,
        "the Workspaces of these services are Ready",
        async || {
            let mut found = ready(world, services).await;
            found.retain(|service, _| wanted.contains_key(service));
            if found == wanted {
                Ok(())
            } else {
                Err(format!("{found:?}"))
            }
        },
    )
    .await;
    let (kib, files) = costs(world);
    println!(
        "Ready after {:?}; {kib} KiB, {files} files",
        began.elapsed()
    );
}

/// Proves: P-many-workspaces
#[tokio::test]
async fn many_workspaces_share_watches_and_a_hung_service_stops_none() {
    let (workspaces, number) = size();
    let own = own_control_plane().await;
    let mut world = World::unattended(Setup {
        control_plane: Some(own),
        bare: true,
        operator: vec!["--log-filter", "info"],
        ..Setup::default()
    })
    .await;
    let scratch: Vec<Scratch> = (0..number).map(|_| Scratch::new("many").unwrap()).collect();
    let starting = scratch.iter().map(|scratch| Service::start(scratch, &[]));
    let services = futures::future::join_all(starting).await;
    create(&world, workspaces, &services).await;
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
    all_ready_at(&world, (workspaces, number), HANG..number).await;
    let watches = open_watches(&world).await - before;
    let mut asked = Vec::new();
    for service in &services[..HANG] {
        asked.push(service.requests("getVersion").await.len());
        service.delete("faults").await;
    }
    println!("{watches} watches of Secrets, {asked:?} calls at the services that hang");
    assert!((1.0..=WATCHES).contains(&watches), "{watches} watches");
    // Those that ask at the same time share a call.
    let each = workspaces / number;
    assert!(
        asked.iter().all(|asked| asked * 2 <= each),
        "{asked:?} calls"
    );
    all_ready_at(&world, (workspaces, number), 0..number).await;
    let watches = open_watches(&world).await - before;
    assert!((1.0..=WATCHES).contains(&watches), "{watches} watches");

    // A change of a Secret that no watch covers is noticed all the same.
    let last = workspaces - 1;
    let service = &services[last % number];
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
