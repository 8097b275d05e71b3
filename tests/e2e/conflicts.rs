//! The three 409s and those of an unknown code (rule 9): one POST, a reason of its own, and a person who
//! has the last word.

use kube::ResourceExt;
use rstest::rstest;
use serde_json::{Value, json};

use run_operator::api::{ConditionType as Type, Phase, Run, names};

use crate::support::{Setup, World, condition_of, contract_file, holds_for_a_while, row, says};

const STALLED: &str = "Pending: !Accepted !Finished !Ready Stalled";
/// Number of checks in about a second and a half; a refusal that was not final is repeated within it.
const A_WHILE: u32 = 60;

async fn answers(world: &World, code: &str) {
    let conflict = json!({"type": "answer", "status": 409, "code": code, "title": "Not like this"});
    world
        .service
        .lasting_fault(json!({"operation": "createRun"}), conflict)
        .await;
}

async fn ask_again(world: &World, value: &str) {
    let annotations = json!({names::RETRY_ANNOTATION: value});
    world
        .patch_run("train", json!({"metadata": {"annotations": annotations}}))
        .await;
}

/// Waits until the Run is stalled by the answer to POST number `posts`, and no other is made. Checks all
/// that it shows of that answer.
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
    assert_eq!(row(&run), STALLED);
    let stalled = condition_of(&run, Type::Stalled).unwrap();
    assert_eq!(stalled.observed_generation, run.metadata.generation);
    says(
        &stalled.message,
        &[&format!("409 {code}"), "Not like this", &request],
    );
    let error = run.status.as_ref().unwrap().last_error.as_ref().unwrap();
    assert_eq!((error.code.as_str(), error.http_status), (code, Some(409)));
    assert_eq!(error.request_id.as_deref(), Some(request.as_str()));
    assert!(error.next_attempt.is_none() && !error.retryable);
    nothing_more(world, posts).await;
    run
}

async fn nothing_more(world: &World, posts: usize) {
    holds_for_a_while(A_WHILE, async || {
        assert_eq!(world.service.requests("createRun").await.len(), posts);
    })
    .await;
}

/// The refusal as a person reads it, without times.
fn shown(run: &Run) -> (String, Option<String>, String) {
    let status = run.status.as_ref().unwrap();
    let stalled = condition_of(run, Type::Stalled).unwrap();
    let said = format!("{}: {}", stalled.reason, stalled.message);
    (said, status.request_id.clone(), row(run))
}

/// Proves: R9, F-409, F-final
#[rstest]
#[case::approval(
    "approval_required",
    "ApprovalConflict",
    "needs an approval at the service"
)]
#[case::version(
    "version_conflict",
    "VersionConflict",
    "Something changed at the service"
)]
#[case::idempotency(
    "idempotency_conflict",
    "IdempotencyConflict",
    "use another spec.idempotencyKey"
)]
#[case::unknown("moon_conflict", "UnknownConflict", "run-operator.dev/retry")]
#[tokio::test]
async fn a_conflict_persists_over_restarts_until_a_retry_succeeds(
    #[case] code: &str,
    #[case] reason: &str,
    #[case] todo: &str,
) {
    let mut world = World::new().await;
    let history = world.history().await;
    answers(&world, code).await;
    let created = world.create_run("train", json!({})).await;
    let run = stalled_by(&world, 1, code, reason).await;
    says(&condition_of(&run, Type::Stalled).unwrap().message, &[todo]);
    let before = shown(&run);
    world.kill_operator();
    world.start_operator().await;
    world.workspace_ready("default", "True", "Verified").await;
    nothing_more(&world, 1).await;
    assert_eq!(shown(&world.run("train").await), before);
    // What is missing is missing still.
    ask_again(&world, "monday").await;
    let run = stalled_by(&world, 2, code, reason).await;
    let handled = |run: &Run| run.status.as_ref().unwrap().handled_retry.clone();
    assert_eq!(handled(&run).as_deref(), Some("monday"));
    assert_ne!(shown(&run).1, before.1, "the latest request id is shown");
    // The same value asks for nothing, and neither does any other annotation or a restart.
    ask_again(&world, "monday").await;
    let note = json!({"metadata": {"annotations": {"example.com/note": "seen"}}});
    world.patch_run("train", note).await;
    nothing_more(&world, 2).await;
    world.kill_operator();
    world.start_operator().await;
    world.workspace_ready("default", "True", "Verified").await;
    nothing_more(&world, 2).await;
    assert_eq!(shown(&world.run("train").await), shown(&run));
    // Now it is given.
    world.service.delete("faults").await;
    ask_again(&world, "tuesday").await;
    world.heals("train").await;
    assert_eq!(world.posts_of(&created).await, 3, "another key was used");
    assert_eq!(
        handled(&world.run("train").await).as_deref(),
        Some("tuesday")
    );
    history.holds().await;
}

/// A POST of somebody else under this key, past the operator.
async fn taken(world: &World, key: &str) {
    let body = json!({"workload": {"image": "example/theirs", "simulate": {"outcome": "never"}},
        "provider": "auto", "region": "auto"});
    let answer = reqwest::Client::new()
        .post(format!("{}/runs", world.service.base_url()))
        .bearer_auth(crate::support::TOKEN)
        .header("idempotency-key", key)
        .header("content-type", "application/json")
        .body(body.to_string())
        .send()
        .await
        .unwrap();
    assert_eq!(answer.status(), 201);
}

/// Proves: F-409
#[tokio::test]
async fn a_key_used_by_another_request_is_never_replaced() {
    let world = World::new().await;
    let key = format!("{}/nightly", world.namespace);
    taken(&world, &key).await;
    let spec = json!({"idempotencyKey": "nightly"});
    world.create_run("train", spec).await;
    let conflict = "IdempotencyConflict";
    for (value, posts) in [("1", 2), ("2", 3)] {
        world
            .condition("train", Type::Stalled, "True", conflict)
            .await;
        nothing_more(&world, posts).await;
        ask_again(&world, value).await;
        world.asked("createRun", posts + 1).await;
    }
    let run = world
        .run_until("train", "is stalled by the last retry", |run| {
            run.status.as_ref().unwrap().handled_retry.as_deref() == Some("2")
                && condition_of(run, Type::Stalled).is_some_and(|c| c.reason == conflict)
        })
        .await;
    let told = condition_of(&run, Type::Stalled).unwrap().message;
    says(&told, &["409 idempotency_conflict", "in a new Run"]);
    nothing_more(&world, 4).await;
    for post in world.service.requests("createRun").await {
        assert_eq!(post["idempotencyKey"], key.as_str());
    }
    // It is unknown whether their run is ours: the object stays until a person releases it.
    world.delete_run("train").await;
    world
        .run_until("train", "says how to let it go", |run| {
            let ready = condition_of(run, Type::Ready);
            ready.is_some_and(|c| c.message.contains("deletionPolicy: Orphan"))
        })
        .await;
    world
        .patch_run("train", json!({"spec": {"deletionPolicy": "Orphan"}}))
        .await;
    world.gone("train").await;
    let runs = world.service.runs().await;
    assert_eq!((runs.len(), &runs[0]["cancels"]), (1, &json!(0)));
}

/// Proves: F-409, S-unknown
#[tokio::test]
async fn a_code_that_the_contract_file_maps_moves_to_its_reason() {
    let path = contract_file(
        "conflicts-mapped",
        &[
            (
                "approvalConflict: [",
                "approvalConflict: [wants_a_signature, ",
            ),
            ("versionConflict: [", "versionConflict: [stale_catalogue, "),
            (
                "idempotencyConflict: [",
                "idempotencyConflict: [seen_before, ",
            ),
        ],
    );
    let world = World::with(Setup {
        operator: vec!["--contract", path.leak()],
        ..Setup::default()
    })
    .await;
    for (name, code, reason) in [
        ("signed", "wants_a_signature", "ApprovalConflict"),
        ("stale", "stale_catalogue", "VersionConflict"),
        ("seen", "seen_before", "IdempotencyConflict"),
        // Codes are compared by every character, and never by the title.
        ("shouted", "WANTS_A_SIGNATURE", "UnknownConflict"),
        ("longer", "wants_a_signature_too", "UnknownConflict"),
    ] {
        let image = format!("example/{name}");
        let fits = json!({"operation": "createRun", "image": image});
        let conflict =
            json!({"type": "answer", "status": 409, "code": code, "title": "approval_required"});
        world.service.fault(fits, conflict).await;
        world
            .create_run(name, json!({"workload": {"image": image}}))
            .await;
        let run = world.condition(name, Type::Stalled, "True", reason).await;
        assert_eq!(run.status.as_ref().unwrap().phase, Some(Phase::Pending));
        assert_eq!(world.posts_of(&run).await, 1);
    }
}

/// Proves: F-409
#[rstest]
#[case::of_4_kib(&"x".repeat(4096), &["409 xxxxxxxxxxxxxxxx"])]
#[case::of_several_lines("odd\u{7}\r\n\u{1b}[31mcode", &["409 odd", "code"])]
#[case::of_wide_characters(&"€".repeat(2000), &["409 €€€€"])]
#[tokio::test]
async fn any_conflict_code_is_shown_on_one_bounded_line(
    #[case] code: &str,
    #[case] words: &[&str],
) {
    let world = World::new().await;
    answers(&world, code).await;
    let created = world.create_run("train", json!({})).await;
    let run = world
        .condition("train", Type::Stalled, "True", "UnknownConflict")
        .await;
    let told = condition_of(&run, Type::Stalled).unwrap().message;
    let status = run.status.as_ref().unwrap();
    let kept = &status.last_error.as_ref().unwrap().code;
    says(&told, words);
    says(
        &told,
        &[
            "run-operator.dev/retry",
            status.request_id.as_ref().unwrap(),
        ],
    );
    assert!(told.len() <= 768 && kept.len() <= 128, "{told} {kept}");
    for text in [&told, kept] {
        assert!(!text.chars().any(char::is_control), "{text:?}");
    }
    nothing_more(&world, 1).await;
    world.service.delete("faults").await;
    ask_again(&world, "1").await;
    world.heals("train").await;
    assert_eq!(world.posts_of(&created).await, 2);
}

#[tokio::test]
async fn a_conflict_without_a_problem_body_is_retried() {
    let world = World::new().await;
    let page = json!({"type": "answer", "status": 409, "body": "<html>Conflict</html>", "contentType": "text/html"});
    world
        .service
        .fault(json!({"operation": "createRun"}), page)
        .await;
    let created = world.create_run("train", json!({})).await;
    world.heals("train").await;
    assert_eq!(world.posts_of(&created).await, 2);
    let posts = world.service.requests("createRun").await;
    let uid = Value::from(created.uid().unwrap());
    assert!(posts.iter().all(|post| post["idempotencyKey"] == uid));
}
