//! What the service says of a run beside its state, from the service's answers to the status.

use std::time::Instant;

use serde_json::{Value, json};

use run_operator::api::{Phase, Run};

use crate::support::{Audit, Plane, Setup, World, contract_file};

const POINTERS: [(&str, &str); 4] = [
    (
        "resultPointers: {}",
        "resultPointers: {accuracy: [/metrics/accuracy], best: [/metrics/best]}",
    ),
    (
        "consoleURLPointers: []",
        "consoleURLPointers: [/links/console]",
    ),
    (
        "progressPercentPointers: []",
        "progressPercentPointers: [/metrics/percent]",
    ),
    (
        "progressMessagePointers: []",
        "progressMessagePointers: [/metrics/message]",
    ),
];

async fn world() -> World {
    let contract: &'static str = contract_file("details", &POINTERS).leak();
    World::with(Setup {
        plane: Plane::Alone,
        operator: vec![
            "--contract",
            contract,
            "--console-origin",
            "https://console.example.com",
        ],
        ..Setup::default()
    })
    .await
}

/// From now on the answers to GETs say this too.
async fn says(world: &World, percent: i32, console: &str) {
    world.service.delete("faults").await;
    let merge = json!({
        "metrics": {"accuracy": f64::from(percent) / 100.0, "best": true, "percent": percent, "message": "on its way"},
        "links": {"console": console},
    });
    let action = json!({"type": "mergeBody", "merge": merge});
    world
        .service
        .lasting_fault(json!({"operation": "getRun"}), action)
        .await;
}

fn percent(run: &Run) -> Option<i32> {
    run.status.as_ref()?.progress.as_ref()?.percent
}

fn status_writes(world: &World, name: &str) -> usize {
    let requests = Audit::of(world).all_requests();
    let of_it = |request: &&Value| {
        let object = &request["objectRef"];
        object["name"] == name && object["subresource"] == "status" && request["verb"] == "patch"
    };
    requests.iter().filter(of_it).count()
}

/// Proves: P-details, B-writes
#[tokio::test]
async fn results_progress_and_console_are_mirrored_with_few_writes_and_whole_at_the_end() {
    let console = "https://console.example.com/runs/train";
    let world = world().await;
    says(&world, 10, console).await;
    world
        .simulate("train", json!({"runId": "train", "outcome": "never"}))
        .await;
    let run = world
        .run_until("train", "runs and shows its progress", |run| {
            let status = run.status.as_ref();
            let state = status.and_then(|status| status.state.as_deref());
            state == Some("running") && percent(run) == Some(10)
        })
        .await;
    let status = run.status.unwrap();
    assert_eq!(status.console_url.as_deref(), Some(console));
    assert_eq!(status.results["accuracy"], "0.1");
    assert_eq!(status.results["best"], "true");
    let progress = status.progress.unwrap();
    assert_eq!(progress.message.as_deref(), Some("on its way"));

    let (began, before) = (Instant::now(), status_writes(&world, "train"));
    for step in 2..6 {
        says(&world, step * 10, console).await;
        let read = usize::try_from(world.service.count("getRun").await).unwrap();
        world.asked("getRun", read + 1).await;
    }
    let allowed = 1 + usize::try_from(began.elapsed().as_secs() / 30).unwrap();
    // The last event, which is the state's, may be written after it.
    let written = status_writes(&world, "train") - before;
    assert!(written <= allowed + 1, "{written} of {allowed}");

    says(&world, 93, console).await;
    world.set_state("train", "succeeded").await;
    let status = world.phase("train", Phase::Succeeded).await.status.unwrap();
    assert_eq!(status.results["accuracy"], "0.93");
    assert_eq!(status.progress.unwrap().percent, Some(93));
    assert_eq!(status.console_url.as_deref(), Some(console));
}

/// Proves: P-details, P-events
#[tokio::test]
async fn a_console_elsewhere_is_left_out_with_one_event() {
    let mut world = world().await;
    says(&world, 10, "https://evil.example/runs/train").await;
    world
        .simulate("train", json!({"runId": "train", "outcome": "never"}))
        .await;
    let told = world.event("train", "ConsoleURLRefused").await;
    assert!(told.contains("evil.example"), "{told}");
    world.kill_operator();
    world.start_operator().await;
    let read = usize::try_from(world.service.count("getRun").await).unwrap();
    world.asked("getRun", read + 3).await;
    let run = world
        .run_until("train", "shows its progress", |run| {
            percent(run) == Some(10)
        })
        .await;
    assert_eq!(run.status.unwrap().console_url, None);
    assert_eq!(world.events("train", "ConsoleURLRefused").await.len(), 1);
}
