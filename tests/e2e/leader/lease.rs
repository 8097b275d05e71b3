//! Disturbances of the Lease: the API server is down, it is deleted, a person edits it, a clock is wrong.

use kube::api::{DeleteParams, Patch, PatchParams};
use run_operator::api::Phase;
use serde_json::{Value, json};

use super::{LEASE, SHORT, USUAL, elected, leads, leases, record, until_it_leads};
use crate::support::{Operator, Setup, World, eventually, own_control_plane};

async fn edit(world: &World, spec: Value) {
    let patch = Patch::Merge(json!({"spec": spec}));
    let edited = leases(world)
        .patch(LEASE, &PatchParams::default(), &patch)
        .await;
    edited.unwrap();
}

/// What an operator says as it ends. The libraries' threads may still log after it, at the level of these tests.
fn last_words(ended: &Operator) -> String {
    let log = ended.log();
    let own = log.lines().rfind(|line| line.starts_with("run-operator: "));
    own.unwrap_or_default().to_owned()
}

/// Proves: P-leader-lost
#[tokio::test]
async fn a_leader_that_cannot_renew_ends_and_the_standby_takes_over() {
    let own = own_control_plane().await;
    let mut world = World::with(Setup {
        control_plane: Some(own),
        elected: Some(SHORT),
        ..Setup::default()
    })
    .await;
    until_it_leads(world.operator()).await;
    let other = world.another_operator().await;
    world.simulate("train", json!({"outcome": "never"})).await;
    let run = world.state("train", "running").await;
    own.stop_apiserver().unwrap();
    let mut leader = world.operator.take().unwrap();
    assert_eq!(leader.ends().await, Some(1), "{}", leader.log());
    assert_eq!(
        last_words(&leader),
        "run-operator: lost the lease, and ended at once: it could not be renewed within 7s"
    );
    assert!(!leads(&other).await);
    own.start_apiserver().await.unwrap();
    until_it_leads(&other).await;
    let id = run.status.unwrap().run_id.unwrap();
    let state = json!({"state": "succeeded"});
    world.service.post(&format!("runs/{id}/state"), state).await;
    world.phase("train", Phase::Succeeded).await;
    assert_eq!(world.service.runs().await.len(), 1);
}

/// Proves: P-leader
#[tokio::test]
async fn a_deleted_lease_is_made_again_and_one_leads() {
    let world = elected(USUAL).await;
    until_it_leads(world.operator()).await;
    let other = world.another_operator().await;
    let (api, params) = (leases(&world), DeleteParams::default());
    drop(api.delete(LEASE, &params).await.unwrap());
    eventually("the Lease is there again, and one leads", async || {
        let lease = leases(&world).get_opt(LEASE).await.unwrap();
        let leading = [leads(world.operator()).await, leads(&other).await];
        match (lease, leading) {
            (Some(_), [true, false] | [false, true]) => Ok(()),
            (lease, leading) => Err(format!("{leading:?} {lease:?}")),
        }
    })
    .await;
    world.create_run("train", json!({})).await;
    world.phase("train", Phase::Succeeded).await;
    assert_eq!(world.service.runs().await.len(), 1);
}

/// A hundred scrapers get either the whole page or 503.
/// Proves: P-scrape
#[tokio::test]
async fn a_leader_scraped_by_100_clients_keeps_its_lease() {
    const SCRAPERS: usize = 100;
    const EACH: usize = 30;
    let world = elected(SHORT).await;
    let leader = world.operator();
    until_it_leads(leader).await;
    let before = record(&world).await;
    let scrape = async |_| {
        let mut whole = 0;
        for _ in 0..EACH {
            let (status, text) = leader.fetch("metrics").await.unwrap();
            assert!(matches!(status, 200 | 503), "{status}: {text}");
            whole += usize::from(status == 200 && text.contains("process_start_time_seconds"));
        }
        whole
    };
    let scraped = futures::future::join_all((0..SCRAPERS).map(scrape));
    let live = async {
        world.create_run("train", json!({})).await;
        world.phase("train", Phase::Succeeded).await;
    };
    let (whole, ()) = tokio::join!(scraped, live);
    let whole: usize = whole.iter().sum();
    println!("{whole} of {} scrapes were answered", SCRAPERS * EACH);
    assert!(whole > 0);
    assert!(leads(leader).await);
    let after = record(&world).await;
    assert_eq!(after.lease_transitions, before.lease_transitions);
    assert_eq!(after.holder_identity, before.holder_identity);
}

/// The thief's clock is far ahead: if it were believed, no operator would lead for two hundred years.
/// Proves: P-leader-lost
#[tokio::test]
async fn a_leader_with_a_stolen_lease_ends_and_the_standby_takes_over() {
    let mut world = elected(SHORT).await;
    until_it_leads(world.operator()).await;
    let other = world.another_operator().await;
    let stolen = json!({
        "holderIdentity": "thief", "renewTime": "2199-01-01T00:00:00.000000Z",
        "acquireTime": "2199-01-01T00:00:00.000000Z",
    });
    edit(&world, stolen).await;
    let mut leader = world.operator.take().unwrap();
    assert_eq!(leader.ends().await, Some(1));
    let told = "run-operator: lost the lease, and ended at once: its holder is now \"thief\"";
    assert_eq!(last_words(&leader), told);
    until_it_leads(&other).await;
    assert_eq!(record(&world).await.lease_transitions, Some(1));
    world.create_run("train", json!({})).await;
    world.phase("train", Phase::Succeeded).await;
}

/// The record is that of a leader whose clock is half a century behind: it is alive all the same.
/// Proves: P-leader-clock
#[tokio::test]
async fn a_record_of_long_ago_takes_nothing_from_a_leader_that_renews() {
    let world = elected(USUAL).await;
    until_it_leads(world.operator()).await;
    let other = world.another_operator().await;
    let before = record(&world).await;
    for _ in 0..3 {
        let old = "1970-01-01T00:00:00.000000Z";
        edit(&world, json!({"renewTime": old})).await;
        eventually("it is renewed", async || {
            let renewed = record(&world).await.renew_time.unwrap();
            let renewed = serde_json::to_value(renewed).unwrap();
            if renewed == old {
                Err("not yet")
            } else {
                Ok(())
            }
        })
        .await;
    }
    assert!(leads(world.operator()).await && !leads(&other).await);
    let after = record(&world).await;
    assert_eq!(after.holder_identity, before.holder_identity);
    assert_eq!(after.acquire_time, before.acquire_time);
    assert_eq!(after.lease_transitions, Some(0));
}

/// Outside a Pod it is the namespace of the kubeconfig's context.
/// Proves: P-namespaces
#[tokio::test]
async fn the_lease_is_in_the_operators_own_namespace() {
    let mut world = World::unattended(Setup {
        operator: vec!["--leader-elect"],
        ..Setup::default()
    })
    .await;
    let kubeconfig = world.folder().join("kubeconfig");
    std::fs::copy(world.control_plane.kubeconfig(), &kubeconfig).unwrap();
    let file = format!("--kubeconfig={}", kubeconfig.display());
    let own = format!("--namespace={}", world.namespace);
    let args: [&str; 5] = [&file, "config", "set-context", "--current", &own];
    world.kubectl(&args, "").await.unwrap();
    let mut recipe = world.recipe();
    recipe.kubeconfig = kubeconfig;
    world.operator = Some(Operator::start(&recipe).await);
    until_it_leads(world.operator()).await;
    let lease = leases(&world).get_opt(LEASE).await.unwrap();
    assert!(lease.is_some(), "it leads by another Lease");
}
