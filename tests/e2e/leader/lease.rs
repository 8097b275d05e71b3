//! A Lease that a person edits.

use kube::api::{Patch, PatchParams};
use run_operator::api::Phase;
use serde_json::json;

use super::{LEASE, elected, leases, record, until_it_leads};
use crate::support::Operator;

/// What an operator says as it ends. The libraries' threads may still log after it, at the level of these tests.
fn last_words(ended: &Operator) -> String {
    let log = ended.log();
    let own = log.lines().rfind(|line| line.starts_with("run-operator: "));
    own.unwrap_or_default().to_owned()
}

/// The thief's clock is far ahead: if it were believed, no operator would lead for two hundred years.
/// Proves: P-takeover
#[tokio::test]
async fn a_leader_with_a_stolen_lease_ends_and_the_standby_takes_over() {
    let mut world = elected().await;
    let other = world.another_operator().await;
    let stolen = json!({"spec": {
        "holderIdentity": "thief", "renewTime": "2199-01-01T00:00:00.000000Z",
        "acquireTime": "2199-01-01T00:00:00.000000Z",
    }});
    let (patch, params) = (Patch::Merge(stolen), PatchParams::default());
    leases(&world).patch(LEASE, &params, &patch).await.unwrap();
    let mut leader = world.operator.take().unwrap();
    assert_eq!(leader.ends().await, Some(1));
    let told = "run-operator: lost the lease, and ended at once: its holder is now \"thief\"";
    assert_eq!(last_words(&leader), told);
    until_it_leads(&other).await;
    assert_eq!(record(&world).await.lease_transitions, Some(1));
    world.create_run("train", json!({})).await;
    world.phase("train", Phase::Succeeded).await;
}
