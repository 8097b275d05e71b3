//! Every request of every test is checked against `contract/openapi.yaml` when its service is dropped. The
//! tests of that check:

use std::collections::BTreeSet;

use run_operator::api::Phase;
use serde_json::json;

use crate::support::*;
use test_support::openapi::Document;

/// Proves: R13
#[tokio::test]
async fn a_full_life_makes_every_documented_request_as_documented() {
    let world = World::new().await;
    world.running("train").await;
    world.asked("streamEvents", 1).await;
    let cancel = json!({"spec": {"cancel": true}});
    world.patch_run("train", cancel).await;
    world.phase("train", Phase::Cancelled).await;
    let record = world.service.record();
    assert_eq!(record.violations, Vec::<String>::new());
    let operations = Document::pinned().operations.iter();
    let all: BTreeSet<String> = operations.map(|operation| operation.id.clone()).collect();
    assert_eq!(record.operations, all);
}

/// Proves: L-contract
#[tokio::test]
#[should_panic(expected = "the query parameter verbose is not declared")]
async fn a_request_that_differs_fails_the_test_at_its_end() {
    let scratch = test_cluster::Scratch::new("e2e").unwrap();
    let service = Service::start(&scratch, &[]).await;
    let url = format!("{}/version?verbose=1", service.base_url());
    reqwest::get(url).await.unwrap();
}
