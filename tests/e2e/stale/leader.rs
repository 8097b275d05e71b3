//! Two operators over the same objects, one of which sees nothing of what the other does.

use run_operator::api::Phase;
use serde_json::json;

use super::{Proxy, cancels, ledger, running, writes};
use crate::support::{Operator, World};
use test_cluster::ControlPlane;

/// Proves: F-stale
#[tokio::test]
async fn a_stale_operator_duplicates_undoes_and_cancels_nothing() {
    let world = World::new().await;
    let history = world.history().await;
    let proxy = Proxy::start(ControlPlane::shared().await).await;
    let mut recipe = world.recipe();
    recipe.kubeconfig = proxy.kubeconfig().to_owned();
    recipe.log.set_file_name("stale.log");
    let _stale = Operator::start(&recipe).await;
    let replaced = running(&world, "replaced").await;
    let orphaned = running(&world, "orphaned").await;
    let going = world.simulate("going", json!({"runTimeMs": 1500})).await;
    world.state("going", "running").await;
    // From here on it sees three running Runs.
    proxy.freeze("runs").await;
    let before = writes(&proxy);
    world
        .patch_run("orphaned", json!({"spec": {"deletionPolicy": "Orphan"}}))
        .await;
    for name in ["replaced", "orphaned"] {
        world.delete_run(name).await;
        world.gone(name).await;
    }
    let next = running(&world, "replaced").await;
    world.phase("going", Phase::Succeeded).await;
    world.released("going").await;
    let unseen = writes(&proxy) - before;
    assert!(unseen <= 20, "{unseen} writes in vain");
    proxy.thaw("runs");
    let after = world.create_run("after", json!({})).await;
    world.phase("after", Phase::Succeeded).await;
    let ended = [
        (&replaced, "cancelled"),
        (&next, "running"),
        (&orphaned, "running"),
        (&going, "succeeded"),
        (&after, "succeeded"),
    ];
    ledger(&world, &ended).await;
    assert_eq!(cancels(&world, &orphaned).await, 0);
    assert_eq!(cancels(&world, &next).await, 0);
    history.holds().await;
}
