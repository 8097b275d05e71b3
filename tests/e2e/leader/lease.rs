//! A Lease that a person edits.

use kube::api::{Patch, PatchParams};
use run_operator::api::Phase;
use serde_json::json;

use super::{LEASE, elected, leases, lost, record, threads, until_it_leads};
use crate::support::{eventually, intent_of};

/// The thief's clock is far ahead: if it were believed, no operator would lead for two hundred years.
/// Proves: P-takeover
#[tokio::test]
async fn a_leader_with_a_stolen_lease_stands_by_as_another_and_leads_again() {
    let world = elected().await;
    let operator = world.operator();
    world
        .simulate("early", json!({"runId": "early", "outcome": "never"}))
        .await;
    world.state("early", "running").await;
    let owner = async |name: &str| intent_of(&world.run(name).await).unwrap()["owner"].clone();
    let before = (owner("early").await, threads(operator));
    for times in 1..=2 {
        let stolen = json!({"spec": {
            "holderIdentity": "thief", "renewTime": "2199-01-01T00:00:00.000000Z",
            "acquireTime": "2199-01-01T00:00:00.000000Z",
        }});
        let (patch, params) = (Patch::Merge(stolen), PatchParams::default());
        leases(&world).patch(LEASE, &params, &patch).await.unwrap();
        lost(operator, times).await;
        until_it_leads(operator).await;
    }
    assert_eq!(record(&world).await.lease_transitions, Some(2));
    world.create_run("train", json!({})).await;
    world.phase("train", Phase::Succeeded).await;
    let holder = record(&world).await.holder_identity;
    assert_eq!(holder.as_deref(), owner("train").await.as_str());
    assert_ne!(owner("train").await, before.0);
    // What the first term began, the last one goes on with.
    world.set_state("early", "succeeded").await;
    world.released("early").await;
    world.one_run_each().await;
    eventually("no thread of a term is left", async || {
        let now = threads(operator);
        if now <= before.1 { Ok(()) } else { Err(now) }
    })
    .await;
}
