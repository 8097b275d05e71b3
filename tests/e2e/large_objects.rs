//! Objects near the limits: an answer that repeats a large workload, and an object that leaves no room for what the operator
//! records.

use kube::api::{GetParams, PostParams};
use kube::core::Request;
use run_operator::api::limits::MAX_OBJECT;
use run_operator::api::{ConditionType, Run};
use serde_json::{Value, json};

use crate::support::{Setup, World, held, intent_of, says};

/// Bytes of a request that etcd takes, and of what is in it beside the object at most.
const ETCD: usize = 1_572_864;
const BESIDE: usize = 2048;
/// Bytes of the largest intent and the largest status.
const RECORD: usize = 48 * 1024;

/// Creates a Run whose run stays until it is cancelled, with a text of so many bytes.
async fn create(world: &World, name: &str, bytes: usize) -> kube::Result<Run> {
    let simulate = json!({"runId": name, "outcome": "never"});
    let workload = json!({"image": "i", "simulate": simulate, "data": "x".repeat(bytes)});
    let run = Run::new(
        name,
        serde_json::from_value(json!({"workload": workload})).unwrap(),
    );
    world.runs().create(&PostParams::default(), &run).await
}

/// Bytes of a Run as the API server sends it.
async fn size(world: &World, name: &str) -> usize {
    let runs = Request::new(world.runs().resource_url());
    let request = runs.get(name, &GetParams::default()).unwrap();
    world
        .client
        .request_text(request)
        .await
        .unwrap()
        .trim_end()
        .len()
}

/// Proves: F-heavy, X-caps
#[tokio::test]
async fn a_run_whose_workload_every_answer_repeats_is_known_and_cancelled() {
    let world = World::new().await;
    let run = create(&world, "large", 1_468_006).await.unwrap();
    let running = world.state("large", "running").await;
    assert_eq!(running.status.unwrap().run_id.as_deref(), Some("large"));
    assert_eq!(world.posts_of(&run).await, 1);
    world.delete_run("large").await;
    world.gone("large").await;
    assert_eq!(world.service.runs().await[0]["state"], "cancelled");
}

/// Proves: P-room, P-refused-writes
#[tokio::test]
async fn an_object_is_submitted_as_long_as_it_has_room_for_what_becomes_of_it() {
    let mut world = World::unattended(Setup::default()).await;
    // All names have the same length.
    create(&world, "gauge", 0).await.unwrap();
    let around = size(&world, "gauge").await;
    world.delete_run("gauge").await;
    // The resourceVersion may be longer by a few digits.
    let fits = create(&world, "exact", MAX_OBJECT - around - 8)
        .await
        .unwrap();
    let large = create(&world, "large", MAX_OBJECT - around + 1024)
        .await
        .unwrap();
    let mut bytes = ETCD - around;
    let fills = loop {
        match create(&world, "fills", bytes).await {
            Ok(run) => break run,
            Err(error) => assert!(error.to_string().contains("too large"), "{error}"),
        }
        bytes -= 128;
    };
    assert!(bytes > ETCD - around - BESIDE, "etcd takes {bytes} of text");
    let before = size(&world, "exact").await;
    assert!(before <= MAX_OBJECT && MAX_OBJECT - before < 16, "{before}");
    world.start_operator().await;

    world.state("exact", "running").await;
    let recorded = size(&world, "exact").await;
    let further = ETCD - BESIDE - recorded;
    assert!(further > RECORD, "the record took {}", recorded - before);
    let annotated =
        |value: Value| json!({"metadata": {"annotations": {"example.com/room": value}}});
    world
        .patch_run("exact", annotated("x".repeat(further).into()))
        .await;
    world.patch_run("exact", annotated(Value::Null)).await;
    world.delete_run("exact").await;
    world.gone("exact").await;
    assert_eq!(world.posts_of(&fits).await, 1);
    assert_eq!(world.service.runs().await[0]["state"], "cancelled");

    let ended = world
        .condition("large", ConditionType::Finished, "True", "RunTooLarge")
        .await;
    assert!(intent_of(&ended).is_none() && !held(&ended));
    let told = world.event("fills", "WriteRefused").await;
    says(&told, &["too large", "RunTooLarge"]);
    for run in [large, fills] {
        assert_eq!(world.posts_of(&run).await, 0);
    }
}
