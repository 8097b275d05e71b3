//! Each kind of answer to a create: repeated, final until a person asks for it, mapped by the contract file. What each
//! of them comes to is proved in `policy`; here, that it gets there and back.

use kube::ResourceExt;
use serde_json::{Value, json};

use run_operator::api::{ConditionType as Type, Phase, Run, names};

use crate::support::{Setup, World, condition_of, contract_file, holds_for_a_while, row};

/// Number of checks in about a second and a half; a refusal that was not final is repeated within it.
const A_WHILE: u32 = 60;

fn creates() -> Value {
    json!({"operation": "createRun"})
}

fn problem(status: u16, code: &str) -> Value {
    json!({"type": "answer", "status": status, "code": code, "title": "Not like this"})
}

async fn ask_again(world: &World, value: &str) {
    let annotations = json!({names::RETRY_ANNOTATION: value});
    world
        .patch_run("train", json!({"metadata": {"annotations": annotations}}))
        .await;
}

async fn nothing_more(world: &World, posts: usize) {
    holds_for_a_while(A_WHILE, async || {
        assert_eq!(world.service.requests("createRun").await.len(), posts);
    })
    .await;
}

/// Waits until the Run is stalled by the answer to POST number `posts`, and no other is made.
async fn stalled_by(world: &World, posts: usize, code: &str, reason: &str) -> Run {
    world.asked("createRun", posts).await;
    let post = &world.service.requests("createRun").await[posts - 1];
    let request = post["requestId"].as_str().unwrap().to_owned();
    let run = world
        .run_until("train", "shows the latest answer", |run| {
            let status = run.status.as_ref();
            let shown = status.and_then(|s| s.request_id.as_deref());
            shown == Some(&request)
                && condition_of(run, Type::Stalled).is_some_and(|c| c.reason == reason)
        })
        .await;
    assert_eq!(row(&run), "Pending: !Accepted !Finished !Ready Stalled");
    let error = run.status.as_ref().unwrap().last_error.as_ref().unwrap();
    assert_eq!((error.code.as_str(), error.http_status), (code, Some(409)));
    assert_eq!(error.request_id.as_deref(), Some(request.as_str()));
    nothing_more(world, posts).await;
    run
}

/// Proves: R9, F-409, F-final
#[tokio::test]
async fn a_conflict_persists_over_restarts_until_a_retry_succeeds() {
    let (code, reason) = ("approval_required", "ApprovalConflict");
    let mut world = World::new().await;
    let history = world.history().await;
    world
        .service
        .lasting_fault(creates(), problem(409, code))
        .await;
    let created = world.create_run("train", json!({})).await;
    stalled_by(&world, 1, code, reason).await;
    // What is missing is missing still.
    ask_again(&world, "monday").await;
    let run = stalled_by(&world, 2, code, reason).await;
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

/// Proves: F-409, S-unknown, L-contract
#[tokio::test]
async fn a_code_that_the_contract_file_maps_moves_to_its_reason() {
    let change = (
        "approvalConflict: [",
        "approvalConflict: [wants_a_signature, ",
    );
    let path = contract_file("answers-mapped", &[change]);
    let world = World::with(Setup {
        operator: vec!["--contract", path.leak()],
        ..Setup::default()
    })
    .await;
    for (name, code, reason) in [
        ("signed", "wants_a_signature", "ApprovalConflict"),
        ("unknown", "moon_conflict", "UnknownConflict"),
    ] {
        let image = format!("example/{name}");
        let fits = json!({"operation": "createRun", "image": image});
        world.service.fault(fits, problem(409, code)).await;
        world
            .create_run(name, json!({"workload": {"image": image}}))
            .await;
        let run = world.stalled(name, reason).await;
        assert_eq!(world.posts_of(&run).await, 1);
    }
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

/// Proves: F-401
#[tokio::test]
async fn creates_refused_with_a_verified_token_are_bounded() {
    let world = World::new().await;
    let refusal = problem(401, "unauthenticated");
    world.service.lasting_fault(creates(), refusal).await;
    let created = world.create_run("train", json!({})).await;
    world
        .condition("train", Type::Reconciling, "True", "Retrying")
        .await;
    holds_for_a_while(2 * A_WHILE, async || {
        let posts = world.posts_of(&created).await;
        assert!(posts <= 8, "{posts} POSTs");
    })
    .await;
    world.service.delete("faults").await;
    world.heals("train").await;
}

/// Proves: F-in-progress
#[tokio::test]
async fn a_create_in_progress_is_asked_for_until_its_run_is_made() {
    let world = World::new().await;
    let works = problem(409, "idempotency_in_progress");
    world.service.lasting_fault(creates(), works).await;
    let mut created = Vec::new();
    for name in ["train", "deleted"] {
        created.push(world.create_run(name, json!({})).await);
        world
            .condition(name, Type::Reconciling, "True", "SubmissionInProgress")
            .await;
    }
    world.delete_run("deleted").await;
    world.service.delete("faults").await;
    world.phase("train", Phase::Succeeded).await;
    world.gone("deleted").await;
    for run in &created {
        assert!(world.posts_of(run).await >= 2);
    }
    let posts = world.service.requests("createRun").await;
    let keys: Vec<_> = created.iter().map(|run| json!(run.uid())).collect();
    assert!(posts.iter().all(|p| keys.contains(&p["idempotencyKey"])));
}
