//! Several operators and a Lease, as real processes on a real API server: one acts, another takes over, and
//! whatever of them is alive at the same time, each Run has one run.

mod lease;
mod split_brain;
mod takeover;

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use kube::Api;
use run_operator::api::Phase;
use serde_json::json;

use crate::support::{Operator, Series, Setup, World, eventually};

/// The Lease's name.
const LEASE: &str = "run-operator";

/// A world with an election by the usual durations: 15 s, 10 s and 2 s. Its operator leads.
async fn elected() -> World {
    let world = World::with(Setup {
        elected: Some(&[]),
        ..Setup::default()
    })
    .await;
    until_it_leads(world.operator()).await;
    world
}

/// True if an operator's metric shows that it leads; false without an answer.
async fn leads(operator: &Operator) -> bool {
    let series = format!("leader_election_master_status{{name=\"{LEASE}\"}} 1");
    let told = operator.fetch("metrics").await;
    told.is_ok_and(|(_, text)| text.lines().any(|line| line == series))
}

pub(crate) async fn until_it_leads(operator: &Operator) {
    eventually("it leads", async || {
        if leads(operator).await {
            Ok(())
        } else {
            Err(operator.log().lines().last().unwrap_or_default().to_owned())
        }
    })
    .await;
}

/// Waits until it has lost the Lease so many times, stands by, and has warm caches again.
async fn lost(operator: &Operator, times: usize) {
    eventually("it lost the Lease", async || {
        let said = operator.log().matches("lost the Lease").count();
        if said == times { Ok(()) } else { Err(said) }
    })
    .await;
    operator.ready().await;
}

/// The threads of its process.
fn threads(operator: &Operator) -> usize {
    let tasks = format!("/proc/{}/task", operator.pid());
    std::fs::read_dir(tasks).unwrap().count()
}

/// The record of the Lease.
pub(crate) async fn record(world: &World) -> LeaseSpec {
    let lease = leases(world).get(LEASE).await.unwrap();
    lease.spec.unwrap()
}

fn leases(world: &World) -> Api<Lease> {
    Api::namespaced(world.client.clone(), &world.namespace)
}

/// Each of these Runs ends, and is one run of its own at the service.
async fn each_is_one_run(world: &World, names: &[String]) {
    for name in names {
        world.phase(name, Phase::Succeeded).await;
        world.released(name).await;
    }
    world.one_run_each().await;
    assert_eq!(world.service.runs().await.len(), names.len());
}

/// Proves: P-leader
#[tokio::test]
async fn a_standby_is_ready_and_makes_no_call_and_no_write() {
    let world = elected().await;
    let leader = world.operator();
    let mut other = world.another_operator().await;
    let names: Vec<String> = (0..5).map(|n| format!("train-{n}")).collect();
    for name in &names {
        world.create_run(name, json!({})).await;
    }
    each_is_one_run(&world, &names).await;
    assert!(!leads(&other).await && leads(leader).await);
    let calls = "run_operator_service_requests_total";
    assert_eq!(other.sum(calls, |_| true).await, 0.0);
    // It reads: the caches and the Lease.
    let requests = "run_operator_api_requests_total";
    let reads = |one: &Series| one.labels["method"] == "GET";
    assert!(other.sum(requests, reads).await > 0.0);
    assert_eq!(other.sum(requests, |one| !reads(one)).await, 0.0);
    // A call is counted when it has ended, and the caches follow the API server.
    let succeeded = r#"run_operator_runs{phase="Succeeded"}"#;
    eventually("the leader's counts are all of them", async || {
        let sent = world.service.get("requests").await;
        let sent = f64::from(u32::try_from(sent.as_array().unwrap().len()).unwrap());
        let counted = leader.sum(calls, |_| true).await;
        let succeeded = leader.metric(succeeded).await;
        if (counted, succeeded) == (sent, 5.0) {
            Ok(())
        } else {
            Err(format!("{counted} of {sent} calls, {succeeded} of 5 Runs"))
        }
    })
    .await;
    // Together they count each object once.
    assert_eq!(other.metric(succeeded).await, 0.0);
    let record = record(&world).await;
    assert_eq!(record.lease_transitions, Some(0));
    assert_eq!(record.lease_duration_seconds, Some(15));
    // The one that waits ends at once, and takes nothing from the other.
    assert_eq!(other.terminate().await, Some(0));
    assert!(leads(leader).await);
}

/// No caches, no Lease: without `--leader-elect` nothing of it is asked for.
/// Proves: P-leader
#[tokio::test]
async fn without_an_election_there_is_no_lease_and_no_metric_of_it() {
    let world = World::new().await;
    world.create_run("train", json!({})).await;
    world.phase("train", Phase::Succeeded).await;
    assert!(leases(&world).get_opt(LEASE).await.unwrap().is_none());
    let (_, text) = world.operator().fetch("metrics").await.unwrap();
    let series = |line: &str| line.starts_with("leader_election_master_status");
    assert!(!text.lines().any(series));
}
