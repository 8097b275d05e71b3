//! Each kind of answer to a create: final until a person asks for it, and repeated. What each of them comes to is proved in
//! `policy`; here, that it gets there and back.

use kube::ResourceExt;
use serde_json::{Value, json};

use run_operator::api::{ConditionType as Type, Run, names};

use crate::support::{World, condition_of, holds_for_a_while, row};

/// Number of checks in about a second and a half; a refusal that was not final is repeated within it.
const A_WHILE: u32 = 60;

const CODE: &str = "approval_required";

fn creates() -> Value {
    json!({"operation": "createRun"})
}

async fn ask_again(world: &World, value: &str) {
    let metadata = json!({"annotations": {names::RETRY_ANNOTATION: value}});
    world
        .patch_run("train", json!({"metadata": metadata}))
        .await;
}

async fn nothing_more(world: &World, posts: usize) {
    holds_for_a_while(A_WHILE, async || {
        assert_eq!(world.service.requests("createRun").await.len(), posts);
    })
    .await;
}

/// Waits until the Run is stalled by the answer to POST number `posts`, and no other is made.
async fn stalled_by(world: &World, posts: usize) -> Run {
    world.asked("createRun", posts).await;
    let post = &world.service.requests("createRun").await[posts - 1];
    let request = post["requestId"].as_str().unwrap().to_owned();
    let run = world
        .run_until("train", "shows the latest answer", |run| {
            let status = run.status.as_ref();
            let shown = status.and_then(|s| s.request_id.as_deref());
            shown == Some(&request)
                && condition_of(run, Type::Stalled).is_some_and(|c| c.reason == "ApprovalConflict")
        })
        .await;
    assert_eq!(row(&run), "Pending: !Accepted !Finished !Ready Stalled");
    let error = run.status.as_ref().unwrap().last_error.as_ref().unwrap();
    assert_eq!((error.code.as_str(), error.http_status), (CODE, Some(409)));
    assert_eq!(error.request_id.as_deref(), Some(request.as_str()));
    nothing_more(world, posts).await;
    run
}

/// Proves: R9, F-409, F-final
#[tokio::test]
async fn a_conflict_persists_over_restarts_until_a_retry_succeeds() {
    let mut world = World::new().await;
    let history = world.history().await;
    let conflict = json!({"type": "answer", "status": 409, "code": CODE});
    world.service.lasting_fault(creates(), conflict).await;
    let created = world.create_run("train", json!({})).await;
    stalled_by(&world, 1).await;
    // What is missing is missing still.
    ask_again(&world, "monday").await;
    let run = stalled_by(&world, 2).await;
    let handled = |run: &Run| run.status.as_ref().unwrap().handled_retry.clone();
    assert_eq!(handled(&run).as_deref(), Some("monday"));
    // The same value asks for nothing, and neither does a restart.
    ask_again(&world, "monday").await;
    world.kill_operator();
    world.start_operator().await;
    world.workspace_ready("default", "True", "Verified").await;
    nothing_more(&world, 2).await;
    // Now it is given.
    world.service.delete("faults").await;
    ask_again(&world, "tuesday").await;
    world.heals("train").await;
    assert_eq!(world.posts_of(&created).await, 3, "another key was used");
    let run = world.run("train").await;
    assert_eq!(handled(&run).as_deref(), Some("tuesday"));
    history.holds().await;
}

/// The time at which the service got a request, in milliseconds.
fn at(post: &Value) -> i64 {
    let at: jiff::Timestamp = post["at"].as_str().unwrap().parse().unwrap();
    at.as_millisecond()
}

/// Proves: R10, R10a, R11, F-retried
#[tokio::test]
async fn retry_after_is_shown_and_honoured() {
    let world = World::new().await;
    let history = world.history().await;
    let action = json!({"type": "answer", "status": 429, "headers": {"Retry-After": "7"}});
    world.service.fault(creates(), action).await;
    let created = world.create_run("train", json!({})).await;
    world.heals("train").await;
    let posts = world.service.requests("createRun").await;
    let uid = Value::from(created.uid().unwrap());
    assert!(posts.iter().all(|post| post["idempotencyKey"] == uid));
    let pause = at(&posts[1]) - at(&posts[0]);
    assert!(pause >= 7000, "asked again after {pause} ms");
    let mut versions = history.of("train").into_iter();
    let error = versions.find_map(|run| run.status?.last_error);
    let error = error.unwrap();
    assert_eq!((error.http_status, error.attempts), (Some(429), 1));
    assert_eq!(error.request_id.as_deref(), posts[0]["requestId"].as_str());
    // The operator's own first pause is a second at most, and the status holds whole seconds.
    let next = error.next_attempt.as_ref().unwrap().0;
    let shown = next.as_second() - error.time.0.as_second();
    assert!(shown >= 6, "{error:?}");
}
