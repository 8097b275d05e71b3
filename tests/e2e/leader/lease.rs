//! Disturbances of the Lease: it is deleted, a person edits it; and where it is.

use kube::api::{DeleteParams, Patch, PatchParams};
use run_operator::api::Phase;
use serde_json::{Value, json};

use super::{LEASE, elected, leads, leases, record, until_it_leads};
use crate::support::{Operator, Setup, World, eventually};

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

/// Proves: P-leader
#[tokio::test]
async fn a_deleted_lease_is_made_again_and_one_leads() {
    let world = elected().await;
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

/// The thief's clock is far ahead: if it were believed, no operator would lead for two hundred years.
/// Proves: P-leader-lost
#[tokio::test]
async fn a_leader_with_a_stolen_lease_ends_and_the_standby_takes_over() {
    let mut world = elected().await;
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
