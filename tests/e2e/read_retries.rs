//! Four seconds of wrong answers amid many runs: no answer to a read is final, and a proxy's is not the service's.
//! With the operator's own intervals between polls, of which the longest is longer than any wait of the tests; how
//! soon an end is seen to the second is decided, and tested, in `policy`.

use rstest::rstest;
use serde_json::{Value, json};

use run_operator::api::{ConditionType as Type, Phase, Run};

use crate::support::{Setup, World, condition_of, says};

/// Runs that end while the answers are wrong.
const RUNS: usize = 40;
/// Runs that are deleted meanwhile, and as many that are created.
const OTHERS: usize = 5;
/// Duration of the wrong answers, in milliseconds.
const WRONG: u64 = 4000;
/// Calls of one kind for one Run meanwhile.
const CALLS: usize = 10;

async fn patient() -> World {
    World::with(Setup {
        operator: vec![
            "--poll-min",
            "5s",
            "--poll-max",
            "5m",
            "--log-filter",
            "info",
        ],
        ..Setup::default()
    })
    .await
}

fn page(status: u16) -> Value {
    let body = "<html>not here</html>";
    json!({"type": "answer", "status": status, "body": body, "contentType": "text/html"})
}

fn problem(status: u16, code: &str) -> Value {
    json!({"type": "answer", "status": status, "code": code})
}

/// Adds a fault that lasts for so long.
async fn fault(world: &World, fits: Value, action: &Value) {
    let fault = json!({"match": fits, "action": action, "times": 0, "forMs": WRONG});
    world.service.post("faults", fault).await;
}

/// Waits until all of these Runs are in this phase.
async fn all(world: &World, names: &[String], phase: Phase) {
    for name in names {
        world.phase(name, phase).await;
    }
}

/// Proves: F-reads
#[rstest]
#[case::of_a_proxy(vec![("page", page(404)), ("timeout", page(408))])]
#[case::of_another_proxy(vec![("early", page(425)), ("empty", json!({"type": "answer", "status": 200, "body": ""}))])]
#[case::of_the_service(vec![
    ("hopeless", json!({"type": "answer", "status": 500, "retryable": false})),
    ("forbidden", problem(403, "forbidden")),
])]
#[case::of_a_replica(vec![("absent", problem(404, "run_not_found")), ("garbage", page(200))])]
#[tokio::test]
async fn ends_are_seen_soon_after_four_seconds_of_wrong_answers(#[case] kinds: Vec<(&str, Value)>) {
    let world = patient().await;
    for (kind, answer) in &kinds {
        let named = |sort: &str, many: usize| -> Vec<String> {
            (0..many).map(|n| format!("{kind}-{sort}-{n}")).collect()
        };
        let (ending, deleted) = (named("ends", RUNS), named("goes", OTHERS));
        for name in ending.iter().chain(&deleted) {
            let never = json!({"outcome": "never", "runId": name});
            world.simulate(name, never).await;
        }
        for name in ending.iter().chain(&deleted) {
            world.state(name, "running").await;
        }
        let begun = named("begins", OTHERS);
        for name in &begun {
            // The answer to the first create is lost: it is in doubt from then on.
            let creates = json!({"operation": "createRun", "image": name});
            let lost = json!({"type": "doThenLose"});
            world.service.fault(creates.clone(), lost).await;
            // A 5xx that the service marks as not to be retried ends a create, and no read.
            if *kind != "hopeless" {
                fault(&world, creates, answer).await;
            }
        }
        for operation in ["getRun", "streamEvents", "cancelRun"] {
            // An object whose run both cancel and GET deny is released.
            if (*kind, operation) != ("absent", "cancelRun") {
                fault(&world, json!({"operation": operation}), answer).await;
            }
        }
        for name in &ending {
            let ended = json!({"state": "succeeded"});
            world
                .service
                .post(&format!("runs/{name}/state"), ended)
                .await;
        }
        for name in &deleted {
            world.delete_run(name).await;
        }
        for name in &begun {
            world
                .create_run(name, json!({"workload": {"image": name}}))
                .await;
        }
        all(&world, &ending, Phase::Succeeded).await;
        for name in &deleted {
            world.gone(name).await;
        }
        all(&world, &begun, Phase::Succeeded).await;
        world.service.delete("faults").await;
        for operation in ["createRun", "getRun", "streamEvents", "cancelRun"] {
            let calls = world.service.count(operation).await;
            let most = (2 * RUNS + 4 * OTHERS) * CALLS * kinds.len();
            assert!(calls <= most as u64, "{kind}: {calls} of {operation}");
        }
        let runs = world.service.runs().await;
        let left = runs.iter().filter(|run| {
            let state = run["state"].as_str().unwrap();
            !["succeeded", "cancelled"].contains(&state)
        });
        assert_eq!(left.count(), 0, "{kind}: {runs:#?}");
    }
    let made = world.service.runs().await.len();
    assert_eq!(made, kinds.len() * (RUNS + 2 * OTHERS));
}

/// Meanwhile the run is polled, which shows no event.
/// Proves: F-reads
#[tokio::test]
async fn a_stream_that_was_refused_is_opened_again_and_read() {
    let world = World::new().await;
    let streams = json!({"operation": "streamEvents"});
    world
        .service
        .fault(streams, problem(403, "forbidden"))
        .await;
    let never = json!({"outcome": "never", "runId": "train"});
    world.simulate("train", never).await;
    world.asked("streamEvents", 2).await;
    let note = json!({"type": "note", "data": {"n": 1}});
    world.service.post("runs/train/events", note).await;
    let noted = |run: &Run| {
        let events = run.status.as_ref().map(|status| &status.events);
        events.is_some_and(|events| events.iter().any(|event| event.kind == "note"))
    };
    world.run_until("train", "shows the event", noted).await;
}

/// Proves: F-in-progress
#[tokio::test]
async fn a_create_in_progress_is_asked_for_until_its_run_is_made() {
    let world = patient().await;
    let works = problem(409, "idempotency_in_progress");
    fault(&world, json!({"operation": "createRun"}), &works).await;
    let created = world.create_run("train", json!({})).await;
    let run = world
        .condition("train", Type::Reconciling, "True", "SubmissionInProgress")
        .await;
    let told = condition_of(&run, Type::Ready).unwrap().message;
    says(&told, &["still works on an earlier request", "same key"]);
    world.create_run("deleted", json!({})).await;
    world
        .condition("deleted", Type::Reconciling, "True", "SubmissionInProgress")
        .await;
    world.delete_run("deleted").await;
    world.phase("train", Phase::Succeeded).await;
    world.gone("deleted").await;
    assert!((2..=8).contains(&world.posts_of(&created).await));
    let runs = world.service.runs().await;
    assert!(runs.len() <= 2, "{runs:#?}");
    let live = |run: &&Value| !["succeeded", "cancelled"].contains(&run["state"].as_str().unwrap());
    assert_eq!(runs.iter().filter(live).count(), 0, "{runs:#?}");
}
