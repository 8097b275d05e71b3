//! An answer to a create that is final until a person asks again. What each kind of answer comes to is proved in `policy`,
//! that one is repeated in `congestion`.

use serde_json::json;

use run_operator::api::{ConditionType as Type, Run, names};

use crate::support::{World, condition_of, holds_for_a_while, row};

/// Number of checks in about a second and a half; a refusal that was not final is repeated within it.
const A_WHILE: u32 = 60;

const CODE: &str = "approval_required";

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
    let create = json!({"operation": "createRun"});
    world.service.lasting_fault(create, conflict).await;
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
